/**
 * PTX wrappers of the SM100 kernels, by role. Only the ones a kernel uses are printed into it.
 * Spellings: PTX ISA 9.0; all of them are accepted by ptxas for sm_100a.
 */
const inline = (signature: string, body: string): string => `__device__ __forceinline__ ${signature} {\n${body}\n}`
const asm = (signature: string, template: string, operands: string, clobber = ' : "memory"'): string =>
  inline(signature, `  asm volatile("${template}" ::${operands}${operands ? '' : ' '}${clobber});`)

const registers = (count: number, format: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => format(i)).join(', ')

/**
 * `tcgen05.ld` of 32 lanes x `columns` 32-bit columns, with its wait in the same statement: the registers are
 * undefined until the wait, and separate statements would leave the compiler free to use them in between.
 */
const tmemLoad = (columns: number): string =>
  inline(
    `void tcgen05_ld_x${columns}(u32 (&r)[${columns}], u32 taddr)`,
    `  asm volatile("tcgen05.ld.sync.aligned.32x32b.x${columns}.b32 "\n` +
      `    "{${registers(columns, (i) => `%${i}`)}}, [%${columns}];\\n\\t"\n` +
      `    "tcgen05.wait::ld.sync.aligned;"\n` +
      `    : ${registers(columns, (i) => `"=r"(r[${i}])`)}\n    : "r"(taddr) : "memory");`,
  )

const coordinates = (rank: number, first: number): { params: string; template: string; operands: string } => ({
  params: registers(rank, (i) => `int c${i}`),
  template: registers(rank, (i) => `%${first + i}`),
  operands: registers(rank, (i) => `"r"(c${i})`),
})

/** Box of a tensor map → shared memory; counts its bytes on the mbarrier (PTX ISA 9.7.9.27). Innermost coordinate first. */
const tmaLoad = (rank: number): string => {
  const { params, template, operands } = coordinates(rank, 3)
  return inline(
    `void tma_load_${rank}d(u32 dst, const TensorMap* map, u32 barrier, ${params})`,
    `  asm volatile("cp.async.bulk.tensor.${rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {${template}}], [%2];"\n` +
      `    ::"r"(dst), "l"(map), "r"(barrier), ${operands} : "memory");`,
  )
}

const tmaStore = (rank: number): string => {
  const { params, template, operands } = coordinates(rank, 2)
  return inline(
    `void tma_store_${rank}d(const TensorMap* map, u32 src, ${params})`,
    `  asm volatile("cp.async.bulk.tensor.${rank}d.global.shared::cta.tile.bulk_group [%0, {${template}}], [%1];"\n` +
      `    ::"l"(map), "r"(src), ${operands} : "memory");`,
  )
}

