/** The problems that ktl is held against cuBLAS with. Plain data: both sides read it. */
import type { DTypeName } from '../../runtime/index.ts'
import { describeShape, drawProblems, numbers } from '../../runtime/bench/suite/draw.ts'
import { fusionOf, type EpilogueName } from '../../runtime/bench/suite/epilogues.ts'
import { GROUPED } from './grouped_problems.ts'
import type { Fusion, Problem, Quantised, Shape } from '../../runtime/bench/suite/problem.ts'

export { describeShape } from '../../runtime/bench/suite/draw.ts'
export type { Fusion, Problem, Rival, Shape } from '../../runtime/bench/suite/problem.ts'

const shape = (m: number, n: number, k: number, l?: number): Shape => ({ m, n, k, ...(l !== undefined && { l }) })
const cube = (size: number): Shape => shape(size, size, size)

/** The most important first: a run may end before all are done. */
const PLAIN_SHAPES: readonly Shape[] = [
  cube(4096), cube(8192), cube(2048), shape(4096, 28672, 8192), shape(128, 28672, 8192), shape(16, 4096, 14336),
  shape(64, 8192, 8192), cube(1024), cube(512), shape(2048, 5120, 1280), shape(1000, 3000, 520), shape(4096, 50264, 4096),
  shape(8192, 8192, 28672), shape(512, 512, 512, 64), shape(2048, 2048, 1024, 8), cube(16384),
] // prettier-ignore

/**
 * Few tiles and much of k, or a little more than whole waves of tiles: what cutting k into parts is for. Two have neighbours whose rows start
 * at multiples of 128 bytes, which tells waves from loads.
 */
const LONG_K_SHAPES: readonly Shape[] = [
  shape(1464, 3072, 24312), shape(1263, 984, 16176), shape(176, 9048, 9552), shape(592, 5544, 6344), cube(1536), shape(4096, 2112, 7168),
  shape(128, 128, 65536), shape(256, 256, 16384), shape(433, 176, 19520), shape(664, 6560, 5568), shape(1464, 3072, 24320),
  shape(592, 5544, 6400),
] // prettier-ignore

const FUSED_SHAPES: readonly Shape[] = [cube(4096), cube(8192), shape(8192, 8192, 1024), shape(4096, 14336, 4096)]

interface Types {
  readonly name: string
  readonly a: DTypeName
  readonly out: DTypeName
}

const BF16: Types = { name: 'bf16', a: 'bf16', out: 'bf16' }
const F16: Types = { name: 'f16', a: 'f16', out: 'f16' }

function plain(
  group: string,
  { a, out }: Types,
  orderB: Problem['orderB'],
  shape: Shape,
  goal: number | null,
): Problem {
  const name = `${group} ${describeShape(shape)}`
  const fast = a === 'e4m3' ? { fastAccumulation: true } : {}
  return { name, group, shape, a, b: a, out, orderB, fusion: null, rivals: ['plain'], goal, ...fast }
}

/** fp8 with scales: 1 x 128 activations with 128 x 128 or 1 x 128 weights, and one for a row of either. */
const SCALED = {
  'fp8 1x128 128x128': { A: [1, 128], B: [128, 128] },
  'fp8 1x128 1x128': { A: [1, 128], B: [128, 1] },
  'fp8 rows': { A: [1, 'all'], B: ['all', 1] },
} satisfies Readonly<Record<string, Problem['scales']>>

const SCALED_SHAPES: readonly Shape[] = [
  cube(4096), cube(8192), shape(4096, 7168, 2048), shape(128, 7168, 4096), shape(4096, 24576, 1536),
] // prettier-ignore

const scaled = (group: keyof typeof SCALED, shape: Shape): Problem => ({
  name: `${group} ${describeShape(shape)}`, group, shape, a: 'e4m3', b: 'e4m3', out: 'bf16', orderB: 'nk', fusion: null, rivals: ['plain'],
  scales: SCALED[group], fastAccumulation: true, goal: group === 'fp8 rows' ? 1 : 1.15,
}) // prettier-ignore

/** What is done with such a product, and with one of bf16, each against our own plain kernel: epilogues, gates, quantised outputs. */
const QUANTISED = {
  fp8: { data: 'e4m3', scale: 'f32', block: 128 }, mxfp8: { data: 'e4m3', scale: 'ue8m0', block: 32 }, i8: { data: 'i8', scale: 'f32', block: 128 },
} as const satisfies Readonly<Record<string, Quantised>> // prettier-ignore

