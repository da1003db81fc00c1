/** The epilogues of the full test, written for the accumulator's type. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { CaseAux, CaseEpilogue } from '../../runtime/selftest/case.ts'
import { hashOf, type FullRow } from './knobs.ts'

export interface RowEpilogue {
  readonly epilogue: CaseEpilogue
  /** Integers in, integers out. */
  readonly exact: boolean
}

/** Types of auxiliary operands, which have nothing to do with those of A, B and D. */
const AUX: readonly DTypeName[] = ['f16', 'bf16', 'f32', 'e4m3', 'i8', 'i32']

/** null: the accumulator itself. `batched`: D has the axis l. */
export function epilogueOf(row: FullRow, batched: boolean, padded: boolean): RowEpilogue | null {
  const { epilogue: kind, out } = row
  if (kind === 'none') return null
  const integer = row.types.endsWith('i32')
  const aux = AUX[hashOf(row) % AUX.length]!
  // Integer accumulators meet floats by written casts only, and so do integer operands meet float accumulators.
  const acc = integer ? 'f32(acc)' : 'acc'
  const use = (name: string, dtype: DTypeName): string => (DTYPES[dtype].class === 'int' ? `f32(${name})` : name)
  const store = (value: string): string => (DTYPES[out as DTypeName].class === 'int' ? `${out}(${value})` : value)
  const full = batched ? ['l', 'm', 'n'] : ['m', 'n']
  const layout = padded ? { padding: 5, offset: 1 } : {}
  const exact = (text: string, rest: Omit<CaseEpilogue, 'text'>): RowEpilogue => ({ epilogue: { text, ...rest }, exact: true })
  const tensor = (name: string, axes: readonly string[]): Record<string, CaseAux> => ({ [name]: { dtype: aux, axes, ...layout } })
  switch (kind) {
    case 'relu C':
      return exact(store(`relu(${acc}*alpha+${use('C', aux)})`), { scalars: { alpha: 2 }, tensors: tensor('C', full) })
    case 'row bias':
      return exact(store(`${acc}+${use('bias[m]', aux)}`), { tensors: tensor('bias', ['m']) })
    case 'column bias':
      return exact(store(`${acc}+${use('bias', aux)}`), { tensors: tensor('bias', ['n']) })
    case 'scalar pointer':
      return exact(store(`${acc}*s`), { tensors: { s: { dtype: 'f32', axes: ['1'] } } })
    case 'two outputs':
      return exact(`def both(acc, alpha, C):\n  F = ${acc} * alpha\n  D = ${store(`F + ${use('C', aux)}`)}\n  return D, F`, {
        scalars: { alpha: -2 },
        tensors: tensor('C', ['m', 'n']),
        outputs: { F: { dtype: hashOf(row) % 2 ? 'f32' : 'f16', axes: full, ...layout } },
      })
    case 'gelu':
      return { epilogue: { text: store(`gelu(${acc}*scale)`), scalars: { scale: 0.0625 } }, exact: false }
  }
} // prettier-ignore
