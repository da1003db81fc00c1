import { expect, test } from 'vitest'
import { decodeOne, encodeOne } from '../../compiler/codec.ts'
import type { NativeLaunch } from '../../runtime/addon/virtual.ts'
import { TestDevice, compileToPtx, differences, f32Bits } from './device.ts'
import { MAP_TYPES, ORDERS, SWIZZLES, type TestMap, encodeTensorMap, packedStrides, prelude } from './prelude.ts'

// Tensor copies, every one against an element-wise walk of the box.

const OPS = ['add', 'min', 'max', 'inc', 'dec', 'and', 'or', 'xor'] as const
const RANKS = [1, 2, 3, 4, 5]
const coordinates = (rank: number, first: number) =>
  RANKS.slice(0, rank)
    .map((_, i) => `%${first + i}`)
    .join(', ')
const inputs = (rank: number) =>
  RANKS.slice(0, rank)
    .map((_, i) => `"r"(c[${i}])`)
    .join(', ')
const storeOf = (op: string | null, rank: number) =>
  `asm volatile("cp.${op ? 'reduce.' : ''}async.bulk.tensor.${rank}d.global.shared::cta${op ? `.${op}` : ''}.bulk_group [%0, {${coordinates(rank, 2)}}], [%1];" :: "l"(&map), "r"(at), ${inputs(rank)} : "memory")`

const source = `${prelude}
extern "C" __global__ void box_load(const __grid_constant__ CUtensorMap map, const int* c, int rank, int offset, int bytes, u32* out, int words) {
  extern __shared__ __align__(1024) u32 image[]; __shared__ __align__(8) u64 bar;
  for (int i = threadIdx.x; i < words; i += 32) image[i] = 0xeeeeeeee;
  if (threadIdx.x == 0) init(smem(&bar), 1);
  proxyFence(); __syncthreads();
  if (threadIdx.x == 0) {
    expect(smem(&bar), bytes); u32 at = smem(image) + offset;
    switch (rank) {
      ${RANKS.map((r) => `case ${r}: asm volatile("cp.async.bulk.prefetch.tensor.${r}d.L2.global.tile [%0, {${coordinates(r, 1)}}];" :: "l"(&map), ${inputs(r)}); asm volatile("cp.async.bulk.tensor.${r}d.shared::${r % 2 ? 'cta' : 'cluster'}.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {${coordinates(r, 3)}}], [%2];" :: "r"(at), "l"(&map), "r"(smem(&bar)), ${inputs(r)} : "memory"); break;`).join('\n')}
    }
  }
  wait(smem(&bar), 0);
  if (threadIdx.x == 0) out[0] = smem(image);
  for (int i = threadIdx.x; i < words; i += 32) out[i + 4] = image[i];
}
extern "C" __global__ void box_store(const __grid_constant__ CUtensorMap map, const int* c, int rank, int op, int offset, const u32* in, int words, u32* out) {
  extern __shared__ __align__(1024) u32 image[];
  for (int i = threadIdx.x; i < words; i += 32) image[i] = in[i];
  proxyFence(); __syncthreads();
  if (threadIdx.x == 0) {
    u32 at = smem(image) + offset; out[0] = smem(image);
    switch (op * 8 + rank) {
      ${[null, ...OPS].flatMap((op, o) => RANKS.map((r) => `case ${o * 8 + r}: ${storeOf(op, r)}; break;`)).join('\n')}
    }
    asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncwarp();
  for (int i = threadIdx.x; i < words; i += 32) image[i] = 0;  // released
  __syncwarp();
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
`
const gpu = new TestDevice(compileToPtx(source))

// --- the walk

let state = 1
const random = (n: number) => (
  (state = (Math.imul(state, 1664525) + 1013904223) >>> 0),
  Math.floor((state / 2 ** 32) * n)
)
const randomBytes = (n: number) => Uint8Array.from({ length: n }, () => random(256))
const swizzled = (map: TestMap, address: number) =>
  map.swizzle?.startsWith('128B32')
    ? address ^ ((address & 0x180) >> 2) ^ (map.swizzle.endsWith('F') ? (address & 0x80) >> 4 : 0)
    : address ^
      ((address & [0, 0x80, 0x180, 0x380][SWIZZLES.findIndex((name) => name === (map.swizzle ?? 'none'))]!) >> 3)

