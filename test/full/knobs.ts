/**
 * The knobs of SM100 GEMMs that the full test covers pairwise: those of the instance (types, orders, design, store), and
 * those of the call (shape, batch, epilogue, memory layout, SMs of the device).
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { Row } from './covering.ts'

export const FACTORS = {
  /** A, B and accumulator. */
  types: [
    'f16 f16 f32', 'bf16 bf16 f32', 'tf32 tf32 f32', 'f16 f16 f16',
    'e4m3 e4m3 f32', 'e4m3 e5m2 f32', 'e5m2 e4m3 f32', 'e5m2 e5m2 f32', 'e4m3 e4m3 f16', 'e5m2 e4m3 f16',
    'i8 i8 i32', 'i8 u8 i32', 'u8 i8 i32', 'u8 u8 i32',
  ], // prettier-ignore
  out: ['f32', 'f16', 'bf16', 'e4m3', 'e5m2', 'i32', 'i8', 'u8'],
  /** Contiguous axes of A, B and D: `t` the last one, `n` the one before it. */
  orders: ['ttt', 'ttn', 'tnt', 'tnn', 'ntt', 'ntn', 'nnt', 'nnn'],
  /** CTAs of an MMA, and its shape m x n. */
  mma: ['1cta 64', '1cta 128', '2cta 128', '2cta 256'].flatMap((rows) =>
    [32, 64, 96, 128, 160, 192, 224, 256].map((n) => `${rows}x${n}`),
  ),
  cluster: ['1x1', '1x2', '1x4', '1x8', '1x16', '2x1', '2x2', '2x4', '2x8', '4x1', '4x2', '4x4', '8x1', '8x2', '16x1'],
  fallback: ['none', '1x1', '2x1', '2x2'],
  scheduler: ['static', 'clc'],
  operands: ['ab', 'ba'],
  /** How D leaves: by TMA, or element by element because its rows are not aligned to 16 bytes. */
  store: ['tma', 'direct'],
  batch: ['none', '3', 'broadcast A', 'broadcast B'],
  epilogue: ['none', 'relu C', 'row bias', 'column bias', 'scalar pointer', 'two outputs', 'gelu'],
  /** Relative to the MMA's tile, except `unit+`: over the edge of what a cluster covers. */
  m: ['one', 'tile-1', 'tile+1', 'several', 'unit+'],
  n: ['few', 'tile-8', 'tile', 'tile+8', 'several'],
  /** Relative to one stage; `ring`: more stages than there are. */
  k: ['zero', 'short', 'stage-', 'stage+', 'several', 'ring'],
  /** `padded`: row strides beyond the rows, and tensors that begin inside their allocations. */
  layout: ['dense', 'padded'],
  /** Clusters that run at once: with one, each CTA computes every tile of its place. */
  room: ['one', 'two', 'many'],
} as const

export type FullRow = Row<typeof FACTORS>

export interface RowTypes {
  readonly a: DTypeName
  readonly b: DTypeName
  readonly accumulator: string
}

export function typesOf(types: string): RowTypes {
  const [a, b, accumulator] = types.split(' ') as [DTypeName, DTypeName, string]
  return { a, b, accumulator }
}

export interface MmaShape {
  readonly pair: 1 | 2
  readonly m: number
  readonly n: number
}

export function mmaOf(mma: string): MmaShape {
  const [, pair, m, n] = /^(\d)cta (\d+)x(\d+)$/.exec(mma)!
  return { pair: Number(pair) as 1 | 2, m: Number(m), n: Number(n) }
}

export const shapeOf = (text: string): readonly [number, number] => text.split('x').map(Number) as [number, number]

/** What can be told without planning; the planner says the rest. */
export function possible({ types, out, mma, cluster, fallback }: Partial<FullRow>): boolean {
  if (types && out) {
    const integer = types.endsWith('i32')
    const isInteger = DTYPES[out as DTypeName].class === 'int'
    // i32 accumulators go to integers and to the wider floats, float accumulators to floats.
    if (integer ? out === 'e4m3' || out === 'e5m2' : isInteger) return false
  }
  if (mma && cluster && shapeOf(cluster)[0] % mmaOf(mma).pair !== 0) return false
  if (!fallback || fallback === 'none') return true
  const [fm, fn] = shapeOf(fallback)
  if (mma && fm % mmaOf(mma).pair !== 0) return false
  if (!cluster) return true
  const [cm, cn] = shapeOf(cluster)
  return cm % fm === 0 && cn % fn === 0 && cm * cn > fm * fn
}

/** A row in one line, and back: the knobs in order; null for anything else. */
export const rowText = (row: FullRow): string => Object.values(row).join(',')

export function parseRow(text: string): FullRow | null {
  const names = Object.keys(FACTORS) as (keyof FullRow)[]
  const values = text.split(',')
  if (values.length !== names.length) return null
  if (!names.every((name, i) => (FACTORS[name] as readonly string[]).includes(values[i]!))) return null
  return Object.fromEntries(names.map((name, i) => [name, values[i]])) as unknown as FullRow
}

/** A number that depends on the row alone, for what varies without being a knob. */
export function hashOf(row: FullRow): number {
  let hash = 0x811c9dc5
  for (const unit of rowText(row)) hash = Math.imul(hash ^ unit.charCodeAt(0), 0x01000193) >>> 0
  return hash >>> 8
}
