/** Kernels whose tile programs and CUDA text are recorded: each form that planning and lowering can give a kernel, on each target. */
import type { Binding } from '../../compiler/bind.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import type { Instance } from '../../codegen/index.ts'
import type { Design } from '../../compiler/targets/index.ts'
import type { Sm100Design } from '../../compiler/targets/sm100/design.ts'
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import type { Divisibility, TensorProgram } from '../../compiler/ir/tensor.ts'
import { bound } from '../compiler/support.ts'
import { chain, FLOATS, HALF, INTEGERS, REDUCED } from './epilogue_sources.ts'
import { SIMT_PROGRAMS } from './programs.ts'

export interface GoldenCase {
  /** The target first: `sm90 fused in place`. */
  readonly name: string
  readonly instance: () => Instance
  /** Its text is recorded whole, not as a hash. */
  readonly whole: boolean
  /** Fields of the plan that make it the form it is named after; arrays and objects as far as they are given. */
  readonly plan: object
}

interface Choices<D extends Design> {
  readonly design?: Partial<D>
  readonly plan?: object
  readonly whole?: boolean
}
type Source = () => TensorProgram
type Tile = readonly [number, number]

interface Gemm {
  readonly a?: string
  readonly b?: string
  readonly out?: string
  /** Memory orders, innermost last. */
  readonly A?: string
  readonly B?: string
  readonly D?: readonly string[]
  /** Operands whose rows are packed without regard to 16 bytes. */
  readonly unaligned?: readonly string[]
  /** They are rows of whole words. */
  readonly to?: 'word'
}

/** All operands are aligned but `unaligned`. */
const of =
  (
    text: string,
    unaligned: readonly string[] = [],
    orders: Binding['orders'] = {},
    to: Divisibility = 'element',
  ): Source =>
  () =>
    bound(text, { orders, divisibility: Object.fromEntries(unaligned.map((name) => [name, to])) })

const gemm = ({ a = 'f16', b = a, out = a, A = 'm, k', B = 'n, k', D, unaligned, to }: Gemm = {}): Source =>
  of(`kernel gemm(A: ${a}[${A}], B: ${b}[${B}]) -> D: ${out}[m, n] { D = sum[k](A * B) }`, unaligned, D && { D }, to)

const FUSED_TEXT =
  'kernel fused(A: bf16[m, k], B: bf16[n, k], C: bf16[m, n], alpha: f32) -> D: bf16[m, n] { D = relu(sum[k](A * B) * alpha + C) }'
const FUSED = of(FUSED_TEXT)
/** The output is wider than the operand whose place it could take. */
const FUSED_WIDER = of(
  'kernel fused(A: bf16[m, k], B: bf16[n, k], C: bf16[m, n], alpha: f32) -> D: f32[m, n] { D = relu(sum[k](A * B) * alpha + C) }',
)
/** Operands whose blocks have scales; `tiled`: those whose scales lie in tiles. */
const scaled = (form: string, tiled: readonly string[], more = ''): Source =>
  of(
    `kernel scaled(A: ${form.replaceAll('x', 'm')}, B: ${form.replaceAll('x', 'n')}${more && `, G: ${form.replaceAll('x', 'n')}`}) -> D: bf16[m, n] {
  D = sum[k](A * B)${more}
}`,
    [],
    Object.fromEntries(tiled.map((name) => [`${name}.scale`, [name === 'A' ? 'm' : 'n', 'k', '32x4x4']])),
  )