interface Element {
  /** Byte offset from the map's address; meaningless outside. */
  readonly global: number
  /** Byte offset from the box's destination, before the swizzle. */
  readonly shared: number
  readonly inside: boolean
  /** Inside in every dimension but the innermost, and its coordinate there. */
  readonly rowInside: boolean
  readonly inner: number
}
function elementsOf(map: TestMap, start: readonly number[]): Element[] {
  const bytes = MAP_TYPES[map.type][1]
  const strides = [bytes, ...packedStrides(map)]
  const counts = map.box.map((box, d) => (d === 0 ? box : Math.ceil(box / (map.elementStrides?.[d] ?? 1))))
  const span = { none: 0, '32B': 32, '64B': 64, '128B': 128, '128B32': 128, '128B32F': 128, '128B64': 128 }[
    map.swizzle ?? 'none'
  ]
  const total = counts.reduce((x, y) => x * y)
  return Array.from({ length: total }, (_, index) => {
    let rest = index
    let global = 0
    const inside: boolean[] = []
    counts.forEach((count, d) => {
      const at = start[d]! + (rest % count) * (d === 0 ? 1 : (map.elementStrides?.[d] ?? 1))
      rest = Math.floor(rest / count)
      inside.push(at >= 0 && at < map.dims[d]!)
      global += at * strides[d]!
    })
    const shared = Math.floor(index / counts[0]!) * (span || counts[0]! * bytes) + (index % counts[0]!) * bytes
    const rowInside = inside.slice(1).every(Boolean)
    return { global, shared, inside: rowInside && inside[0]!, rowInside, inner: start[0]! + (index % counts[0]!) }
  })
}
const boxBytes = (map: TestMap, start: readonly number[]) => elementsOf(map, start).length * MAP_TYPES[map.type][1]
const extent = (map: TestMap) => {
  const strides = packedStrides(map)
  return map.dims.length === 1 ? map.dims[0]! * MAP_TYPES[map.type][1] : strides.at(-1)! * map.dims.at(-1)!
}

const TYPES = ['u8', 'u16', 'u32', 'f16', 'bf16', 'f32', 'f64', 'u64', 's32', 'f32.ftz'] as const
const FLOATS = new Set(['f16', 'bf16', 'f32', 'f64', 'f32.ftz'])
interface Case {
  readonly map: Omit<TestMap, 'address'>
  readonly start: number[]
  readonly offset: number
}
const ALL_SWIZZLES = [...SWIZZLES, '128B32', '128B32F'] as const
function randomCase(swizzle: (typeof ALL_SWIZZLES)[number], rank: number, index: number, isStore: boolean): Case {
  const type = TYPES[index % TYPES.length]!
  const bytes = MAP_TYPES[type][1]
  const unit = 16 / bytes
  const most = { none: 12, '32B': 2, '64B': 4, '128B': 8, '128B32': 8, '128B32F': 8 }[swizzle]
  const box = [Math.min(256, unit * (1 + random(most))), ...[9, 3, 2, 2].slice(0, rank - 1).map((n) => 1 + random(n))]
  const dims = box.map((b, d) => Math.max(1, b - 2 + random(d === 0 ? 2 * b : b + 3)))
  let stride = dims[0]! * bytes
  const strides = dims.slice(1).map((dim) => {
    const own = Math.ceil(stride / 16) * 16 + 16 * random(2)
    stride = own * dim
    return own
  })
  const elementStrides = index % 3 === 1 ? [1, ...box.slice(1).map(() => 1 + random(3))] : []
  const low = isStore ? 0 : 1
  const start = dims.map((dim, d) =>
    d === 0 ? unit * (random(Math.ceil(dim / unit) + 1 + 2 * low) - low) : random(dim + 1 + 2 * low) - low,
  )
  const nanFill = FLOATS.has(type) && index % 2 === 1
  return { map: { type, dims, box, strides, elementStrides, swizzle, nanFill }, start, offset: 128 * random(9) }
}
const cases = (isStore: boolean) =>
  ALL_SWIZZLES.flatMap((swizzle) =>
    RANKS.flatMap((rank) => Array.from({ length: 10 }, (_, i) => randomCase(swizzle, rank, i, isStore))),
  )
const WORDS = 6144
const launch = (i: number): Partial<NativeLaunch> => ({ sharedMemBytes: WORDS * 4, ...ORDERS[i % ORDERS.length] })

async function load(map: TestMap, start: readonly number[], offset: number, order: Partial<NativeLaunch>) {
  const out = gpu.allocate(16 + WORDS * 4)
  const c = gpu.upload(Int32Array.from({ length: 5 }, (_, i) => start[i] ?? 0))
  const params = [encodeTensorMap(map), c, map.dims.length, offset, boxBytes(map, start), out, WORDS]
  const { findings } = await gpu.run('box_load', params, order)
  const base = gpu.read(out, 1, Uint32Array)[0]!
  return { findings, base, image: gpu.read(out + 16n, WORDS * 4, Uint8Array) }
}
async function store(
  map: TestMap,
  start: readonly number[],
  offset: number,
  op: number,
  image: Uint8Array,
  order: Partial<NativeLaunch>,
) {
  const out = gpu.allocate(4)
  const c = gpu.upload(Int32Array.from({ length: 5 }, (_, i) => start[i] ?? 0))
  const params = [encodeTensorMap(map), c, map.dims.length, op, offset, gpu.upload(image), WORDS, out]
  const { findings } = await gpu.run('box_store', params, order)
  return { findings, base: gpu.read(out, 1, Uint32Array)[0]! }
}
const describe = ({ map, start, offset }: Case) => JSON.stringify({ ...map, start, offset })

