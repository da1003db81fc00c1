import type { Device } from '../devices/device.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { writeBack } from '../tensors/tensor_like.ts'
import type { EpilogueArguments, ResolvedEpilogue } from './epilogue.ts'
import { PerformanceControls } from './performance.ts'
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'

/**
 * One operation with its operands, valid by itself: what kernels are found for and run with. The base of
 * `GemmArguments`, `ElementwiseArguments` and `KernelArguments`.
 *
 * @example
 * const x = device.tensor('f32', [4], [1, 2, 3, 4])
 * const args = new ElementwiseArguments({ A: x, B: x, out: device.empty('f32', [4]) })
 * console.log(args instanceof RuntimeArguments, args.device.name, Object.keys(args.tensors), args.outputs)
 */
export abstract class RuntimeArguments {
  /** Where the operands live. */
  readonly device: Device
  /** Operands by their names in the arguments, inputs first; epilogue operands are in `epilogue`. */
  abstract readonly tensors: Readonly<Record<string, Tensor>>
  abstract readonly outputs: readonly string[]
  readonly epilogue: EpilogueArguments | null
  /** The epilogue's operands with the axes they turned out to have. */
  abstract readonly fusion: ResolvedEpilogue | null

  /** How the call should run; null: as the kernel sees fit. */
  readonly performance: PerformanceControls | null

  constructor(device: Device, epilogue: EpilogueArguments | null, performance: PerformanceControls | null = null) {
    if (performance !== null && !(performance instanceof PerformanceControls))
      throw ktlError('KTL4024', { operand: 'performance', expected: 'PerformanceControls', got: describe(performance) })
    this.device = device
    this.epilogue = epilogue
    this.performance = performance
  }

  /**
   * Copies outputs that were passed as arrays in host memory back into those arrays, behind the work enqueued on them.
   * `run` does it before it resolves; after `launch` it is the caller's to do.
   */
  async writeBack(): Promise<void> {
    const fused = this.fusion?.tensors.filter(({ role }) => role === 'output') ?? []
    const outputs = [...this.outputs.map((name) => this.tensors[name]!), ...fused.map(({ tensor }) => tensor)]
    await Promise.all(outputs.map(writeBack))
  }
}