const U4 = of('kernel weights(X: f16[m, k], W: (u4[k, n] - u4[k/64, n]) * f16[k/64, n]) -> D: f16[m, n] { D = sum[k](X * W) }') // prettier-ignore
const NVFP4 = of('kernel nvfp4(A: e2m1[m, k] * ue4m3[m, k/16] * f32, B: e2m1[n, k] * ue4m3[n, k/16]) -> D: f32[m, n] { D = sum[k](A * B) }') // prettier-ignore
const LOOKED_UP = of('kernel looked_up(X: bf16[t, k], ids: i32[m], u: f32[k], B: bf16[k, n]) -> D: f32[m, n] { D = sum[k](select(k < m, X[ids, k] * u, 1) * B) }') // prettier-ignore
const GROUPED = (A = 't, k'): Source => of(`kernel grouped(A: bf16[${A}] ragged t by off as g, B: bf16[g, n, k], bias: f32[g, n], off: i32[g]) -> D: bf16[t, n] { D = sum[k](A * B) + bias }`) // prettier-ignore
const PADDED = of('kernel padded(A: bf16[g, m, k] ragged m upto len as g, B: bf16[g, n, k], len: i32[g]) -> D: bf16[g, m, n] { D = sum[k](A * B) }') // prettier-ignore
const GRADIENT = (A = 't, k'): Source => of(`kernel gradient(A: bf16[${A}] ragged t by off as g, B: bf16[t, n], off: i32[g]) -> D: f32[g, k, n] { D = sum[t](A * B) }`) // prettier-ignore
const BLOCKS_OF_GROUPS = (type: string, scale: string, block: number): Source => of(`kernel gradient(A: ${type}[t, k] * ${scale}[t/${block}, k] ragged t by off as g, B: ${type}[t, n] * ${scale}[t/${block}, n], off: i32[g]) -> D: f32[g, k, n] { D = sum[t](A * B) }`) // prettier-ignore
const ROWS_OF_GROUPS = of('kernel rows(A: e4m3[t, k] * f32[t/128, k/128] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g]) -> D: e4m3[t, n] * ue8m0[t/32, n] { D = sum[k](A * B) }') // prettier-ignore
const ROWS = of('kernel rows(X: bf16[v, k], row: i32[t] ragged t by off as g, B: bf16[g, n, k], off: i32[g]) -> D: bf16[t, n] { D = sum[k](X[row, k] * B) }') // prettier-ignore
const BIAS = of('kernel linear(A: bf16[m, k], B: bf16[n, k], bias: bf16[n]) -> D: bf16[m, n] { D = gelu_tanh(sum[k](A * B) + bias) }') // prettier-ignore
const INTERLEAVED = (W: readonly string[]): Source => of(`kernel interleaved(X: bf16[t, k] ragged t by off as g, W: bf16[g, k, j] | bf16[g, j, k], bias: f32[g, j], off: i32[g]) -> H: bf16[t, f] { H = silu(sum[k](X * W[g, k, 2 * f]) + bias[g, 2 * f]) * (sum[k](X * W[g, k, 2 * f + 1]) + bias[g, 2 * f + 1]) }`, [], { W }) // prettier-ignore
const SCATTERED = of('kernel scattered(A: bf16[t, k] ragged t by off as g, B: bf16[g, n, k], to: i32[t], w: f32[a], off: i32[g]) -> D: bf16[a, n] { D[to[t], n] = sum[k](A * B) * w[to[t]] }') // prettier-ignore
const FP8_UP = of('kernel up(X: e4m3[v, k] * f32[v, k/128], row: i32[t] ragged t by off as g, G: e4m3[g, n, k] * f32[g, n/128, k/128], U: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g]) -> D: e4m3[t, n] * f32[t, n/128] { D = silu(sum[k](X[row[t], k] * G)) * sum[k](X[row[t], k] * U) }') // prettier-ignore
const BESIDE = of('kernel beside(A: bf16[m, k], B: bf16[n, k], C: bf16[m, n], bias: f32[n], w: f32[m]) -> D: e4m3[m, n] * f32[m, n/128] { D = gelu(sum[k](A * B) + bias + C) * w }') // prettier-ignore
const SEVERAL = of('kernel several(A: bf16[m, k], B: bf16[n, k], C: f32[m, n], bias: f32[n]) -> (D: i8[m, n] * f32[m, n/128], E: e4m3[m, n] * ue8m0[m, n/16], F: bf16[m, n]) { x = relu(sum[k](A * B) + bias) * C\n D = x + bias\n E = x\n F = x }') // prettier-ignore
const MXFP8_ROWS = of('kernel mx(X: e4m3[v, k] * ue8m0[v, k/32], row: i32[t] ragged t by off as g, B: e4m3[g, n, k] * ue8m0[g, n, k/32], off: i32[g]) -> D: bf16[t, n] { D = sum[k](X[row[t], k] * B) }') // prettier-ignore
const SWIGLU = of('kernel swiglu(A: bf16[m, k], G: bf16[n, k], U: bf16[n, k]) -> H: bf16[m, n] { H = silu(sum[k](A * G)) * sum[k](A * U) }') // prettier-ignore
const AMAX = of(`kernel scaled(A: f16[l?, m, k], B: f16[l?, n, k], s: f32) -> (D: e4m3[l?, m, n], amax: f32[l?]) {
  acc = sum[k](A * B) * s
  D = acc
  amax = max[m, n](abs(acc))
}`)
/** For sm_80, which has no fp8. */
const AMAX_F16 = of(`kernel scaled(A: f16[l?, m, k], B: f16[l?, n, k], s: f32) -> (D: f16[l?, m, n], amax: f32[l?]) {
  acc = sum[k](A * B) * s
  D = acc
  amax = max[m, n](abs(acc))
}`)
const BATCH = of('kernel batched(A: bf16[l?, m, k], B: bf16[l?, n, k], C: bf16[l?, m, n]) -> D: bf16[l?, m, n] { D = sum[k](A * B) + C }') // prettier-ignore
/** Every shape of operand, aligned or not, a scalar that leaves one out, outputs of every way to leave, reductions. */
const EVERYTHING = of(
  `kernel everything(A: bf16[l?, m, k], B: bf16[l?, n, k], C: bf16[l?, m, n], E: f32[l?, m, n], V: f16[l?, n, m],
    bias: f32[n], rows: f16[m], each: f32[l?], alpha: f32, beta: f32)
  -> (D: bf16[l?, m, n], F: f32[l?, n, m], G: f16[l?, m, n], H: f64[l?, m, n], most: f32[l?, m], total: f32[l?, n]) {
  x = sum[k](A * B) * alpha + skip0(beta) * C + E + V + bias + rows * each
  D = relu(x)
  F = tanh(x)
  G = x
  H = x
  most = max[n](abs(x))
  total = sum[m](x)
}`,
  ['E', 'G'],
)

/** A product of stored forms. */
const stored = (a: string, b: string, d = 'bf16[m, n]', unaligned: readonly string[] = []): Source =>
  of(`kernel stored(A: ${a}, B: ${b}) -> D: ${d} { D = relu(sum[k](A * B)) }`, unaligned)
const FP8_ROWS = stored('e4m3[m, k] * f32[m]', 'e4m3[n, k] * f32[n]')
const FP8_BLOCKS = stored('e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n/128, k/128]')
const SCALED_GATE =
  of(`kernel gated(A: e4m3[m, k] * f32[m, k/128], G: e4m3[n, k] * f32[n/128, k/128], U: e4m3[n, k] * f32[n, k/64])
  -> D: e4m3[m, n] * ue8m0[m, n/32] { D = silu(sum[k](A * G)) * sum[k](A * U) }`)
const I8_ROWS = stored('i8[m, k] * f32[m]', 'i8[n, k] * f32[n]', 'i8[m, n] * f32[m, n/32]')
const quantised = (d: string, unaligned: readonly string[] = []): Source =>
  stored('f16[m, k]', 'f16[n, k]', d, unaligned)
const COPIES =
  of(`kernel copies(A: f16[m, k], B: f16[n, k]) -> (D: e4m3[m, n] * ue8m0[m, n/32], F: i8[m, n] * f32[m, n/64]) {
  x = sum[k](A * B)
  D = x
  F = x
}`)

/** Rows and columns of one value. */
const BOTH_COPIES =
  of(`kernel both(A: bf16[m, k], B: bf16[n, k]) -> (D: e4m3[m, n] * ue8m0[m, n/32], T: e4m3[m, n] * ue8m0[m/32, n]) {
  x = relu(sum[k](A * B))
  D = x
  T = x
}`)

const instanceOf = (
  source: Source,
  target: Instance['target'],
  designOf: (elementBytes: number) => Design,
): Instance => {
  const program = source()
  return { program, target, design: designOf(DTYPES[program.operands[0]!.dtype].storageBytes) }
}

const sm90 = (
  name: string, source: Source, [m, n]: Tile,
  { design, plan = {}, whole = false }: Choices<Sm90Design> = {},
): GoldenCase => ({
  name: `sm90 ${name}`, whole, plan,
  instance: () => instanceOf(source, 'sm_90a', (bytes) => ({
    kind: 'sm90', consumers: 'cooperative', tile: [m, n, 128 / bytes], cluster: [1, 1, 1], parts: 1, operands: 'ab', stages: 'auto', ...design,
  })),
}) // prettier-ignore

/** For sm_80 itself unless it lacks the types. */
const sm80 = (
  name: string, source: Source, [m, n]: Tile,
  { design, plan = {}, whole = false, target = 'sm_80' }: Choices<Sm80Design> & { target?: Instance['target'] } = {},
): GoldenCase => ({
  name: `sm80 ${name}`, whole, plan,
  instance: () => instanceOf(source, target, (bytes) => ({
    kind: 'sm80', warps: 'auto', tile: [m, n, 64 / bytes], operands: 'ab', stages: 'auto', ...design,
  })),
}) // prettier-ignore

