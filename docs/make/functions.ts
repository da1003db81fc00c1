/** Operators, functions and dtypes, from the tables that the compiler reads. */
import { DTYPES, legalContraction } from '../../compiler/dtypes.ts'
import { OPERATIONS } from '../../compiler/ops.ts'
import { accuracyText, RULE_TEXTS, signatureText } from '../../compiler/ops/describe.ts'
import type { Operation } from '../../compiler/ops/operation.ts'
import { DTYPE_NAMES } from '../../grammar/vocabulary.ts'
import { code, made, prose, table } from './markdown.ts'

/** Largest finite values are powers of two or short in decimals; others are rounded. */
const short = (value: number): string => (Number.isInteger(value) && value < 1e6 ? String(value) : value.toPrecision(6))

export function functions(): string {
  const all = [...OPERATIONS.values()]
  const rows = (own: readonly Operation[]): string[][] =>
    own.map((op) => [code(signatureText(op)), prose(op.doc), RULE_TEXTS[op.rule], accuracyText(op)])
  const [operators, named] = [all.filter((op) => !/^\w/.test(op.spelling)), all.filter((op) => /^\w/.test(op.spelling))]
  const head = ['', 'what', 'type', 'accuracy']
  const dtypes = DTYPE_NAMES.map((name) => {
    const { class: kind, bits, exponentBits, mantissaBits, maxFinite, overflow, compute } = DTYPES[name]
    const partners = DTYPE_NAMES.filter((other) => legalContraction(name, other)).map(code)
    const fields = kind === 'float' || kind === 'scale' ? `${exponentBits} + ${mantissaBits}` : ''
    const sums = legalContraction(name, name)?.join(', ') ?? ''
    return [code(name), String(bits), fields, short(maxFinite), kind === 'float' || kind === 'scale' ? overflow : 'saturate', compute, partners.join(' '), sums] // prettier-ignore
  })
  return `# Functions and dtypes

From the tables that the compiler reads. ${made}

_exact_: no rounding of its own. _rounded_: IEEE, nearest even, the same bits everywhere. A number: at most that many units in the last place of
f32, over the whole range, against the correctly rounded result; [numerics](../numerics.md) says how they propagate.

## Operators

${table(head, rows(operators))}

## Functions

${table(head, rows(named))}

## Dtypes

What happens beyond the largest finite value is said for stores of floats; integers saturate at casts and stores. The last two columns are what
\`sum[k](a * b)\` multiplies on an MMA as it is, and what it sums in, the default first. Other pairs are multiplied in a common type: see
[numerics](../numerics.md#contractions).

${table(['dtype', 'bits', 'exponent + mantissa', 'largest', 'beyond it', 'held in', 'MMA with', 'sums'], dtypes)}
`
}
