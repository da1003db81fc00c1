/**
 * Random products of operands in stored forms, and of plain ones into stored forms, as text with extents: most of them tensor cores can run.
 * Each checks without an error, whatever the seed.
 */
import { uniform } from '../../compiler/evaluate/generate.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { FormKernel } from './form_kernel.ts'

const PAIRS: readonly (readonly [DTypeName, DTypeName])[] = [
  ['e4m3', 'e4m3'],
  ['e4m3', 'e4m3'],
  ['e4m3', 'e5m2'],
  ['e5m2', 'e4m3'],
  ['i8', 'i8'],
  ['bf16', 'bf16'],
  ['f16', 'f16'],
]
const SCALES: readonly DTypeName[] = ['f32', 'f32', 'ue8m0', 'ue4m3', 'f16', 'bf16']
const DEPTHS = [16, 32, 32, 64, 128, 128, 48]
const COLUMNS = [8, 16, 32, 64, 128]
/** Products and sums of a kernel. */
const MOST = 4e6

export function scaledKernel(seed: number): FormKernel {
  const next = uniform(Math.imul(seed + 1, 0x27d4eb2f))
  const below = (n: number): number => Math.floor(next() * n)
  const chance = (p: number): boolean => next() < p
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!
  const extent = (most: number): number => (chance(0.05) ? 0 : chance(0.1) ? 1 : 1 + below(most))
  const aligned = chance(0.7)
  const unit = aligned ? 16 : 1
  const rounded = (x: number): number => Math.ceil(x / unit) * unit
  const batch = chance(0.15) ? 'l, ' : ''

  const [m, n] = [extent(200), rounded(extent(200))]
  const k = rounded(Math.min(extent(400), Math.floor(MOST / Math.max(1, m * n))))

  /** What follows the data: nothing, one for all, one for each row, or one for each block. */
  const scale = (free: 'm' | 'n', rows: boolean): string => {
    const dtype = pick(SCALES)
    const axes = (a: string, b: string): string => (rows ? `${a}, ${b}` : `${b}, ${a}`)
    const kind = next()
    if (kind < 0.1) return ''
    if (kind < 0.2) return ' * f32'
    if (kind < 0.45) return ` * ${dtype}[${free}]`
    const rest = chance(0.15) ? ' * f32' : ''
    const group = chance(0.5) ? free : `${free}/${pick([4, 16, 64, 128])}`
    return ` * ${dtype}[${axes(group, `k/${pick(DEPTHS)}`)}]${rest}`
  }
  const [a, b] = pick(PAIRS)
  const alongK = chance(0.75)
  const weights = (name: string): string => `${name}: ${b}[${alongK ? 'n, k' : 'k, n'}]${scale('n', alongK)}`
  const gated = chance(0.2)
  const inputs = [`A: ${a}[${batch}m, k]${scale('m', true)}`, weights('B'), ...(gated ? [weights('U')] : [])]
  let value = 'sum[k](A * B)'
  if (gated) value = `relu(${value}) * sum[k](A * U)`
  if (chance(0.3)) {
    inputs.push('bias: f32[n]')
    value = `${value} + bias`
  } else if (chance(0.3)) value = `relu(${value})`
  if (chance(0.2)) {
    inputs.push(`C: bf16[${batch}m, n]`, 'w: f32[m]')
    value = `(${value} + C) * w`
  }
  const output = (): string => {
    if (chance(0.5)) return `${pick(['bf16', 'f16', 'f32'])}[${batch}m, n]`
    const form = pick(['f32', 'f32', 'ue8m0', 'ue4m3', 'floor(ue8m0'] as const)
    const blocks = `[${batch}m, n/${pick(COLUMNS)}]${form.startsWith('floor') ? ')' : ''}`
    return `${pick(['e4m3', 'e4m3', 'e5m2', 'i8', 'e2m1', 'e3m2', 'e2m3'])}[${batch}m, n] * ${form}${blocks}${chance(0.25) ? ' * f32' : ''}`
  }
  const outputs = ['D', ...(chance(0.2) ? ['E'] : [])].map((name) => [name, output()] as const)
  const body = outputs.map(([name]) => `${name} = x`).join('\n  ')
  const results = outputs.map(([name, type]) => `${name}: ${type}`).join(', ')
  const accuracy = pick(['', '', '', 'precise '])
  const source = `${accuracy}kernel f(${inputs.join(', ')}) -> (${results}) {\n  x = ${value}\n  ${body}\n}\n`
  return { seed, source, extents: { m, n, k, ...(batch !== '' && { l: 2 }) }, scalars: {}, hostile: [], aligned }
}