const sm100 = (
  name: string, source: Source, [m, n]: Tile,
  { design, plan = {}, whole = false }: Choices<Sm100Design> = {},
): GoldenCase => ({
  name: `sm100 ${name}`, whole, plan,
  instance: () => instanceOf(source, 'sm_100a', (bytes) => ({
    kind: 'sm100', use2ctaMma: false, tile: [m, n, 128 / bytes], cluster: [1, 1, 1], fallbackCluster: null, scheduler: 'static', parts: 1,
    operands: 'ab', stages: 'auto', ...design,
  })),
}) // prettier-ignore

const whole = true
const pingpong = { consumers: 'pingpong' } as const
const clc = { scheduler: 'clc' } as const
const cluster = (m: number, n: number, k = 1) => ({ cluster: [m, n, k] as [number, number, number] }) as const
const pairs = (m = 2, n = 1) => ({ use2ctaMma: true, ...cluster(m, n) }) as const
const fallback = { fallbackCluster: [2, 1, 1] as [number, number, number] } as const

const [tma, gather] = [{ source: 'tma' }, { source: 'gather' }]
const all = ['A', 'B', 'D']
const inRows = { epilogue: { outputs: [{ store: 'rows' }] } }
const mContiguous = (store: 'tma' | 'rows') => ({ epilogue: { outputs: [{ contiguous: 'm', store }] } })
const reduced = (count: number) => ({ epilogue: { reductions: Array.from({ length: count }, () => ({})) } })

const SM90: readonly GoldenCase[] = [
  sm90('cooperative 128x256', gemm({ a: 'bf16' }), [128, 256], { whole, plan: { warpgroups: 2, rowBlocks: 1, storeWarps: true } }),
  sm90('cooperative 256x128', gemm({ a: 'bf16' }), [256, 128], { plan: { warpgroups: 2, rowBlocks: 2 } }),
  sm90('three warpgroups 192x192', gemm({ a: 'bf16' }), [192, 192], { whole, plan: { warpgroups: 3, rowBlocks: 1, registers: { producer: 32, consumer: 160 } } }),
  sm90('three warpgroups with C', FUSED, [192, 128], { design: cluster(2, 1), plan: { warpgroups: 3, inPlace: true } }),
  sm90('three warpgroups, 3 parts of k', gemm(), [192, 160], { design: { parts: 3 }, plan: { exchange: { threads: 384, cells: 80 } } }),
  sm90('8 columns', BIAS, [64, 8], { plan: { b: [{ tileBytes: 1024 }], epilogue: { subtileColumns: 8 } } }),
  sm90('72 columns that a cluster shares', gemm({ a: 'bf16' }), [64, 72], { design: cluster(4, 1), plan: { stages: 12, b: [{ slices: 4, sliceRows: 18 }], epilogue: { subtileColumns: 72, outputs: [{ store: 'tma', swizzle: 'none' }] } } }),
  sm90('72 columns with a full operand', FUSED, [128, 72], { design: pingpong, plan: { inPlace: true, epilogue: { subtileColumns: 72 } } }),
  sm90('one warpgroup 64x64', gemm(), [64, 64], { plan: { warpgroups: 1, registers: { producer: null } } }),
  sm90('ping-pong 128x128', gemm({ a: 'bf16' }), [128, 128], { whole, design: pingpong, plan: { warpgroups: 2, rowBlocks: 2 } }),
  sm90('ping-pong cluster 2x1', gemm(), [64, 128], { design: { ...pingpong, ...cluster(2, 1) }, plan: { b: [{ slices: 2 }] } }),
  sm90('fused behind k', FUSED, [128, 128], { whole, design: pingpong, plan: { behind: { parts: [[{ buffer: 'smem_a', column: 0 }, { buffer: 'smem_b', column: 64 }]] }, fetchSlots: 0 } }),
  sm90('fused behind k in two stages', FUSED, [128, 256], { design: cluster(2, 1), plan: { behind: { parts: [{}, {}] } } }),
  sm90('fused in place', FUSED, [192, 64], { plan: { inPlace: true, stagingSlots: 0 } }),
  sm90('fused not in place', FUSED_WIDER, [192, 64], { plan: { inPlace: false, epilogue: { aux: [{ fetch: {} }] } } }),
  sm90('row operand ahead', BIAS, [128, 128], { plan: { ahead: ['bias'] } }),
  sm90('k split in 4', gemm(), [128, 64], { whole, design: cluster(1, 1, 4), plan: { splits: 4, partialBytes: 128 * 64 * 4 } }),
  sm90('3 parts of k', gemm(), [128, 64], { whole, design: { parts: 3 }, plan: { exchange: { parts: 3, threads: 256, cells: 32 } } }),
  sm90('clusters of 2x1 whose k is split in 4', gemm(), [64, 64], { design: cluster(2, 1, 4), plan: { splits: 4 } }),
  sm90('2 parts of k of clusters of 1x2, split in 2', FUSED, [128, 64], { design: { parts: 2, ...cluster(1, 2, 2) }, plan: { splits: 2, exchange: {} } }),
  sm90('3 parts of k, items shared by 2 tiles', FUSED, [128, 64], { design: { parts: 3, share: 2, ...cluster(2, 1, 1) }, plan: { exchange: { share: 2 } } }),
  sm90('11 parts of k that meet', FUSED, [128, 64], { design: { parts: 11, ...cluster(1, 1, 1) }, plan: { exchange: { meets: 'last' } } }),
  sm90('3 parts of k split in 4', FUSED, [128, 64], { design: { parts: 3, ...cluster(1, 1, 4) }, plan: { exchange: { cells: 8 } } }),
  sm90('3 parts of k ping-pong', BIAS, [128, 64], { design: { parts: 3, ...pingpong }, plan: { exchange: { threads: 128 } } }),
  sm90('k split in 4 fused', FUSED, [128, 64], { design: cluster(1, 1, 4), plan: { splits: 4 } }),
  sm90('elements ahead, k split in 8', of(FUSED_TEXT, ['C', 'D']), [64, 64], { design: cluster(1, 1, 8), plan: { splits: 8, ahead: ['C'] } }),
  sm90('cluster 2x1', gemm(), [128, 128], { design: cluster(2, 1), plan: { a: { slices: 1 }, b: [{ slices: 2 }] } }),
  sm90('cluster 1x2', gemm(), [128, 128], { design: cluster(1, 2), plan: { a: { slices: 2 }, b: [{ slices: 1 }] } }),
  sm90('gather A', gemm({ a: 'bf16', unaligned: ['A'] }), [128, 64], { whole, plan: { a: gather, b: [tma] } }),
  sm90('gather everything', gemm({ a: 'e4m3', out: 'f16', unaligned: all }), [64, 64], { plan: { a: gather, b: [gather], ...inRows } }),
  sm90('ba', gemm({ a: 'bf16' }), [128, 16], { design: { operands: 'ba' }, plan: { gemm: { m: 'n', segments: [{ a: 'B' }] } } }),
  sm90('swiglu', SWIGLU, [128, 128], { plan: { b: [tma, tma] } }),
  sm90('amax', AMAX, [128, 128], { whole, plan: reduced(1) }),
  sm90('amax ping-pong', AMAX, [64, 128], { design: pingpong, plan: reduced(1) }),
  sm90('reduced', of(REDUCED), [128, 128], { plan: reduced(5) }),
  sm90('parked', of(chain('f16', 'f32')), [128, 128], { plan: { parks: true } }),
  sm90('parked ping-pong', of(chain('f16', 'f32')), [64, 96], { design: pingpong, plan: { parks: true } }),
  sm90('everything', EVERYTHING, [128, 64], { plan: reduced(2) }),
  sm90('floats', of(FLOATS), [128, 64]),
  sm90('f16 accumulator', of(HALF), [128, 128], { plan: { accumulator: 'f16' } }),
  sm90('i8', gemm({ a: 'i8', out: 'i32' }), [128, 64], { plan: { accumulator: 'i32' } }),
  sm90('u8 x i8', gemm({ a: 'u8', b: 'i8', out: 'i8' }), [128, 128], { plan: { mma: { a: 'u8', b: 's8' } } }),
  sm90('tf32', gemm({ a: 'tf32', out: 'f32' }), [128, 64], { plan: { a: tma, b: [tma] } }),
  sm90('tf32 transposed by warps', gemm({ a: 'tf32', out: 'f32', A: 'k, m' }), [128, 64], { plan: { a: { ...gather, major: 'k' }, b: [tma] } }),
  sm90('fp8', gemm({ a: 'e4m3', b: 'e5m2', out: 'e5m2' }), [128, 96]),
  sm90('integer epilogue', of(INTEGERS), [128, 64]),
  sm90('optional batch', BATCH, [128, 128], { plan: { gemm: { l: 'l' } } }),
  sm90('rows of words', gemm({ unaligned: ['D'] }), [128, 64], { plan: { a: tma, ...inRows } }),
  sm90('rows copied for ping-pong', of(FUSED_TEXT, ['C', 'D']), [128, 128], { design: pingpong, plan: { rowSlots: 2, epilogue: { subtileColumns: 64, aux: [{ rows: true }] } } }),
  sm90('elements that lanes load for one tile', of(FUSED_TEXT, ['C', 'D']), [192, 128], { plan: { warpgroups: 3, rowSlots: 0, elements: [{ operand: 'C', of: 'subtile' }] } }),
  sm90('tiles of floats that overlap', gemm({ out: 'f32', unaligned: ['D'] }), [128, 64], { design: { overlap: true }, plan: { overlap: 8, ...inRows } }),
  sm90('m-contiguous output', gemm({ D: ['n', 'm'] }), [128, 64], { plan: mContiguous('tma') }),
  sm90('m-contiguous A', gemm({ a: 'bf16', A: 'k, m' }), [128, 64], { plan: { a: { ...tma, major: 'mn' } } }),
  sm90('one stage', gemm(), [128, 64], { design: { stages: 1 }, plan: { stages: 1 } }),
] // prettier-ignore

