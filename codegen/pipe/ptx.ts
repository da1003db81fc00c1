/**
 * PTX wrappers of tensor-core kernels, by role. Only the ones a kernel uses are printed into it.
 * Spellings: PTX ISA 9.0; all of them are accepted by ptxas for sm_90a and sm_100a, but for `pair`.
 */

export const inline = (signature: string, body: string): string =>
  `__device__ __forceinline__ ${signature} {\n${body}\n}`
export const asm = (signature: string, template: string, operands: string, clobber = ' : "memory"'): string =>
  inline(signature, `  asm volatile("${template}" ::${operands}${operands ? '' : ' '}${clobber});`)

export const registers = (count: number, format: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => format(i)).join(', ')

const coordinates = (rank: number, first: number): { params: string; template: string; operands: string } => ({
  params: registers(rank, (i) => `int c${i}`),
  template: registers(rank, (i) => `%${first + i}`),
  operands: registers(rank, (i) => `"r"(c${i})`),
})

/**
 * Box of a tensor map → shared memory; counts its bytes on the mbarrier (PTX ISA 9.7.9.27). Innermost coordinate first.
 * `pair`: the mbarrier may be the other CTA's; `multicast`: to the same place in all CTAs of the mask.
 */
const tmaLoad = (rank: number, { pair = false, multicast = false } = {}): string => {
  const { params, template, operands } = coordinates(rank, 3)
  const space = pair || multicast ? 'cluster' : 'cta'
  const name = `tma_load_${rank}d${pair ? '_pair' : ''}${multicast ? '_multicast' : ''}`
  const mask = 3 + rank
  return inline(
    `void ${name}(u32 dst, const TensorMap* map, u32 barrier, ${params}${multicast ? ', u16 mask' : ''})`,
    `  asm volatile("cp.async.bulk.tensor.${rank}d${pair ? '.cta_group::2' : ''}.shared::${space}` +
      `.global.tile.mbarrier::complete_tx::bytes${multicast ? '.multicast::cluster' : ''} [%0], [%1, {${template}}],` +
      ` [%2]${multicast ? `, %${mask}` : ''};"\n` +
      `    ::"r"(dst), "l"(map), "r"(barrier), ${operands}${multicast ? ', "h"(mask)' : ''} : "memory");`,
  )
}

const waitLoop = (name: string, scope: string): string =>
  inline(
    `void ${name}(u32 barrier, u32 parity)`,
    '  u32 done;\n  do {\n' +
      `    asm volatile("{\\n\\t.reg .pred p;\\n\\tmbarrier.try_wait.parity${scope}.shared::cta.b64 p, [%1],` +
      ' %2;\\n\\tselp.u32 %0, 1, 0, p;\\n\\t}"\n' +
      '      : "=r"(done) : "r"(barrier), "r"(parity) : "memory");\n' +
      '  } while (done == 0);',
  )

const tmaStore = (rank: number): string => {
  const { params, template, operands } = coordinates(rank, 2)
  return inline(
    `void tma_store_${rank}d(const TensorMap* map, u32 src, ${params})`,
    `  asm volatile("cp.async.bulk.tensor.${rank}d.global.shared::cta.tile.bulk_group [%0, {${template}}], [%1];"\n` +
      `    ::"l"(map), "r"(src), ${operands} : "memory");`,
  )
}

const tmaPrefetch = (rank: number): string => {
  const { params, template, operands } = coordinates(rank, 1)
  return inline(
    `void tma_prefetch_${rank}d(const TensorMap* map, ${params})`,
    `  asm volatile("cp.async.bulk.prefetch.tensor.${rank}d.L2.global.tile [%0, {${template}}];"\n` +
      `    ::"l"(map), ${operands} : "memory");`,
  )
}