export const PTX_WRAPPERS: Readonly<Record<string, string>> = {
  shared_address: inline('u32 shared_address(const void* p)', '  return static_cast<u32>(__cvta_generic_to_shared(p));'), // prettier-ignore
  elect_one: inline(
    'bool elect_one()',
    '  u32 elected;\n  asm volatile("{\\n\\t.reg .pred p;\\n\\telect.sync _|p, 0xffffffff;\\n\\tselp.u32 %0, 1, 0, p;\\n\\t}" : "=r"(elected));\n  return elected != 0;',
  ),
  mbarrier_init: asm('void mbarrier_init(u32 barrier, u32 arrivals)', 'mbarrier.init.shared::cta.b64 [%0], %1;', '"r"(barrier), "r"(arrivals)'), // prettier-ignore
  fence_mbarrier_init: asm('void fence_mbarrier_init()', 'fence.mbarrier_init.release.cluster;', ''), // prettier-ignore
  mbarrier_arrive: asm('void mbarrier_arrive(u32 barrier)', 'mbarrier.arrive.shared::cta.b64 _, [%0];', '"r"(barrier)'), // prettier-ignore
  mbarrier_arrive_expect_tx: asm('void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes)', 'mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;', '"r"(barrier), "r"(bytes)'), // prettier-ignore
  mbarrier_wait:
    '// Returns once the phase with this parity has completed. A fresh barrier passes parity 1 at once.\n' +
    inline(
      'void mbarrier_wait(u32 barrier, u32 parity)',
      '  u32 done;\n  do {\n    asm volatile("{\\n\\t.reg .pred p;\\n\\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\n\\tselp.u32 %0, 1, 0, p;\\n\\t}"\n      : "=r"(done) : "r"(barrier), "r"(parity) : "memory");\n  } while (done == 0);',
    ),
  prefetch_map: asm('void prefetch_map(const TensorMap* map)', 'prefetch.tensormap [%0];', '"l"(map)'), // prettier-ignore
  tma_load_2d: tmaLoad(2),
  tma_load_3d: tmaLoad(3),
  tma_store_2d: tmaStore(2),
  tma_store_3d: tmaStore(3),
  bulk_commit: asm('void bulk_commit()', 'cp.async.bulk.commit_group;', ''),
  bulk_wait_read: `template <int PENDING>\n${asm('void bulk_wait_read()', 'cp.async.bulk.wait_group.read %0;', '"n"(PENDING)')}`,
  bulk_wait: asm('void bulk_wait()', 'cp.async.bulk.wait_group 0;', ''),
  fence_proxy_async: `// Makes this thread's shared-memory writes visible to the async proxy (TMA).\n${asm('void fence_proxy_async()', 'fence.proxy.async.shared::cta;', '')}`,
  load_shared: inline('u32 load_shared(u32 address)', '  u32 value;\n  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");\n  return value;'), // prettier-ignore
  store_shared_v4: asm('void store_shared_v4(u32 address, u32 x, u32 y, u32 z, u32 w)', 'st.shared.v4.b32 [%0], {%1, %2, %3, %4};', '"r"(address), "r"(x), "r"(y), "r"(z), "r"(w)'), // prettier-ignore
  store_shared_b16: asm('void store_shared_b16(u32 address, unsigned short x)', 'st.shared.b16 [%0], %1;', '"r"(address), "h"(x)'), // prettier-ignore
  store_shared_b32: asm('void store_shared_b32(u32 address, u32 x)', 'st.shared.b32 [%0], %1;', '"r"(address), "r"(x)'), // prettier-ignore
  tcgen05_alloc: asm('void tcgen05_alloc(u32 slot, u32 columns)', 'tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;', '"r"(slot), "r"(columns)'), // prettier-ignore
  tcgen05_relinquish: asm('void tcgen05_relinquish()', 'tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;', ''), // prettier-ignore
  tcgen05_dealloc: asm('void tcgen05_dealloc(u32 taddr, u32 columns)', 'tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;', '"r"(taddr), "r"(columns)'), // prettier-ignore
  tcgen05_fence_before: asm('void tcgen05_fence_before()', 'tcgen05.fence::before_thread_sync;', ''), // prettier-ignore
  tcgen05_fence_after: asm('void tcgen05_fence_after()', 'tcgen05.fence::after_thread_sync;', ''), // prettier-ignore
  tcgen05_commit: `// Arrives on the barrier once every MMA that this thread issued before is done.\n${asm('void tcgen05_commit(u32 barrier)', 'tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];', '"r"(barrier)')}`,
  tcgen05_mma_f16:
    '// D[tmem] = A * B + (accumulate ? D : 0), one thread issues it for the CTA.\n' +
    inline(
      'void tcgen05_mma_f16(u32 d, u64 a, u64 b, u32 idesc, bool accumulate)',
      '  asm volatile("{\\n\\t.reg .pred p;\\n\\tsetp.ne.u32 p, %4, 0;\\n\\ttcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\\n\\t}"\n    ::"r"(d), "l"(a), "l"(b), "r"(idesc), "r"(static_cast<u32>(accumulate)) : "memory");',
    ),
  tcgen05_ld_x32: tmemLoad(32),
  smem_descriptor:
    '// Shared-memory matrix descriptor, 128-byte swizzle (PTX ISA 9.7.16.4.1): byte offsets in units of 16.\n' +
    inline(
      'u64 smem_descriptor(u32 address, u32 leading_bytes, u32 stride_bytes)',
      '  return u64((address & 0x3FFFF) >> 4) | u64(leading_bytes >> 4) << 16 | u64(stride_bytes >> 4) << 32 | u64(1) << 46 | u64(2) << 61;',
    ),
}

/** Text of the wrappers in `used`, in table order. */
export function printWrappers(used: ReadonlySet<string>): string[] {
  for (const name of used) if (!(name in PTX_WRAPPERS)) throw new Error(`no PTX wrapper '${name}'`)
  return Object.entries(PTX_WRAPPERS).flatMap(([name, text]) => (used.has(name) ? [text] : []))
}
