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
    explain: 'The reductions are `sum`, `min`, `max` and `mean`.',
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
  KTL2304: entry<{ name: string | null; reduced: Span | null }>({
    title: 'reduction used elementwise',
    explain:
      'A reduction in an epilogue is complete only when all tiles are, so its value cannot be used for elements ' +
      'of the same kernel. Make it an output and use it in the next kernel.',
    wrong: {
      ktl: `${GEMM} {\n  acc = sum[k](A * B)\n  D = acc / max[n](acc)\n}\n`,
    },
    right: {
      ktl: `kernel f(A: f16[m, k], B: f16[k, n]) -> (D: f32[m, n], amax: f32[m]) {\n  acc = sum[k](A * B)\n  D = acc\n  amax[m] = max[n](abs(acc))\n}\n`,
    },
    word: ({ name, reduced }) => ({
      message: `${name === null ? 'a reduction' : code(name)} is used elementwise in the kernel that computes it`,
      label: 'used here',
      ...(reduced && { labels: [{ span: reduced, text: 'reduced here' }] }),
      help: 'make the reduction an output of its own and use it in another kernel',
    }),
  }),
  KTL2305: entry<{ factors: number }>({
    severity: 'warning',
    title: 'contraction that is not a product of two',
    explain:
      'A contraction multiplies exactly two operands. Scale factors without the summed axis go outside the sum; other products take two kernels.',
    wrong: { ktl: 'kernel f(A: f16[m, k], B: f16[k, n], C: f16[k, n]) -> D: f32[m, n] { D = sum[k](A * B * C) }\n' },
    right: { ktl: 'kernel f(A: f16[m, k], B: f16[k, n], C: f16[m, n]) -> D: f32[m, n] { D = sum[k](A * B) * C }\n' },
    word: ({ factors }) => ({
      message: `a contraction multiplies two operands, not ${factors}`,
      label: `${factors} factors`,
      help: 'take factors without the summed axis out of the sum, or compute the product in another kernel',
    }),
  }),
  KTL2306: entry<{ reason: string; operand: Span | null }>({
    severity: 'warning',
    title: 'contraction of computed values',
    explain:
      'The factors of a contraction are operands as they lie in memory; there is no place to compute on them first.',
    wrong: { ktl: `${GEMM} { D = sum[k](relu(A) * B) }\n` },
    right: { ktl: `${GEMM} { D = relu(sum[k](A * B)) }\n` },
    word: ({ reason, operand }) => ({
      message: `a contraction multiplies operands: ${reason}`,
      label: 'contraction',
      ...(operand && { labels: [{ span: operand, text: 'not an operand' }] }),
      help: 'compute it in a kernel before, or move it behind the sum',
    }),
  }),
  KTL2307: entry<{ contractions: number; reason: string }>({
    title: 'contractions that do not fit one kernel',
    explain:
      'Several contractions in one kernel must keep the same axes, so that one tile of each is computed together. What they sum over may differ: `sum[k](X * W) + sum[r](T * U)` is one loop after the other.',
    wrong: {
      ktl: 'kernel f(A: f16[m, k], B: f16[k, n], C: f16[k, j]) -> (D: f32[m, n], E: f32[m, j]) { D = sum[k](A * B); E = sum[k](A * C) }\n',
    },
    right: {
      ktl: 'kernel f(A: f16[m, k], B: f16[k, n], C: f16[m, j], E: f16[j, n]) -> D: f32[m, n] { D = sum[k](A * B) + sum[j](C * E) }\n',
    },
    word: ({ contractions, reason }) => ({
      message: `the ${contractions} contractions of this kernel cannot be computed together: ${reason}`,
      label: 'contraction',
      help: 'split the kernel',
    }),
  }),
  KTL2308: entry<{ outer: string; inner: Span | null }>({
    title: 'nested reductions',
    explain:
      'A reduction of a contraction or of another reduction takes a second kernel, unless it is an output of its own.',
    wrong: {
      ktl: 'kernel f(A: f16[m, k], B: f16[k, n], C: f16[n, j]) -> D: f32[m, j] { D = sum[n](sum[k](A * B) * C) }\n',
    },
    right: { ktl: `${GEMM} { D = sum[k](A * B) }\n` },
    word: ({ outer, inner }) => ({
      message: `${code(outer)} reduces the result of another reduction`,
      label: 'outer reduction',
      ...(inner && { labels: [{ span: inner, text: 'inner reduction' }] }),
      help: 'write two kernels',
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
