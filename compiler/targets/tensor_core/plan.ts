/** What the plans of all tensor-core backends have: budgets that codegen, recipes and metadata read. */
import type { Matmul } from '../../classes/matmul.ts'
import type { Instance } from '../../instance.ts'
import type { Meeting } from '../../ir/pipe.ts'
import type { TensorProgram } from '../../ir/tensor.ts'
import type { Swizzle } from '../../space/layout.ts'
import type { ClusterPlan } from './cluster.ts'
import type { EpiloguePlan } from './epilogue.ts'
import type { AuxPlan } from './epilogue_operands.ts'
import { copiedBytes, type LoopPlans, type OperandPlan } from './operands.ts'
import { atomsBy, type AtomPlans } from './scale_atoms.ts'
import type { ScalePlans } from './scales.ts'

/** Opt-in dynamic shared memory of a CTA on sm_90 and sm_100, bytes. */
export const SMEM_LIMIT = 232_448
/** The dynamic window is only 16-byte aligned by the language; swizzle patterns need 1024. */
export const ALIGNMENT_SLACK = 1024
export const MAX_STAGES = 16
/** Warps that copy operands which TMA cannot address. */
export const GATHER_WARPS = 4

export interface TensorCorePlan extends LoopPlans {
  readonly instance: Instance
  readonly program: TensorProgram
  /** As the MMA computes it: transposed for `operands ba`. */
  readonly gemm: Matmul
  readonly tile: readonly [number, number, number]
  /** Rows of the tile that one CTA computes. */
  readonly ctaRows: number
  /** Columns that a tile shares with the next; absent, 0: none. */
  readonly overlap?: number
  readonly cluster: ClusterPlan
  /** Parts of k that are work items of their own; absent, null: a work item is a whole tile. */
  readonly exchange?: ExchangePlan | null
  readonly epilogue: EpiloguePlan
  /** In blocks of k; absent, null: there are none. */
  readonly scales?: ScalePlans | null
  /** Of block-scaled MMAs; absent, null: there are none. */
  readonly atoms?: AtomPlans | null
  readonly stages: number
  /** A and B of one stage of one CTA. */
  readonly stageBytes: number
  readonly threads: number
  readonly smemBytes: number
  /** CTAs that share an SM; absent: 1. */
  readonly perSm?: number
  /** Operands of the epilogue that TMA brings have more sub-tiles than slots: their lines are asked for ahead. */
  readonly linesAhead?: boolean
  /** Boxes of an operand of the epilogue that TMA brings; absent: sub-tiles of a warp. */
  readonly fetchedBox?: { readonly columns: number; readonly rows: number; readonly swizzle: Swizzle }
}

/** What parts of k leave in the workspace, for the one that comes last. */
export interface ExchangePlan {
  readonly parts: number
  /** That hold a CTA's tile. */
  readonly threads: number
  /** Registers of each of them. */
  readonly cells: number
  /** They are summed up by all parts, where these run at once: each waits for the others, and sums a share of the tile. */
  readonly meets?: Meeting
  /** Tiles that share work items (Domain, share); absent: 1. */
  readonly share?: number
}

/** An operand of a stage: of which loop, where it goes, along which axis of the tile. */
export interface StageOperand {
  readonly operand: OperandPlan
  readonly loop: number
  readonly free: 'm' | 'n'
  readonly buffer: string
  /** Name of its tensor map, where TMA loads it. */
  readonly map: string
  /** Axes of its loop that are walked one by one. */
  readonly outer: readonly string[]
}

/** What a plan says of its loops. */
type Loops = Pick<TensorCorePlan, 'loops' | 'gemm' | 'atoms'>

/** What goes through the ring of stages, loop by loop. */
export function stageOperands({ loops, gemm: { segments } }: Loops): StageOperand[] {
  return loops.flatMap(({ a, b }, loop) => {
    const { outer } = segments[loop]!
    const suffix = loop === 0 ? '' : `_k${loop}`
    return [
      { operand: a, loop, free: 'm' as const, buffer: 'smem_a', map: `map_a${suffix}`, outer },
      ...b.map((operand, i) => ({
        operand,
        loop,
        free: 'n' as const,
        buffer: bufferOfB(i),
        map: `map_b${i === 0 ? '' : i}${suffix}`,
        outer,
      })),
    ]
  })
}

/** Those that come by TMA. */
export const inputMaps = (plan: Loops): StageOperand[] =>
  stageOperands(plan).filter(({ operand }) => operand.source === 'tma')

/** Bytes that TMA brings for one stage of a CTA. */
export const tmaStageBytes = (plan: Loops): number =>
  inputMaps(plan).reduce(
    (bytes, { operand, loop }) => bytes + (loop === 0 ? copiedBytes(operand) : 0),
    atomsBy(plan.atoms ?? null, 'tma').reduce((bytes, { slotBytes }) => bytes + slotBytes, 0),
  )

/** Name of the tensor map of a staged output: the first is `map_d`, more are numbered. */
export function mapName(index: number): string {
  return index === 0 ? 'map_d' : `map_d${index}`
}

/** Operands of the epilogue that come by TMA, with the names of their tensor maps. */
export function fetchMaps({
  epilogue,
}: Pick<TensorCorePlan, 'epilogue'>): { readonly map: string; readonly aux: AuxPlan }[] {
  return epilogue.aux.filter(({ fetch }) => fetch !== null).map((aux, i) => ({ map: `map_c${i}`, aux }))
}

export const bufferOfB = (product: number): string => (product === 0 ? 'smem_b' : `smem_b${product}`)