test('loads of every swizzle and rank, out of bounds on all sides', async () => {
  for (const [i, one] of cases(false).entries()) {
    const { start, offset } = one
    const size = extent({ ...one.map, address: 0n })
    const data = randomBytes(Math.ceil(size / 16) * 16)
    const map = { ...one.map, address: gpu.upload(data) }
    const { findings, base, image } = await load(map, start, offset, launch(i))
    expect([describe(one), findings]).toEqual([describe(one), []])
    const expected = new Uint8Array(WORDS * 4).fill(0xee)
    const bytes = MAP_TYPES[map.type][1]
    for (const e of elementsOf(map, start))
      for (let b = 0; b < bytes; ++b)
        expected[swizzled(map, base + offset + e.shared + b) - base] = e.inside
          ? data[e.global + b]!
          : map.nanFill
            ? [0xf7, 0x7f][b % 2]!
            : 0
    expect([describe(one), differences(image, expected)]).toEqual([describe(one), []])
  }
})

test('stores of every swizzle and rank, clipped in 16-byte granules', async () => {
  for (const [i, one] of cases(true).entries()) {
    const { start, offset } = one
    const before = randomBytes(Math.ceil(extent({ ...one.map, address: 0n }) / 16) * 16)
    const map = { ...one.map, address: gpu.upload(before) }
    const image = randomBytes(WORDS * 4)
    const { findings, base } = await store(map, start, offset, 0, image, launch(i))
    expect([describe(one), findings]).toEqual([describe(one), []])
    const bytes = MAP_TYPES[map.type][1]
    const clip = (Math.ceil((map.dims[0]! * bytes) / 16) * 16) / bytes
    for (const e of elementsOf(map, start))
      if (e.rowInside && e.inner < clip)
        for (let b = 0; b < bytes; ++b)
          before[e.global + b] = image[swizzled(map, base + offset + e.shared + b) - base]!
    expect([describe(one), differences(gpu.read(map.address, before.length, Uint8Array), before)]).toEqual([
      describe(one),
      [],
    ])
  }
})

// --- reductions

type Reduce = (a: number, b: number) => number
const flush = (x: number) => (Math.abs(x) < 2 ** -126 ? 0 * Math.sign(x || 1 / x) : x)
const integerOps: Record<(typeof OPS)[number], Reduce> = {
  add: (a, b) => a + b,
  min: Math.min,
  max: Math.max,
  inc: (a, b) => (a >= b ? 0 : a + 1),
  dec: (a, b) => (a === 0 || a > b ? b : a - 1),
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
}
/** min and max drop a NaN operand; -0 is below +0. */
const pick =
  (max: boolean): Reduce =>
  (a, b) =>
    a !== a ? b : b !== b ? a : max ? Math.max(a, b) : Math.min(a, b)
const half =
  (dtype: 'f16' | 'bf16', f: Reduce): Reduce =>
  (a, b) =>
    encodeOne(dtype, f(decodeOne(dtype, a), decodeOne(dtype, b)))
const single =
  (f: Reduce): Reduce =>
  (a, b) => {
    const x = f(decodeOne('f32', a), decodeOne('f32', b))
    return x === x ? f32Bits(x) : 0x7fffffff
  }
const sum: Reduce = (a, b) => a + b
const REDUCTIONS: [TestMap['type'], (typeof OPS)[number], Reduce][] = [
  ...OPS.map((op) => ['u32', op, integerOps[op]] as [TestMap['type'], typeof op, Reduce]),
  ...(['add', 'min', 'max', 'and', 'or', 'xor'] as const).map((op): [TestMap['type'], typeof op, Reduce] => [
    's32',
    op,
    (a, b) => integerOps[op](a | 0, b | 0),
  ]),
  ...(['f16', 'bf16'] as const).flatMap((t): [TestMap['type'], (typeof OPS)[number], Reduce][] => [
    [t, 'add', half(t, sum)],
    [t, 'min', half(t, pick(false))],
    [t, 'max', half(t, pick(true))],
  ]),
  ['f32', 'add', single(sum)],
  ['f32.ftz', 'add', single((a, b) => flush(Math.fround(flush(a) + flush(b))))],
]

