/** KTL29xx: forms of the language, and choices of a schedule, that are not lowered yet. */
import { entry } from './entry.ts'

export const later = {
  KTL2904: entry<{ form: string; help?: string }>({
    title: 'form that is not lowered yet',
    explain: 'The program is legal, but this target does not lower this combination yet; the CUDA cores may.',
    wrong: {
      ktl: 'kernel f(A: f16[m, k], B: f16[n, k], C: e2m1[m, n]) -> D: f32[m, n] { D = sum[k](A * B) + C }\nschedule f on sm_90 {\n  tile 128x64\n}\n',
    },
    right: {
      ktl: 'kernel f(A: f16[m, k], B: f16[n, k], C: e4m3[m, n]) -> D: f32[m, n] { D = sum[k](A * B) + C }\nschedule f on sm_90 {\n  tile 128x64\n}\n',
    },
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
      'f32 or f16, bf16 and tf32 in f32, integers in i32, f64 in f64. The products of a kernel are of the same types. ' +
      'Everything else runs on the CUDA cores; f32 does unless a schedule on `sm_80` says `f32 tf32x3`.',
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
