/** Which formats a target's registers can hold: those that its cvt knows. */
import type { DTypeName } from '../grammar/vocabulary.ts'
import type { Rejection, TargetArch } from './instance.ts'
import { nodesOf } from './passes/graph.ts'
import { rejection } from './rejection.ts'
import type { TensorProgram } from './ir/tensor.ts'

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
  const lacking = formatsOf(program).find(({ name, dtype }) => unknown.includes(dtype) && !(name && untouched.includes(name)))
  if (!lacking) return null
  const { name, dtype } = lacking
  return { ...rejection('KTL2904', { form: `\`${dtype}\` on ${target}` }), ...(name && { operand: name }) }
} // prettier-ignore

interface Format {
  /** Of an operand or scalar; undefined: of a cast. */
  readonly name?: string
  readonly dtype: DTypeName
}

/** By program: each has hundreds of designs. */
const known = new WeakMap<TensorProgram, readonly Format[]>()

function formatsOf(program: TensorProgram): readonly Format[] {
  let formats = known.get(program)
  if (!formats) {
    const casts = nodesOf(program).flatMap((node) => (node.kind === 'cast' ? [{ dtype: node.to }] : []))
    known.set(program, (formats = [...program.operands, ...program.scalars, ...casts]))
  }
  return formats
}