/** So many chunks of k in a stage, and the columns of a part. */
const inParts = (chunks: number, columns: number, parts: number) =>
  ({ scales: { chunks }, parts: { columns, parts: Array.from({ length: parts }, () => ({})) } }) as const
const into = (size: number, store: 'tma' | 'direct' | 'rows' = 'tma', along = 'n', shared = false) =>
  ({ epilogue: { outputs: [{ block: { along, size }, shared, store }] } }) as const

const SM90_STORED: readonly GoldenCase[] = [
  sm90('rows of fp8', FP8_ROWS, [128, 128], { plan: { scales: null, parts: null } }),
  sm90('1x128 by 128x128', FP8_BLOCKS, [128, 128], { whole, plan: inParts(1, 128, 1) }),
  sm90('1x128 by 128x128, halves', FP8_BLOCKS, [128, 256], { plan: inParts(1, 128, 2) }),
  sm90('1x128 by 128x128, blocks of rows', FP8_BLOCKS, [256, 128], { plan: inParts(1, 128, 2) }),
  sm90('1x128 by 128x128, three warpgroups', FP8_BLOCKS, [192, 64], { plan: { warpgroups: 3, storeWarps: false, registers: { producer: 56 }, ...inParts(1, 64, 1) } }),
  sm90('1x128 by 128x128, one warpgroup', FP8_BLOCKS, [64, 64], { plan: { warpgroups: 1, ...inParts(1, 64, 1) } }),
  sm90('1x128 by 128x128, copied by warps', stored('e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n/128, k/128]', 'bf16[m, n]', ['A']), [128, 128], { plan: { a: gather, ...inParts(1, 128, 1) } }),
  sm90('1x128 by 128x128, ba', FP8_BLOCKS, [128, 32], { design: { operands: 'ba' }, plan: inParts(1, 32, 1) }),
  sm90('1x128 by 128x128, cluster 2x1', FP8_BLOCKS, [128, 128], { design: cluster(2, 1), plan: inParts(1, 128, 1) }),
  sm90('1x128 by 1x128', stored('e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n, k/128]'), [128, 128], { plan: inParts(1, 128, 1) }),
  sm90('1x128 by rows', stored('e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n] * f32'), [128, 128], { plan: { scales: { chunks: 1, b: [null] } } }),
  sm90('mxfp8', stored('e4m3[m, k] * ue8m0[m, k/32]', 'e5m2[n, k] * ue8m0[n, k/32]'), [128, 128], { whole, plan: inParts(4, 128, 4) }),
  sm90('scales of few columns', stored('e4m3[m, k] * ue4m3[m, k/64]', 'e4m3[n, k] * f16[n/4, k/32]'), [128, 64], { plan: inParts(4, 64, 4) }),
  sm90('blocks of bf16 along n', stored('bf16[m, k] * f32[m, k/32]', 'bf16[k, n] * bf16[k/64, n/16]'), [128, 64], { plan: inParts(2, 64, 2) }),
  sm90('blocks of i8', stored('i8[m, k] * f32[m, k/128]', 'i8[n, k] * f32[n/128, k/64]'), [128, 128], { plan: { ...inParts(2, 128, 2), parts: { cells: 's32' } } }),
  sm90('blocks of two products into blocks', SCALED_GATE, [128, 64], { plan: { ...inParts(2, 64, 4), ...into(32) } }),
  sm90('into 1x32', quantised('e4m3[m, n] * ue8m0[m, n/32]'), [128, 128], { whole, plan: into(32) }),
  sm90('into 1x128', quantised('e4m3[m, n] * f32[m, n/128]'), [128, 128], { plan: into(128) }),
  sm90('into 1x128 in rows of words', quantised('e4m3[m, n] * f32[m, n/128]', ['D']), [128, 128], { plan: into(128, 'rows') }),
  sm90('into 1x16 with a global scale', quantised('e5m2[m, n] * ue4m3[m, n/16] * f32'), [64, 128], { design: pingpong, plan: into(16) }),
  sm90('into 32x1', quantised('e4m3[m, n] * ue8m0[m/32, n]'), [128, 128], { plan: into(32, 'tma', 'm', true) }),
  sm90('into 64x1 by three warpgroups', quantised('e4m3[m, n] * ue8m0[m/64, n]'), [192, 64], { plan: into(64, 'tma', 'm', true) }),
  sm90('both copies', BOTH_COPIES, [256, 64], { plan: { rowBlocks: 2, epilogue: { outputs: [{ shared: false }, { shared: true }] } } }),
  sm90('into 8x1 in turns', quantised('i8[m, n] * f32[m/8, n]'), [64, 128], { design: pingpong, plan: into(8, 'tma', 'm') }),
  sm90('into 1x128 and other blocks', SEVERAL, [128, 128], { plan: { epilogue: { measured: 128 } } }),
  sm90('into mxfp6', quantised('e2m3[m, n] * ue8m0[m, n/32]'), [128, 128], { plan: into(32, 'direct') }),
  sm90('into nvfp4', quantised('e2m1[m, n] * ue4m3[m, n/16] * f32'), [128, 128], { plan: into(16, 'direct') }),
  sm90('into 1x32 rounded down', quantised('i8[m, n] * floor(ue8m0[m, n/32])'), [128, 64], { plan: into(32) }),
  sm90('u4 along n, decoded', U4, [128, 128], { whole, plan: { a: tma, b: [{ ...gather, major: 'mn' }] } }),
  sm90('nvfp4, decoded', NVFP4, [64, 64], { plan: { a: gather, b: [gather] } }),
  sm90('two stored forms of a sum', COPIES, [128, 128], { plan: { epilogue: { subtileColumns: 64, outputs: [{ block: { size: 32 } }, { block: { size: 64 } }] } } }),
  sm90('groups', GROUPED(), [128, 128], { whole, plan: { gemm: { groups: { form: 'packed' } }, storeWarps: true } }),
  sm90('groups in clusters', GROUPED(), [128, 128], { design: { cluster: [2, 1, 1] }, plan: { b: [{ slices: 2 }] } }),
  sm90('groups ping-pong', GROUPED(), [64, 128], { design: { consumers: 'pingpong' } }),
  sm90('groups of three warpgroups', GROUPED(), [192, 128], { plan: { warpgroups: 3, storeWarps: true } }),
  sm90('groups along rows', GROUPED('k, t'), [128, 64], { plan: { a: gather, b: [tma] } }),
  sm90('groups exchanged', GROUPED(), [128, 32], { design: { operands: 'ba' }, plan: { gemm: { groups: { along: 'n' } }, epilogue: { outputs: [{ contiguous: 'm', store: 'tma' }] } } }),
  sm90('padded groups', PADDED, [128, 64], { plan: { gemm: { groups: { form: 'padded' } } } }),
  sm90('sums of groups', GRADIENT(), [128, 128], { whole, plan: { gemm: { sums: { form: 'packed' } }, a: { ...tma, major: 'mn' } } }),
  sm90('sums of groups ping-pong', GRADIENT(), [64, 128], { design: { consumers: 'pingpong' } }),
  sm90('sums of groups along rows', GRADIENT('k, t'), [64, 64], { plan: { a: gather, b: [gather] } }),
  sm90('sums of groups in blocks', BLOCKS_OF_GROUPS('e4m3', 'f32', 128), [128, 64], { plan: { a: gather, scales: { chunks: 1 } } }),
  sm90('fp8 rows that are looked up', FP8_UP, [128, 128], { whole, plan: { a: { source: 'copy' }, b: [tma, tma], scales: { chunks: 1 } } }),
  sm90('interleaved', INTERLEAVED(['g', 'k', 'j']), [128, 128], { whole, plan: { b: [{ source: 'tma', rows: 256 }], gemm: { interleaved: 'j' } } }),
  sm90('interleaved along k', INTERLEAVED(['g', 'j', 'k']), [64, 64], { design: { consumers: 'pingpong' }, plan: { b: [tma] } }),
  sm90('scattered', SCATTERED, [128, 128], { whole, plan: { epilogue: { outputs: [{ store: 'direct', places: ['D.at', 'n'] }] } } }),
  sm90('rows that are looked up', ROWS, [128, 128], { whole, plan: { a: { source: 'copy' }, b: [tma] } }),
] // prettier-ignore

