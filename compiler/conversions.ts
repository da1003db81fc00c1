/** Which formats a target's registers can hold: those that its cvt knows. */
import type { DTypeName } from '../grammar/vocabulary.ts'
import type { Rejection, TargetArch } from './instance.ts'
import { rejection } from './rejection.ts'
import type { Node, TensorProgram } from './tensor_ir.ts'
import { children } from './walk.ts'

/** Formats that cvt does not know (PTX ISA 9.7.9.22). */
const UNKNOWN: Readonly<Record<TargetArch, readonly DTypeName[]>> = {
  sm_80: ['tf32', 'e4m3', 'e5m2', 'ue4m3', 'ue8m0', 'e3m2', 'e2m3', 'e2m1'],
  sm_90a: ['ue8m0', 'e3m2', 'e2m3', 'e2m1'],
  sm_100a: [],
  sm_103a: [],
}

/** KTL2904 for a format of an operand, scalar or cast that `target` cannot convert. `untouched`: operands that go to tensor cores as they are. */
export function lacksConversion(program: TensorProgram, target: TargetArch, untouched: readonly string[] = []): Rejection | null {
  const unknown = UNKNOWN[target]
  if (unknown.length === 0) return null
  const operands = program.operands.filter(({ name }) => !untouched.includes(name))
  const casts = nodesOf(program.outputs.map(({ value }) => value)).flatMap((node) => (node.kind === 'cast' ? [node.to] : []))
  const used = [...operands, ...program.scalars].map(({ name, dtype }) => ({ name, dtype }))
  for (const { name, dtype } of [...used, ...casts.map((dtype) => ({ name: undefined, dtype }))]) {
    if (unknown.includes(dtype))
      return { ...rejection('KTL2904', { form: `\`${dtype}\` on ${target}` }), ...(name && { operand: name }) }
  }
  return null
} // prettier-ignore

function nodesOf(roots: readonly Node[], seen = new Set<Node>()): Node[] {
  for (const node of roots) {
    if (seen.has(node)) continue
    seen.add(node)
    nodesOf(children(node), seen)
  }
  return [...seen]
}