const SCALED_FUSIONS: readonly Fusion[] = [
  fusionOf('bias', []), fusionOf('relu_axpby', []), fusionOf('gelu_tanh_bias', []),
  { name: 'swiglu', text: null, operands: {}, scalars: {}, rivals: [] },
  ...Object.entries(QUANTISED).map(([name, quantised]): Fusion => ({ name: `to ${name}`, text: 'acc', operands: {}, scalars: {}, rivals: [], quantised })),
] // prettier-ignore

const fusedScaled = (of: keyof typeof SCALED, fusion: Fusion, shape: Shape): Problem => {
  const group = `fused ${of} ${fusion.name}`
  return { ...scaled(of, shape), name: `${group} ${describeShape(shape)}`, group, fusion, rivals: [], goal: null }
}

const quantised = (fusion: Fusion, shape: Shape): Problem => {
  const group = `fused bf16 ${fusion.name}`
  return { name: `${group} ${describeShape(shape)}`, group, shape, a: 'bf16', b: 'bf16', out: 'bf16', orderB: 'nk', fusion, rivals: [], goal: null }
} // prettier-ignore

/** Whose operands nothing is rounded for: f64 by DMMA, f32 without tf32. Shapes with rows along k, and one in every other order. */
const EXACT_SHAPES = [cube(4096), cube(2048), shape(8192, 1024, 4096), shape(1000, 3000, 520)]
const OTHER_ORDERS = [
  ['mk', 'kn'],
  ['km', 'nk'],
  ['km', 'kn'],
] as const

function exact(group: string, a: 'f32' | 'f64'): Problem[] {
  const of = (orderB: Problem['orderB'], shape: Shape): Problem => ({
    ...plain(group, { name: a, a, out: a }, orderB, shape, 0.95), ...(a === 'f32' && { exact: true }),
  })
  return [
    ...EXACT_SHAPES.map((shape) => of('nk', shape)),
    ...OTHER_ORDERS.map(([orderA, orderB]) => {
      const problem = of(orderB, cube(4096))
      return { ...problem, name: `${problem.name} ${orderA} ${orderB}`, orderA }
    }),
  ]
} // prettier-ignore

/** What devices of 8.x get: mma.sync and cp.async instead of wgmma and TMA. Only reported. */
const older = (types: Types, orderB: Problem['orderB'], shape: Shape): Problem => ({
  ...plain('sm80', types, orderB, shape, null), name: `sm80 ${describeShape(shape)} ${types.name} ${orderB}`, cc: 80,
}) // prettier-ignore

const FUSIONS: readonly Fusion[] = [
  fusionOf('relu_axpby', ['plain', 'eager', 'compile']),
  fusionOf('gelu_tanh_bias', ['plain', 'eager', 'cublaslt', 'compile']),
  { name: 'swiglu', text: null, operands: {}, scalars: {}, rivals: ['plain', 'eager', 'compile'] },
]

const fused = (fusion: Fusion, shape: Shape): Problem => ({
  name: `bf16 ${fusion.name} ${describeShape(shape)}`, group: `bf16 ${fusion.name}`, shape, a: 'bf16', b: 'bf16', out: 'bf16', orderB: 'nk',
  fusion, rivals: fusion.rivals, goal: 1,
}) // prettier-ignore

/** Epilogues of the matrix fused / plain: each against our own plain kernel. */
const ACTIVATIONS: readonly EpilogueName[] = ['relu', 'gelu_tanh', 'gelu', 'silu', 'sigmoid', 'tanh', 'softplus', 'bias', 'bias_relu', 'axpby'] // prettier-ignore

const matrix = (types: Types, name: EpilogueName, shape: Shape): Problem => {
  const group = `matrix ${types.name}`
  return { name: `${group} ${name} ${describeShape(shape)}`, group, shape, a: types.a, b: types.a, out: types.out, orderB: 'nk', fusion: fusionOf(name, []), rivals: [], goal: null }
} // prettier-ignore

const MATRIX_SHAPES = [cube(4096), cube(8192), shape(8192, 8192, 1024)]

