/**
 * The table of SM100 GEMM cases: a pairwise-covering array over shapes, orders, types, tiles and epilogues, and a
 * few cases for what pairs cannot reach. `npx tsx test/cases/sm100_gemm.ts` writes device.json; a test checks that the file
 * is what this program gives and that no pair is missing.
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { CaseEpilogue, CaseOperand, DeviceCase } from '../../runtime/selftest/case.ts'
import { pairwise, type Row } from './pairwise.ts'
import { GATED_CASES } from './gated_gemm.ts'
import { GROUPED_CASES } from './grouped_gemm.ts'
import { ODD_CASES } from './odd_gemm.ts'
import { RESIDUAL_CASES } from './residual_gemm.ts'
import { SPLIT_CASES } from './split_gemm.ts'
import { STORED_CASES } from './stored_gemm.ts'
import { UNALIGNED_CASES } from './unaligned_gemm.ts'

export const FACTORS = {
  T: ['f16', 'bf16'],
  O: ['f16', 'bf16', 'f32'],
  A: ['mk', 'km'],
  B: ['kn', 'nk'],
  D: ['mn', 'nm'],
  tile: ['64x32', '64x128', '64x256', '128x96', '128x128', '128x256'],
  M: ['1', 'prime', 'tile-1', 'tile', 'tile+1', 'several'],
  N: ['8', 'tile-8', 'tile', 'tile+8', '37', 'several'],
  K: [0, 8, 64, 65, 72, 200],
  L: ['none', '1', '3', 'broadcast B'],
  epilogue: ['none', 'alpha C', 'row', 'column', 'batch', 'two outputs'],
  padding: ['dense', 'padded'],
} as const

const SEED = 3

type CaseRow = Row<typeof FACTORS>

const LORA =
  'kernel lora(X: bf16[m, k], W: bf16[n, k], P: bf16[m, r], U: bf16[n, r], C: bf16[m, n], alpha: f32) -> D: bf16[m, n] { D = relu((sum[k](X * W) + sum[r](P * U)) * alpha + C) }'

/** Several loops into one accumulator, and loops over several axes. */
const LOOPS: readonly DeviceCase[] = [
  {
    name: 'loops: low-rank update, epilogue',
    kernel: 'lora',
    source: LORA,
    types: {},
    design: { kind: 'sm100', tile: [128, 128] },
    extents: { m: 520, n: 392, k: 328, r: 16 },
    operands: { C: { padding: 8 }, D: { padding: 8 } },
    scalars: { alpha: 2 },
    inputs: 'integers',
  },
  {
    name: 'loops: low-rank update of few ranks',
    kernel: 'lora',
    source: LORA,
    types: {},
    design: { kind: 'sm100', tile: [128, 64] },
    extents: { m: 136, n: 72, k: 64, r: 8 },
    operands: {},
    scalars: { alpha: 1 },
    inputs: 'integers',
  },
  {
    name: 'loops: sum over heads',
    kernel: 'heads',
    source: 'kernel heads(O: bf16[m, h, d], W: bf16[h, d, n]) -> D: f32[m, n] { D = sum[h, d](O * W) }',
    types: {},
    design: { kind: 'sm100', tile: [128, 64] },
    extents: { m: 300, n: 200, h: 7, d: 72 },
    operands: { D: { padding: 4 } },
    inputs: 'integers',
  },
  {
    name: 'loops: gated, both with an update',
    kernel: 'gated',
    source:
      'kernel gated(X: f16[m, k], G: f16[n, k], B: f16[n, k], P: f16[m, r], H: f16[n, r], U: f16[n, r]) -> D: f32[m, n] { D = relu(sum[k](X * G) + sum[r](P * H)) * (sum[k](X * B) + sum[r](P * U)) }',
    types: {},
    design: { kind: 'sm100', tile: [128, 64] },
    extents: { m: 200, n: 136, k: 96, r: 24 },
    operands: {},
    inputs: 'integers',
  },
]

export function sm100GemmCases(): DeviceCase[] {
  return [
    ...pairwise(FACTORS, SEED).map(toCase),
    ...EXTRA,
    ...STORED_CASES,
    ...GROUPED_CASES,
    ...SPLIT_CASES,
    ...GATED_CASES,
    ...UNALIGNED_CASES,
    ...ODD_CASES,
    ...RESIDUAL_CASES,
  ]
}

export const coveringRows = (): CaseRow[] => pairwise(FACTORS, SEED)

