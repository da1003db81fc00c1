/** PTX wrappers of the SM80 kernels: asynchronous copies by threads, matrices from shared memory, warp MMAs. */
import { atomNameOf, type WarpMmaKind } from '../../../compiler/targets/sm80/mma.ts'
import { CELL, cellsOf } from '../../pipe/fragments.ts'
import {
  COPY_WRAPPERS,
  COPY_GROUP_WRAPPERS,
  EXCHANGE_WRAPPERS,
  inline,
  loadMatrices,
  registers,
  ROLE_WRAPPERS,
  STORE_WRAPPERS,
  SYNC_WRAPPERS,
  VECTOR_LOADS,
} from '../../pipe/ptx.ts'

/** So many neighbours of shared memory. */
function loadFloats(count: number): string {
  const [vector, target] = count === 1 ? ['', '%0'] : [`.v${count}`, `{${registers(count, (i) => `%${i}`)}}`]
  return inline(
    `void load_fragment_f32_${count}(float* r, u32 address)`,
    `  asm volatile("ld.shared${vector}.f32 ${target}, [%${count}];" : ${registers(count, (i) => `"=f"(r[${i}])`)} : "r"(address) : "memory");`,
  )
}

export const SM80_WRAPPERS: Readonly<Record<string, string>> = {
  ...SYNC_WRAPPERS,
  ...COPY_WRAPPERS,
  ...STORE_WRAPPERS,
  ...COPY_GROUP_WRAPPERS,
  ...ROLE_WRAPPERS,
  ...EXCHANGE_WRAPPERS,
  ldmatrix_x4_trans: loadMatrices(true),
  load_fragment_f64: inline(
    'void load_fragment_f64(double* r, u32 address)',
    '  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(r[0]) : "r"(address) : "memory");',
  ),
  ...Object.fromEntries([1, 2, 4].map((count) => [`load_fragment_f32_${count}`, loadFloats(count)])),
  load_pair:
    '// Two elements of neighbouring rows.\n' +
    inline(
      'u32 load_pair(u32 low, u32 high)',
      '  u16 x, y;\n  asm volatile("ld.shared.b16 %0, [%2];\\n\\tld.shared.b16 %1, [%3];"' +
        ' : "=h"(x), "=h"(y) : "r"(low), "r"(high) : "memory");\n  return x | static_cast<u32>(y) << 16;',
    ),
  ...VECTOR_LOADS,
}

export const mmaName = (kind: WarpMmaKind): string => `mma_m16n8k${kind.k}_${kind.d}_${kind.a}_${kind.b}`

/** f64 (PTX ISA 9.7.14.5.13): a row and the one 8 below of A, at four of k and at the next four. Devices before sm_90 have m8n8k4 alone. */
const DMMA = inline(
  'void mma_m16n8k8_f64_f64_f64(double* d, const double* a, const double* b)',
  `#if __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3]) : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
  for (u32 i = 0; i < 4; ++i)
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(d[i % 2 * 2]), "+d"(d[i % 2 * 2 + 1]) : "d"(a[i]), "d"(b[i / 2]));
#endif`,
)

/**
 * f32 on CUDA cores: a warp's rows with its columns, of one k; a lane has two of every 16 rows and of every 8 columns. An SM reads two registers in a
 * cycle, one of either bank, so that an FFMA is to have one factor of the FFMA before: down a column, and up the next one. Compilers keep the order of
 * what is `asm volatile`, and give sums the other bank than factors.
 */
export const FFMA_STEP = inline(
  'void ffma_step(float* d, const float* a, const float* b)',
  `#pragma unroll
  for (u32 j = 0; j < 2 * COLUMN_BLOCKS; ++j)
#pragma unroll
    for (u32 x = 0; x < 2 * ROW_BLOCKS; ++x) {
      const u32 i = j % 2 ? 2 * ROW_BLOCKS - 1 - x : x;
      float& sum = d[i / 2 * CELLS + j / 2 * 4 + i % 2 * 2 + j % 2];
      asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum) : "f"(a[i]), "f"(b[j]));
    }`,
)

/**
 * f32 in two parts: the larger one rounded to tf32, the smaller one the rest, whose last 13 bits MMAs do not read. NaNs and
 * infinities have NaN as the smaller one.
 */
export const SPLIT_F32 = inline(
  'void split_f32(const u32* x, u32* high, u32* low, u32 count)',
  `#pragma unroll
  for (u32 i = 0; i < count; ++i) {
    high[i] = (x[i] + 0x1000) & 0xffffe000;
    low[i] = __float_as_uint(__uint_as_float(x[i]) - __uint_as_float(high[i]));
  }`,
)

/** The smallest products first; the sum of a step goes to the accumulator by an addition that rounds, where MMAs truncate. */
export const SPLIT_MMA = (kind: WarpMmaKind): string =>
  inline(
    `void ${splitMmaName(kind)}(float* d, const u32* a_high, const u32* a_low, const u32* b_high, const u32* b_low)`,
    `  float sum[4] = {};
${[['low', 'high'], ['high', 'low'], ['high', 'high']].map(([a, b]) => `  ${mmaName(kind)}(sum, a_${a}, b_${b});`).join('\n')}
#pragma unroll
  for (u32 i = 0; i < 4; ++i) d[i] += sum[i];`,
  ) // prettier-ignore

export const splitMmaName = (kind: WarpMmaKind): string => `${mmaName(kind)}_split`

/** D += A * B by a warp (PTX ISA 9.7.14.5): 4 registers of A, 2 of B. */
export function mmaText(kind: WarpMmaKind): string {
  const atom = atomNameOf(kind)
  if (atom === 'dmma') return DMMA
  const { d, a, b, k } = kind
  const cells = cellsOf(d, 8)
  const [type, constraint] = CELL[d]
  const [x, y] = [`{${registers(4, (i) => `%${cells + i}`)}}`, `{%${cells + 4}, %${cells + 5}}`]
  const own = `{${registers(cells, (i) => `%${i}`)}}`
  return inline(
    `void ${mmaName(kind)}(${type}* d, const u32* a, const u32* b)`,
    `  asm volatile("mma.sync.aligned.m16n8k${k}.row.col.${d}.${a}.${b}.${d} ${own}, ${x}, ${y}, ${own};"\n` +
      `    : ${registers(cells, (i) => `"+${constraint}"(d[${i}])`)}\n` +
      `    : ${registers(4, (i) => `"r"(a[${i}])`)}, "r"(b[0]), "r"(b[1]));`,
  )
}
