/** The public API of ktl. */

// Devices and memory.
export {
  openDevice,
  type Device,
  type DeviceOptions,
  type DeviceSpec,
  type MallocOptions,
  type TensorOptions,
} from './device.ts'
export { Tensor, type TypedTensor } from './tensor.ts'
export type { DecodedArray, RawBits, Values } from './tensor_data.ts'
export { fromTensorLike, type FromTensorLikeOptions, type TensorLike } from './tensor_like.ts'
export type { TensorMap, TensorMapOptions } from './tensor_map.ts'
export { Stream } from './stream.ts'
export type { Checks, ExecutionOptions, Order } from './devices/execution.ts'
export {
  DeviceFunction, DeviceModule, type CompileCudaOptions, type LaunchOptions, type LaunchResult, type LoadModuleOptions,
} from './module.ts' // prettier-ignore
export type { LaunchParam } from './module_params.ts'
export type { Finding } from './findings.ts'

// Operations and their operands.
export { RuntimeArguments } from './arguments/base.ts'
export { ElementwiseArguments } from './arguments/elementwise.ts'
export { EpilogueArguments, type NamedEpilogue } from './arguments/epilogue.ts'
export { GemmArguments, type GemmFields } from './arguments/gemm.ts'
export { KernelArguments, type KernelBindings, type KernelReference } from './arguments/kernel.ts'
export type { Operand, TensorOf } from './arguments/operands.ts'

// Finding kernels.
export {
  countKernels,
  getKernels,
  type GetKernelsOptions,
  type CountOptions,
  type KernelCount,
} from './discovery/query.ts'
export { KernelList } from './discovery/kernel_list.ts'
export type { Where } from './discovery/where.ts'
export { explainKernels, type Explanation, type RejectionReason } from './discovery/explain.ts'
export { availableProviders, CudaProvider, ktlProvider, Provider, type ProviderSpec } from './discovery/provider.ts'
export type { Estimate } from './discovery/rank.ts'
export type { TargetSpec } from './discovery/target.ts'

// Kernels.
export {
  Kernel,
  type GenerateOptions,
  type KernelClass,
  type KernelLaunchOptions,
  type RunResult,
  type TileOrder,
} from './kernel.ts'
export { KtlKernel, type KernelRunOptions } from './kernel_ktl.ts'
export { PreparedLaunch } from './kernel_launch.ts'
export { Artifact, ARTIFACT_FORMAT, type ArtifactInfo } from './artifact.ts'
export { OK, raise, refuse, type Status, type StatusOk, type StatusRefused } from './status.ts'
export * from './metadata/index.ts'

// Checking results.
export { formatError, verify, type Verification, type VerifyOptions } from './verify.ts'
export { randomValues, type InputKind } from './selftest/values.ts'

// Programs.
export { loadKtl, loadSource, register, type CallableKernel, type KtlProgram } from './program.ts'

// What everything above speaks of.
export { KtlError, type Diagnostic, type Severity, type Source } from '../grammar/diagnostics.ts'
export { renderDiagnostic, renderDiagnostics, type RenderOptions } from '../grammar/render.ts'
export { explainCode } from '../grammar/catalogue/index.ts'
export { DTYPE_NAMES, type DTypeName } from '../grammar/vocabulary.ts'
export type { Accumulator } from '../compiler/dtypes.ts'
export type { TargetArch } from '../compiler/instance.ts'
export { KTL_VERSION } from '../codegen/version.ts'