/** Who is who, and mbarriers. */
export const SYNC_WRAPPERS: Readonly<Record<string, string>> = {
  shared_address: inline(
    'u32 shared_address(const void* p)',
    '  return static_cast<u32>(__cvta_generic_to_shared(p));',
  ),
  elect_one: inline(
    'bool elect_one()',
    '  u32 elected;\n  asm volatile("{\\n\\t.reg .pred p;\\n\\telect.sync _|p, 0xffffffff;\\n\\tselp.u32 %0, 1, 0,' +
      ' p;\\n\\t}" : "=r"(elected));\n' +
      '  return elected != 0;',
  ),
  mbarrier_init: asm(
    'void mbarrier_init(u32 barrier, u32 arrivals)',
    'mbarrier.init.shared::cta.b64 [%0], %1;',
    '"r"(barrier), "r"(arrivals)',
  ),
  fence_mbarrier_init: asm('void fence_mbarrier_init()', 'fence.mbarrier_init.release.cluster;', ''),
  mbarrier_arrive: asm('void mbarrier_arrive(u32 barrier)', 'mbarrier.arrive.shared::cta.b64 _, [%0];', '"r"(barrier)'),
  mbarrier_arrive_expect_tx: asm(
    'void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes)',
    'mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;',
    '"r"(barrier), "r"(bytes)',
  ),
  mbarrier_wait: `// Returns once the phase with this parity has completed. A fresh barrier passes parity 1 at once.\n${waitLoop('mbarrier_wait', '')}`,
  // Sees what other CTAs did before they arrived.
  mbarrier_wait_cluster: waitLoop('mbarrier_wait_cluster', '.acquire.cluster'),
  cluster_rank_of: inline(
    'u32 cluster_rank_of()',
    '  u32 rank;\n  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));\n  return rank;',
  ),
  cluster_size_of: inline(
    'u32 cluster_size_of()',
    '  u32 size;\n  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));\n  return size;',
  ),
  // The inits have their own release (fence.mbarrier_init): one of the barrier would wait for all memory, 1,000 cycles.
  cluster_start: asm(
    'void cluster_start()',
    'barrier.cluster.arrive.relaxed.aligned;\\n\\tbarrier.cluster.wait.acquire.aligned;',
    '',
  ),
  cluster_sync: asm(
    'void cluster_sync()',
    'barrier.cluster.arrive.release.aligned;\\n\\tbarrier.cluster.wait.acquire.aligned;',
    '',
  ),
  remote_address: inline(
    'u32 remote_address(u32 address, u32 rank)',
    '  u32 remote;\n  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));\n  return remote;',
  ),
  mbarrier_arrive_remote: asm(
    'void mbarrier_arrive_remote(u32 barrier)',
    'mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];',
    '"r"(barrier)',
  ),
  mbarrier_arrive_cluster:
    '// On the barrier of any CTA of the cluster; orders no memory beyond the own CTA, which costs a quarter of a release there.\n' +
    asm('void mbarrier_arrive_cluster(u32 barrier)', 'mbarrier.arrive.shared::cluster.b64 _, [%0];', '"r"(barrier)'),
  mbarrier_arrive_expect_tx_remote: asm(
    'void mbarrier_arrive_expect_tx_remote(u32 barrier, u32 bytes)',
    'mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;',
    '"r"(barrier), "r"(bytes)',
  ),
}

/** Of shared memory, to an array of registers. */
export const loadMatrices = (transposed: boolean): string =>
  inline(
    `void ldmatrix_x4${transposed ? '_trans' : ''}(u32* r, u32 address)`,
    `  asm volatile("ldmatrix.sync.aligned.m8n8.x4${transposed ? '.trans' : ''}.shared.b16 {%0, %1, %2, %3}, [%4];"\n` +
      '    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");',
  )

/** Of two matrices, addresses are those of lanes 0 to 15. */
const ofMatrices = (matrices: 2 | 4, section: string): string =>
  matrices === 2
    ? ''
    : `// Four 8 x 8 matrices of 16-bit elements (PTX ISA ${section}): lane l has the address of row l % 8 of matrix l / 8.\n`

/** The same, to words. */
const loadWords = (matrices: 2 | 4, transposed: boolean): string => {
  const words = registers(matrices, (i) => `"=r"(v.${'xyzw'[i]})`)
  return (
    ofMatrices(matrices, '9.7.14.5.15') +
    inline(
      `uint${matrices} ldmatrix_x${matrices}${transposed ? '_trans' : ''}(u32 address)`,
      `  uint${matrices} v;\n  asm volatile("ldmatrix.sync.aligned.m8n8.x${matrices}${transposed ? '.trans' : ''}.shared.b16` +
        ` {${registers(matrices, (i) => `%${i}`)}}, [%${matrices}];" : ${words} : "r"(address) : "memory");\n` +
        '  return v;',
    )
  )
}

const storeMatrices = (matrices: 2 | 4, transposed: boolean): string => {
  const of = (text: (word: string) => string): string => registers(matrices, (i) => text('abcd'[i]!))
  return (
    ofMatrices(matrices, '9.7.14.5.16') +
    asm(
      `void stmatrix_x${matrices}${transposed ? '_trans' : ''}(u32 address, ${of((word) => `u32 ${word}`)})`,
      `stmatrix.sync.aligned.m8n8.x${matrices}${transposed ? '.trans' : ''}.shared.b16 [%0], {${registers(matrices, (i) => `%${i + 1}`)}};`,
      `"r"(address), ${of((word) => `"r"(${word})`)}`,
    )
  )
}

