/** Products: of images, groups, stored forms, expressions. */
import { below, ends, positive, powers, product, rows, tiles, up, type Form } from './form.ts'

export const PRODUCT_FORMS: readonly Form[] = [
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
]