const copy = (copyBytes: 4 | 16, major: 'k' | 'mn' = 'k') => ({ source: 'copy', copyBytes, major })
const shifted = (major: 'k' | 'mn') => ({ ...copy(16, major), shifted: true })

const SM80: readonly GoldenCase[] = [
  sm80('f16', gemm({ B: 'k, n' }), [128, 128], { whole, plan: { a: copy(16), b: [copy(16, 'mn')] } }),
  sm80('4-byte copies tf32', gemm({ a: 'tf32', out: 'f32', unaligned: ['A', 'B'] }), [64, 64], { plan: { a: copy(4), b: [copy(4)] }, target: 'sm_90a' }),
  sm80('by words along k and along n', gemm({ B: 'k, n', unaligned: ['A', 'B'], to: 'word' }), [64, 64], { plan: { a: copy(4), b: [copy(4, 'mn')] } }),
  sm80('bytes by words', gemm({ a: 'i8', out: 'i32', unaligned: ['A', 'B'], to: 'word' }), [64, 64], { plan: { a: copy(4), b: [copy(4)] } }),
  sm80('f32', gemm({ a: 'f32' }), [128, 128], { whole, design: { tile: [128, 128, 8] }, plan: { perSm: 2, warps: [2, 2], mma: { k: 1 }, a: { dealt: 'fours' }, b: [{ dealt: 'pairs' }] } }),
  sm80('shifted rows', gemm({ a: 'bf16', unaligned: ['A', 'B'] }), [64, 64], { whole, plan: { a: shifted('k'), b: [shifted('k')] } }),
  sm80('warps that share k', gemm({ B: 'k, n', unaligned: ['B'] }), [16, 32], { whole, design: { tile: [16, 32, 64] }, plan: { deep: 2, a: copy(16), b: [shifted('mn')] } }),
  sm80('A along k B along n', gemm({ B: 'k, n' }), [128, 64], { plan: { a: copy(16), b: [copy(16, 'mn')] } }),
  sm80('both along k', gemm(), [128, 64], { plan: { a: copy(16), b: [copy(16)] } }),
  sm80('neither along k', gemm({ A: 'k, m', B: 'k, n' }), [128, 128], { plan: { a: copy(16, 'mn'), b: [copy(16, 'mn')] } }),
  sm80('A along m B along k', gemm({ A: 'k, m' }), [128, 64], { plan: { a: copy(16, 'mn'), b: [copy(16)] } }),
  sm80('i8', gemm({ a: 'i8', out: 'i32' }), [128, 64], { plan: { a: copy(16), b: [copy(16)] } }),
  sm80('i8 transposed', gemm({ a: 'i8', out: 'i8', A: 'k, m', B: 'k, n' }), [64, 64], { plan: { a: { ...gather, major: 'k' }, b: [gather] } }),
  sm80('tf32 transposed', gemm({ a: 'tf32', out: 'f32', A: 'k, m', B: 'k, n' }), [128, 128], { plan: { a: copy(4), b: [copy(4)] } }),
  sm80('f32 in parts', gemm({ a: 'f32', out: 'f32' }), [64, 64], { whole, design: { f32: 'tf32x3' }, plan: { mma: { split: true } }, target: 'sm_90a' }),
  sm80('fp8', gemm({ a: 'e4m3', b: 'e5m2', out: 'f16' }), [64, 64], { target: 'sm_90a' }),
  sm80('fused', FUSED, [128, 128], { whole }),
  sm80('elements ahead', of(FUSED_TEXT, ['C', 'D']), [64, 64], { design: { tile: [64, 64, 64], parts: 3 }, plan: { exchange: {}, elements: [{ operand: 'C', of: 'tile' }] } }),
  sm80('elements ahead of sub-tiles', of(FUSED_TEXT, ['C', 'D']), [128, 128], { design: { tile: [128, 128, 64] }, plan: { elements: [{ operand: 'C', of: 'subtile' }] } }),
  sm80('everything', EVERYTHING, [64, 64], { plan: reduced(2) }),
  sm80('32 parts of k that meet', gemm({ unaligned: ['A', 'B'] }), [64, 16], { design: { tile: [64, 16, 64], parts: 32 }, plan: { perSm: 3, exchange: { meets: 'last' } } }),
  sm80('8 parts of k, each of which finishes a share', of(FUSED_TEXT, ['C', 'D']), [128, 128], { whole, design: { tile: [128, 128, 64], parts: 8 }, plan: { exchange: { meets: 'each' }, elements: [{ operand: 'C', of: 'subtile' }] } }),
  sm80('rows of words', gemm({ unaligned: ['D'] }), [128, 64], { plan: inRows }),
  sm80('rows behind each other, one step of k', gemm({ unaligned: ['D'] }), [64, 128], { design: { tile: [64, 128, 16] }, plan: { mmaSteps: 1, warps: [4, 1], epilogue: { outputs: [{ dense: true }] } } }),
  sm80('tiles that overlap', gemm({ unaligned: ['D'] }), [64, 128], { whole, design: { tile: [64, 128, 16], overlap: true }, plan: { overlap: 16, warps: [4, 1], epilogue: { outputs: [{ dense: false }] } } }),
  sm80('m-contiguous output', gemm({ D: ['n', 'm'] }), [128, 64], { plan: mContiguous('rows') }),
  sm80('amax', AMAX_F16, [128, 64], { plan: reduced(1) }),
  sm80('reduced', of(REDUCED), [64, 64], { plan: reduced(5) }),
  sm80('swiglu', SWIGLU, [128, 64]),
  sm80('interleaved', INTERLEAVED(['g', 'k', 'j']), [128, 32], { plan: { gemm: { interleaved: 'j' } } }),
  sm80('scattered', SCATTERED, [128, 64]),
  sm80('f16 accumulator', of(HALF), [128, 128], { plan: { accumulator: 'f16' } }),
  sm80('ba', gemm({ a: 'bf16' }), [128, 32], { design: { operands: 'ba' }, plan: { gemm: { m: 'n', segments: [{ a: 'B' }] } } }),
  sm80('optional batch', BATCH, [64, 64], { plan: { gemm: { l: 'l' } } }),
  sm80('rows of i8 into blocks', I8_ROWS, [128, 64], { plan: into(32, 'rows') }),
  sm80('into 1x32', quantised('i8[m, n] * f32[m, n/32]'), [64, 64], { plan: into(32, 'rows') }),
  sm80('into 1x128', quantised('i8[m, n] * f32[m, n/128]'), [64, 128], { plan: into(128, 'rows') }),
  sm80('fp8 into 16x1', quantised('e4m3[m, n] * ue8m0[m/16, n]'), [64, 64], { plan: into(16, 'rows', 'm') }),
  sm80('1x128 by 128x128', FP8_BLOCKS, [64, 64], { whole, plan: { a: gather, scales: { chunks: 1 }, parts: { cells: 'f32', columns: 32 } } }),
  sm80('1x64 by 1x32 of i8', stored('i8[m, k] * f32[m, k/64]', 'i8[n, k] * bf16[n, k/32]'), [64, 32], { plan: { a: copy(16), scales: { chunks: 2 }, parts: { cells: 's32' } } }),
  sm80('3 parts of k', gemm(), [64, 64], { design: { parts: 3 }, plan: { exchange: { parts: 3 } } }),
  sm80('computed', LOOKED_UP, [64, 64], { plan: { a: gather, b: [copy(16, 'mn')] } }),
  sm90('groups in 3 parts', GROUPED(), [64, 64], { design: { parts: 3 }, plan: { exchange: { parts: 3 } } }),
  sm80('groups', GROUPED(), [128, 64], { plan: { gemm: { l: 'g', groups: { form: 'packed' } } } }),
  sm80('groups exchanged', GROUPED(), [64, 32], { design: { operands: 'ba' }, plan: { gemm: { groups: { along: 'n' } } } }),
  sm80('sums of groups', GRADIENT(), [64, 64], { plan: { gemm: { sums: { form: 'packed' } } } }),
  sm80('2 stages', gemm(), [64, 64], { design: { stages: 2 }, plan: { stages: 2 } }),
] // prettier-ignore

