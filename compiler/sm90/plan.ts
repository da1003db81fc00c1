/**
 * Planning for SM90: instance → budgets (shared memory, registers, stages, boxes, descriptors), or a rejection with its
 * reason. Facts: PTX ISA 9.7.15 (wgmma), 5.5.7 (swizzles); CUDA driver API, tensor maps.
 */
import type { GemmShape } from '../classify.ts'
import { transposed } from '../classify.ts'
import { DTYPES, type Accumulator } from '../dtypes.ts'
import type { Instance, Rejection, Sm90Design } from '../instance.ts'
import { isRejection, rejection } from '../rejection.ts'
import type { TensorOperand } from '../tensor_ir.ts'
import { planEpilogue, STAGING_SLOTS, type AccumulatorLayout } from '../tensor_core/epilogue.ts'
import { planOperand, SWIZZLE_SPAN, type OperandPlan } from '../tensor_core/operands.ts'
import { ALIGNMENT_SLACK, MAX_STAGES, SMEM_LIMIT, type TensorCorePlan } from '../tensor_core/plan.ts'
import { wgmmaFormOf, type WgmmaForm } from './mma.ts'

/** Rows of one wgmma. */
export const BLOCK_ROWS = 64
/** Accumulators of a thread: with addresses, scalars and an epilogue's values the rest of the register file. */
const MAX_ACCUMULATORS = 128
/** Registers of a thread that are no accumulators and no values of a sub-tile. */
const RESERVED_REGISTERS = 40

/** Registers of each thread of a warpgroup after setmaxnreg; null: as launched. Multiples of 8, all together at most 64 K. */
export interface RegisterSplit {
  readonly producer: number | null
  readonly consumer: number
}

export interface Sm90Plan extends TensorCorePlan {
  readonly kind: 'sm90'
  readonly design: Sm90Design
  readonly mma: WgmmaForm
  readonly accumulator: Accumulator
  /** wgmma instructions of one block and stage. */
  readonly mmaSteps: number
  /** Consumer warpgroups. */
  readonly warpgroups: number
  /** Blocks of 64 rows of a warpgroup. */
  readonly rowBlocks: number
  /** CTAs of the cluster that share the k of a tile. */
  readonly splits: number
  /** Staging slots of each consumer warp. */
  readonly stagingSlots: number
  /** Where a split k meets, bytes of each CTA; 0: k is not split. */
  readonly partialBytes: number
  readonly registers: RegisterSplit
}

/** `shape` is what `classify` found in the instance's program. */
export function planSm90(instance: Instance, shape: GemmShape): Sm90Plan | Rejection {
  const { program } = instance
  const design = instance.design as Sm90Design
  const gemm = design.operands === 'ba' ? transposed(shape) : shape
  if (gemm === null) return rejection('KTL4518', { products: shape.products.length })
  const [tileM, tileN] = design.tile
  const [clusterM, clusterN, splits] = design.cluster
  const products = gemm.products.length
  const pingpong = design.consumers === 'pingpong'
  const warpgroups = pingpong || tileM > BLOCK_ROWS ? 2 : 1
  const rowBlocks = tileM / BLOCK_ROWS / (pingpong ? 1 : warpgroups)
  const { accumulator } = gemm.products[0]!.contraction
  const cells = (products * rowBlocks * tileN) / (accumulator === 'f16' ? 4 : 2)
  if (cells > MAX_ACCUMULATORS) return rejection('KTL4521', { cells, limit: MAX_ACCUMULATORS })
  if (splits > 1 && accumulator === 'f16') return rejection('KTL4524', {})
  const columns = tileN / splits
  if (columns < 8) return rejection('KTL4522', { n: tileN, splits })

  const operand = (name: string): TensorOperand => program.operands.find((o) => o.name === name)!
  const [aType, bType] = [operand(gemm.a).dtype, operand(gemm.products[0]!.b).dtype]
  const uniform = gemm.products.every(({ b }) => operand(b).dtype === bType && operand(b).order.at(-1) === operand(gemm.products[0]!.b).order.at(-1))
  const mma = uniform ? wgmmaFormOf(aType, bType, accumulator) : null
  if (mma === null) return rejection('KTL2928', { a: aType, b: gemm.products.map(({ b }) => operand(b).dtype).join(', '), accumulator })

  const cluster = { shape: [clusterM, clusterN] as const, fallback: null, size: clusterM * clusterN * splits, splits, pair: 1 as const }
  const alone = cluster.size === 1
  const majors = mma.transposes ? 'any' : 'k'
  const a = planOperand(operand(gemm.a), gemm.m, gemm.k, tileM, clusterN, alone, majors)
  if (isRejection(a)) return a
  const b: OperandPlan[] = []
  for (const product of gemm.products) {
    const planned = planOperand(operand(product.b), gemm.n, gemm.k, tileN, clusterM, alone, majors)
    if (isRejection(planned)) return planned
    b.push(planned)
  }

  const gathers = [a, ...b].some(({ source }) => source === 'gather')
  const registers: RegisterSplit = warpgroups === 1 ? { producer: null, consumer: 255 } : gathers ? { producer: 56, consumer: 224 } : { producer: 40, consumer: 232 }
  const layout: AccumulatorLayout = { held: 'fragment', rowsPerWarp: 16, columnHalves: 1, columns, spareRegisters: registers.consumer - cells - RESERVED_REGISTERS * (rowBlocks > 1 ? 1.4 : 1) }
  const epilogue = planEpilogue(program, gemm, layout)
  if (isRejection(epilogue)) return epilogue

  const stageBytes = a.tileBytes + b.reduce((sum, { tileBytes }) => sum + tileBytes, 0)
  const partialBytes = splits > 1 ? products * tileM * tileN * 4 : 0
  const staged = epilogue.outputs.filter((output) => output.store === 'tma').length
  // More slots than sub-tiles are never used.
  const subtiles = staged * rowBlocks * (columns / epilogue.subtileColumns)
  const bytesFor = (stages: number, slots: number): number =>
    ALIGNMENT_SLACK + stages * stageBytes + epilogue.stagingSlotBytes * slots * 4 * warpgroups + partialBytes + 8 * (2 * stages + 2)
  let stages = design.stages === 'auto' ? MAX_STAGES : design.stages
  let stagingSlots = Math.min(STAGING_SLOTS, subtiles)
  if (design.stages === 'auto') while (stages > 1 && bytesFor(stages, stagingSlots) > SMEM_LIMIT) stages--
  while (stagingSlots < subtiles && bytesFor(stages, stagingSlots + 1) <= SMEM_LIMIT) stagingSlots++
  const smemBytes = bytesFor(stages, stagingSlots)
  if (smemBytes > SMEM_LIMIT) return rejection('KTL4510', { stages, need: smemBytes, limit: SMEM_LIMIT })
  return {
    kind: 'sm90',
    instance,
    program,
    design,
    gemm,
    tile: [tileM, tileN, SWIZZLE_SPAN / DTYPES[aType].storageBytes],
    ctaRows: tileM,
    cluster,
    a,
    b,
    mma,
    accumulator,
    mmaSteps: 4,
    warpgroups,
    rowBlocks,
    splits,
    epilogue,
    stages,
    stageBytes,
    stagingSlots,
    partialBytes,
    registers,
    threads: 128 * (warpgroups + 1),
    smemBytes,
  }
} // prettier-ignore
