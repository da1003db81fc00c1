/**
 * Metadata of instances without their plans. Choices that are planned alike share the designs, worked out once, and the instances of
 * a choice share the operands: what is left for each is one small object, so that filters can look at all there are.
 */
import { programName } from '../../../compiler/naming.ts'
import type { TensorProgram } from '../../../compiler/ir/tensor.ts'
import { targetOf, type Design, type Plan } from '../../../compiler/targets/index.ts'
import { designFields, designOf, type DesignFields, kernelFields, operandsMetadataOf } from '../../metadata/derive.ts'
import { BLASDesignMetadata, type DesignMetadata } from '../../metadata/design.ts'
import { KernelMetadata, type KernelMetadataFields } from '../../metadata/kernel.ts'
import type { OperationSignature } from './signature.ts'
import type { Filter } from '../filters/where.ts'

/** A design that can be planned. */
export interface DesignRow {
  readonly design: Design
  readonly metadata: DesignMetadata
  /** Its part of the kernel's name. */
  readonly label: string
}

interface KnownRow extends DesignRow {
  readonly fields: DesignFields
}

/** By design: most classes agree on its fields. Those that differ mostly do in their bytes of shared memory. */
const known = new WeakMap<Design, Map<number, KnownRow[]>>()

export function rowOf(plan: Plan): DesignRow {
  const { design } = plan
  let byBytes = known.get(design)
  if (!byBytes) known.set(design, (byBytes = new Map()))
  const bytes = plan.smemBytes
  let alike = byBytes.get(bytes)
  if (!alike) byBytes.set(bytes, (alike = []))
  const fields = designFields(plan)
  let row = alike.find((other) => sameFields(other.fields, fields))
  if (!row) {
    const label = targetOf(plan).nameParts(design).join('_')
    alike.push((row = { design, metadata: designOf(plan, fields), label, fields }))
  }
  return row
}

function sameFields(one: DesignFields, other: DesignFields): boolean {
  for (const name in one) if (!sameValue(one[name], other[name])) return false
  return true
}

const sameValue = (one: unknown, other: unknown): boolean =>
  one === other ||
  (Array.isArray(one) && Array.isArray(other) && one.length === other.length && one.every((x, i) => x === other[i]))

/** Designs, and what else the plans of a class say of all its choices that contract the same types. */
export interface SharedRows {
  readonly rows: readonly DesignRow[]
  readonly fields: ReturnType<typeof kernelFields>
  readonly backend: string
}

/** The instances of one choice, in the order of their designs. */
export class InstanceRows {
  readonly #rows: readonly DesignRow[]
  readonly #shared: SharedRows['fields'] & Pick<KernelMetadataFields, 'operands'>
  readonly #head: string
  readonly #tail: string

  constructor(
    { rows, fields, backend }: SharedRows,
    program: TensorProgram,
    operation: OperationSignature | null,
    library: boolean,
  ) {
    const { head, tail } = programName(program, backend, { library, fused: false })
    this.#head = `${head.join('_')}_`
    this.#tail = tail.map((part) => `_${part}`).join('')
    this.#shared = { ...fields, operands: operandsMetadataOf(program, operation) }
    this.#rows = rows
  }

  /** Indices of those that both let through. */
  passing(filter: Filter | null, metadataFilter: ((metadata: KernelMetadata) => boolean) | null): Uint32Array {
    if (filter !== null && !filter.operands(this.#shared.operands)) return new Uint32Array(0)
    const passing = new Uint32Array(this.#rows.length)
    let count = 0
    this.#rows.forEach((row, i) => {
      const design = row.metadata as unknown as Readonly<Record<string, unknown>>
      const passes = filter === null || filter.design((name) => design[name])
      if (passes && (metadataFilter === null || metadataFilter(this.#metadata(row)))) passing[count++] = i
    })
    return passing.slice(0, count)
  }

  #metadata({ metadata: design, label }: DesignRow): KernelMetadata {
    const { kernelClass, minCc, targets, operands, provider } = this.#shared
    const kernelName = this.#head + label + this.#tail
    return new KernelMetadata({ kernelName, kernelClass, minCc, targets, operands, design, epilogue: null, provider })
  }
}

/** Does the design swap A and B? */
export const transposes = (design: Design): boolean => 'operands' in design && design.operands === 'ba'

/** Rows of a class for a choice: its instruction names the types of the operands, which choices of one class spell otherwise. */
export function respelled(
  rows: readonly DesignRow[],
  spelling: (row: DesignRow) => string | null,
): readonly DesignRow[] {
  return rows.map((row) => {
    const mmaInstructionType = spelling(row)
    if (mmaInstructionType === row.metadata.mmaInstructionType) return row
    return { ...row, metadata: BLASDesignMetadata.fromJSON({ ...row.metadata, mmaInstructionType }) }
  })
}
