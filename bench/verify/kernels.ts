/** The kernels whose programs are changed: every sample on each kind of tensor core, and what each target has besides. */
import { readFileSync } from 'node:fs'
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { KERNELS, type MutatedKernel } from '../mutation/kernels.ts'

type Kind = 'sm100' | 'sm90' | 'sm80'
type Extents = Readonly<Record<string, number>>

interface Program {
  readonly kernel: string
  readonly source: string
  readonly tile: Readonly<Record<Kind, readonly [number, number]>>
  readonly types?: DeviceCase['types']
  readonly scalars?: DeviceCase['scalars']
  readonly operands?: DeviceCase['operands']
  readonly epilogue?: DeviceCase['epilogue']
  /** Many steps of k, so that loads run as far ahead as their ring lets them; then many tiles, so that the MMAs run ahead of the stores. */
  readonly extents: readonly [Extents, Extents]
}

const NARROW = { sm100: [128, 64], sm90: [64, 64], sm80: [64, 64] } as const
const sample = (name: string): string => readFileSync(new URL(`../../samples/${name}.ktl`, import.meta.url), 'utf8')
const DEEP = { m: 200, n: 136, k: 872 }
const SHALLOW = { m: 250, n: 264, k: 64 }

const PROGRAMS: Readonly<Record<string, Program>> = {
  gemm: {
    kernel: 'gemm', source: sample('gemm'), types: { T: 'f16', O: 'f16' }, tile: { ...NARROW, sm90: [128, 64] },
    epilogue: { text: 'relu(acc * alpha + C)', scalars: { alpha: 2 }, tensors: { C: { dtype: 'f16', axes: ['m', 'n'] } } },
    extents: [DEEP, SHALLOW],
  },
  linear: { kernel: 'linear_gelu', source: sample('linear'), tile: NARROW, extents: [DEEP, SHALLOW] },
  lora: {
    kernel: 'lora', source: sample('lora'), types: { T: 'f16' }, tile: NARROW,
    extents: [{ ...DEEP, r: 136 }, { ...SHALLOW, r: 16 }],
  },
  heads: {
    kernel: 'heads_out', source: sample('lora'), tile: NARROW,
    extents: [{ m: 200, n: 136, h: 7, d: 136 }, { m: 250, n: 264, h: 1, d: 64 }],
  },
  residual: { kernel: 'residual', source: sample('residual'), scalars: { alpha: 2, beta: 3 }, tile: NARROW, extents: [DEEP, SHALLOW] },
  swiglu: {
    kernel: 'swiglu', source: sample('swiglu'), tile: NARROW,
    extents: [{ m: 200, f: 136, k: 872 }, { m: 250, f: 264, k: 64 }],
  },
  reductions: {
    kernel: 'reduced', tile: NARROW,
    source: `kernel reduced(A: f16[l?, m, k], B: f16[l?, n, k], s: f32) -> (D: f16[l?, m, n], most: f32[l?], rows: f32[l?, m], total: f32[l?, n]) {
  x = sum[k](A * B) * s
  D = x
  most = max[m, n](abs(x))
  rows = max[n](x)
  total = sum[m](x)
}`,
    scalars: { s: 2 },
    extents: [{ ...DEEP, l: 2 }, { ...SHALLOW, m: 248, l: 2 }],
  },
  /** Scales behind the sum, an output in a stored form. */
  scaled: {
    kernel: 'scaled', tile: NARROW,
    source: 'kernel scaled(A: i8[m, k] * f32[m], B: i8[n, k] * f32[n]) -> D: i8[m, n] * f32[m, n/32] { D = relu(sum[k](A * B)) }',
    extents: [{ ...DEEP, n: 144 }, { ...SHALLOW, n: 272 }],
  },
  /** Rows that begin anywhere: no TMA, no copies of 16 bytes. */
  unaligned: {
    kernel: 'loose', tile: NARROW,
    source: 'kernel loose(A: bf16[m, k], B: bf16[n, k]) -> D: bf16[m, n] { D = sum[k](A * B) }',
    operands: { A: { padding: 1, offset: 1 }, D: { padding: 1, offset: 1 } },
    extents: [{ m: 131, n: 135, k: 871 }, { m: 251, n: 263, k: 63 }],
  },
} // prettier-ignore

/** Forms that the samples do not have: pairs of CTAs, clusters, dynamic scheduling, k split over a cluster, two tiles in turn … */
const FORMS = [
  '2cta',
  'cluster 2x2',
  'clc',
  'fp8',
  'int8',
  'sm90',
  'sm90 2x1',
  'sm90 split k',
  'sm90 ping-pong',
  'sm90 scaled',
  'sm100 scaled in parts',
  'sm100 scaled on one side',
]

const KINDS: readonly Kind[] = ['sm100', 'sm90', 'sm80']

export const PROGRAMS_TO_CHANGE: readonly MutatedKernel[] = [
  ...Object.entries(PROGRAMS).flatMap(([name, program]) => KINDS.map((kind) => mutated(`${kind} ${name}`, kind, program))),
  ...KERNELS.filter(({ name }) => FORMS.includes(name)).map((kernel) => ({ ...kernel, name: `${kernel.name} (form)` })),
] // prettier-ignore

function mutated(name: string, kind: Kind, program: Program): MutatedKernel {
  const { kernel, source, tile, types = {}, operands = {}, scalars, epilogue, extents } = program
  const problem = (problemName: string, extentsOf: Extents): MutatedKernel['problems'][number] => ({
    name: problemName,
    case: {
      name: `${name}, ${problemName}`, kernel, source, types, operands, inputs: 'integers', design: { kind, tile: tile[kind] },
      extents: extentsOf, ...(scalars && { scalars }), ...(epilogue && { epilogue }),
    },
  }) // prettier-ignore
  return { name, smCount: 2, row: null, problems: [problem('deep k', extents[0]), problem('shallow k', extents[1])] }
}
