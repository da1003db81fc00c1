/** KTL23xx: reductions, and what one kernel can hold. */
import type { Span } from '../ast.ts'
import { code, entry, orList } from './entry.ts'
import { SAME_REDUCTION } from '../aliases.ts'
import { didYouMean } from './names.ts'

const GEMM = 'kernel f(A: f16[m, k], B: f16[k, n]) -> D: f32[m, n]'

export const reductions = {
  KTL2301: entry<{ axis: string; axes: readonly string[] }>({
    title: 'reduction over an axis that the value lacks',
    explain: 'A reduction removes an axis of its value, so the value must have it.',
    wrong: { ktl: 'kernel f(A: f32[m, n], B: f32[k]) -> D: f32[m, n, k] { D = sum[k](A) * B }\n' },
    right: { ktl: 'kernel f(A: f32[m, n], B: f32[k]) -> D: f32[m, k] { D = sum[n](A) * B }\n' },
    word: ({ axis, axes }) => ({
      message: `the value has no axis ${code(axis)} to reduce`,
      label: axes.length > 0 ? `its axes are [${axes.join(', ')}]` : 'it is a scalar',
    }),
  }),
  KTL2302: entry<{ axis: string; lacking: string; lackingSpan: Span | null }>({
    severity: 'warning',
    title: 'reduction axis that one factor lacks',
    explain:
      'A contraction sums over axes that both factors carry. An axis of one factor alone can be summed before ' +
      'the product, `sum[k](A) * b`, which is also less work.',
    wrong: { ktl: 'kernel f(A: f32[m, k], b: f32[m]) -> D: f32[m] { D = sum[k](A * b) }\n' },
    right: { ktl: 'kernel f(A: f32[m, k], b: f32[m]) -> D: f32[m] { D = sum[k](A) * b }\n' },
    word: ({ axis, lacking, lackingSpan }) => ({
      message: `${code(lacking)} has no axis ${code(axis)}, so this is not a contraction`,
      label: `summed over ${code(axis)}`,
      ...(lackingSpan && { labels: [{ span: lackingSpan, text: `no axis ${code(axis)}` }] }),
      help: `take ${code(lacking)} out of the sum`,
    }),
  }),
  KTL2303: entry<{ name: string; candidates: readonly string[] }>({
    title: 'unknown reduction',
    explain:
      'The reductions are `sum`, `min`, `max` and `mean`, and `softmax`, `logsumexp` and `var`, which are made of them.',
    wrong: { ktl: 'kernel f(A: f32[m, k]) -> D: f32[m] { D = prod[k](A) }\n' },
    right: { ktl: 'kernel f(A: f32[m, k]) -> D: f32[m] { D = sum[k](A) }\n' },
    word: ({ name, candidates }, at) => {
      const span = at.span && { start: at.span.start, end: at.span.start + name.length }
      return {
        message: `unknown reduction ${code(name)}`,
        label: 'not a reduction',
        ...didYouMean(name, candidates, { ...at, span }, SAME_REDUCTION.get(name)),
      }
    },
  }),
  KTL2305: entry<{ factors: number }>({
    severity: 'note',
    title: 'product that is no product of two matrices',
    explain:
      'A sum of a product is a contraction if its factors make two sides, each with axes that the other lacks. A factor that ' +
      'varies along axes of both, such as a mask, leaves a sum of products that is computed one by one.',
    wrong: { ktl: 'kernel f(A: f16[m, k], B: f16[k, n], C: f16[m, n, k]) -> D: f32[m, n] { D = sum[k](A * B * C) }\n' },
    right: { ktl: 'kernel f(A: f16[m, k], B: f16[k, n], C: f16[m, n]) -> D: f32[m, n] { D = sum[k](A * B * C) }\n' },
    word: ({ factors }) => ({
      message: `the ${factors} factors are not the two sides of a matrix product, so each product is computed by itself`,
      label: `${factors} factors`,
      help: 'where it can be, write a factor that varies along axes of both sides outside of the sum',
    }),
  }),
  KTL2306: entry<{ factor: string; operand: Span | null }>({
    severity: 'note',
    title: 'contraction of computed values',
    explain:
      'A factor of a contraction may be computed from its operands. Each tile that needs it computes it again, and it is rounded to the ' +
      'type that the tensor core multiplies.',
    wrong: { ktl: `${GEMM} { D = sum[k](relu(A) * B) }\n` },
    right: { ktl: `${GEMM} { D = relu(sum[k](A * B)) }\n` },
    word: ({ factor, operand }) => ({
      message: `${code(factor)} is computed on the way into the contraction, once for every tile`,
      label: 'contraction',
      ...(operand && { labels: [{ span: operand, text: 'computed' }] }),
      help: 'where it can be, compute it behind the sum, or in a kernel before',
    }),
  }),
  KTL2309: entry<{ axes: readonly string[]; output: string }>({
    title: 'reduction over an output axis',
    explain: 'An axis that was reduced is gone; the output takes another.',
    wrong: { ktl: 'kernel f(A: f32[m, k]) -> D: f32[m, k] { D = sum[k](A) }\n' },
    right: { ktl: 'kernel f(A: f32[m, k]) -> D: f32[m] { D = sum[k](A) }\n' },
    severity: 'warning',
    word: ({ axes, output }) => ({
      message: `${code(output)} repeats one value along ${orList(axes.map(code), 'and')}, which the equation reduces`,
      label: 'reduced, then broadcast',
      help: `leave ${orList(axes.map(code), 'and')} out of ${code(output)}`,
    }),
  }),
  KTL2310: entry<{ name: string; axes: readonly string[] }>({
    title: 'reduction without axes',
    explain:
      'A reduction names the axes that it removes: `sum[k](x)`. `max(a, b)` and `min(a, b)` with two arguments are elementwise.',
    wrong: { ktl: `${GEMM} { D = sum(A * B) }\n` },
    right: { ktl: `${GEMM} { D = sum[k](A * B) }\n` },
    word: ({ name, axes }) => ({
      message: `${code(name)} does not say which axes it reduces`,
      label: 'a reduction names its axes',
      help: `write ${code(`${name}[${axes.join(', ') || 'axis'}](…)`)}`,
    }),
  }),
}