function toCase(row: CaseRow): DeviceCase {
  const [tileM, tileN] = row.tile.split('x').map(Number) as [number, number]
  const m = { '1': 1, prime: 31, 'tile-1': tileM - 1, tile: tileM, 'tile+1': tileM + 1, several: 2 * tileM + 44 }[row.M]
  const n = { '8': 8, 'tile-8': tileN - 8, tile: tileN, 'tile+8': tileN + 8, '37': 37, several: 2 * tileN + 16 }[row.N]
  const l = { none: null, '1': 1, '3': 3, 'broadcast B': 2 }[row.L]
  const order = (axes: string): string[] => [...(l === null ? [] : ['l']), ...axes]
  const extent: Record<string, number> = { m, n, k: row.K }
  const padded = row.padding === 'padded'
  // A and B reach TMA: their rows are padded to 16 bytes at least.
  const input = (axes: string): CaseOperand => ({
    order: order(axes),
    padding: pad(extent[axes[1]!]!, 8) + (padded ? 8 : 0),
  })
  const inner = extent[row.D[1]!]!
  const bytes = row.O === 'f32' ? 4 : 2
  return {
    name: Object.values(row).join(' '),
    kernel: 'gemm',
    types: { T: row.T, O: row.O },
    design: { kind: 'sm100', tile: [tileM, tileN] },
    extents: { ...(l !== null && { l }), m, n, k: row.K },
    operands: {
      A: input(row.A),
      B: row.L === 'broadcast B' ? { ...input(row.B), order: [...row.B], without: ['l'] } : input(row.B),
      D: { order: order(row.D), padding: (padded ? 16 / bytes : 0) + (padded ? pad(inner, 16 / bytes) : 0) },
    },
    ...(row.epilogue !== 'none' && { epilogue: epilogueOf(row.epilogue, l, row.T, padded) }),
    inputs: 'integers',
  }
}

/** Rows of no elements, too, have a stride that TMA can take. */
const pad = (extent: number, multiple: number): number =>
  extent === 0 ? multiple : (multiple - (extent % multiple)) % multiple

function epilogueOf(
  kind: Exclude<CaseRow['epilogue'], 'none'>,
  l: number | null,
  T: DTypeName,
  padded: boolean,
): CaseEpilogue {
  const full = l === null ? ['m', 'n'] : ['l', 'm', 'n']
  const padding = padded ? 8 : 0
  switch (kind) {
    case 'alpha C':
      return { text: 'relu(acc*alpha+C)', scalars: { alpha: 2 }, tensors: { C: { dtype: T, axes: full, padding } } }
    case 'row':
      return { text: 'relu(acc + bias)', tensors: { bias: { dtype: 'f32', axes: ['n'] } } }
    case 'column':
      return { text: 'acc * scale', tensors: { scale: { dtype: 'f16', axes: ['m', '1'] } } }
    case 'batch':
      return l === null
        ? { text: 'acc + shift', scalars: { shift: -3 } }
        : { text: 'acc + shift', tensors: { shift: { dtype: 'f32', axes: ['l', '1', '1'] } } }
    case 'two outputs':
      return {
        text: 'def epilogue(acc, C, beta):\n  F = acc + beta * C\n  D = relu(F)\n  return D, F',
        scalars: { beta: -2 },
        tensors: { C: { dtype: 'bf16', axes: ['m', 'n'], padding } },
        outputs: { F: { dtype: 'f32', axes: full, padding } },
      }
  }
}

/** Two functions in each kernel, one to an output, and each kernel at two sizes: cases are cheap, nvcc runs are not. */
const FUNCTION_PAIRS = [['gelu', 'silu'], ['tanh', 'sigmoid'], ['exp', 'softplus'], ['elu', 'hardswish']] as const // prettier-ignore

const PARTS_COMMON = {
  kernel: 'parts',
  source:
    'kernel parts(A: f32[m, k] | f32[k, m], B: f32[n, k], C: f32[m, n]) -> D: f32[m, n] { D = sum[k](A * B) * 2 + C } schedule parts on sm_80 { f32 tf32x3 }',
  types: {},
} as const

/** f32 in two parts of tf32. */
const PARTS: readonly DeviceCase[] = [
  {
    ...PARTS_COMMON,
    name: 'f32 in parts, A along m, rows of any length',
    design: { kind: 'sm80', tile: [64, 32] },
    extents: { m: 133, n: 100, k: 75 },
    operands: { A: { order: ['k', 'm'], padding: 1 }, B: { padding: 3 }, D: { padding: 1 } },
    inputs: 'integers',
  },
  {
    ...PARTS_COMMON,
    name: 'f32 in parts, both along k',
    design: { kind: 'sm80', tile: [64, 64] },
    extents: { m: 72, n: 136, k: 328 },
    operands: {},
    inputs: 'normal',
  },
]

