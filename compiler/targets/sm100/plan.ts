/**
 * Planning for SM100: instance → budgets (shared memory, TMEM, stages, boxes, descriptors), or a rejection with its
 * reason. Every number that codegen and metadata show comes from here.
 *
 * Facts: PTX ISA 9.7.16 (tcgen05), 5.5.7 (swizzles); CUDA driver API, tensor maps.
 */
import { DTYPES, type Accumulator } from '../../dtypes.ts'
import { inParts, matmulOf, waysOf, type Matmul } from '../../classes/matmul.ts'
import type { TileGraph } from '../../ir/graph.ts'
import type { TensorProgram } from '../../ir/tensor.ts'
import { operandNamed } from '../../ir/walk.ts'
import type { Instance, Rejection } from '../../instance.ts'
import type { Sm100Design } from './design.ts'
import { isRejection, rejection } from '../../rejection.ts'
import { planCluster } from '../tensor_core/cluster.ts'
import type { AccumulatorLayout } from '../tensor_core/accumulators.ts'
import { EPILOGUE_WARPS, planEpilogue } from '../tensor_core/epilogue.ts'
import { sm100Memory, type Sm100Shape } from './memory.ts'
import {
  instructionDescriptor,
  instructionText,
  isPacked,
  mmaKindOf,
  scaledKindOf,
  scaledRowOf,
  scalesOfStep,
  type InstructionShape,
  type MmaKind,
} from './mma.ts'
import { planExchange } from '../tensor_core/exchange.ts'
import { mmaOf } from '../tensor_core/forms.ts'
import { chooseStages } from '../tensor_core/memory.ts'
import { gathersAny, planOperands, stageBytesOf, SWIZZLE_SPAN } from '../tensor_core/operands.ts'
import { overlapOf } from '../tensor_core/overlap.ts'
import { GATHER_WARPS, MAX_STAGES, SMEM_LIMIT, type ExchangePlan, type TensorCorePlan } from '../tensor_core/plan.ts'
import { atomsBy, atomsOf, planAtoms, type AtomPlans } from '../tensor_core/scale_atoms.ts'
import type { ScalePlans } from '../tensor_core/scales.ts'
import { planParts, type PartPlan } from './parts.ts'

const TMEM_COLUMNS = 512
/** Registers of a sub-tile that is measured, where warps that gather take their share. */
const MEASURING_BESIDE_GATHER = 96
/** Of a stage: of 32 bytes of k each. */
const MMA_STEPS = 4

export interface Sm100Plan extends TensorCorePlan {
  readonly kind: 'sm100'
  readonly design: Sm100Design
  readonly exchange: ExchangePlan | null
  readonly mma: MmaKind
  readonly accumulator: Accumulator
  /** The instruction descriptor, and what it says in words. */
  readonly instruction: { readonly descriptor: number; readonly text: string }
  /** MMAs of one stage. */
  readonly mmaSteps: number
  /** Of block-scaled MMAs; null: operands count as they are. */
  readonly atoms: AtomPlans | null
  /** In blocks of k that no MMA takes; null: there are none. */
  readonly scales: ScalePlans | null
  /** Sums that they multiply; null: MMAs add to the accumulators themselves. */
  readonly parts: PartPlan | null
  /** Of a row, that one MMA reads. */
  readonly scalesPerStep: number
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
  if (gemm.groups && design.fallbackCluster)
    return rejection('KTL2904', { form: 'a ragged axis with clusters that may be smaller' })
  if (design.parts > 1 && gemm.accumulators[0] === 'f16') return rejection('KTL4524', {})
  if (design.parts > 1 && (gemm.groups || gemm.sums)) return rejection('KTL2904', { form: 'parts of k of groups' })
  const [tileM, tileN] = design.tile
  const ways = waysOf(gemm)
  const cluster = planCluster(design)
  const { pair } = cluster

  const ctaRows = tileM / pair
  const kind = mmaOf(program, gemm, formFor(program, gemm), { oneOrder: true })
  if (isRejection(kind)) return kind
  const isInteger = kind.accumulators.includes('i32')
  if (!legalTile(design, ways, isInteger)) return rejection('KTL4511', { m: tileM, n: tileN })
  if (kind.scale && (ctaRows !== 128 || tileN % 64 !== 0)) return rejection('KTL4525', { m: tileM, n: tileN })
  const inputs = planOperands(
    program,
    gemm,
    cluster,
    { a: ctaRows, b: (ways * tileN) / pair },
    isPacked(kind.kind) ? 'packed' : 'any',
    { sliceStep: 1 },
  )
  if (isRejection(inputs)) return inputs
  const { a, b } = inputs
  const accumulator = gemm.accumulators[0]!
  const [aType, bType] = [a.operand.dtype, b[0]!.operand.dtype]
  if (!kind.targets.includes(instance.target))
    return rejection('KTL4519', { a: aType, b: bType, target: instance.target })

