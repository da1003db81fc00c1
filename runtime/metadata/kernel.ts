import { ARCH_NAMES, archsFrom, type TargetArch } from '../../compiler/archs.ts'
import type { RuntimeArguments } from '../arguments/base.ts'
import { OK, refuse, type Status } from '../errors/status.ts'
import { checkText, fieldsOf, malformed } from './check.ts'
import { BLASDesignMetadata, type DesignMetadata } from './design.ts'
import { EpilogueMetadata } from './epilogue.ts'
import { OperandsMetadata, type AnyOperandsMetadata } from './operands.ts'

/** A class of kernels; of one that is not at hand, the name. */
export interface KernelClassName {
  readonly name: string
}

/** Fields of `KernelMetadata`. */
export interface KernelMetadataFields {
  /** Unique: it determines the generated CUDA for a version of ktl. */
  readonly kernelName: string
  /** What generated it: `KtlKernel`, a user's class, or the name of one. */
  readonly kernelClass: string | KernelClassName
  /** Compute capability, as in 100. */
  readonly minCc: number
  /** Default: every known target from `minCc` on. */
  readonly targets?: readonly TargetArch[]
  readonly operands: OperandsMetadata
  readonly design: BLASDesignMetadata
  readonly epilogue?: EpilogueMetadata | null
  /** Name of the provider; default: the one whose class generates the kernel. */
  readonly provider?: string | null
}

/** Providers of metadata that users' classes made: metadata are frozen before they are handed over. */
const owners = new WeakMap<KernelMetadata, string>()

/** Says whose kernel it is, unless its metadata say so. */
export function setOwner(metadata: KernelMetadata, provider: string): void {
  if (metadata.provider === null) owners.set(metadata, provider)
}

/**
 * Everything that is known about a kernel without compiling it. Frozen. `design.kind` and `operands.kind` narrow the
 * types of both. KTL4175 for fields that are none.
 *
 * @example
 * const f64 = new TensorAttributes('f64', [0, 0, 1], 1)
 * const operands = new GemmOperandsMetadata(f64, f64, f64, 'f64')
 * const metadata = new KernelMetadata('mine_ttt', 'MyKernel', 80, operands, new BLASDesignMetadata([32, 32, 1], [1, 1, 1]))
 * const copy = KernelMetadata.fromJSON(JSON.parse(JSON.stringify(metadata)))
 * console.log(copy.kernelName, copy.targets, copy.design.tileShape)
 */
export class KernelMetadata {
  readonly kernelName: string
  /** What generated it: compares with the class that was registered, `metadata.kernelClass === MyKernel`. */
  readonly kernelClass: KernelClassName
  readonly minCc: number
  /** What it runs on. */
  readonly targets: readonly TargetArch[]
  readonly operands: AnyOperandsMetadata
  readonly design: DesignMetadata
  /** null: none. */
  readonly epilogue: EpilogueMetadata | null
  readonly #provider: string | null

  constructor(fields: KernelMetadataFields)
  constructor(
    kernelName: string,
    kernelClass: KernelMetadataFields['kernelClass'],
    minCc: number,
    operands: OperandsMetadata,
    design: BLASDesignMetadata,
    epilogue?: EpilogueMetadata | null,
  )
  constructor(
    first: KernelMetadataFields | string,
    kernelClass?: KernelMetadataFields['kernelClass'],
    minCc?: number,
    operands?: OperandsMetadata,
    design?: BLASDesignMetadata,
    epilogue: EpilogueMetadata | null = null,
  ) {
    const fields =
      typeof first === 'string' ? { kernelName: first, kernelClass, minCc, operands, design, epilogue } : first
    const { targets, provider = null } = fieldsOf('kernel metadata', fields) as unknown as KernelMetadataFields
    this.kernelName = checkText('kernelName', fields.kernelName)
    this.kernelClass = checkKernelClass(fields.kernelClass)
    this.minCc = checkCc(fields.minCc)
    this.targets = checkTargets(targets ?? archsFrom(this.minCc))
    if (!(fields.operands instanceof OperandsMetadata)) throw malformed('operands', 'OperandsMetadata', fields.operands)
    if (!(fields.design instanceof BLASDesignMetadata)) throw malformed('design', 'BLASDesignMetadata', fields.design)
    const { epilogue: fused = null } = fields
    if (fused !== null && !(fused instanceof EpilogueMetadata))
      throw malformed('epilogue', 'EpilogueMetadata or null', fused)
    this.operands = fields.operands as AnyOperandsMetadata
    this.design = fields.design as DesignMetadata
    this.epilogue = fused
    this.#provider = provider
    Object.freeze(this)
  }

  /** Name of the provider that the kernel comes from; null: of none so far. */
  get provider(): string | null {
    return this.#provider ?? owners.get(this) ?? null
  }

  /**
   * What the metadata alone say about a call, in this order: target, operands, design, epilogue. A kernel's own
   * `supports` says more. `target` defaults to that of the arguments' device.
   */
  supports(args: RuntimeArguments, target: string = args.device.arch): Status {
    const status = this.runsOn(target)
    if (!status.ok) return status
    const operands = this.operands.supports(args)
    if (!operands.ok) return operands
    const design = this.design.supports(args.performance)
    if (!design.ok) return design
    if (this.epilogue) return this.epilogue.supports(args.epilogue)
    return args.epilogue ? refuse('KTL4035', { kernel: this.kernelName }) : OK
  }

  /** KTL4038 for targets that are not among its own. */
  runsOn(target: string): Status {
    if ((this.targets as readonly string[]).includes(target)) return OK
    return refuse('KTL4038', { expected: this.targets.join(', '), got: target })
  }

  /** Its fields as plain data. */
  toJSON(): object {
    return { ...this, kernelClass: this.kernelClass.name, provider: this.provider }
  }

  /** From the data of `toJSON`. KTL4175 for anything else. */
  static fromJSON(json: unknown): KernelMetadata {
    const fields = fieldsOf('kernel metadata', json) as unknown as KernelMetadataFields
    return new KernelMetadata({
      ...fields,
      operands: OperandsMetadata.fromJSON(fields.operands),
      design: BLASDesignMetadata.fromJSON(fields.design),
      epilogue: fields.epilogue ? EpilogueMetadata.fromJSON(fields.epilogue) : null,
    })
  }
}

function checkKernelClass(own: unknown): KernelClassName {
  if (typeof own === 'string') return Object.freeze({ name: checkText('kernelClass', own) })
  checkText('kernelClass', (own as KernelClassName | null | undefined)?.name)
  return own as KernelClassName
}

/** Lists that were checked, frozen: hundreds of thousands of kernels share a few. */
const checked = new WeakSet<readonly TargetArch[]>()

function checkTargets(targets: readonly TargetArch[]): readonly TargetArch[] {
  if (checked.has(targets)) return targets
  if (!Array.isArray(targets)) throw malformed('targets', `a list of ${ARCH_NAMES.join(', ')}`, targets)
  const unknown = targets.find((target) => !ARCH_NAMES.includes(target))
  if (unknown !== undefined) throw malformed('targets', ARCH_NAMES.join(', '), unknown)
  const own = Object.isFrozen(targets) ? targets : Object.freeze([...targets])
  checked.add(own)
  return own
}

function checkCc(cc: unknown): number {
  if (Number.isInteger(cc) && (cc as number) >= 0) return cc as number
  throw malformed('minCc', 'a compute capability such as 100', cc)
}