/** f64 by mma.sync, f32 by FFMAs: ends inside tiles, both orders, an epilogue; batches. */
const EXACT: readonly DeviceCase[] = (['dgemm', 'sgemm'] as const).flatMap((kernel): DeviceCase[] => {
  const dtype = kernel === 'dgemm' ? 'f64' : 'f32'
  const types: DeviceCase['types'] = kernel === 'dgemm' ? {} : { O: 'f32' }
  const [n, k] = kernel === 'dgemm' ? [70, 37] : [100, 75]
  const common = { kernel, types, design: { kind: 'sm80', tile: [64, 32] } } as const
  return [
    {
      ...common,
      name: `${kernel}, A along m and B along k, rows of any length`,
      extents: { m: 133, n, k },
      operands: { A: { order: ['k', 'm'], padding: 1 }, B: { order: ['n', 'k'], padding: 3 }, D: { padding: 1 } },
      epilogue: { text: 'acc * 2 + C', tensors: { C: { dtype, axes: ['m', 'n'] } } },
      inputs: 'integers',
    },
    {
      ...common,
      name: `${kernel}, batches`,
      extents: { l: 2, m: 72, n: 40, k: 64 },
      operands: { A: {}, B: {}, D: {} },
      inputs: 'normal',
    },
  ]
})

/** Same kernels as above where possible: what pairs of factors do not reach. */
const EXTRA: DeviceCase[] = [
  {
    name: 'M = N with a vector of that length: per column, by position',
    kernel: 'gemm',
    types: { T: 'f16', O: 'f32' },
    design: { kind: 'sm100', tile: [128, 128] },
    extents: { m: 96, n: 96, k: 64 },
    operands: { A: {}, B: {}, D: {} },
    epilogue: { text: 'acc + bias', tensors: { bias: { dtype: 'f32', axes: ['n'] } } },
    inputs: 'integers',
  },
  {
    name: 'M = N with a vector annotated per row',
    kernel: 'gemm',
    types: { T: 'f16', O: 'f32' },
    design: { kind: 'sm100', tile: [128, 128] },
    extents: { m: 96, n: 96, k: 64 },
    operands: { A: {}, B: {}, D: {} },
    epilogue: { text: 'acc + bias[m]', tensors: { bias: { dtype: 'f32', axes: ['m'] } } },
    inputs: 'integers',
  },
  {
    name: 'skip0 leaves C unread',
    kernel: 'gemm',
    types: { T: 'bf16', O: 'bf16' },
    design: { kind: 'sm100', tile: [128, 64] },
    extents: { m: 130, n: 72, k: 128 },
    operands: { A: {}, B: { order: ['n', 'k'] }, D: {} },
    epilogue: {
      text: 'acc + skip0(beta) * C',
      scalars: { beta: 0 },
      tensors: { C: { dtype: 'bf16', axes: ['m', 'n'] } },
    },
    inputs: 'integers',
  },
  {
    name: 'more tiles than SMs, deep K: rings wrap many times',
    kernel: 'gemm',
    types: { T: 'f16', O: 'f16' },
    design: { kind: 'sm100', tile: [64, 32] },
    extents: { l: 2, m: 640, n: 512, k: 1000 },
    operands: { A: {}, B: { order: ['l', 'n', 'k'] }, D: {} },
    inputs: 'integers',
  },
  {
    name: 'random normal inputs within the contraction bound',
    kernel: 'gemm',
    types: { T: 'bf16', O: 'bf16' },
    design: { kind: 'sm100', tile: [128, 256] },
    extents: { m: 300, n: 520, k: 776 },
    operands: { A: {}, B: { order: ['n', 'k'] }, D: {} },
    epilogue: {
      text: 'gelu_tanh(acc * scale + bias)',
      scalars: { scale: 0.05 },
      tensors: { bias: { dtype: 'bf16', axes: ['n'] } },
    },
    inputs: 'normal',
  },
  ...FUNCTION_PAIRS.flatMap(([f, g]) =>
    [
      [65, 40, 24],
      [130, 136, 72],
    ].map(([m, n, k]): DeviceCase => ({
      name: `${f} and ${g} on the tensor-core path, ${m}x${n}x${k}`,
      kernel: 'gemm',
      types: { T: 'f16', O: 'f32' },
      design: { kind: 'sm100', tile: [128, 64] },
      extents: { m: m!, n: n!, k: k! },
      operands: { A: {}, B: {}, D: {} },
      epilogue: {
        text: `def activations(acc):\n  x = acc * 0.1\n  F = ${f}(x)\n  D = ${g}(x)\n  return D, F`,
        outputs: { F: { dtype: 'f32', axes: ['m', 'n'] } },
      },
      inputs: 'normal',
    })),
  ),
  ...EXACT,
  ...PARTS,
  ...LOOPS,
]

export const DEVICE_JSON = fileURLToPath(new URL('./device.json', import.meta.url))

export const toJson = (cases: readonly DeviceCase[]): string =>
  `[\n${cases.map((c) => `  ${JSON.stringify(c)}`).join(',\n')}\n]\n`

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(DEVICE_JSON, toJson(sm100GemmCases()))
