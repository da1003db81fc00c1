/**
 * Planning the scales of block-scaled MMAs, which the tensor cores multiply by themselves: in *atoms*, the 128 x 4 tiles of
 * stored/tiles.ts, they go through the ring of stages beside their operands and from there to tensor memory.
 */
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import { freeAxis, type Matmul } from '../../classes/matmul.ts'
import type { Rejection } from '../../instance.ts'
import type { ScaleAtoms } from '../../ir/pipe_loads.ts'
import type { TensorOperand, TensorProgram } from '../../ir/tensor.ts'
import { operandNamed } from '../../ir/walk.ts'
import { rejection } from '../../rejection.ts'
import { inTiles, TILE_BYTES, TILE_INNER, TILE_OUTER, tilingOf } from '../../stored/tiles.ts'

/** Of tensor memory, for each atom: 32 lanes hold 16 bytes of it. */
export const ATOM_COLUMNS = 4

export interface AtomPlan {
  readonly operand: TensorOperand
  /** Tiles come by TMA; warps write plain scales in that order. */
  readonly source: 'tma' | 'warps'
  readonly free: 'm' | 'n'
  readonly buffer: string
  /** Name of its tensor map, where TMA brings it. */
  readonly map: string
  readonly atoms: ScaleAtoms
  /** Elements of k to a scale of the MMA. */
  readonly block: number
  readonly slotBytes: number
  /** First column of tensor memory behind the accumulators. */
  readonly column: number
}

/** Ones, for an operand without scales: they lie in tensor memory from the start on. */
export interface OnesPlan {
  readonly source: 'ones'
  readonly dtype: DTypeName
  readonly column: number
  readonly columns: number
}

/** Of A, and of the B of each product. */
export interface AtomPlans {
  readonly a: AtomPlan | OnesPlan
  readonly b: readonly (AtomPlan | OnesPlan)[]
  /** Of tensor memory, all together. */
  readonly columns: number
}

/** Those that go through the ring of stages. */
export const atomsOf = (plans: AtomPlans | null): AtomPlan[] =>
  plans ? [plans.a, ...plans.b].filter((plan) => plan.source !== 'ones') : []

export const onesOf = (plans: AtomPlans | null): OnesPlan[] =>
  plans ? [plans.a, ...plans.b].filter((plan) => plan.source === 'ones') : []

/** Those that TMA brings, or warps write. */
export const atomsBy = (plans: AtomPlans | null, source: AtomPlan['source']): AtomPlan[] =>
  atomsOf(plans).filter((plan) => plan.source === source)

/** `tile`: rows of a CTA, columns and k of the tile. KTL2904, 4513: scales in tiles of other axes, or that TMA cannot address. */
export function planAtoms(
  program: TensorProgram,
  gemm: Matmul,
  [rows, columns, depth]: readonly [number, number, number],
  { block, dtype }: { readonly block: number; readonly dtype: DTypeName },
): AtomPlans | Rejection {
  const { segments, groups, sums } = gemm
  const [{ scales, k }] = segments
  let end = 0
  const plan = (name: string | null, free: 'm' | 'n', suffix: string): AtomPlan | OnesPlan | Rejection => {
    if (name === null) {
      const ones = Math.ceil((free === 'm' ? rows : columns) / TILE_OUTER) * ATOM_COLUMNS
      end += ones
      return { source: 'ones', dtype, column: end - ones, columns: ones }
    }
    const operand = operandNamed(program, name)
    const tiling = inTiles(operand.order) ? tilingOf(operand) : null
    if (tiling && (tiling.outer !== freeAxis(gemm, free) || tiling.inner !== k))
      return rejection('KTL2904', { form: 'scales in tiles of other axes' })
    const extent = free === 'm' ? rows : columns
    // Each group begins a tile of scales, which its tiles of the output do not split.
    const isSplit = free === groups?.along && (groups.form !== 'packed' || extent % TILE_OUTER !== 0)
    if (tiling && (isSplit || sums)) return rejection('KTL2904', { form: 'scales in tiles along a ragged axis' })
    if (tiling && operand.divisibility !== 'vector') return rejection('KTL4513', { operand: name })
    const atoms: ScaleAtoms = {
      from: tiling ? 'memory' : 'tile',
      rows: tiling ? atomsAcross(extent) : Math.ceil(extent / TILE_OUTER),
      steps: depth / (block * TILE_INNER),
    }
    const count = atoms.rows * atoms.steps
    const column = end
    end += count * ATOM_COLUMNS
    const source = tiling ? 'tma' : 'warps'
    const names = { buffer: `scale_${suffix}`, map: `map_scale_${suffix}` }
    return { operand, source, free, ...names, atoms, block, slotBytes: count * TILE_BYTES, column }
  }
  const a = plan(scales.a, 'm', 'a')
  if ('code' in a) return a
  const b: (AtomPlan | OnesPlan)[] = []
  for (const [i, name] of scales.b.entries()) {
    const planned = plan(name, 'n', `b${i || ''}`)
    if ('code' in planned) return planned
    b.push(planned)
  }
  return { a, b, columns: end }
}

/** Atoms that tiles of so many rows lie in, each beginning at a multiple of that. */
export const atomsAcross = (extent: number): number =>
  Math.max(
    ...Array.from({ length: TILE_OUTER }, (_, i) => Math.ceil((((i * extent) % TILE_OUTER) + extent) / TILE_OUTER)),
  )
