/** Products whose k is cut into parts that meet in memory: more parts than k tiles, and parts that the CTAs of a cluster share. */
import type { DeviceCase } from '../../runtime/selftest/case.ts'

const split = (name: string, kernel: string, schedule: string, body: string, k: number): DeviceCase => ({
  name: `split: ${name}`,
  kernel,
  source: `kernel ${kernel}${body}\nschedule ${kernel} on sm_90 {\n  tile 64x64\n  ${schedule}\n  reassociate\n}\n`,
  types: {},
  design: { kind: 'sm90', tile: [64, 64] },
  extents: { m: 150, n: 200, k },
  operands: {},
  inputs: 'integers',
})

const PLAIN = '(A: bf16[m, k], B: bf16[n, k], bias: f32[n]) -> D: bf16[m, n] { D = relu(sum[k](A * B) + bias) }'
const BLOCKS =
  '(A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[n/128, k/128]) -> D: bf16[m, n] { D = sum[k](A * B) }'

export const SPLIT_CASES: readonly DeviceCase[] = [
  split('three parts', 'split0', 'consumers pingpong\n  parts 3', PLAIN, 536),
  split('three parts, fewer k tiles', 'split0', 'consumers pingpong\n  parts 3', PLAIN, 72),
  split('scales in blocks, parts of clusters', 'split1', 'consumers cooperative\n  splits 2\n  parts 2', BLOCKS, 720),
]