/** Copies so many bytes, or zeros where it is not `inside`. */
const copyIf = (bytes: 4 | 8): string =>
  asm(
    `void cp_async_${bytes}_if(u32 dst, const void* src, bool inside)`,
    `{\\n.reg .pred p;\\nsetp.eq.u32 p, %2, 0;\\ncp.async.ca.shared.global [%0], [%1], ${bytes}, p;\\n}`,
    '"r"(dst), "l"(src), "r"((u32)inside)',
  )

/** Copies so many of 4 or 8 bytes and fills the rest with zeros. */
const copyUpTo = (bytes: 4 | 8): string =>
  asm(
    `void cp_async_${bytes}(u32 dst, const void* src, u32 bytes)`,
    `cp.async.ca.shared.global [%0], [%1], ${bytes}, %2;`,
    '"r"(dst), "l"(src), "r"(bytes)',
  )

/** By L2 alone, or through L1, for what all tiles of a CTA ask for. */
const CACHE = { '': 'cg', _cached: 'ca' } as const

const copyPiece = (name: keyof typeof CACHE): string =>
  `// Copies \`bytes\` of 16 and fills the rest with zeros (PTX ISA 9.7.9.25.3).\n` +
  asm(
    `void cp_async_16${name}(u32 dst, const void* src, u32 bytes)`,
    `cp.async.${CACHE[name]}.shared.global [%0], [%1], 16, %2;`,
    '"r"(dst), "l"(src), "r"(bytes)',
  )

const copyPieceIf = (name: keyof typeof CACHE): string =>
  '// Copies 16 bytes, or zeros where not `inside`; nothing where not `whole`.\n' +
  asm(
    `void cp_async_16${name}_if(u32 dst, const void* src, bool inside, bool whole)`,
    '{\\n.reg .pred p, q;\\nsetp.eq.u32 p, %2, 0;\\nsetp.ne.u32 q, %3, 0;\\n' +
      `@q cp.async.${CACHE[name]}.shared.global [%0], [%1], 16, p;\\n}`,
    '"r"(dst), "l"(src), "r"((u32)inside), "r"((u32)whole)',
  )

/** TMA, and generic accesses to shared memory. */
export const COPY_WRAPPERS: Readonly<Record<string, string>> = {
  cp_async_16: copyPiece(''),
  cp_async_16_cached: copyPiece('_cached'),
  chunk_bytes:
    '// Of chunk `c` of those around a row that has `left` bytes, and begins `shift` bytes behind the first one.\n' +
    inline(
      'u32 chunk_bytes(u32 left, u32 shift, u32 c)',
      '  return left > 0 ? min(max(static_cast<int>(left + shift - c * 16), 0), 16) : 0;',
    ),
  cp_async_16_if: copyPieceIf(''),
  cp_async_16_cached_if: copyPieceIf('_cached'),
  anew:
    '// What depends on it is computed where it is used, and not kept in registers around loops.\n' +
    inline('u32 anew(u32 x)', '  asm volatile("" : "+r"(x));\n  return x;'),
  cp_async_8_if: copyIf(8),
  cp_async_4_if: copyIf(4),
  cp_async_8: copyUpTo(8),
  cp_async_4: copyUpTo(4),
  mbarrier_arrive_copied:
    '// Once all copies of this thread have landed (PTX ISA 9.7.13.15.17); it counts among the arrivals that the barrier was made for.\n' +
    asm('void mbarrier_arrive_copied(u32 barrier)', 'cp.async.mbarrier.arrive.noinc.shared.b64 [%0];', '"r"(barrier)'),
  prefetch_map: asm('void prefetch_map(const TensorMap* map)', 'prefetch.tensormap [%0];', '"l"(map)'),
  ...Object.fromEntries(
    [2, 3, 4, 5].flatMap((rank) =>
      [{}, { pair: true }, { multicast: true }, { pair: true, multicast: true }].map((form) => [
        `tma_load_${rank}d${'pair' in form ? '_pair' : ''}${'multicast' in form ? '_multicast' : ''}`,
        tmaLoad(rank, form),
      ]),
    ),
  ),
  tma_prefetch_2d: tmaPrefetch(2),
  tma_prefetch_3d: tmaPrefetch(3),
  tma_store_2d: tmaStore(2),
  tma_store_3d: tmaStore(3),
  tma_store_4d: tmaStore(4),
  bulk_commit: asm('void bulk_commit()', 'cp.async.bulk.commit_group;', ''),
  bulk_wait_read: `template <int PENDING>\n${asm('void bulk_wait_read()', 'cp.async.bulk.wait_group.read %0;', '"n"(PENDING)')}`,
  bulk_wait: asm('void bulk_wait()', 'cp.async.bulk.wait_group 0;', ''),
  fence_proxy_async:
    `// Makes this thread's shared-memory writes visible to the async proxy (TMA).\n` +
    asm('void fence_proxy_async()', 'fence.proxy.async.shared::cta;', ''),
  load_shared: inline(
    'u32 load_shared(u32 address)',
    '  u32 value;\n  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");\n  return value;',
  ),
  load_shared_v2: inline(
    'uint2 load_shared_v2(u32 address)',
    '  uint2 v;\n  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");\n  return v;',
  ),
  load_shared_b16: inline(
    'u32 load_shared_b16(u32 address)',
    '  u16 value;\n  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(value) : "r"(address) : "memory");\n  return value;',
  ),
  ldmatrix_x4:
    '// Four 8 x 8 matrices of 16-bit elements, or of pairs of bytes or half words (PTX ISA 9.7.14.5.15): lane l has the\n' +
    `// address of row l % 8 of matrix l / 8.\n${loadMatrices(false)}`,
  ldmatrix_x4_words: loadWords(4, false),
  ldmatrix_x4_trans_words: loadWords(4, true),
  ldmatrix_x2_words: loadWords(2, false),
  ldmatrix_x2_trans_words: loadWords(2, true),
  store_shared_v4: asm(
    'void store_shared_v4(u32 address, u32 x, u32 y, u32 z, u32 w)',
    'st.shared.v4.b32 [%0], {%1, %2, %3, %4};',
    '"r"(address), "r"(x), "r"(y), "r"(z), "r"(w)',
  ),
}

