import type { Device } from '../device.ts'
import type { Tensor } from '../tensor.ts'
import type { EpilogueArguments, ResolvedEpilogue } from './epilogue.ts'

/** One operation with its operands, valid by itself: what kernels are found for and run with. */
export abstract class RuntimeArguments {
  /** Where the operands live. */
  readonly device: Device
  /** Operands by their names in the arguments, inputs first; epilogue operands are in `epilogue`. */
  abstract readonly tensors: Readonly<Record<string, Tensor>>
  abstract readonly outputs: readonly string[]
  readonly epilogue: EpilogueArguments | null
  /** The epilogue's operands with the axes they turned out to have. */
  abstract readonly fusion: ResolvedEpilogue | null

  constructor(device: Device, epilogue: EpilogueArguments | null) {
    this.device = device
    this.epilogue = epilogue
  }
}
