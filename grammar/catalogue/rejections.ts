/** KTL45xx: why an instance is not offered for given operands, target or schedule. */
import { entry } from './entry.ts'

export const rejections = {
  KTL4510: entry<{ stages: number; need: number; limit: number }>({
    title: 'shared memory of a CTA exceeded',
    explain: 'Stages of A and B, staging of outputs and barriers together must fit the shared memory of one CTA.',
    wrong: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { tile 128x256; stages 8 }\n',
    },
    right: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { tile 128x256; stages 4 }\n',
    },
    word: ({ stages, need, limit }) => ({
      message: `${stages} stages need ${need} bytes of shared memory, ${limit} are available`,
      help: 'use `stages auto`',
    }),
  }),
  KTL4511: entry<{ m: number; n: number }>({
    title: 'tile that no MMA has',
    explain: 'One CTA multiplies tiles of 64 or 128 rows by 32 to 256 columns in steps of 32.',
    wrong: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { tile 128x48 }\n',
    },
    right: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { tile 128x64 }\n',
    },
    word: ({ m, n }) => ({
      message: `no lowered MMA has the tile ${m}x${n}`,
      help: 'use 64 or 128 rows and 32 to 256 columns in steps of 32',
    }),
  }),
  KTL4513: entry<{ operand: string }>({
    title: 'rows that TMA cannot address',
    explain:
      'TMA copies boxes whose rows start at multiples of 16 bytes: the pointer and every stride but that of the contiguous axis must be such multiples. Other operands run on kernels without TMA.',
    wrong: {
      call: "explainKernels(new GemmArguments({ A: device.empty('f16', [64, 33]), B: device.empty('f16', [33, 48]), out, accumulatorType: 'f32' }))",
    },
    right: {
      call: "explainKernels(new GemmArguments({ A: device.empty('f16', [64, 33], { strides: [40, 1] }), B: device.empty('f16', [33, 48]), out, accumulatorType: 'f32' }))",
    },
    word: ({ operand }) => ({
      message: `TMA needs 16-byte aligned rows of \`${operand}\``,
      help: 'pad the row stride and the pointer to multiples of 16 bytes',
    }),
  }),
  KTL4514: entry<{ operand: string }>({
    title: 'contiguous batch axis',
    explain: 'Tensor-core kernels read and write matrices whose contiguous axis is one of the matrix.',
    wrong: { ktl: 'kernel g(A: f16[m, k, l], B: f16[l, n, k]) -> D: f16[l, m, n] { D = sum[k](A * B) }\n' },
    right: { ktl: 'kernel g(A: f16[l, m, k], B: f16[l, n, k]) -> D: f16[l, m, n] { D = sum[k](A * B) }\n' },
    word: ({ operand }) => ({
      message: `\`${operand}\` is contiguous along its batch axis`,
      help: 'write an axis of the matrix last',
    }),
  }),
}
