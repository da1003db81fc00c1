/** KTL29xx: forms of the language, and choices of a schedule, that are not lowered yet. */
import { code, entry } from './entry.ts'

export const later = {
  KTL2901: entry<{ operand: string }>({
    title: 'block scales, not lowered yet',
    explain: 'Block-scaled operands are read, checked and printed, but no target lowers them yet.',
    wrong: {
      ktl: 'kernel f(A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[k, n] * ue8m0[k/32, n]) -> D: bf16[m, n] { D = sum[k](A * B) }\n',
    },
    right: {
      ktl: 'kernel f(A: e4m3[m, k], B: e4m3[k, n], s: f32[m]) -> D: bf16[m, n] { D = sum[k](A * B) * s }\n',
    },
    word: ({ operand }) => ({
      message: `the block scale of ${code(operand)} is not lowered yet`,
      label: 'block-scaled operand',
      help: 'one scale per row or tensor can be applied behind the sum',
    }),
  }),
  KTL2902: entry<{ axis: string; operand: string }>({
    title: 'ragged axis, not lowered yet',
    explain: 'Operands with a ragged axis (grouped GEMM) are read, checked and printed, but no target lowers them yet.',
    wrong: {
      ktl: 'kernel f(A: bf16[t, k], B: bf16[g, k, n], off: i32[g]) -> D: bf16[t, n] ragged t by off as g { D = sum[k](A * B) }\n',
    },
    right: { ktl: 'kernel f(A: bf16[g, t, k], B: bf16[g, k, n]) -> D: bf16[g, t, n] { D = sum[k](A * B) }\n' },
    word: ({ axis, operand }) => ({
      message: `the ragged axis ${code(axis)} of ${code(operand)} is not lowered yet`,
      label: 'ragged',
      help: 'with groups of one size, make the group a batch axis',
    }),
  }),
  KTL2903: entry<{ reduction: string }>({
    title: 'row statistics, not lowered yet',
    explain:
      'A reduction whose value is used for the elements of its own row is read, checked and printed, but no target lowers it yet.',
    wrong: {
      ktl: 'kernel f(X: f32[r, c], g: f32[c], eps: f32) -> Y: f32[r, c] {\n  ss = sum[c](X * X)\n  Y = X * rsqrt(ss / size(c) + eps) * g\n}\n',
    },
    right: {
      ktl: 'kernel f(X: f32[r, c], ss: f32[r], g: f32[c], eps: f32) -> Y: f32[r, c] { Y = X * rsqrt(ss / size(c) + eps) * g }\n',
    },
    word: ({ reduction }) => ({
      message: `the row statistic ${code(reduction)} is not lowered yet`,
      label: 'used elementwise',
      help: 'compute the statistic in one kernel and use it as an operand of the next',
    }),
  }),
  KTL2904: entry<{ form: string; help?: string }>({
    title: 'form that is not lowered yet',
    explain: 'The program is legal, but no target lowers this combination yet.',
    wrong: { ktl: 'kernel f(A: e2m1[m]) -> D: f32[m] { D = A }\n' },
    right: { ktl: 'kernel f(A: e4m3[m]) -> D: f32[m] { D = A }\n' },
    word: ({ form, help }) => ({ message: `${form} is not lowered yet`, label: 'not lowered yet', help }),
  }),
  KTL2925: entry<{ operand: string; axis: string }>({
    title: 'output that lacks an axis of the tile, not lowered to tensor cores yet',
    explain:
      'The outputs of a kernel on the tensor cores have both axes of the tile. A kernel with a vector beside the matrix runs on the CUDA cores so far.',
    wrong: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k], s: f32[m]) -> (D: f16[m, n], r: f32[m]) {\n  D = sum[k](A * B) * s\n  r = 1 / s\n}\n',
    },
    right: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k], s: f32[m]) -> D: f16[m, n] { D = sum[k](A * B) * s }\n',
    },
    word: ({ operand, axis }) => ({
      message: `output \`${operand}\` lacks axis \`${axis}\`, which is not lowered to tensor cores yet`,
      help: 'the kernel runs on the CUDA cores',
    }),
  }),
  KTL2928: entry<{ a: string; b: string; accumulator: string }>({
    title: 'operand dtypes, not lowered to tensor cores',
    explain:
      'Tensor cores multiply f16, bf16, tf32, 8-bit integers and, but for `sm_80`, fp8; they sum f16 and fp8 in ' +
      'f32 or f16, bf16 and tf32 in f32, integers in i32. The products of a kernel are of the same types. ' +
      'Everything else runs on the CUDA cores.',
    wrong: {
      ktl: 'kernel g(A: f32[m, k], B: f32[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { tile 128x128 }\n',
    },
    right: {
      ktl: 'kernel g(A: tf32[m, k], B: tf32[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { tile 128x128 }\n',
    },
    word: ({ a, b, accumulator }) => ({
      message: `no tensor cores multiply ${a} x ${b} with ${accumulator} sums`,
      help: 'the kernel runs on the CUDA cores',
    }),
  }),
  KTL2927: entry<{ operand: string; dtype: string }>({
    title: 'epilogue operand below a byte, not lowered yet',
    explain: 'Epilogue operands of 4 and 6 bits are read and checked, but no target loads them yet.',
    wrong: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k], C: e2m1[m, n]) -> D: f16[m, n] { D = sum[k](A * B) + C }\n',
    },
    right: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k], C: e4m3[m, n]) -> D: f16[m, n] { D = sum[k](A * B) + C }\n',
    },
    word: ({ operand, dtype }) => ({
      message: `${dtype} epilogue operands such as \`${operand}\` are not lowered yet`,
      help: 'pass it as e4m3 or e5m2',
    }),
  }),
}