/** Threads of one role. */
export const ROLE_WRAPPERS: Readonly<Record<string, string>> = {
  role_sync: `// Barrier 0 is that of __syncthreads.\n${asm('void role_sync(u32 threads)', 'bar.sync 1, %0;', '"r"(threads)')}`,
}

/** Parts of k that meet in global memory. */
export const EXCHANGE_WRAPPERS: Readonly<Record<string, string>> = {
  warpgroup_sync: asm(
    'void warpgroup_sync(u32 barrier, u32 threads)',
    'bar.sync %0, %1;',
    '"r"(barrier), "r"(threads)',
  ),
  // In L2, where the other parts are looked for; weak accesses, which `count_part` orders.
  store_part: asm(
    'void store_part(uint4* to, uint4 v)',
    'st.global.cg.v4.u32 [%0], {%1, %2, %3, %4};',
    '"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)',
  ),
  load_part: inline(
    'uint4 load_part(const uint4* from)',
    '  uint4 v;\n  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z),' +
      ' "=r"(v.w) : "l"(from) : "memory");\n' +
      '  return v;',
  ),
  count_part:
    '// Parts that were counted before this one; behind the last of them the count is 0 again. The last one sees what all have written before,\n' +
    '// threads that met this one among them: causality order goes through barriers (PTX ISA 8.9.4).\n' +
    inline(
      'u32 count_part(u32* count, u32 last)',
      '  u32 before;\n' +
        '  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(count), "r"(last) : "memory");\n' +
        '  return before;',
    ),
  parts_counted: inline(
    'u32 parts_counted(const u32* count)',
    '  u32 counted;\n' +
      '  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(counted) : "l"(count) : "memory");\n' +
      '  return counted;',
  ),
  leave_parts: asm(
    'void leave_parts(u32* count, u32 last)',
    'red.relaxed.gpu.global.inc.u32 [%0], %1;',
    '"l"(count), "r"(last)',
  ),
  role_any:
    '// Is it so for any of the threads that meet here?\n' +
    inline(
      'bool role_any(u32 barrier, u32 threads, bool mine)',
      '  u32 any;\n' +
        '  asm volatile("{\\n\\t.reg .pred p, q;\\n\\tsetp.ne.u32 q, %3, 0;\\n\\tbar.red.or.pred p, %1, %2, q;\\n\\tselp.u32 %0, 1, 0, p;\\n\\t}"\n' +
        '    : "=r"(any) : "r"(barrier), "r"(threads), "r"(static_cast<u32>(mine)) : "memory");\n' +
        '  return any != 0;',
    ),
}

