/** Several products of the same rows on SM90: tiles of their columns side by side, which an MMA multiplies at once, where it has room for them. */
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { scheduled } from './scheduled.ts'

type Tile = readonly [number, number]

const gated = (
  name: string,
  kernel: string,
  tile: Tile,
  schedule: string,
  body: string,
  [m, n, k]: readonly [number, number, number] = [150, 200, 336],
  rest: Partial<DeviceCase> = {},
): DeviceCase => {
  const lines = `tile ${tile.join('x')}\n  ${schedule}`
  return scheduled(`products: ${name}`, kernel, { kind: 'sm90', tile }, lines, body, { m, n, k }, rest)
}

const GATE = 'D = relu(sum[k](A * G)) * sum[k](A * U)'
const operands = (a: string, weight: string, d: string): string =>
  `(A: ${a}, G: ${weight}, U: ${weight}) -> D: ${d} { ${GATE} }`
const ALONG_K = operands('bf16[m, k]', 'bf16[n, k]', 'bf16[m, n]')
const ALONG_N = operands('f16[m, k]', 'f16[k, n]', 'f16[m, n]')
const EACH = operands('e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n, k/128]', 'bf16[m, n]')
const BLOCKS = operands('e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n/128, k/128]', 'bf16[m, n]')
const COOPERATIVE = 'consumers cooperative'

export const GATED_CASES: readonly DeviceCase[] = [
  gated('two blocks of rows, in turns', 'gated0', [128, 64], 'consumers pingpong', ALONG_K),
  gated('spans of half the swizzle', 'gated1', [128, 96], COOPERATIVE, ALONG_N),
  gated('more columns than an MMA has', 'gated2', [64, 160], COOPERATIVE, ALONG_K, [70, 330, 136]),
  gated('three of them', 'gated3', [128, 64], 'consumers cooperative\n  cluster 2x1', '(A: bf16[m, k], G: bf16[n, k], U: bf16[n, k], V: bf16[n, k]) -> D: f32[m, n] { D = relu(sum[k](A * G)) * sum[k](A * U) + sum[k](A * V) }', [300, 136, 200]),
  gated('parts of k and of clusters', 'gated4', [128, 64], 'consumers cooperative\n  splits 2\n  parts 2\n  reassociate', ALONG_K, [150, 136, 712]),
  gated('of integers', 'gated5', [64, 16], COOPERATIVE, '(A: i8[m, k], G: i8[n, k], U: i8[n, k]) -> D: f32[m, n] { D = f32(sum[k](A * G)) * f32(sum[k](A * U)) }', [70, 40, 144]),
  gated('scales of each column, three warpgroups', 'gated6', [192, 64], COOPERATIVE, EACH, [200, 136, 272], { inputs: 'normal' }),
  gated('scales in blocks, two blocks of rows', 'gated7', [256, 32], COOPERATIVE, BLOCKS, [300, 72, 272]),
  gated('scales of each column, summed one by one', 'gated8', [128, 128], COOPERATIVE, EACH, [130, 136, 272]),
] // prettier-ignore
