/** Tiles of an odd multiple of 8 columns, whose sub-tiles have no swizzle, and of which clusters share rows that are no whole swizzle atoms. */
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { scheduled } from './scheduled.ts'

const odd = (
  name: string,
  columns: number,
  schedule: string,
  body: string,
  extents: DeviceCase['extents'],
  { target = 90, ...rest }: Partial<DeviceCase> & { readonly target?: 90 | 100 } = {},
): DeviceCase => {
  const lines = `tile 64x${columns}\n  ${schedule}`
  return scheduled(
    `columns: ${name}`,
    `odd${columns}`,
    { kind: `sm${target}`, tile: [64, columns] },
    lines,
    body,
    extents,
    rest,
  )
}

const FULL =
  '(A: bf16[m, k], B: bf16[n, k], C: bf16[m, n], alpha: f32) -> D: bf16[m, n] { D = relu(sum[k](A * B) * alpha + C) }'
const BIAS = '(A: bf16[m, k], B: bf16[k, n], bias: f32[n]) -> D: bf16[m, n] { D = relu(sum[k](A * B) + bias) }'
const ACROSS =
  '(A: f16[m, k], B: f16[k, n], C: f16[m, n], E: f32[m, n], alpha: f32) -> D: f16[m, n] { D = relu(sum[k](A * B) * alpha + C) + E }'
const TWO =
  '(A: f16[m, k], B: f16[n, k]) -> (D: f16[m, n], E: f32[m, n]) {\n  D = sum[k](A * B)\n  E = sum[k](A * B) * 2\n}'

export const ODD_CASES: readonly DeviceCase[] = [
  odd(
    '72 that a cluster shares',
    72,
    'consumers cooperative\n  cluster 4x1',
    FULL,
    { m: 328, n: 200, k: 456 },
    {
      scalars: { alpha: 2 },
      operands: { C: { padding: 8 }, D: { padding: 16 } },
    },
  ),
  odd('120 of tiles that take turns, transposed', 120, 'consumers pingpong\n  cluster 2x1\n  operands ba', BIAS, {
    m: 250,
    n: 520,
    k: 200,
  }),
  odd(
    '40, parts of k of clusters',
    40,
    'consumers cooperative\n  cluster 2x2\n  parts 3\n  reassociate',
    FULL,
    { m: 150, n: 136, k: 712 },
    {
      scalars: { alpha: 1 },
    },
  ),
  odd(
    '72, transposed, operands across',
    72,
    'consumers pingpong\n  cluster 4x1\n  operands ba',
    ACROSS,
    { m: 83, n: 520, k: 200 },
    {
      scalars: { alpha: 2 },
    },
  ),
  odd('56, two outputs', 56, 'consumers pingpong\n  cluster 1x4', TWO, { m: 270, n: 264, k: 136 }),
  odd(
    '88, rows that begin anywhere',
    88,
    'consumers pingpong\n  cluster 1x1',
    FULL,
    { m: 150, n: 131, k: 203 },
    {
      scalars: { alpha: 1 },
    },
  ),
  odd('8 of tensor memory', 8, 'cluster 1x1', FULL, { m: 150, n: 8, k: 203 }, { target: 100, scalars: { alpha: 2 } }),
  odd(
    '72 of tensor memory that a cluster shares',
    72,
    'cluster 4x1',
    FULL,
    { m: 328, n: 200, k: 456 },
    {
      target: 100,
      scalars: { alpha: 2 },
    },
  ),
  odd(
    '56 of tensor memory, transposed',
    56,
    'cluster 1x1\n  operands ba',
    FULL,
    { m: 70, n: 270, k: 200 },
    {
      target: 100,
      scalars: { alpha: 2 },
    },
  ),
  odd('24 of tensor memory, two outputs', 24, 'cluster 1x2', TWO, { m: 270, n: 141, k: 136 }, { target: 100 }),
]
