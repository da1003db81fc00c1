/** Row statistics, attention and rows that are read by their numbers. */
import { below, manyOrLong, rows, tiles, up, type Form } from './form.ts'

export const ROW_FORMS: readonly Form[] = [
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
      const scale = { f32: 1 / Math.sqrt(d!) }
      const cache = [t['page']!, h!, hk!]
      return [
        { kernel: 'paged_scores', grid: [up(n, 8), b! * h!, 1], block: [256, 1, 1], params: [t['Q']!, t['K']!, S, ...cache, s!, j!, d!, t['length']!, scale] },
        rows('score_rows', b! * h!, tile, [S, n]),
        { kernel: 'paged_values', grid: [up(e!, 32), b! * h!, 1], block: [256, 1, 1], params: [S, t['V']!, t['O']!, ...cache, s!, j!, e!] },
      ]
    }, // prettier-ignore
  },
]
