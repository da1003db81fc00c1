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
    explain:
      'One CTA multiplies tiles of 64 rows by 8 to 256 columns in steps of 8 (integers beyond 32: of 16) and of 128 rows by 16 to 256 in steps of 16, ' +
      'a pair those of 128 or 256 rows by 32 to 256 columns in steps of 32.',
    wrong: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { mma 2cta; cluster 2x1; tile 128x48 }\n',
    },
    right: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { mma 2cta; cluster 2x1; tile 128x64 }\n',
    },
    word: ({ m, n }) => ({
      message: `no lowered MMA has the tile ${m}x${n}`,
      help: 'use 64 or 128 rows and 16 to 256 columns in steps of 16, of 64 rows in steps of 8; for pairs of CTAs 128 or 256 rows and columns in steps of 32',
    }),
  }),
  KTL4513: entry<{ operand: string }>({
    title: 'rows that TMA cannot address',
    explain:
      'TMA copies boxes whose rows start at multiples of 16 bytes: the pointer and every stride but that of the ' +
      'contiguous axis must be such multiples. Other operands run on kernels without TMA.',
    wrong: {
      call: "explainKernels(new GemmArguments({ A: device.empty('f16', [64, 33]), B: device.empty('f16', [33, 48]), out, accumulatorType: 'f32' }))",
    },
    right: {
      call:
        "explainKernels(new GemmArguments({ A: device.empty('f16', [64, 33], { strides: [40, 1] }), B: " +
        "device.empty('f16', [33, 48]), out, accumulatorType: 'f32' }))",
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
  KTL4515: entry<{ operand: string; rows: number; slices: number; step: number }>({
    title: 'multicast slice finer than a swizzle atom',
    explain:
      'The CTAs of a cluster that need the same tile load a slice of it each and multicast it. A slice is whole ' +
      'groups of 8 rows, the pattern that TMA and the MMA share; on sm_90 whole rows, at least 8.',
    wrong: {
      ktl: 'kernel g(A: bf16[m, k], B: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { tile 128x32; cluster 8x1 }\n',
    },
    right: {
      ktl: 'kernel g(A: bf16[m, k], B: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { tile 128x64; cluster 4x1 }\n',
    },
    word: ({ operand, rows, slices, step }) => ({
      message: `${rows} rows of \`${operand}\` cannot be loaded in ${slices} slices of ${step === 1 ? 'at least 8' : 'whole groups of 8'}`,
      help: 'use a smaller cluster or a larger tile',
    }),
  }),
  KTL4516: entry<{ operand: string; rows: number; multiple: number }>({
    title: 'tile too narrow for a transposed operand',
    explain:
      'An operand that is contiguous along m or n is loaded in swizzle spans of 32, 64 or 128 bytes along that ' +
      'axis; 32-bit operands have spans of 128 bytes only.',
    wrong: {
      ktl: 'kernel g(A: tf32[m, k], B: tf32[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { mma 2cta; tile 128x32; cluster 2x1 }\n',
    },
    right: {
      ktl: 'kernel g(A: tf32[m, k], B: tf32[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { mma 2cta; tile 128x64; cluster 2x1 }\n',
    },
    word: ({ operand, rows, multiple }) => ({
      message: `a tile of ${rows} contiguous elements of \`${operand}\` is no multiple of ${multiple}`,
      help: 'use a larger tile, or an operand that is contiguous along the contracted axis',
    }),
  }),
  KTL4518: entry<{ products: number }>({
    title: 'several products cannot be transposed',
    explain: '`operands ba` exchanges A and B. Products that share A would share B then, which no kernel does.',
    wrong: {
      ktl:
        'kernel g(A: bf16[m, k], B: bf16[n, k], C: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) * sum[k](A * C) }\n' +
        'schedule g on sm_100 { tile 128x32; operands ba }\n',
    },
    right: {
      ktl:
        'kernel g(A: bf16[m, k], B: bf16[n, k], C: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) * sum[k](A * C) }\n' +
        'schedule g on sm_100 { tile 128x32; operands ab }\n',
    },
    word: ({ products }) => ({
      message: `the ${products} products of this kernel share A and cannot be transposed`,
      help: 'use `operands ab`',
    }),
  }),
  KTL4519: entry<{ a: string; b: string; target: string }>({
    title: 'MMA that a target lacks',
    explain:
      'Integer tensor cores exist on sm_100a only. On sm_103a integer GEMMs run by mma.sync, with less throughput.',
    wrong: {
      call:
        "explainKernels(new GemmArguments({ A: device.empty('i8', [64, 64]), B: device.empty('i8', [64, 64]), out: " +
        "device.empty('i32', [64, 64]), accumulatorType: 'i32' }), { cc: 'sm_103a' })",
    },
    right: {
      call:
        "explainKernels(new GemmArguments({ A: device.empty('i8', [64, 64]), B: device.empty('i8', [64, 64]), out: " +
        "device.empty('i32', [64, 64]), accumulatorType: 'i32' }), { cc: 'sm_100a' })",
    },
    word: ({ a, b, target }) => ({
      message: `${target} has no tensor cores for ${a} x ${b}`,
      help: 'use sm_100a; on this target other kernels compute it, more slowly',
    }),
  }),
  KTL4520: entry<{ columns: number; limit: number }>({
    title: 'accumulators exceed tensor memory',
    explain: 'Every product of a kernel has an accumulator of n columns in tensor memory, which has 512.',
    wrong: {
      ktl:
        'kernel g(A: bf16[m, k], B: bf16[n, k], C: bf16[n, k], E: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) * sum[k](A * C) * sum[k](A * E) }\n' +
        'schedule g on sm_100 { tile 128x256 }\n',
    },
    right: {
      ktl:
        'kernel g(A: bf16[m, k], B: bf16[n, k], C: bf16[n, k], E: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) * sum[k](A * C) * sum[k](A * E) }\n' +
        'schedule g on sm_100 { tile 128x128 }\n',
    },
    word: ({ columns, limit }) => ({
      message: `the accumulators need ${columns} columns of tensor memory, there are ${limit}`,
      help: 'use a tile with fewer columns',
    }),
  }),
  KTL4521: entry<{ cells: number; limit: number }>({
    title: 'accumulators exceed the registers',
    explain:
      'On sm_90 accumulators stand in the registers of the consumer warpgroups: at most 160 of each thread, that is 128 x 160 of f32 for each of two warpgroups, and 96 where three of them share a tile of 192 rows. ' +
      'On sm_100 so do the sums of parts that scales in blocks of k multiply: 128 columns of a tile, or half of 256 on a pair of 64 rows each; ' +
      '96 where warps copy operands that TMA cannot address.',
    wrong: {
      ktl: 'kernel g(A: bf16[m, k], B: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_90 { tile 256x256 }\n',
    },
    right: {
      ktl: 'kernel g(A: bf16[m, k], B: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_90 { consumers cooperative; tile 128x256 }\n',
    },
    word: ({ cells, limit }) => ({
      message: `the accumulators need ${cells} registers of each thread, there are ${limit}`,
      help: 'use a smaller tile, or `consumers cooperative`',
    }),
  }),
  KTL4522: entry<{ n: number; splits: number }>({
    title: 'tile too narrow to split k',
    explain: 'The CTAs that share the k of a tile each finish a part of its columns, a multiple of 8.',
    wrong: {
      ktl: 'kernel g(A: bf16[m, k], B: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_90 { tile 128x16; splits 4; reassociate }\n',
    },
    right: {
      ktl: 'kernel g(A: bf16[m, k], B: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_90 { tile 128x32; splits 4; reassociate }\n',
    },
    word: ({ n, splits }) => ({
      message: `${n} columns are not ${splits} times a multiple of 8, one for each CTA`,
      help: `split k less, or use a tile whose columns are a multiple of ${8 * splits}`,
    }),
  }),
  KTL4524: entry<Record<string, never>>({
    title: 'f16 accumulators of a split k',
    explain: 'Sums over parts of k are added in f32 or i32. Accumulators of f16 are not split.',
    wrong: {
      ktl:
        'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { acc: f16 = sum[k](A * B)\n' +
        ' D = acc }\n' +
        'schedule g on sm_90 { tile 128x64; splits 2; reassociate }\n',
    },
    right: {
      ktl:
        'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { acc: f32 = sum[k](A * B)\n' +
        ' D = acc }\n' +
        'schedule g on sm_90 { tile 128x64; splits 2; reassociate }\n',
    },
    word: () => ({ message: 'accumulators of f16 cannot be split along k', help: 'accumulate in f32' }),
  }),
  KTL4523: entry<{ operand: string }>({
    title: 'operand that warps transpose, in a cluster',
    explain:
      'wgmma reads 8- and 32-bit operands only as they lie along k. Others are transposed by warps on their way ' +
      'to shared memory, which a cluster does not share.',
    wrong: {
      ktl: 'kernel g(A: tf32[k, m], B: tf32[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_90 { tile 128x128; cluster 2x1 }\n',
    },
    right: {
      ktl: 'kernel g(A: tf32[k, m], B: tf32[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_90 { tile 128x128; cluster 1x1 }\n',
    },
    word: ({ operand }) => ({
      message: `\`${operand}\` has to be transposed by warps, which needs a cluster of one CTA`,
      help: 'use `cluster 1x1`, or a tensor that is contiguous along the contracted axis',
    }),
  }),
  KTL4525: entry<{ m: number; n: number }>({
    title: 'tile that no block-scaled MMA has',
    explain:
      'MMAs that scale blocks of k by themselves multiply 128 rows on each CTA, and scales of 64 columns lie together in tensor ' +
      'memory: tiles have 128 rows on one CTA, 256 on a pair, and 64 to 256 columns in steps of 64.',
    wrong: {
      ktl: 'kernel g(A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[n, k] * ue8m0[n, k/32]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { tile 128x96 }\n',
    },
    right: {
      ktl: 'kernel g(A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[n, k] * ue8m0[n, k/32]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_100 { tile 128x128 }\n',
    },
    word: ({ m, n }) => ({
      message: `no block-scaled MMA has the tile ${m}x${n}`,
      help: 'use 128 rows on one CTA or 256 on two, and 64, 128, 192 or 256 columns',
    }),
  }),
  KTL4530: entry<{ m: number; n: number; products: number }>({
    title: 'tile that warps cannot divide',
    explain:
      'On sm_80 a tile is divided among up to 8 warps, each of which has its accumulators and the operands of ' +
      'two steps in registers: that is a part of 64 x 64 of f32 (32 x 32 with `f32 tf32x3`). Parts are multiples of 16 rows and 16 columns.',
    wrong: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule g on sm_80 { tile 256x256 }\n',
    },
    right: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule g on sm_80 { tile 128x256 }\n',
    },
    word: ({ m, n, products }) => ({
      message: `up to 8 warps cannot hold ${products === 1 ? '' : `${products} accumulators of `}a tile ${m}x${n} in their registers`,
      help: 'use a smaller tile, or one whose sides are powers of two',
    }),
  }),
  KTL4534: entry<{ dtype: string }>({
    title: 'parts of what is no f32',
    explain:
      'With `f32 tf32x3` a schedule on sm_80 has operands of f32 multiplied as two numbers of tf32 each. Of operands of 4 bytes that ' +
      'are no f32 it makes no instances; for those of other sizes it says nothing.',
    wrong: {
      ktl: 'kernel g(A: tf32[m, k], B: tf32[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_80 { f32 tf32x3 }\n',
    },
    right: {
      ktl: 'kernel g(A: f32[m, k], B: f32[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule g on sm_80 { f32 tf32x3 }\n',
    },
    word: ({ dtype }) => ({
      message: `\`f32 tf32x3\` multiplies f32, and these operands are ${dtype}`,
      help: 'declare them as f32, or leave `f32 tf32x3` out',
    }),
  }),
  KTL4533: entry<{ stages: number }>({
    title: 'ring without room to copy ahead',
    explain: 'On sm_80 the copies of the next tile of k run under the MMAs of this one, which takes two stages.',
    wrong: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule g on sm_80 { tile 128x64; stages 1 }\n',
    },
    right: {
      ktl: 'kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule g on sm_80 { tile 128x64; stages 2 }\n',
    },
    word: ({ stages }) => ({ message: `${stages} stage leaves no room to copy ahead`, help: 'use two or more' }),
  }),
}
