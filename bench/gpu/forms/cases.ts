/** The forms of the language beyond the dense product, each with the hand-written launches that do the same. */
import type { LaunchParam, Tensor } from '../../../runtime/index.ts'

export type Extents = Readonly<Record<string, number>>
type Uniform = () => number
type Extent = (least: number, most: number, multiple?: number) => number
/** Values of an operand in logical order. */
export type Values = (count: number, extents: Extents, next: Uniform) => ArrayLike<number>

export interface PeerLaunch {
  readonly kernel: string
  readonly grid: readonly [number, number, number]
  readonly block: readonly [number, number, number]
  readonly params: readonly LaunchParam[]
}

export interface PeerProblem {
  /** Operands by their names in the tensor program (`A.scale`). */
  readonly tensors: Readonly<Record<string, Tensor>>
  readonly extents: Extents
  readonly tile: number
  /** Memory for values in between, at least so many f32. */
  readonly scratch: (elements: number) => bigint
}

export interface Form {
  readonly name: string
  readonly source: string
  /** For the evaluator, the one that is named in the report, and one by chance. */
  readonly small: Extents
  readonly medium: Extents
  readonly random: (extent: Extent) => Extents
  readonly scalars?: (extents: Extents) => Readonly<Record<string, number>>
  /** What is not normally distributed. */
  readonly values?: Readonly<Record<string, Values>>
  readonly peer: (problem: PeerProblem) => PeerLaunch[]
}

const up = (a: number, b: number): number => Math.ceil(a / b)

/** A CTA of as many threads as a tile has elements for each row. */
const rows = (kernel: string, count: number, tile: number, params: readonly LaunchParam[]): PeerLaunch => ({
  kernel,
  grid: [count, 1, 1],
  block: [tile * tile, 1, 1],
  params,
})
/** A CTA for each tile of m x n. */
const tiles = (
  kernel: string,
  [m, n, batch]: readonly [number, number, number],
  tile: number,
  params: readonly LaunchParam[],
): PeerLaunch => ({ kernel, grid: [up(n, tile), up(m, tile), batch], block: [tile, tile, 1], params })

const powers: Values = (count, _, next) => Float64Array.from({ length: count }, () => 2 ** Math.floor(next() * 6 - 3))
const positive: Values = (count, _, next) => Float64Array.from({ length: count }, () => 0.5 + next())
const below =
  (axis: string): Values =>
  (count, extents, next) =>
    Int32Array.from({ length: count }, () => Math.floor(next() * extents[axis]!))
/** Ends of groups of different lengths, some of them empty. */
const ends: Values = (count, extents, next) =>
  Int32Array.from({ length: count }, (_, i) =>
    i === count - 1 ? extents['t']! : Math.floor(next() * extents['t']!),
  ).sort()

/** From many short rows to a few long ones. */
const manyOrLong = (e: Extent): Extents => {
  const c = e(16, 200_000)
  return { m: e(1, Math.max(2, 5e7 / c)), c }
}

const product = ({ extents: { m, n } }: PeerProblem): readonly [number, number, number] => [m!, n!, 1]

