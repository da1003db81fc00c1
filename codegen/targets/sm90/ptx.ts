/** PTX wrappers of the SM90 kernels: warpgroup MMAs and registers beside the common ones. */
import type { WgmmaKind } from '../../../compiler/targets/sm90/mma.ts'
import { CELL, cellsOf } from '../../pipe/fragments.ts'
import {
  asm,
  COPY_GROUP_WRAPPERS,
  COPY_WRAPPERS,
  EXCHANGE_WRAPPERS,
  DESCRIPTOR_WRAPPERS,
  inline,
  registers,
  STORE_WRAPPERS,
  SYNC_WRAPPERS,
  VECTOR_LOADS,
  ROLE_WRAPPERS,
} from '../../pipe/ptx.ts'

export const SM90_WRAPPERS: Readonly<Record<string, string>> = {
  ...SYNC_WRAPPERS,
  ...COPY_WRAPPERS,
  ...DESCRIPTOR_WRAPPERS,
  ...STORE_WRAPPERS,
  ...COPY_GROUP_WRAPPERS,
  wgmma_fence: `// Orders earlier accesses to the accumulators before the MMAs that follow.\n${asm('void wgmma_fence()', 'wgmma.fence.sync.aligned;', '')}`,
  wgmma_commit: asm('void wgmma_commit()', 'wgmma.commit_group.sync.aligned;', ''),
  wgmma_wait_behind: `// The newest group may stay under way.\n${asm('void wgmma_wait_behind()', 'wgmma.wait_group.sync.aligned 1;', '')}`,
  ...ROLE_WRAPPERS,
  ...EXCHANGE_WRAPPERS,
  ...VECTOR_LOADS,
  // Weak stores of the generic proxy whose bytes count on the barrier of the same CTA as they land (PTX ISA, st.async).
  store_async_v4: asm(
    'void store_async_v4(u32 address, u32 barrier, u32 x, u32 y, u32 z, u32 w)',
    'st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%2, %3, %4, %5}, [%1];',
    '"r"(address), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)',
  ),
}

export interface Transposed {
  readonly a: boolean
  readonly b: boolean
}

export function wgmmaName({ d, a, b, k }: WgmmaKind, n: number, transposed: Transposed): string {
  return `wgmma_m64n${n}k${k}_${d}_${a}_${b}${transposed.a ? '_ta' : ''}${transposed.b ? '_tb' : ''}`
}

/** D = A * B + (accumulate ? D : 0), asynchronously, by a warpgroup (PTX ISA 9.7.15.5.2). Both operands in shared memory. */
export function wgmmaText(kind: WgmmaKind, n: number, transposed: Transposed): string {
  const cells = cellsOf(kind.d, n)
  const [type, constraint] = CELL[kind.d]
  // Integers have neither signs nor transposes, 16-bit floats both.
  const signs = kind.d === 's32' ? '' : ', 1, 1'
  const transposes = kind.k === 16 ? `, ${+transposed.a}, ${+transposed.b}` : ''
  return inline(
    `void ${wgmmaName(kind, n, transposed)}(${type}* d, u64 a, u64 b, bool accumulate)`,
    `  asm volatile("{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %${cells + 2}, 0;\\n\\t"\n` +
      `    "wgmma.mma_async.sync.aligned.m64n${n}k${kind.k}.${kind.d}.${kind.a}.${kind.b} "\n` +
      `    "{${registers(cells, (i) => `%${i}`)}}, %${cells}, %${cells + 1}, p${signs}${transposes};\\n\\t}"\n` +
      `    : ${registers(cells, (i) => `"+${constraint}"(d[${i}])`)}\n` +
      `    : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate)));`,
  )
}

/** Waits for all groups. The registers are operands, so that no use of them moves above it. */
export function wgmmaWaitText(d: WgmmaKind['d'], cells: number): string {
  const [type, constraint] = CELL[d]
  return inline(
    `void wgmma_wait(${type}* d)`,
    `  asm volatile("wgmma.wait_group.sync.aligned 0;"\n    : ${registers(cells, (i) => `"+${constraint}"(d[${i}])`)} :: "memory");`,
  )
}
