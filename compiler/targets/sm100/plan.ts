/**
 * Planning for SM100: instance → budgets (shared memory, TMEM, stages, boxes, descriptors), or a rejection with its
 * reason. Every number that codegen and metadata show comes from here.
 *
 * Facts: PTX ISA 9.7.16 (tcgen05), 5.5.7 (swizzles); CUDA driver API, tensor maps.
 */
import { DTYPES, type Accumulator } from '../../dtypes.ts'
import { inParts, matmulOf } from '../../classes/matmul.ts'
import type { TileGraph } from '../../ir/graph.ts'
import type { Instance, Rejection } from '../../instance.ts'
import type { Sm100Design } from './design.ts'
import { isRejection, rejection } from '../../rejection.ts'
import { planCluster } from '../tensor_core/cluster.ts'
import { EPILOGUE_WARPS, planEpilogue, type AccumulatorLayout } from '../tensor_core/epilogue.ts'
import { sm100Memory, type Sm100Shape } from './memory.ts'
import { instructionDescriptor, instructionText, mmaKindOf, type InstructionShape, type MmaKind } from './mma.ts'
import { mmaOf } from '../tensor_core/forms.ts'
import { chooseStages } from '../tensor_core/memory.ts'
import { gathersAny, planOperands, stageBytesOf, SWIZZLE_SPAN } from '../tensor_core/operands.ts'
import { GATHER_WARPS, MAX_STAGES, SMEM_LIMIT, type TensorCorePlan } from '../tensor_core/plan.ts'

const TMEM_COLUMNS = 512

export interface Sm100Plan extends TensorCorePlan {
  readonly kind: 'sm100'
  readonly design: Sm100Design
  readonly mma: MmaKind
  readonly accumulator: Accumulator
  /** The instruction descriptor, and what it says in words. */
  readonly instruction: { readonly descriptor: number; readonly text: string }
  /** MMAs of one stage. */
  readonly mmaSteps: number
  /** Accumulators (of all products) in flight: the epilogue of one tile runs under the mainloop of the next where there are 2. */
  readonly accumulators: number
  readonly tmemColumns: number
}

/** `graph`: that of the instance's program. Its own is that program with scales apart from data. */
export function planSm100(instance: Instance<Sm100Design>, graph: TileGraph): Sm100Plan | Rejection {
  const { program } = graph
  const { design } = instance
  const gemm = matmulOf(graph, design.operands)
  if (isRejection(gemm)) return gemm
  if (inParts(gemm)) return rejection('KTL2904', { form: 'an operand scaled in blocks of the summed axis' })
  const [tileM, tileN] = design.tile
  if (!legalTile(design)) return rejection('KTL4511', { m: tileM, n: tileN })
  const cluster = planCluster(design)
  const { pair } = cluster

  const ctaRows = tileM / pair
  const inputs = planOperands(program, gemm, cluster, { a: ctaRows, b: tileN / pair })
  if (isRejection(inputs)) return inputs
  const { a, b } = inputs
  const accumulator = gemm.accumulators[0]!
  const [aType, bType] = [a.operand.dtype, b[0]!.operand.dtype]
  const kind = mmaOf(program, gemm, mmaKindOf, { oneOrder: true })
  if (isRejection(kind)) return kind
  if (!kind.targets.includes(instance.target))
    return rejection('KTL4519', { a: aType, b: bType, target: instance.target })

  const epilogue = planEpilogue(program, gemm, accumulatorLayout(design))
  if (isRejection(epilogue)) return epilogue
  const perAccumulator = gemm.accumulators.length * epilogue.layout.columns
  const accumulators = Math.min(2, Math.floor(TMEM_COLUMNS / perAccumulator))
  if (accumulators === 0) return rejection('KTL4520', { columns: perAccumulator, limit: TMEM_COLUMNS })

  const shape: InstructionShape = {
    a: aType,
    b: bType,
    accumulator,
    aMajor: a.major,
    bMajor: b[0]!.major,
    m: tileM,
    n: tileN,
  }
  const stageBytes = stageBytesOf(inputs)
  const warps = EPILOGUE_WARPS + 2 + +(design.scheduler === 'clc') + (gathersAny(inputs) ? GATHER_WARPS : 0)
  const tile = [tileM, tileN, SWIZZLE_SPAN / DTYPES[aType].storageBytes] as const
  const sizes: Sm100Shape = {
    design,
    gemm,
    tile,
    cluster,
    a,
    b,
    loops: inputs.loops,
    epilogue,
    stageBytes,
    accumulators,
  }
  const sized = chooseStages(
    design.stages,
    1,
    MAX_STAGES,
    SMEM_LIMIT,
    (stages) => sm100Memory(sizes, stages, 'sizes').map.bytes,
  )
  if (isRejection(sized)) return sized
  return {
    kind: 'sm100',
    instance,
    program,
    design,
    gemm,
    tile,
    ctaRows,
    cluster,
    ...inputs,
    mma: kind.kind,
    accumulator,
    instruction: {
      descriptor: instructionDescriptor(kind, shape),
      // Of the few plans that become kernels.
      get text() {
        return instructionText(shape)
      },
    },
    mmaSteps: 4,
    epilogue,
    ...sized,
    stageBytes,
    accumulators,
    tmemColumns: Math.max(32, 2 ** Math.ceil(Math.log2(accumulators * perAccumulator))),
    threads: 32 * warps,
  }
}

/** PTX ISA 9.7.16.2: M 64 or 128 on one CTA, 128 or 256 on a pair; our n is a multiple of 32. */
function legalTile({ use2ctaMma, tile: [m, n] }: Sm100Design): boolean {
  return (use2ctaMma ? [128, 256] : [64, 128]).includes(m) && n % 32 === 0 && n >= 32 && n <= 256
}

/** PTX ISA 9.7.16.10.5: layout F (64 rows, one CTA), D (128 rows, one CTA), A (256 rows, a pair), B (128 rows, a pair). */
function accumulatorLayout({ use2ctaMma, tile: [m, n] }: Sm100Design): AccumulatorLayout {
  if (use2ctaMma && m === 128) return { held: 'row', rowsPerWarp: 32, columnHalves: 2, columns: n / 2 }
  return { held: 'row', rowsPerWarp: m === 64 ? 16 : 32, columnHalves: 1, columns: n }
}