export const FORMS: readonly Form[] = [
  {
    name: 'rms_norm',
    source: `kernel rms_norm(X: bf16[m, c], g: bf16[c], eps: f32 = 1e-5) -> Y: bf16[m, c] {
      Y = X * rsqrt(mean[c](X * X) + eps) * g
    }`,
    small: { m: 5, c: 77 },
    medium: { m: 8192, c: 4096 },
    random: manyOrLong,
    peer: ({ tensors: t, extents: { m, c }, tile }) => [
      rows('rms_norm', m!, tile, [t['X']!, t['g']!, t['Y']!, c!, { f32: 1e-5 }]),
    ],
  },
  {
    name: 'layer_norm',
    source: `kernel layer_norm(X: bf16[m, c], g: bf16[c], b: bf16[c], eps: f32 = 1e-5) -> Y: bf16[m, c] {
      Y = (X - mean[c](X)) * rsqrt(var[c](X) + eps) * g + b
    }`,
    small: { m: 5, c: 77 },
    medium: { m: 8192, c: 4096 },
    random: manyOrLong,
    peer: ({ tensors: t, extents: { m, c }, tile }) => [
      rows('layer_norm', m!, tile, [t['X']!, t['g']!, t['b']!, t['Y']!, c!, { f32: 1e-5 }]),
    ],
  },
  {
    name: 'softmax',
    source: 'kernel softmax(X: bf16[m, c]) -> Y: bf16[m, c] { Y = softmax[c](X) }',
    small: { m: 5, c: 77 },
    medium: { m: 8192, c: 4096 },
    random: manyOrLong,
    peer: ({ tensors: t, extents: { m, c }, tile }) => [rows('softmax', m!, tile, [t['X']!, t['Y']!, c!])],
  },
  {
    name: 'cross-entropy',
    source: `kernel cross_entropy(X: bf16[m, c], label: i32[m]) -> L: f32[m] {
      L = logsumexp[c](X) - X[m, label[m]]
    }`,
    small: { m: 5, c: 77 },
    medium: { m: 4096, c: 32000 },
    random: manyOrLong,
    values: { label: below('c') },
    peer: ({ tensors: t, extents: { m, c }, tile }) => [
      rows('cross_entropy', m!, tile, [t['X']!, t['label']!, t['L']!, c!]),
    ],
  },
  {
    name: 'attention',
    source: `kernel attention(Q: bf16[b, h, m, d], K: bf16[b, hk, n, d], V: bf16[b, hk, n, e], scale: f32) -> (O: bf16[b, h, m, e], L: f32[b, h, m]) {
      S = sum[d](Q * K[b, h / (size(h) / size(hk)), n, d]) * scale
      P = select(n <= m + size(n) - size(m), S, -inf)
      O = sum[n](softmax[n](P) * V[b, h / (size(h) / size(hk)), n, e])
      L = logsumexp[n](P)
    }`,
    small: { b: 1, h: 4, hk: 2, m: 21, n: 34, d: 16, e: 16 },
    medium: { b: 2, h: 16, hk: 4, m: 1024, n: 1024, d: 64, e: 64 },
    random: (e) => {
      const [hk, m, d] = [e(1, 4), e(1, 1500), e(16, 128)]
      return { b: e(1, 3), h: hk * e(1, 4), hk, m, n: m + e(1, 2000), d, e: d }
    },
    scalars: ({ d }) => ({ scale: Math.fround(1 / Math.sqrt(d!)) }),
    peer: ({ tensors: t, extents: { b, h, hk, m, n, d, e }, scratch, tile }) => {
      const S = scratch(b! * h! * m! * n!)
      const scale = { f32: 1 / Math.sqrt(d!) }
      return [
        tiles('attention_scores', [m!, n!, b! * h!], tile, [t['Q']!, t['K']!, S, h!, hk!, m!, n!, d!, scale]),
        rows('attention_rows', b! * h! * m!, tile, [S, t['L']!, n!]),
        tiles('attention_values', [m!, e!, b! * h!], tile, [S, t['V']!, t['O']!, h!, hk!, m!, n!, e!]),
      ]
    },
  },
  {
    name: 'conv2d',
    source: `kernel conv2d(X: bf16[b, h, w, c], W: bf16[f, r, s, c], bias: bf16[f], stride: i32, pad: i32) -> Y: bf16[b, p, q, f] {
      Y = relu(sum[r, s, c]((X[b, p * stride + r - pad, q * stride + s - pad, c] else 0) * W) + bias)
    }`,
    small: { b: 2, h: 5, w: 6, c: 9, f: 7, r: 3, s: 3, p: 5, q: 6 },
    medium: { b: 8, h: 56, w: 56, c: 64, f: 128, r: 3, s: 3, p: 56, q: 56 },
    random: (e) => {
      const [h, w] = [e(14, 80), e(14, 80)]
      return { b: e(1, 8), h, w, c: e(16, 128), f: e(32, 256), r: 3, s: 3, p: h, q: w }
    },
    scalars: () => ({ stride: 1, pad: 1 }),
    peer: ({ tensors: t, extents: { b, h, w, c, f, r, s, p, q }, tile }) => [
      tiles('conv2d', [b! * p! * q!, f!, 1], tile, [
        t['X']!, t['W']!, t['bias']!, t['Y']!, b!, h!, w!, c!, f!, r!, s!, p!, q!, 1, 1,
      ]),
    ], // prettier-ignore
  },
  {
    name: 'gather rows',
    source: 'kernel gather(X: bf16[v, c], id: i32[t]) -> Y: bf16[t, c] { Y = X[id[t], c] }',
    small: { v: 11, c: 19, t: 6 },
    medium: { v: 50000, c: 4096, t: 8192 },
    random: (e) => ({ v: e(5000, 50000), c: e(500, 5000), t: e(1000, 10000) }),
    values: { id: below('v') },
    peer: ({ tensors: t, extents: { v, c, t: count }, tile }) => [
      rows('gather', count!, tile, [t['X']!, t['id']!, t['Y']!, v!, c!]),
    ],
  },
  {
    name: 'grouped',
    source: `kernel grouped(A: bf16[t, k] ragged t by ends as g, B: bf16[g, k, n], ends: i32[g]) -> D: bf16[t, n] {
      D = sum[k](A * B)
    }`,
    small: { t: 41, k: 33, n: 21, g: 4 },
    medium: { t: 4096, k: 1024, n: 2048, g: 8 },
    random: (e) => ({ t: e(16, 6000), k: e(16, 2000), n: e(16, 2000), g: e(2, 64) }),
    values: { ends },
    peer: ({ tensors: t, extents: { t: count, k, n, g }, tile }) => [
      tiles('grouped', [count!, n!, g!], tile, [t['A']!, t['B']!, t['ends']!, t['D']!, n!, k!]),
    ],
  },
  {
    name: 'weight gradient',
    source: `kernel weight_gradient(A: bf16[t, k] ragged t by ends as g, dY: bf16[t, n], ends: i32[g]) -> dW: f32[g, k, n] {
      dW = sum[t](A * dY)
    }`,
    small: { t: 41, k: 33, n: 21, g: 4 },
    medium: { t: 4096, k: 1024, n: 1024, g: 8 },
    random: (e) => ({ t: e(16, 6000), k: e(16, 2000), n: e(16, 2000), g: e(2, 16) }),
    values: { ends },
    peer: ({ tensors: t, extents: { k, n, g }, tile }) => [
      tiles('weight_gradient', [k!, n!, g!], tile, [t['A']!, t['dY']!, t['ends']!, t['dW']!, k!, n!]),
    ],
  },
  {
    name: 'mxfp8',
    source: `kernel mxfp8(A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[k, n] * ue8m0[k/32, n]) -> D: bf16[m, n] {
      D = sum[k](A * B)
    }`,
    small: { m: 19, n: 35, k: 70 },
    medium: { m: 2048, n: 2048, k: 2048 },
    random: (e) => ({ m: e(1, 4000), n: e(16, 4000), k: e(16, 4000) }),
    values: { 'A.scale': powers, 'B.scale': powers },
    peer: (problem) => {
      const { tensors: t, extents: { m, n, k }, tile } = problem // prettier-ignore
      return [
        tiles('mxfp8', product(problem), tile, [t['A']!, t['A.scale']!, t['B']!, t['B.scale']!, t['D']!, m!, n!, k!]),
      ]
    },
  },
  {
    name: 'fp8 in blocks',
    source: `kernel fp8_blocks(A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[n/128, k/128]) -> D: bf16[m, n] {
      D = sum[k](A * B)
    }`,
    small: { m: 19, n: 140, k: 150 },
    medium: { m: 2048, n: 2048, k: 2048 },
    random: (e) => ({ m: e(1, 4000), n: e(16, 4000), k: e(16, 4000) }),
    values: { 'A.scale': positive, 'B.scale': positive },
    peer: (problem) => {
      const { tensors: t, extents: { m, n, k }, tile } = problem // prettier-ignore
      return [
        tiles('fp8_blocks', product(problem), tile, [
          t['A']!,
          t['A.scale']!,
          t['B']!,
          t['B.scale']!,
          t['D']!,
          m!,
          n!,
          k!,
        ]),
      ]
    },
  },
  {
    name: 'u4 weights',
    source: `kernel u4_weights(X: f16[m, k], W: (u4[k, n] - u4[k/128, n]) * f16[k/128, n]) -> D: f16[m, n] {
      D = sum[k](X * W)
    }`,
    small: { m: 9, n: 36, k: 150 },
    medium: { m: 256, n: 4096, k: 4096 },
    random: (e) => ({ m: e(1, 600), n: e(16, 5000, 2), k: e(16, 5000) }),
    values: { 'W.scale': (count, extents, next) => Float64Array.from(positive(count, extents, next), (x) => x / 64) },
    peer: (problem) => {
      const { tensors: t, extents: { m, n, k }, tile } = problem // prettier-ignore
      return [
        tiles('u4_weights', product(problem), tile, [
          t['X']!,
          t['W']!,
          t['W.zero']!,
          t['W.scale']!,
          t['D']!,
          m!,
          n!,
          k!,
        ]),
      ]
    },
  },
  {
    name: 'quantised output',
    source: `kernel quantised(A: bf16[m, k], B: bf16[k, n]) -> D: e4m3[m, n] * ue8m0[m, n/32] {
      D = relu(sum[k](A * B))
    }`,
    small: { m: 9, n: 70, k: 40 },
    medium: { m: 2048, n: 2048, k: 2048 },
    random: (e) => ({ m: e(1, 4000), n: e(16, 4000), k: e(16, 4000) }),
    peer: (problem) => {
      const { tensors: t, extents: { m, n, k }, tile, scratch } = problem // prettier-ignore
      const D = scratch(m! * n!)
      const blocks = m! * up(n!, 32)
      return [
        tiles('relu_product', product(problem), tile, [t['A']!, t['B']!, D, m!, n!, k!]),
        {
          kernel: 'quantise',
          grid: [up(blocks, 8), 1, 1],
          block: [256, 1, 1],
          params: [D, t['D']!, t['D.scale']!, n!, blocks],
        },
      ]
    },
  },
  {
    name: 'softmax of columns',
    source: 'kernel softmax_columns(X: f32[c, m]) -> Y: f32[c, m] { Y = softmax[c](X) }',
    small: { c: 33, m: 70 },
    medium: { c: 4096, m: 4096 },
    random: manyOrLong,
    peer: ({ tensors: t, extents: { c, m }, tile }) => [
      rows('softmax_columns', up(m!, tile * tile), tile, [t['X']!, t['Y']!, c!, m!]),
    ],
  },
  {
    name: 'nvfp4',
    source: `kernel nvfp4(A: e2m1[m, k] * ue4m3[m, k/16] * f32, B: e2m1[n, k] * ue4m3[n, k/16] * f32) -> D: bf16[m, n] {
      D = sum[k](A * B)
    }`,
    small: { m: 19, n: 35, k: 70 },
    medium: { m: 2048, n: 2048, k: 2048 },
    random: (e) => ({ m: e(1, 4000), n: e(16, 4000), k: e(16, 4000, 2) }),
    scalars: () => ({ 'A.global': 0.5, 'B.global': 2 }),
    values: { 'A.scale': positive, 'B.scale': positive },
    peer: (problem) => {
      const { tensors: t, extents: { m, n, k }, tile } = problem // prettier-ignore
      const operands = [t['A']!, t['A.scale']!, { f32: 0.5 }, t['B']!, t['B.scale']!, { f32: 2 }, t['D']!]
      return [tiles('nvfp4', product(problem), tile, [...operands, m!, n!, k!])]
    },
  },
  {
    name: 'norm, product',
    source: `kernel norm_product(X: bf16[m, k], g: bf16[k], W: bf16[k, n], eps: f32 = 1e-5) -> D: bf16[m, n] {
      r = rsqrt(mean[k](X * X) + eps)
      D = sum[k](X * r * g * W)
    }`,
    small: { m: 19, n: 35, k: 70 },
    medium: { m: 2048, n: 2048, k: 2048 },
    random: (e) => ({ m: e(1, 4000), n: e(16, 4000), k: e(16, 4000) }),
    peer: (problem) => {
      const { tensors: t, extents: { m, n, k }, tile, scratch } = problem // prettier-ignore
      const r = scratch(m!)
      return [
        rows('norms', m!, tile, [t['X']!, r, k!, { f32: 1e-5 }]),
        tiles('norm_product', product(problem), tile, [t['X']!, r, t['g']!, t['W']!, t['D']!, m!, n!, k!]),
      ]
    },
  },
  {
    name: 'experts',
    source: `kernel experts(X: bf16[v, k], row: i32[t] ragged t by ends as g, gate: bf16[g, k, n], up: bf16[g, k, n], ends: i32[g]) -> H: bf16[t, n] {
      H = silu(sum[k](X[row[t], k] * gate)) * sum[k](X[row[t], k] * up)
    }`,
    small: { v: 11, t: 41, k: 33, n: 21, g: 4 },
    medium: { v: 2048, t: 4096, k: 1024, n: 1024, g: 8 },
    random: (e) => ({ v: e(16, 4000), t: e(16, 6000), k: e(16, 2000), n: e(16, 2000), g: e(2, 64) }),
    values: { ends, row: below('v') },
    peer: ({ tensors: t, extents: { t: count, k, n, g }, tile }) => [
      tiles('experts', [count!, n!, g!], tile, [t['X']!, t['row']!, t['gate']!, t['up']!, t['ends']!, t['H']!, n!, k!]),
    ],
  },
  {
    name: 'paged decoding',
    source: `kernel paged(Q: bf16[b, h, d], K: bf16[p, s, hk, d], V: bf16[p, s, hk, e], page: i32[b, j], length: i32[b], scale: f32) -> O: bf16[b, h, e] {
      axis n = size(j) * size(s)
      S = sum[d](Q * K[page[b, n / size(s)], n % size(s), h / (size(h) / size(hk)), d]) * scale
      P = softmax[n](select(n < length, S, -inf))
      O = sum[n](P * V[page[b, n / size(s)], n % size(s), h / (size(h) / size(hk)), e])
    }`,
    small: { b: 3, h: 4, hk: 2, d: 16, e: 16, p: 5, s: 4, j: 3 },
    medium: { b: 16, h: 32, hk: 8, d: 128, e: 128, p: 4096, s: 16, j: 256 },
    random: (e) => {
      const [hk, d] = [e(1, 8), e(16, 128)]
      return { b: e(1, 32), h: hk * e(1, 8), hk, d, e: d, p: e(100, 4000), s: e(4, 64), j: e(2, 100) }
    },
    scalars: ({ d }) => ({ scale: Math.fround(1 / Math.sqrt(d!)) }),
    values: {
      page: below('p'),
      length: (count, { s, j }, next) => Int32Array.from({ length: count }, () => Math.ceil(next() * s! * j!)),
    },
    peer: ({ tensors: t, extents: { b, h, hk, d, e, s, j }, scratch, tile }) => {
      const n = s! * j!
      const S = scratch(b! * h! * n)
      const cache = [t['page']!, h!, hk!]
      return [
        { kernel: 'paged_scores', grid: [up(n, 8), b! * h!, 1], block: [256, 1, 1], params: [t['Q']!, t['K']!, S, ...cache, s!, j!, d!, t['length']!, { f32: 1 / Math.sqrt(d!) }] },
        rows('score_rows', b! * h!, tile, [S, n]),
        { kernel: 'paged_values', grid: [up(e!, 32), b! * h!, 1], block: [256, 1, 1], params: [S, t['V']!, t['O']!, ...cache, s!, j!, e!] },
      ]
    }, // prettier-ignore
  },
]
