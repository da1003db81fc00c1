/** Products whose k is cut into parts that meet in memory: more parts than k tiles, and parts that the CTAs of a cluster share. */
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { scheduled, type Design } from './scheduled.ts'

type Kind = Exclude<Design['kind'], 'simt'>

const split = (kind: Kind, name: string, kernel: string, schedule: string, body: string, k: number): DeviceCase => {
  const lines = `tile 64x64\n  ${schedule}\n  reassociate`
  return scheduled(`split: ${name}`, kernel, { kind, tile: [64, 64] }, lines, body, { m: 150, n: 200, k })
}

const PLAIN = '(A: bf16[m, k], B: bf16[n, k], bias: f32[n]) -> D: bf16[m, n] { D = relu(sum[k](A * B) + bias) }'
const ADDED = '(A: bf16[m, k], B: bf16[n, k], C: bf16[m, n]) -> D: bf16[m, n] { D = relu(sum[k](A * B) + C) }'
const GROUPS =
  '(A: bf16[t, k] ragged t by off as g, B: bf16[g, n, k], off: i32[g]) -> D: bf16[t, n] { D = sum[k](A * B) }'
const BLOCKS =
  '(A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[n/128, k/128]) -> D: bf16[m, n] { D = sum[k](A * B) }'

export const SPLIT_CASES: readonly DeviceCase[] = [
  split('sm90', 'three parts', 'split0', 'consumers pingpong\n  parts 3', PLAIN, 536),
  split('sm90', 'three parts, fewer k tiles', 'split0', 'consumers pingpong\n  parts 3', PLAIN, 72),
  split(
    'sm90',
    'scales in blocks, parts of clusters',
    'split1',
    'consumers cooperative\n  splits 2\n  parts 2',
    BLOCKS,
    720,
  ),
  split(
    'sm90',
    'clusters that share operands and k',
    'split6',
    'consumers cooperative\n  cluster 2x2\n  splits 2',
    PLAIN,
    712,
  ),
  split(
    'sm90',
    'clusters that share an operand and k, parts of them, fewer k tiles',
    'split7',
    'consumers cooperative\n  cluster 1x2\n  splits 4\n  parts 2',
    PLAIN,
    200,
  ),
  // Nine are summed up by all of their CTAs, which run at once: 12 tiles; tiles of whole waves come before those that are cut.
  {
    ...split('sm90', 'nine parts that meet', 'split8', 'consumers cooperative\n  parts 9', PLAIN, 1160),
    inputs: 'normal',
  },
  {
    ...split(
      'sm90',
      'ten parts of clusters that meet',
      'split9',
      'consumers cooperative\n  cluster 2x1\n  parts 10',
      PLAIN,
      1160,
    ),
    extents: { m: 150, n: 130, k: 1160 },
  },
  split(
    'sm90',
    'nine parts that meet, of warpgroups that take turns',
    'split10',
    'consumers pingpong\n  parts 9',
    PLAIN,
    1160,
  ),
  {
    ...split('sm90', 'parts that are too many to meet', 'split8', 'consumers cooperative\n  parts 9', PLAIN, 700),
    extents: { m: 64, n: 64 * 20, k: 700 },
  },
  scheduled(
    'split: eight parts by mma.sync, each of which finishes a share, and an operand of each element',
    'split20',
    { kind: 'sm80', tile: [128, 128] },
    'tile 128x128\n  parts 8\n  reassociate',
    ADDED,
    { m: 150, n: 203, k: 1031 },
  ),
  split('sm80', 'ten parts that meet by mma.sync, of rows that TMA does not take', 'split11', 'parts 10', PLAIN, 1031),
  split(
    'sm100',
    'nine parts that meet in tensor memory',
    'split12',
    'mma 1cta\n  scheduler static\n  parts 9',
    PLAIN,
    1160,
  ),
  // 12 tiles of which two, three and four share work items, and some are no full set.
  split(
    'sm90',
    'two parts, shared by two tiles',
    'split13',
    'consumers cooperative\n  parts 2\n  share 2',
    PLAIN,
    1160,
  ),
  split(
    'sm90',
    'four parts, shared by three tiles',
    'split14',
    'consumers cooperative\n  parts 4\n  share 3',
    PLAIN,
    1160,
  ),
  {
    ...split(
      'sm90',
      'three parts, shared by four tiles of clusters',
      'split15',
      'consumers cooperative\n  cluster 2x1\n  parts 3\n  share 4',
      PLAIN,
      200,
    ),
    extents: { m: 150, n: 330, k: 200 },
  },
  split('sm80', 'three parts by mma.sync, shared by two tiles', 'split16', 'parts 3\n  share 2', PLAIN, 1031),
  split(
    'sm100',
    'three parts, shared by two tiles, of tensor memory',
    'split17',
    'mma 1cta\n  parts 3\n  share 2',
    PLAIN,
    1160,
  ),
  {
    ...split('sm90', 'three parts of groups', 'split4', 'consumers pingpong\n  parts 3', GROUPS, 536),
    extents: { t: 180, g: 5, n: 200, k: 536 },
    operands: { off: { values: [17, 17, 150, 151, 170] } },
  },
  split('sm80', 'three parts by mma.sync, of rows that TMA does not take', 'split5', 'parts 3', PLAIN, 531),
  {
    ...split('sm80', 'three parts by mma.sync, and an operand of each element', 'split18', 'parts 3', ADDED, 531),
    extents: { m: 150, n: 203, k: 531 },
  },
  split(
    'sm90',
    'three parts, and an operand that TMA brings',
    'split19',
    'consumers cooperative\n  parts 3',
    ADDED,
    536,
  ),
  split('sm100', 'three parts, handed out by the device', 'split2', 'mma 1cta\n  scheduler clc\n  parts 3', PLAIN, 536),
  split('sm100', 'scales in blocks, two parts', 'split3', 'mma 1cta\n  parts 2', BLOCKS, 720),
]