/** Rows that do not begin at multiples of 16 bytes. */
const UNALIGNED = [
  plain('unaligned', BF16, 'nk', shape(4097, 4095, 4093), 2.5),
  plain('unaligned', BF16, 'nk', shape(2048, 50257, 768), 1.3),
  plain('unaligned', BF16, 'nk', shape(1023, 1025, 1027), 1.3),
  plain('unaligned', BF16, 'nk', shape(333, 777, 4001), 1.3),
  plain('unaligned', BF16, 'nk', shape(8191, 8193, 511), 1.3),
  { ...plain('unaligned', BF16, 'kn', shape(4097, 4095, 4093), 1.3), name: 'unaligned 4097x4095x4093 kn' },
  { ...plain('unaligned', F16, 'kn', shape(2048, 50257, 768), 1.3), name: 'unaligned 2048x50257x768 f16 kn' },
  ...[shape(1793, 27410, 268), shape(156, 53, 22181), shape(464, 403, 6041), shape(109, 302, 2205)].map((one) => plain('unaligned', BF16, 'nk', one, 0.9)),
] // prettier-ignore

/** Few rows, or columns: as fast as memory. */
const VECTOR = [
  shape(1, 17642, 14291), shape(1, 9435, 24095), shape(1, 4096, 14336), shape(1, 28672, 8192), shape(4, 8192, 8192), shape(8, 14336, 4096),
  shape(8192, 1, 8192), shape(3, 8191, 4093),
].flatMap((one) => (['nk', 'kn'] as const).map((order) => ({ ...plain('vector', BF16, order, one, 0.95), name: `vector ${describeShape(one)} ${order}` }))) // prettier-ignore

export const PROBLEMS: readonly Problem[] = [
  ...UNALIGNED,
  ...VECTOR,
  ...GROUPED,
  ...PLAIN_SHAPES.map((shape) => plain('bf16 nk', BF16, 'nk', shape, 0.95)),
  ...PLAIN_SHAPES.map((shape) => plain('bf16 kn', BF16, 'kn', shape, 0.95)),
  ...LONG_K_SHAPES.map((shape) => plain('long k', BF16, 'nk', shape, 0.95)),
  ...FUSIONS.flatMap((fusion) => FUSED_SHAPES.map((shape) => fused(fusion, shape))),
  ...[cube(4096), cube(8192)].flatMap((shape) => [
    plain('tf32', { name: 'tf32', a: 'f32', out: 'f32' }, 'nk', shape, 0.97),
    plain('i8', { name: 'i8', a: 'i8', out: 'i32' }, 'nk', shape, 0.97),
    plain('fp8', { name: 'fp8', a: 'e4m3', out: 'bf16' }, 'nk', shape, 0.97),
  ]),
  ...exact('f64', 'f64'),
  ...exact('f32 exact', 'f32'),
  ...Object.keys(SCALED).flatMap((group) => SCALED_SHAPES.map((shape) => scaled(group as keyof typeof SCALED, shape))),
  ...SCALED_FUSIONS.flatMap((fusion) => [
    ...Object.keys(SCALED).flatMap((of) => SCALED_SHAPES.map((shape) => fusedScaled(of as keyof typeof SCALED, fusion, shape))),
    ...(fusion.quantised ? SCALED_SHAPES.map((shape) => quantised(fusion, shape)) : []),
  ]),
  ...[cube(1024), cube(4096), cube(8192)].map((shape) => older(BF16, 'nk', shape)),
  older(BF16, 'kn', cube(4096)),
  older(F16, 'nk', cube(4096)),
  older({ name: 'tf32', a: 'f32', out: 'f32' }, 'nk', cube(4096)),
  older({ name: 'i8', a: 'i8', out: 'i32' }, 'nk', cube(4096)),
  ...PLAIN_SHAPES.map((shape) => plain('f16 nk', F16, 'nk', shape, 0.95)),
  ...PLAIN_SHAPES.map((shape) => plain('f16 kn', F16, 'kn', shape, 0.95)),
  ...[BF16, F16].flatMap((types) =>
    MATRIX_SHAPES.flatMap((shape) => ACTIVATIONS.map((name) => matrix(types, name, shape))),
  ),
] // prettier-ignore

/** Extents of random problems: log-uniform between these, whole multiples of STEP (k: of a block of scales). */
const RANDOM = { least: 256, most: 16384, step: 16 } as const
const SCALE_BLOCK = 128
/** Most multiply-adds of a random problem: some milliseconds. */
const MOST_WORK = 2 ** 41

