/** Which formats a target's registers can hold: those that its cvt knows. */
import type { DTypeName } from '../grammar/vocabulary.ts'
import { DTYPES } from './dtypes.ts'
import { ARCHS, type TargetArch } from './archs.ts'
import type { Rejection } from './instance.ts'
import { nodesOf } from './passes/graph.ts'
import { rejection } from './rejection.ts'
import type { TensorProgram } from './ir/tensor.ts'

/** KTL2904 for a format of an operand, scalar or cast that `target` cannot convert. `untouched`: operands that go to tensor cores as they are. */
export function lacksConversion(
  program: TensorProgram,
  target: TargetArch,
  untouched: readonly string[] = [],
): Rejection | null {
  const { cc } = ARCHS[target]
  const lacking = formatsOf(program).find(
    ({ name, dtype }) => cc < (DTYPES[dtype].cvtSince ?? 0) && !(name && untouched.includes(name)),
  )
  if (!lacking) return null
  const { name, dtype } = lacking
  return { ...rejection('KTL2904', { form: `\`${dtype}\` on ${target}` }), ...(name && { operand: name }) }
}

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
