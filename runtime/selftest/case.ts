/**
 * A device test case as plain data (test/cases/*.json): one kernel instance, one problem, how to fill it. `ktl
 * selftest` and the tests run the same table on every device.
 */
import type { Backend } from '../../compiler/targets/index.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'

export interface DeviceCase {
  readonly name: string
  /** Built-in library kernel, or the `.ktl` source of one with this name. */
  readonly kernel: string
  readonly source?: string
  readonly types: Readonly<Record<string, DTypeName>>
  /** Which instance runs: the first that ranks within this design; on a device without it, one of its own designs. */
  readonly design: { readonly kind: Backend; readonly tile?: readonly [number, number] }
  readonly extents: Readonly<Record<string, number>>
  /** Of stored forms, each part by its name: `A`, `A.scale`. */
  readonly operands: Readonly<Record<string, CaseOperand>>
  /** Global scales and norms, too: `A.global`, `D.norm`. */
  readonly scalars?: Readonly<Record<string, number>>
  readonly epilogue?: CaseEpilogue
  /** `integers`: every product and partial sum is exact, outputs must be equal. */
  readonly inputs: 'integers' | 'normal'
}

export interface CaseOperand {
  /** Memory order, outermost first; absent: the logical order. */
  readonly order?: readonly string[]
  /** Elements added to every row of the contiguous axis; a canary checks that they stay untouched. */
  readonly padding?: number
  /** Elements between the allocation's start and the tensor. */
  readonly offset?: number
  /** What an input holds, in logical order: ends of groups, rows that are looked up. Absent: what `inputs` says. */
  readonly values?: readonly number[]
  /** Optional axes that this operand leaves out at the call. */
  readonly without?: readonly string[]
}

export interface CaseEpilogue {
  readonly text: string
  readonly scalars?: Readonly<Record<string, number>>
  /** `axes` in output order; extents of axes left out are dropped or 1 (`[m, 1]`). */
  readonly tensors?: Readonly<Record<string, CaseAux>>
  readonly outputs?: Readonly<Record<string, CaseAux>>
}

export interface CaseAux extends CaseOperand {
  readonly dtype: DTypeName
  readonly axes: readonly string[]
}