const SM100: readonly GoldenCase[] = [
  sm100('1cta', gemm(), [128, 128], { whole, plan: { cluster: { pair: 1 } } }),
  sm100('2cta', gemm({ a: 'bf16' }), [256, 128], { whole, design: pairs(), plan: { cluster: { pair: 2 } } }),
  sm100('cluster 4x2 fallback clc', gemm(), [128, 64], {
    whole, design: { ...cluster(4, 2), ...fallback, ...clc }, plan: { a: { slices: 2 }, b: [{ slices: 4 }], cluster: { fallback: [2, 1] } },
  }),
  sm100('cluster 4x2 of pairs fallback clc', gemm(), [256, 64], {
    design: { ...pairs(4, 2), ...fallback, ...clc },
    plan: { a: { slices: 2 }, b: [{ slices: 2 }], cluster: { pair: 2, fallback: [2, 1] } },
  }),
  sm100('cluster 2x2', gemm(), [128, 128], { design: cluster(2, 2), plan: { a: { slices: 2 }, b: [{ slices: 2 }] } }),
  sm100('gather', gemm({ a: 'bf16', unaligned: ['A'] }), [128, 64], { whole, plan: { a: gather, b: [tma] } }),
  sm100('gather everything clc', gemm({ a: 'e4m3', out: 'f16', A: 'k, m', B: 'k, n', unaligned: all }), [128, 64], {
    design: clc,
    plan: { a: gather, b: [gather], ...inRows },
  }),
  sm100('tiles of pairs that overlap', gemm({ a: 'bf16', unaligned: ['D'] }), [256, 64], { whole, design: { ...pairs(), overlap: true }, plan: { overlap: 16, ...inRows } }),
  sm100('fused', FUSED, [128, 128]),
  sm100('everything', EVERYTHING, [128, 128], { whole, plan: reduced(2) }),
  sm100('everything 64 rows', EVERYTHING, [64, 64], { plan: { epilogue: { ...reduced(2).epilogue, layout: { rowsPerWarp: 16 } } } }),
  sm100('floats', of(FLOATS), [128, 64]),
  sm100('chain', of(chain('f16', 'f16')), [128, 128], { plan: { epilogue: { subtileColumns: 8 } } }),
  sm100('64 rows', gemm(), [64, 64], { plan: { epilogue: { layout: { rowsPerWarp: 16 } } } }),
  sm100('column halves', gemm({ a: 'bf16' }), [128, 128], { whole, design: pairs(), plan: { epilogue: { layout: { columnHalves: 2, columns: 64 } } } }),
  sm100('mxfp8 rows that are looked up', MXFP8_ROWS, [128, 64], { plan: { a: gather, b: [tma] } }),
  sm100('interleaved', INTERLEAVED(['g', 'k', 'j']), [128, 64], { whole, plan: { b: [tma], gemm: { interleaved: 'j' } } }),
  sm100('scattered', SCATTERED, [128, 64]),
  sm100('swiglu', SWIGLU, [128, 128], { plan: { b: [tma, tma], accumulators: 2 } }),
  sm100('amax', AMAX, [128, 128], { plan: reduced(1) }),
  sm100('reduced pairs', of(REDUCED), [256, 64], { design: pairs(), plan: reduced(5) }),
  sm100('i8', gemm({ a: 'i8', out: 'i32' }), [128, 64]),
  sm100('fp8', gemm({ a: 'e4m3', b: 'e5m2', out: 'e5m2' }), [128, 96]),
  sm100('mxfp8 tiles', scaled('e4m3[x, k] * ue8m0[x, k/32]', ['A', 'B']), [128, 192], {
    whole, plan: { mma: 'mxf8f6f4', atoms: { a: { source: 'tma' }, b: [{ source: 'tma', atoms: { rows: 2, steps: 1 } }] }, accumulators: 2 },
  }),
  sm100('mxfp8 plain pairs clc', scaled('e5m2[x, k] * ue8m0[x, k/64]', []), [256, 64], {
    whole, design: { ...pairs(4), ...clc }, plan: { mma: 'mxf8f6f4', atoms: { a: { source: 'warps' } } },
  }),
  sm100('blocks of 128 columns', of('kernel q(A: bf16[m, k], B: bf16[n, k], s: f32) -> D: e4m3[m, n] * f32[m, n/128] { D = relu(sum[k](A * B)) * s }'), [128, 128], {
    plan: { epilogue: { subtileColumns: 128, outputs: [{ store: 'tma', swizzle: '128B' }] } },
  }),
  sm100('mx of 6 bits', scaled('e3m2[x, k] * ue8m0[x, k/32]', ['A', 'B']), [128, 64], {
    plan: { mma: 'mxf8f6f4', a: { padded: true, tileBytes: 16384 }, tile: [128, 64, 128] },
  }),
  sm100('mxfp4 gated', scaled('e2m1[x, k] * ue8m0[x, k/32]', ['B', 'G'], ' * sigmoid(sum[k](A * G))'), [128, 64], {
    plan: { mma: 'mxf4', tile: [128, 64, 256], atoms: { a: { source: 'warps' }, columns: 24 } },
  }),
  sm100('nvfp4', scaled('e2m1[x, k] * ue4m3[x, k/16]', ['A']), [128, 256], {
    plan: { mma: 'mxf4nvf4', accumulators: 1, atoms: { a: { source: 'tma' }, b: [{ source: 'warps', atoms: { steps: 4 } }] } },
  }),
  sm100('mxfp8 by fp8, pairs', stored('e4m3[m, k] * ue8m0[m, k/32]', 'e5m2[n, k]'), [256, 128], {
    design: pairs(), plan: { mma: 'mxf8f6f4', parts: null, atoms: { a: { source: 'warps' }, b: [{ source: 'ones', column: 4 }], columns: 8 } },
  }),
  sm100('1x128 by 128x128', FP8_BLOCKS, [128, 128], {
    whole, plan: { mma: 'f8f6f4', atoms: null, parts: { slots: 3, column: 384, scales: { chunks: 1 } }, accumulators: 3, tmemColumns: 512 },
  }),
  sm100('scaled gate, pairs of 64 rows, clc', SCALED_GATE, [128, 128], {
    design: { ...pairs(), ...clc }, plan: { b: [tma, tma], parts: { slots: 3, scales: { chunks: 2 } }, accumulators: 3 },
  }),
  sm100('i8 in blocks of k', stored('i8[m, k] * f32[m, k/32]', 'i8[n, k]', 'bf16[m, n]', ['A']), [64, 96], {
    plan: { a: gather, parts: { cells: 's32', scales: { chunks: 4, b: [null] } }, accumulator: 'f32' },
  }),
  sm100('scales of 16 bits', stored('f16[m, k] * bf16[m/32, k/128]', 'f16[n, k] * bf16[n, k/128]'), [128, 96], {
    plan: { parts: { scales: { chunks: 1, a: { copies: false } } } },
  }),
  sm100('tf32', gemm({ a: 'tf32', out: 'f32', A: 'k, m' }), [128, 64], { plan: { a: { ...tma, major: 'mn', descriptor: { swizzle: '128B_ATOM_32B' } } } }),
  sm100('f16 accumulator', of(HALF), [128, 64], { plan: { accumulator: 'f16' } }),
  sm100('m-contiguous output', gemm({ D: ['n', 'm'] }), [128, 64], { plan: mContiguous('tma') }),
  sm100('rows of words', gemm({ unaligned: ['D'] }), [128, 64], { plan: { a: tma, ...inRows } }),
  sm100('ba', gemm(), [128, 32], { design: { operands: 'ba' }, plan: { gemm: { m: 'n', segments: [{ a: 'B' }] } } }),
  sm100('rows of fp8', FP8_ROWS, [128, 128]),
  sm100('into 1x32', quantised('e4m3[m, n] * ue8m0[m, n/32]'), [128, 128], { plan: into(32) }),
  sm100('into 1x16 with a global scale', quantised('e5m2[m, n] * ue4m3[m, n/16] * f32'), [64, 64], { plan: into(16) }),
  sm100('into 32x1', quantised('e4m3[m, n] * ue8m0[m/32, n]'), [128, 128], { plan: into(32, 'tma', 'm') }),
  sm100('both copies', BOTH_COPIES, [128, 64], { whole, plan: { epilogue: { outputs: [{ block: { along: 'n' } }, { block: { along: 'm', size: 32 }, shared: false }] } } }),
  sm100('into 128x1, clc', quantised('i8[m, n] * f32[m/128, n]'), [128, 64], { design: clc, plan: into(128, 'tma', 'm', true) }),
  sm100('into 16x1 of 64 rows', quantised('e5m2[m, n] * ue4m3[m/16, n] * f32'), [64, 64], { plan: into(16, 'tma', 'm') }),
  sm100('into nvfp4', quantised('e2m1[m, n] * ue4m3[m, n/16] * f32'), [128, 128], { plan: into(16, 'direct') }),
  sm100('blocks of two products that are looked up, into 1x128', FP8_UP, [128, 128], {
    whole,
    plan: { a: gather, b: [tma, tma], parts: { slots: 1, inRegisters: 32, column: 256 }, epilogue: { subtileColumns: 32, measured: 128 } },
  }),
  sm100('into mxfp6', quantised('e3m2[m, n] * ue8m0[m, n/32]'), [128, 128], { plan: into(32, 'direct') }),
  sm100('into 1x128 beside operands', BESIDE, [128, 256], { plan: { epilogue: { subtileColumns: 32, measured: 128 } } }),
  sm100('optional batch', BATCH, [128, 128], { plan: { gemm: { l: 'l' } } }),
  sm100('u4 along n, decoded', U4, [128, 64], { plan: { a: tma, b: [{ ...gather, major: 'mn' }] } }),
  sm100('computed', LOOKED_UP, [128, 64], { plan: { a: gather, b: [tma] } }),
  sm100('groups', GROUPED(), [256, 64], { design: pairs(), plan: { gemm: { groups: { form: 'packed' } } } }),
  sm100('groups exchanged clc', GROUPED(), [128, 32], { design: { ...clc, operands: 'ba' }, plan: { gemm: { groups: { along: 'n' } } } }),
  sm100('sums of groups clc', GRADIENT(), [128, 64], { design: clc, plan: { gemm: { sums: { form: 'packed' } } } }),
  sm100('3 parts of k', gemm(), [128, 64], { whole, design: { parts: 3 }, plan: { exchange: { parts: 3, threads: 128, cells: 64 } } }),
  sm100('2 parts of k, pairs, clc', FUSED, [256, 96], { design: { parts: 2, ...pairs(), ...clc }, plan: { exchange: { cells: 96 } } }),
  sm100('5 parts of k, pairs of 64 rows', AMAX, [128, 128], { design: { parts: 5, ...pairs() }, plan: { exchange: { cells: 64 } } }),
  sm100('2 parts of k, 64 rows of integers', gemm({ a: 'i8', out: 'i32' }), [64, 48], { design: { parts: 2 }, plan: { exchange: { cells: 48 } } }),
  sm100('17 parts of k, 1x128 by 128x128', FP8_BLOCKS, [128, 64], { design: { parts: 17 }, plan: { exchange: { cells: 64 }, parts: {} } }),
  sm100('240 columns', gemm({ a: 'bf16' }), [128, 240], { plan: { tmemColumns: 512, accumulators: 2 } }),
  sm100('sums of groups in blocks', BLOCKS_OF_GROUPS('e4m3', 'f32', 128), [128, 64], { plan: { gemm: { sums: { form: 'packed' } }, a: tma, scales: { chunks: 1 } } }),
  sm100('sums of groups, mxfp8', BLOCKS_OF_GROUPS('e4m3', 'ue8m0', 32), [128, 64], { plan: { a: gather, b: [gather], mma: 'mxf8f6f4' } }),
  sm100('groups, tiles of scales', of('kernel mx(A: e4m3[t, k] * ue8m0[t, k/32] ragged t by off as g, B: e4m3[g, n, k] * ue8m0[g, n, k/32], off: i32[g]) -> D: bf16[t, n] { D = sum[k](A * B) }', [], { 'A.scale': ['t', 'k', '32x4x4'], 'B.scale': ['g', 'n', 'k', '32x4x4'] }), [256, 64], {
    design: pairs(), plan: { mma: 'mxf8f6f4', atoms: { a: { source: 'tma' }, b: [{ source: 'tma' }] } },
  }),
  sm100('groups in blocks into blocks', ROWS_OF_GROUPS, [128, 64], { plan: { parts: { scales: { a: { layout: { group: 128 } } } }, epilogue: { outputs: [{ block: { along: 'm', size: 32 } }] } } }),
  sm100('3 stages', gemm(), [128, 128], { design: { stages: 3 }, plan: { stages: 3 } }),
] // prettier-ignore

const SIMT = Object.entries(SIMT_PROGRAMS).map(([name, program]): GoldenCase => ({
  name: `simt ${name}`,
  whole: false,
  plan: { kind: 'simt' },
  instance: () => ({ program: program(), target: 'sm_100a', design: { kind: 'simt', tile: [16, 16] } }),
}))

export const GOLDEN_CASES: readonly GoldenCase[] = [...SM90, ...SM90_STORED, ...SM80, ...SM100, ...SIMT]
