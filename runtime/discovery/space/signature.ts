/** What operation a kernel family computes, as far as arguments without a kernel (GEMM, elementwise) can ask for it. */
import { bindKernel } from '../../../compiler/bind.ts'
import type { Accumulator } from '../../../compiler/dtypes.ts'
import { resolveType, type FamilyOperand, type KernelFamily, type TypeChoice } from '../../../compiler/family.ts'
import type { Resolved, ResolvedContraction } from '../../../compiler/check/resolved.ts'
import { walkResolved } from '../../../compiler/check/resolved.ts'
import { nodesOf } from '../../../compiler/passes/graph.ts'

/** Operands of `GemmArguments`, `GroupedGemmArguments` and `ElementwiseArguments` in terms of a family. */
export interface OperationSignature {
  readonly operation: 'gemm' | 'groupedGemm' | 'elementwise'
  /** The family's names of A, B and out. */
  readonly A: string
  readonly B: string
  readonly out: string
  /** Grouped: where the groups of rows end, or how many there are. */
  readonly offsets: string | null
  /** The family's names of the axes l, m, n, k; null: it has no batch axis. Of plain GEMMs only. */
  readonly axes: { readonly l: string | null; readonly m: string; readonly n: string; readonly k: string } | null
}

/** null: only `KernelArguments` describe it. */
export function operationOf(family: KernelFamily): OperationSignature | null {
  const inputs = family.operands.filter((operand) => operand.role === 'input')
  const [A, B] = inputs
  const [output] = family.outputs
  const out = family.operands.find((operand) => operand.role === 'output')
  // Arguments of plain tensors say nothing of parts.
  const special = family.operands.some(({ stored }) => stored)
  const plain = !special && family.scalars.length === 0 && family.outputs.length === 1
  if (plain && inputs.length === 3) return groupedOf(family, inputs)
  if (!plain || inputs.length !== 2 || !A || !B || !output || !out) return null
  const { value } = output
  if (value.kind === 'contract') {
    const axes = gemmAxes(A, B, out, value)
    return axes && { operation: 'gemm', A: A.name, B: B.name, out: out.name, offsets: null, axes }
  }
  const isSum = value.kind === 'apply' && value.op === 'add' && readsBoth(value.args, A, B)
  const sameAxes = A.axes.join() === B.axes.join() && A.axes.join() === out.axes.join()
  if (!isSum || !sameAxes) return null
  return { operation: 'elementwise', A: A.name, B: B.name, out: out.name, offsets: null, axes: null }
}

/** A product of two operands, of which the first has rows in groups that the third one tells. */
function groupedOf({ axes, outputs }: KernelFamily, inputs: readonly FamilyOperand[]): OperationSignature | null {
  const { value, operand: out, at } = outputs[0]!
  const ragged = axes.find((axis) => axis.ragged)
  const factors = value.kind === 'contract' && at === null ? plainFactors(value) : null
  const offsets = ragged?.ragged!.by
  if (!ragged || !factors || offsets === undefined || factors.includes(offsets)) return null
  const [A, B] = inputs.filter(({ name }) => factors.includes(name)).sort((a, b) => rank(b) - rank(a))
  return A && B && rank(A) > 0 ? { operation: 'groupedGemm', A: A.name, B: B.name, out, offsets, axes: null } : null

  function rank(operand: FamilyOperand): number {
    return operand.axes.includes(ragged!.name) ? 1 : 0
  }
}

/** [l?, m, k] x [l?, k, n] → [l?, m, n], whatever the axes are called. */
function gemmAxes(
  A: FamilyOperand,
  B: FamilyOperand,
  out: FamilyOperand,
  contraction: ResolvedContraction,
): OperationSignature['axes'] {
  const { over } = contraction
  const [k] = over
  const names = plainFactors(contraction)
  if (over.length !== 1 || k === undefined || ![A, B].every(({ name }) => names?.includes(name))) return null
  const [m, n] = [A.axes.at(-2), B.axes.at(-1)]
  if (A.axes.at(-1) !== k || B.axes.at(-2) !== k || m === undefined || n === undefined) return null
  const batches = [A, B, out].map((operand) => operand.axes.slice(0, -2))
  const l = batches.flat()[0] ?? null
  const expected = l === null ? [m, n] : [l, m, n]
  const fits =
    out.axes.join() === expected.join() &&
    batches.every((batch) => batch.length === 0 || (batch.length === 1 && batch[0] === l))
  return fits ? { l, m, n, k } : null
}

function readsBoth(args: readonly Resolved[], A: FamilyOperand, B: FamilyOperand): boolean {
  const names = args.map((arg) => (arg.kind === 'operand' ? arg.name : null))
  return names.length === 2 && names.includes(A.name) && names.includes(B.name)
}

/** The contractions of a family, each once. */
export function contractionsOf(family: KernelFamily): ResolvedContraction[] {
  const values = [...walkResolved(family.outputs.map((output) => output.value))]
  return values.filter((value): value is ResolvedContraction => value.kind === 'contract')
}

/** The operands of a contraction that reads them at their own axes; null: a factor is computed, or read at indices. */
export function plainFactors({ a, b }: ResolvedContraction): readonly [string, string] | null {
  return a.kind === 'operand' && b.kind === 'operand' && !a.at && !b.at ? [a.name, b.name] : null
}

/** What is read for its factors; nothing where they have sums of their own. */
export function factorOperands({ a, b }: ResolvedContraction): string[] {
  const parts = [...walkResolved([a, b])]
  if (parts.some(({ kind }) => kind === 'contract' || kind === 'reduce')) return []
  return parts.flatMap((part) => (part.kind === 'operand' ? [part.name] : []))
}

/** The accumulator under a choice of types; null when nothing is contracted. */
export function accumulatorOf(family: KernelFamily, types: TypeChoice): Accumulator | null {
  const [contraction] = contractionsOf(family)
  if (!contraction) return null
  if (contraction.accumulator !== null) return resolveType(contraction.accumulator, types) as Accumulator
  const found = nodesOf(bindKernel(family, { types })).find((node) => node.kind === 'contract')
  return found?.accumulator ?? null
}