/** Shared memory to registers; memory to L2. */
export const VECTOR_LOADS: Readonly<Record<string, string>> = {
  prefetch_line: asm('void prefetch_line(const void* at)', 'prefetch.global.L2 [%0];', '"l"(at)'),
  load_shared_b32: inline(
    'u32 load_shared_b32(u32 address)',
    '  u32 x;\n  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");\n  return x;',
  ),
  load_shared_v4: inline(
    'uint4 load_shared_v4(u32 address)',
    '  uint4 v;\n  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z),' +
      ' "=r"(v.w) : "r"(address) : "memory");\n' +
      '  return v;',
  ),
  load_turned:
    '// Four bytes out of two words.\n' +
    inline(
      'u32 load_turned(u32 address, u32 turn)',
      '  u32 low, high;\n  asm volatile("ld.shared.b32 %0, [%2];\\n\\tld.shared.b32 %1, [%2 + 4];"' +
        ' : "=r"(low), "=r"(high) : "r"(address) : "memory");\n  return __funnelshift_r(low, high, turn);',
    ),
}

export const DESCRIPTOR_WRAPPERS: Readonly<Record<string, string>> = {
  smem_descriptor:
    '// Shared-memory matrix descriptor (PTX ISA 9.7.16.4.1): the start address, in units of 16 bytes, under the layout bits.\n' +
    inline('u64 smem_descriptor(u32 address, u64 layout)', '  return layout | ((address & 0x3FFFF) >> 4);'),
  with_low:
    '// Its upper half is a constant, which registers do not carry.\n' +
    inline('u64 with_low(u64 layout, u32 low)', '  return (layout >> 32 << 32) | low;'),
}

/** One instruction, as the compiler makes four of what it takes for a copy of a struct (measured: 22 of 203 us). */
const STORE_V4 = 'st.global.v4.b32 [%0], {%1, %2, %3, %4};'
const V4 = '"l"(to), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)'

/** Predicated, so that no branch parts it from those of other rows. */
const storeGlobalIf = (bits: number): string =>
  asm(
    `void store_global_b${bits}_if(void* to, u32 value, bool condition)`,
    `{\\n.reg .pred p;\\nsetp.ne.u32 p, %2, 0;\\n@p st.global.b${bits} [%0], %1;\\n}`,
    '"l"(to), "r"(value), "r"((u32)condition)',
  )

const storeShared = (bits: number, type: string, constraint: string): string =>
  `__device__ __forceinline__ void store_shared_b${bits}(u32 address, ${type} x) {
  asm volatile("st.shared.b${bits} [%0], %1;" ::"r"(address), "${constraint}"(x) : "memory");
}`

/** Parts of a sub-tile to the staging buffer. */
export const STORE_WRAPPERS: Readonly<Record<string, string>> = {
  bits_of: inline(
    'u32 bits_of(float x)',
    '  u32 bits;\n  asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(x));\n  return bits;',
  ),
  // PTX has no 8-bit registers: a wider one is truncated.
  store_shared_b8: storeShared(8, 'u32', 'r'),
  store_shared_b16: storeShared(16, 'unsigned short', 'h'),
  store_shared_b32: storeShared(32, 'u32', 'r'),
  store_shared_v2: asm(
    'void store_shared_v2(u32 address, u32 x, u32 y)',
    'st.shared.v2.b32 [%0], {%1, %2};',
    '"r"(address), "r"(x), "r"(y)',
  ),
  store_global_v4: asm('void store_global_v4(void* to, uint4 value)', STORE_V4, V4),
  store_global_v4_if: asm(
    'void store_global_v4_if(void* to, uint4 value, bool condition)',
    `{\\n.reg .pred p;\\nsetp.ne.u32 p, %5, 0;\\n@p ${STORE_V4}\\n}`,
    `${V4}, "r"((u32)condition)`,
  ),
  store_global_b8_if: storeGlobalIf(8),
  store_global_b16_if: storeGlobalIf(16),
  store_global_b32_if: storeGlobalIf(32),
  stmatrix_x4: storeMatrices(4, false),
  stmatrix_x4_trans: storeMatrices(4, true),
  stmatrix_x2: storeMatrices(2, false),
  stmatrix_x2_trans: storeMatrices(2, true),
}

/** Groups of asynchronous copies of a thread. */
export const COPY_GROUP_WRAPPERS: Readonly<Record<string, string>> = {
  cp_async_commit: asm('void cp_async_commit()', 'cp.async.commit_group;', ''),
  cp_async_wait: `template <int PENDING>\n${asm('void cp_async_wait()', 'cp.async.wait_group %0;', '"n"(PENDING)')}`,
}