/** Shorter sums are hidden by their epilogues, not the other way round. */
const LEAST_K_OF_EPILOGUES = 1024

/**
 * fp8 with each scaling; what `ktl bench --suite random` draws, products alone or with epilogues; and shapes of it with long sums, with
 * every one of ten epilogues.
 */
export const RANDOM_KINDS = ['scaled', 'plain', 'fused', 'epilogues'] as const
export type RandomKind = (typeof RANDOM_KINDS)[number]

/** `count` problems of each kind; the same for the same seed. */
export function randomProblems(count: number, seed: number, kinds: readonly RandomKind[] = ['scaled']): readonly Problem[] {
  const drawn = (plain: boolean): readonly Problem[] => drawProblems({ count, seed, plain })!
  const problems = {
    scaled: () => scaledProblems(count, seed),
    plain: () => drawn(true),
    fused: () => drawn(false),
    epilogues: () => epilogueProblems(count, seed),
  }
  return kinds.flatMap((kind) => problems[kind]())
} // prettier-ignore

/** From one drawing of an epilogue's shapes to the next. */
const SEEDS_APART = 1_000_003

/** `count` shapes with long sums, of each of which there is a problem for every one of the ten epilogues. */
function epilogueProblems(count: number, seed: number): readonly Problem[] {
  const shapes: Problem[] = []
  // Far apart: neighbouring seeds would have most shapes in common.
  for (let own = seed; shapes.length < count; own += SEEDS_APART) {
    const more = drawProblems({ count, seed: own, plain: true })!
    shapes.push(...more.filter(({ shape }) => shape.k >= LEAST_K_OF_EPILOGUES))
  }
  return shapes.slice(0, count).flatMap((problem) =>
    ACTIVATIONS.map((name) => ({ ...problem, name: `${problem.name} ${name}`, group: 'random epilogues', fusion: fusionOf(name, []), rivals: [] })),
  )
} // prettier-ignore

/** `count` shapes, of each of which there is a problem for every scaling of fp8. */
function scaledProblems(count: number, seed: number): readonly Problem[] {
  const source = numbers(seed)
  const extent = (step: number): number => {
    const { least, most } = RANDOM
    const value = least * (most / least) ** source.next().value
    return Math.max(step, Math.round(value / step) * step)
  }
  const shapes: Shape[] = []
  while (shapes.length < count) {
    const drawn = shape(extent(RANDOM.step), extent(RANDOM.step), extent(SCALE_BLOCK))
    if (drawn.m * drawn.n * drawn.k <= MOST_WORK) shapes.push(drawn)
  }
  return (Object.keys(SCALED) as (keyof typeof SCALED)[]).flatMap((group) =>
    shapes.map((shape) => ({ ...scaled(group, shape), name: `random ${group} ${describeShape(shape)}`, group: `random ${group}` })),
  )
} // prettier-ignore

/** A few small ones for the first look, and for machines without a GPU. */
export const QUICK: readonly Shape[] = [cube(4096), shape(16, 4096, 14336), cube(512)]

/** `text` is part of the name or the group, or `group=NAME` names the whole group. */
export function selectProblems(only: readonly string[], quick: boolean, random: readonly Problem[] = []): readonly Problem[] {
  const chosen = [...PROBLEMS, ...random].filter(({ name, group }) => only.length === 0 || only.some((text) => (text.startsWith('group=') ? group === text.slice(6) : name.includes(text)))) // prettier-ignore
  if (!quick) return chosen
  const isQuick = (shape: Shape): boolean => QUICK.some((other) => describeShape(other) === describeShape(shape))
  return chosen.filter((problem) => isQuick(problem.shape))
} // prettier-ignore

/** The same problem at another size: `--shrink` for machines that only model time. */
export function shrink(problem: Problem, most: number): Problem {
  const cut = (extent: number): number => Math.min(extent, most)
  const { m, n, k, l } = problem.shape
  if (problem.groups) {
    // The first groups, as far as rows go, and all rows.
    let left = cut(m)
    const groups = problem.groups.slice(0, 9).map((size, i, { length }) => {
      const own = i === length - 1 ? left : Math.min(size, left)
      left -= own
      return own
    })
    return { ...problem, shape: { m: cut(m), n: cut(n), k: cut(k) }, groups }
  }
  return { ...problem, shape: { m: cut(m), n: cut(n), k: cut(k), ...(l !== undefined && { l: Math.min(l, 2) }) } }
}
