/** An operand along both axes of the output that comes through the ring of stages of SM90, behind the steps of k. */
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { scheduled } from './scheduled.ts'

type Tile = readonly [number, number]

const residual = (name: string, [m, n]: Tile, schedule: string, C: 'bf16' | 'f32', k: number): DeviceCase =>
  scheduled(
    `residual: ${name}`,
    `residual_${C}`,
    { kind: 'sm90', tile: [m, n] },
    `tile ${m}x${n}\n  ${schedule}`,
    `(A: bf16[m, k], B: bf16[n, k], C: ${C}[m, n], alpha: f32) -> D: bf16[m, n] { D = relu(sum[k](A * B) * alpha + C) }`,
    { m: 600, n: 456, k },
    { scalars: { alpha: 2 } },
  )

export const RESIDUAL_CASES: readonly DeviceCase[] = [
  residual('left in stages, columns of sub-tiles', [128, 112], 'consumers cooperative', 'bf16', 200),
  residual('left in stages, two blocks of rows of clusters', [256, 128], 'consumers cooperative\n  cluster 2x1', 'bf16', 136),
  residual('left in stages, transposed', [128, 160], 'consumers cooperative\n  operands ba\n  cluster 1x2', 'bf16', 72),
  residual('left in stages, words', [128, 128], 'consumers cooperative\n  cluster 2x1', 'f32', 200),
  residual('to registers of warpgroups that take turns', [128, 128], 'consumers pingpong\n  cluster 2x1', 'bf16', 200),
] // prettier-ignore
