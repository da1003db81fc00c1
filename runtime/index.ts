/** The public API of ktl. */

// Devices and memory.
export type { Device, DeviceEvent, Graph, LaunchOptions, LaunchParam, TypedTensor } from './devices/device.ts'
export { openDevice, type DeviceOptions, type DeviceSpec } from './devices/open.ts'
export type { IsolationOptions } from './devices/virtual.ts'
export type { MallocOptions, TensorOptions } from './devices/options.ts'
export type { Checks, ExecutionOptions, Order } from './devices/execution.ts'
export { probeCuda, probeNvrtc } from './addon/probe.ts'
export type { CudaStatus, DeviceProperties, NvrtcStatus } from './addon/cuda.ts'
export type { Finding } from './addon/findings.ts'
export { Tensor } from './tensors/tensor.ts'
export type { DecodedArray, RawBits, Values } from './tensors/data.ts'
export {
  fromTensorLike,
  type FromTensorLikeOptions,
  type HostArray,
  type NestedNumbers,
  type TensorLike,
} from './tensors/tensor_like.ts'
export { swizzleScales, unswizzleScales, type ScaleTilesOptions } from './tensors/scale_tiles.ts'
export type { TensorMap, TensorMapOptions } from './tensors/tensor_map.ts'
export * from './formats/index.ts'
export { Stream } from './streams/stream.ts'
export { DeviceFunction, DeviceModule } from './modules/module.ts'
export type { CompileCudaOptions, LoadModuleOptions } from './modules/options.ts'
export type { LaunchResult } from './modules/result.ts'

// Operations and their operands.
export { RuntimeArguments } from './arguments/base.ts'
export { ElementwiseArguments, type ElementwiseFields } from './arguments/elementwise.ts'
export { EpilogueArguments, type NamedEpilogue } from './arguments/epilogue.ts'
export { GemmArguments, type GemmFields } from './arguments/gemm.ts'
export { ClassArguments, KernelArguments, type KernelBindings, type KernelReference } from './arguments/kernel.ts'
export {
  ScaledOperand,
  type ScaledOperandOptions,
  type ScaleMode,
  type ScaleSwizzle,
} from './arguments/scaled_operand.ts'
export type { Operand } from './arguments/operands.ts'
export type { Agreeing, OperandTypes, TensorOf, TypedKernel } from './arguments/typed.ts'
export { PerformanceControls, type PerformanceFields, type TileOrder } from './arguments/performance.ts'

export { dequantize, quantize, type QuantizeOptions } from './operations/quantize.ts'
export { AttentionArguments, type AttentionFields, type ScoreText } from './operations/attention.ts'
export { ConvolutionArguments, type ConvolutionFields } from './operations/convolution.ts'
export { GroupedGemmArguments, type GroupedGemmFields } from './operations/grouped_gemm.ts'
export { offsetsOf, prepareOffsets, PreparedOffsets, type GroupOffsets } from './operations/offsets.ts'

// Finding kernels.
export {
  countKernels,
  getKernels,
  type GetKernelsOptions,
  type CountOptions,
  type KernelCount,
} from './discovery/query.ts'
export { KernelList } from './discovery/kernel_list.ts'
export type { Where } from './discovery/filters/where.ts'
export { explainKernels, type Explanation, type RejectionReason } from './discovery/explain.ts'
export {
  availableProviders,
  CudaProvider,
  ktlProvider as KtlProvider,
  Provider,
  registerProvider,
  type ProviderSpec,
} from './discovery/providers/provider.ts'
export type { KernelLister } from './discovery/providers/kernel_class.ts'
export { deviceSupports } from './discovery/filters/device_supports.ts'
export type { Estimate } from './discovery/ranking/rank.ts'
export type { TargetSpec } from './discovery/filters/target.ts'

// Kernels.
export {
  Kernel,
  type GenerateOptions,
  type KernelClass,
  type KernelLaunchOptions,
  expectArguments,
  type RunResult,
} from './kernels/kernel.ts'
export {
  compileKernel,
  launchKernel,
  type CompileKernelOptions,
  type LaunchKernelOptions,
} from './kernels/cuda_kernel.ts'
export { KtlKernel, type KernelRunOptions } from './kernels/ktl_kernel.ts'
export { PreparedLaunch } from './kernels/prepared.ts'
export { Artifact, Artifact as CompiledArtifact, ARTIFACT_FORMAT, type ArtifactInfo } from './artifacts/artifact.ts'
export {
  ArtifactFolder,
  buildArtifacts,
  precompiled,
  registerArtifacts,
  type ArtifactRegistration,
  type BuildArtifactsOptions,
  type Manifest,
  type ManifestEntry,
} from './artifacts/aot/index.ts'
export { OK, raise, refuse, Status, type StatusOk, type StatusRefused } from './errors/status.ts'
export * from './metadata/index.ts'

// Checking results.
export { formatError, verify, type Verification, type VerifyOptions } from './selftest/verify.ts'
export { randomValues, type InputKind } from './selftest/values.ts'

// Programs.
export {
  loadKtl,
  loadSource,
  register,
  type CallableKernel,
  type CallOptions,
  type KtlProgram,
} from './programs/program.ts'
export { libraryKernels } from './programs/library.ts'

// What everything above speaks of.
export { KtlError, type Diagnostic, type Severity, type Source } from '../grammar/diagnostics.ts'
export { renderDiagnostic, renderDiagnostics, type RenderOptions } from '../grammar/render.ts'
export { explainCode } from '../grammar/catalogue/index.ts'
export { DTYPE_NAMES, type DTypeName } from '../grammar/vocabulary.ts'
export type { Accumulator } from '../compiler/dtypes.ts'
export type { TargetArch } from '../compiler/instance.ts'
export { KTL_VERSION } from '../codegen/cuda/version.ts'
