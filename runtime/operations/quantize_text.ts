/** Kernels that quantise in steps: scales of any blocks, zero points. By the steps of compiler/stored/quantise.ts, each in f32. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { ScaleMode } from '../arguments/scaled_operand.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { inMemoryText } from './template.ts'

const FLT_MAX = '3.4028234663852886e38'
const f32 = Math.fround

/** What a form says of each part; null: it has none. */
export interface FormPlan {
  readonly data: DTypeName
  readonly scale: DTypeName | null
  readonly zero: DTypeName | null
  readonly hasGlobal: boolean
  readonly rounding: 'up' | 'floor'
  readonly mode: ScaleMode
  readonly scaleShape: readonly number[]
}

const axesOf = ({ shape }: Tensor): string[] => shape.map((_, i) => `x${i}`)

/** The largest magnitude of a tensor, rows first. */
export function largestText(tensor: Tensor): string {
  const axes = axesOf(tensor)
  const inner = axes.at(-1)
  const reduced = (over: readonly string[], value: string): string =>
    over.length === 0 ? value : `max[${over.join(', ')}](${value})`
  const value = reduced(axes.slice(0, -1), reduced(inner === undefined ? [] : [inner], 'select(v == v, abs(v), 0)'))
  return `kernel largest(X: ${inMemoryText(tensor, axes)}) -> largest: f32 {
  v = f32(X)
  largest = ${value}
}
`
}

/** Scales, zero points and largest magnitudes (S, Z, A) of all blocks; then the data, D. Without parts: the data alone. */
export function stepsText(tensor: Tensor, plan: FormPlan): string {
  const { data, scale, zero, mode } = plan
  const axes = axesOf(tensor)
  const kept = mode.flatMap((block, i) => (block === 'all' ? [] : [{ i, block }]))
  const inBlocks = kept.map(({ i }) => `b${i}`).join(', ')
  const asymmetric = zero !== null
  const types = { A: asymmetric || scale === null ? null : 'f32', S: scale, Z: zero }
  const parts = Object.entries(types).flatMap(([name, type]) =>
    type === null ? [] : [`${name}: ${type}[${inBlocks}]`],
  )
  const X = `X: ${inMemoryText(tensor, axes)}`
  const elements = `kernel elements(${[X, ...parts, 'norm: f32'].join(', ')}) -> D: ${data}[${axes.join(', ')}] {
${lines(asymmetric ? asymmetricElements(plan, partAt) : scale === null ? [`D = ${data}(f32(X) * norm)`] : symmetricElements(data, partAt))}}
`
  if (parts.length === 0) return elements
  // Each block is read at its own positions, where the tensor has them.
  const sides = kept.filter(({ block }) => block > 1)
  const position = axes.map((axis, i) => {
    const block = mode[i]!
    return block === 'all' ? axis : block === 1 ? `b${i}` : `b${i} * ${block} + j${i}`
  })
  const over = [...sides.map(({ i }) => `j${i}`), ...axes.filter((_, i) => mode[i] === 'all')]
  const reduced = (fn: string, value: string): string =>
    over.length === 0 ? value : `${fn}[${over.join(', ')}](${value})`
  const body = [
    ...sides.map(({ i, block }) => `axis j${i} = ${block}`),
    `v = f32(X[${position.join(', ')}] else 0)`,
    ...(asymmetric ? asymmetricBlocks(plan, reduced) : symmetricBlocks(plan, reduced)),
  ]
  return `kernel blocks(${X}, norm: f32) -> (${parts.join(', ')}) {
${lines(body)}}

${elements}`

  function partAt(name: string): string {
    return `f32(${name}[${kept.map(({ i, block }) => (block === 1 ? `x${i}` : `x${i} / ${block}`)).join(', ')}])`
  }
}

const lines = (body: readonly string[]): string => body.map((line) => `  ${line}\n`).join('')

type Reduced = (fn: string, value: string) => string

function symmetricBlocks({ data, scale, rounding }: FormPlan, reduced: Reduced): string[] {
  const { maxFinite } = DTYPES[data]
  const amax = [`a = ${reduced('max', 'abs(v)')}`, 'A = a']
  if (scale !== 'ue8m0' || rounding === 'up') return [...amax, `S = ${scale}(a * norm * ${f32(1 / maxFinite)})`]
  // The power of two below, of which the one above is the double, within the range of the type.
  return [
    ...amax,
    'x = a * norm',
    'above = f32(ue8m0(x))',
    `below = select(above > x, above * 0.5, above) * ${2 ** -Math.floor(Math.log2(maxFinite))}`,
    `S = ue8m0(select(x == inf, ${2 ** 127}, max(below, ${2 ** -127})))`,
  ]
}

function symmetricElements(data: DTypeName, at: (part: string) => string): string[] {
  const { maxFinite, nan, class: kind } = DTYPES[data]
  const none = kind === 'float' && nan !== null ? '' : ' || q != q'
  return [
    `q = f32(X) * min(norm * (1 / ${at('S')}), ${FLT_MAX})`,
    `D = ${data}(select(${at('A')} == 0${none}, 0, clamp(q, -${maxFinite}, ${maxFinite})))`,
  ]
}

/** The whole range of the data. */
const levelsOf = (data: DTypeName): { levels: number; lowest: number } => {
  const { bits, signed } = DTYPES[data]
  return { levels: 2 ** bits - 1, lowest: signed ? -(2 ** (bits - 1)) : 0 }
}

/** The range of a block, and 0, on that: scale = (high - low) / levels, zero = lowest - low / scale. */
function asymmetricBlocks({ data, scale, zero }: FormPlan, reduced: Reduced): string[] {
  const { levels, lowest } = levelsOf(data)
  const made = scale === null ? [] : [`s = f32(${scale}((high - low) * norm * ${f32(1 / levels)}))`, `S = ${scale}(s)`]
  return [
    `low = min(${reduced('min', 'v')}, 0)`,
    `high = max(${reduced('max', 'v')}, 0)`,
    ...made,
    `Z = ${zero}(${lowest} - f32(i32(low * ${inverse(scale === null ? null : 's')})))`,
  ]
}

function asymmetricElements({ data, scale }: FormPlan, at: (part: string) => string): string[] {
  const { levels, lowest } = levelsOf(data)
  const s = scale === null ? null : at('S')
  return [`D = ${data}(clamp(f32(i32(f32(X) * ${inverse(s)})) + ${at('Z')}, ${lowest}, ${lowest + levels}))`]
}

const inverse = (scale: string | null): string =>
  scale === null ? 'norm' : `select(${scale} == 0, 0, norm * (1 / ${scale}))`