test.each(REDUCTIONS.map(([type, op, f], i) => [`${op}.${type}`, type, op, f, i] as const))(
  'reduction %s',
  async (_, type, op, f, index) => {
    const bytes = MAP_TYPES[type][1]
    const array = (bytes === 2 ? Uint16Array : Uint32Array) as Uint16ArrayConstructor
    const dims = [40, 12]
    const codes = (n: number) => array.from({ length: n }, () => [random(2 ** (8 * bytes)), random(40)][random(2)]!)
    const before = codes(dims[0]! * dims[1]!)
    const map: TestMap = {
      type,
      address: gpu.upload(before),
      dims,
      box: [32 / bytes, 10],
      swizzle: SWIZZLES[index % 3]!,
    }
    const image = codes((WORDS * 4) / bytes)
    const start = [16, 5]
    const { findings, base } = await store(
      map,
      start,
      256,
      1 + OPS.indexOf(op),
      new Uint8Array(image.buffer),
      launch(index),
    )
    expect(findings).toEqual([])
    for (const e of elementsOf(map, start))
      if (e.inside)
        before[e.global / bytes] = f(
          before[e.global / bytes]!,
          image[(swizzled(map, base + 256 + e.shared) - base) / bytes]!,
        )
    expect([...gpu.read(map.address, before.length, array)]).toEqual([...before])
  },
)

test('TFLOAT32 maps round to nearest even', async () => {
  const words = [0x3f801000, 0x3f801001, 0x3f803000, 0x7f7fffff, 0x7f800001, 0x00400000, 0x00001fff, 0xbf801fff]
  const rounded = [0x3f800000, 0x3f802000, 0x3f804000, 0x7f800000, 0x7fffe000, 0x00400000, 0x00002000, 0xbf802000]
  for (const type of ['tf32', 'tf32.ftz'] as const) {
    const map: TestMap = { type, address: gpu.upload(Uint32Array.from(words)), dims: [8], box: [8] }
    const { findings, image } = await load(map, [0], 0, launch(0))
    expect(findings).toEqual([])
    expect([...new Uint32Array(image.buffer, 0, 8)]).toEqual(rounded)
  }
})

const plain = (change: Partial<TestMap> = {}): TestMap => ({
  type: 'u16',
  address: gpu.allocate(64 * 64 * 2),
  dims: [64, 64],
  box: [64, 8],
  ...change,
})
const FAULTS: [string, TestMap, number[], number, 'load' | 'store' | 'reduce', string, RegExp][] = [
  ['a start that is not on 16 bytes', plain(), [1, 0], 0, 'load', 'KTL5011', /not a multiple of 16/],
  ['a store from a negative start', plain(), [0, -3], 0, 'store', 'KTL5011', /negative coordinate/],
  ['a reduction from a negative start', plain(), [-16, 0], 0, 'reduce', 'KTL5011', /negative coordinate/],
  ['shared memory at +64', plain(), [0, 0], 64, 'load', 'KTL5003', /multiple of 128/],
  ['a box that ends behind shared memory', plain(), [0, 0], WORDS * 4 - 128, 'store', 'KTL5002', /ends at shared address/],
  ['a tensor larger than its allocation', plain({ dims: [64, 2 ** 24] }), [0, 10_000_000], 0, 'load', 'KTL5001', /coordinates \{0, 10000000\}/],
  ['a store beyond the allocation', plain({ dims: [64, 4096] }), [0, 62], 0, 'store', 'KTL5001', /coordinates \{0, 62\}/],
  ['a box wider than its swizzle', plain({ swizzle: '64B' }), [0, 0], 0, 'load', 'KTL5011', /more than the span/],
  ['a box row of 8 bytes', plain({ box: [4, 8] }), [0, 0], 0, 'load', 'KTL5011', /not a multiple of 16/],
  ['NaN fill of integers', plain({ nanFill: true }), [0, 0], 0, 'load', 'KTL5011', /NaN fill/],
  ['a reduction that the type does not have', plain(), [0, 0], 0, 'reduce', 'KTL5011', /not defined/],
] // prettier-ignore
test.each(FAULTS)('finding: %s', async (_, map, start, offset, kind, code, message) => {
  const run = () =>
    kind === 'load'
      ? load(map, start, offset, launch(0))
      : store(map, start, offset, Number(kind === 'reduce'), new Uint8Array(WORDS * 4), launch(0))
  const { findings } = await run()
  expect(findings.map((f) => f.code)).toEqual([code])
  expect(findings[0]!.message).toMatch(message)
  expect(findings[0]!.cudaLine).toBeGreaterThan(0)
})
