/** Products for groups of rows: groups that are empty, one that has nearly all rows, rows in no group, rows that are looked up, and gates. */
import type { DeviceCase } from '../../runtime/selftest/case.ts'

type Extents = Readonly<Record<'t' | 'n' | 'k', number>>

interface Groups {
  readonly lengths: readonly number[]
  /** Further integers, and extents of their own. */
  readonly integers?: Readonly<Record<string, readonly number[]>>
  readonly more?: Readonly<Record<string, number>>
  readonly inputs?: DeviceCase['inputs']
}

/** `text`: a kernel named `grouped`, whose groups of `t` end at `off`. */
function grouped(
  name: string,
  text: string,
  tile: readonly [number, number],
  extents: Extents,
  { lengths, integers, more, inputs = 'integers' }: Groups,
): DeviceCase {
  let end = 0
  const off = lengths.map((length) => (end += length))
  const held = Object.entries({ off, ...integers }).map(([operand, values]) => [operand, { values }] as const)
  return {
    name: `groups: ${name}`,
    kernel: 'grouped',
    source: `kernel grouped${text}\n`,
    types: {},
    design: { kind: 'sm90', tile },
    extents: { ...extents, g: off.length, ...more },
    operands: Object.fromEntries(held),
    inputs,
  }
}

const SEVERAL = [17, 0, 3, 130, 0, 64, 1]
/** Distinct places of `rows`, some of which are none. */
const places = (rows: number): number[] => Array.from({ length: rows }, (_, i) => (i % 11 === 3 ? -1 : (i * 7) % 300)) // 7 and 300 have no common factor

const EXCHANGED = `
schedule grouped on sm_90 {
  tile 64x32
  operands ba
}
schedule grouped on sm_100 {
  tile 64x32
  operands ba
}
schedule grouped on sm_80 {
  tile 64x32
  operands ba
}`

export const GROUPED_CASES: readonly DeviceCase[] = [
  grouped('a bias of each', '(A: bf16[t, k] ragged t by off as g, B: bf16[g, k, n], bias: f32[g, n], off: i32[g]) -> D: bf16[t, n] {\n  D = relu(sum[k](A * B) + bias)\n}', [128, 64], { t: 224, n: 144, k: 136 }, { lengths: SEVERAL }),
  grouped('few rows of each, as columns', `(A: bf16[t, k] ragged t by off as g, B: bf16[g, n, k], bias: f32[g, n], w: f32[t], off: i32[g]) -> D: bf16[t, n] {\n  D = gelu(sum[k](A * B) + bias) * w\n}${EXCHANGED}`, [64, 32], { t: 90, n: 136, k: 136 }, { lengths: [3, 0, 1, 40, 0, 17, 8], inputs: 'normal' }),
  grouped('one has nearly all rows', '(A: e4m3[t, k] * f32[t] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n], off: i32[g]) -> D: bf16[t, n] {\n  D = sum[k](A * B)\n}', [128, 128], { t: 520, n: 136, k: 160 }, { lengths: [0, 2, 500, 0, 1] }),
  grouped('none has rows', '(A: bf16[t, k] ragged t by off as g, B: bf16[g, n, k], off: i32[g]) -> D: bf16[t, n] {\n  D = sum[k](A * B)\n}', [64, 64], { t: 70, n: 72, k: 64 }, { lengths: [0, 0, 0] }),
  grouped('gates beside what they gate', '(X: bf16[v, k], row: i32[t] ragged t by off as g, W: bf16[g, k, j], bias: f32[g, j], off: i32[g]) -> H: bf16[t, n] {\n  gate = min(sum[k](X[row[t], k] * W[g, k, 2 * n]) + bias[g, 2 * n], 7)\n  up = clamp(sum[k](X[row[t], k] * W[g, k, 2 * n + 1]) + bias[g, 2 * n + 1], -7, 7)\n  H = gate * sigmoid(1.702 * gate) * (up + 1)\n}', [128, 64], { t: 224, n: 72, k: 136 }, {
    lengths: SEVERAL,
    integers: { row: Array.from({ length: 224 }, (_, i) => (i * 7) % 50) },
    more: { v: 50, j: 144 },
    inputs: 'normal',
  }),
  grouped('back to their places', '(H: bf16[t, k] ragged t by off as g, W: bf16[g, n, k], to: i32[t], weight: f32[a], off: i32[g]) -> D: bf16[a, n] {\n  D[to[t], n] = sum[k](H * W) * weight[to[t]]\n}', [128, 64], { t: 224, n: 72, k: 136 }, { lengths: SEVERAL, integers: { to: places(224) }, more: { a: 300 } }),
  grouped('rows of a group that share scales', '(A: e4m3[t, k] * f32[t/128, k/128] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g]) -> D: e4m3[t, n] * ue8m0[t/32, n] {\n  D = sum[k](A * B)\n}', [64, 64], { t: 224, n: 80, k: 272 }, { lengths: SEVERAL }),
  grouped('gradients of fp8, in blocks of each', '(A: e4m3[t, k] * f32[t/128, k] ragged t by off as g, dY: e4m3[t, n] * f32[t/128, n], off: i32[g]) -> dW: f32[g, k, n] {\n  dW = sum[t](A * dY)\n}', [64, 64], { t: 224, n: 80, k: 80 }, { lengths: SEVERAL }),
  grouped('gradients of mxfp8', '(A: e4m3[t, k] * ue8m0[t/32, k] ragged t by off as g, dY: e4m3[t, n] * ue8m0[t/32, n], off: i32[g]) -> dW: f32[g, k, n] {\n  dW = sum[t](A * dY)\n}', [64, 64], { t: 224, n: 80, k: 80 }, { lengths: SEVERAL }),
  grouped('gradients', '(A: bf16[t, k] ragged t by off as g, dY: bf16[t, n], off: i32[g]) -> dW: f32[g, k, n] {\n  dW = sum[t](A * dY)\n}', [64, 64], { t: 224, n: 72, k: 80 }, { lengths: SEVERAL }),
] // prettier-ignore
