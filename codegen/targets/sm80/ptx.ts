/** PTX wrappers of the SM80 kernels: asynchronous copies by threads, matrices from shared memory, warp MMAs. */
import type { WarpMmaKind } from '../../../compiler/targets/sm80/mma.ts'
import { CELL, cellsOf } from '../../pipe/fragments.ts'
import {
  COPY_WRAPPERS,
  COPY_GROUP_WRAPPERS,
  inline,
  registers,
  STORE_WRAPPERS,
  SYNC_WRAPPERS,
  VECTOR_LOADS,
} from '../../pipe/ptx.ts'

const loadMatrices = (transposed: boolean): string =>
  inline(
    `void ldmatrix_x4${transposed ? '_trans' : ''}(u32* r, u32 address)`,
    `  asm volatile("ldmatrix.sync.aligned.m8n8.x4${transposed ? '.trans' : ''}.shared.b16 {%0, %1, %2, %3}, [%4];"\n` +
      '    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");',
  )

export const SM80_WRAPPERS: Readonly<Record<string, string>> = {
  ...SYNC_WRAPPERS,
  ...COPY_WRAPPERS,
  ...STORE_WRAPPERS,
  ...COPY_GROUP_WRAPPERS,
  ldmatrix_x4:
    '// Four 8 x 8 matrices of 16-bit elements, or of pairs of bytes or half words (PTX ISA 9.7.14.5.15): lane l has the\n' +
    `// address of row l % 8 of matrix l / 8.\n${loadMatrices(false)}`,
  ldmatrix_x4_trans: loadMatrices(true),
  ...VECTOR_LOADS,
}

export const mmaName = ({ d, a, b, k }: WarpMmaKind): string => `mma_m16n8k${k}_${d}_${a}_${b}`

/** D += A * B by a warp (PTX ISA 9.7.14.5): 4 registers of A, 2 of B. */
export function mmaText(kind: WarpMmaKind): string {
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