  const layout = accumulatorLayout(design)
  const rowsTogether = layout.columnHalves === 1 ? ctaRows : layout.rowsPerWarp
  const epilogue = planEpilogue(program, gemm, {
    ...layout,
    rowsTogether,
    ...(gathersAny(inputs) && { measuring: MEASURING_BESIDE_GATHER }),
  })
  if (isRejection(epilogue)) return epilogue
  const overlapped = design.overlap ? overlapOf(epilogue, gemm, tileN) : {}
  if (isRejection(overlapped)) return overlapped
  const depth = (8 * SWIZZLE_SPAN) / (isPacked(kind.kind) ? 4 : 8 * DTYPES[aType].storageBytes)
  const atoms = kind.scale && planAtoms(program, gemm, [ctaRows, ways * tileN, depth], kind.scale)
  if (atoms && isRejection(atoms)) return atoms
  const tile = [tileM, tileN, depth] as const
  const parts = kind.scale
    ? null
    : planParts(
        program,
        gemm,
        [ctaRows, ways * tileN, depth],
        depth / MMA_STEPS,
        ways * epilogue.layout.columns,
        isInteger,
        gathersAny(inputs),
        TMEM_COLUMNS,
      )
  if (parts && isRejection(parts)) return parts
  const perAccumulator = gemm.accumulators.length * epilogue.layout.columns
  const scaleColumns = atoms?.columns ?? 0
  const accumulators = parts?.slots ?? Math.min(2, Math.floor((TMEM_COLUMNS - scaleColumns) / perAccumulator))
  if (accumulators === 0) return rejection('KTL4520', { columns: perAccumulator + scaleColumns, limit: TMEM_COLUMNS })

  const shape: InstructionShape = {
    a: aType,
    b: bType,
    accumulator: parts && isInteger ? 'i32' : accumulator,
    aMajor: a.major,
    bMajor: b[0]!.major,
    m: tileM,
    n: ways * tileN,
  }
  const stageBytes = atomsOf(atoms).reduce((bytes, { slotBytes }) => bytes + slotBytes, stageBytesOf(inputs))
  const warps =
    EPILOGUE_WARPS +
    2 +
    +(design.scheduler === 'clc') +
    +(parts !== null) +
    (gathersAny(inputs) || atomsBy(atoms, 'warps').length > 0 ? GATHER_WARPS : 0)
  const sizes: Sm100Shape = {
    design,
    gemm,
    tile,
    cluster,
    a,
    b,
    loops: inputs.loops,
    atoms,
    scales: parts?.scales ?? null,
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
    ...overlapped,
    cluster,
    exchange: planExchange(
      design.parts,
      32 * EPILOGUE_WARPS,
      perAccumulator,
      design.scheduler === 'static' && !gemm.groups,
      design.share,
    ),
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
    mmaSteps: MMA_STEPS,
    atoms,
    scales: sizes.scales,
    parts,
    scalesPerStep: scalesOfStep(kind),
    epilogue,
    ...sized,
    stageBytes,
    accumulators,
    tmemColumns: Math.max(
      32,
      2 ** Math.ceil(Math.log2(parts?.columns ?? accumulators * perAccumulator + scaleColumns)),
    ),
    threads: 32 * warps,
  }
}

/** The table of MMAs for the scales of A and B: those that read them, or others, whose partial sums they multiply. */
function formFor(program: TensorProgram, gemm: Matmul): typeof mmaKindOf {
  const [{ a, b, scales, k, outer }, ...others] = gemm.segments
  if (!inParts(gemm) || others.length > 0 || outer.length > 0) return mmaKindOf
  const named = [scales.a, ...scales.b].map((name) => (name === null ? null : operandNamed(program, name)))
  const row = scaledRowOf(operandNamed(program, a).dtype, operandNamed(program, b[0]!).dtype, named, k)
  return row ? scaledKindOf[row.scale.dtype]! : mmaKindOf
}

/**
 * PTX ISA 9.7.16.2: M 64 or 128 on one CTA, where every 16 columns will do, of 64 rows every 8, of integers up to 32; 128 or 256 on a pair, every 32 of
 * which suit all types.
 */
function legalTile({ use2ctaMma, tile: [m, n] }: Sm100Design, ways: number, isInteger: boolean): boolean {
  const byEight = m === 64 && (!isInteger || ways * n <= 32)
  const step = use2ctaMma ? 32 : byEight ? 8 : 16
  return (use2ctaMma ? [128, 256] : [64, 128]).includes(m) && n % step === 0 && n >= step && ways * n <= 256
}

/** PTX ISA 9.7.16.10.5: layout F (64 rows, one CTA), D (128 rows, one CTA), A (256 rows, a pair), B (128 rows, a pair). */
function accumulatorLayout({ use2ctaMma, tile: [m, n] }: Sm100Design): AccumulatorLayout {
  if (use2ctaMma && m === 128) return { held: 'row', rowsPerWarp: 32, columnHalves: 2, columns: n / 2 }
  return { held: 'row', rowsPerWarp: m === 64 ? 16 : 32, columnHalves: 1, columns: n }
}
