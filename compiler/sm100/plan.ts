/**
 * Planning for SM100: instance → budgets (shared memory, TMEM, stages, boxes, descriptors), or a rejection with its
 * reason. Every number that codegen and metadata show comes from here.
 *
 * Facts: PTX ISA 9.7.16 (tcgen05), 5.5.7 (swizzles); CUDA driver API, tensor maps.
 */
import { DTYPES } from '../dtypes.ts'
import type { GemmShape } from '../classify.ts'
import type { Instance, Rejection, Sm100Design } from '../instance.ts'
import type { Node, ScalarOperand, TensorOperand, TensorProgram } from '../tensor_ir.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { isRejection, rejection } from '../rejection.ts'
import { operandsOf, topological } from '../walk.ts'
import type { DescriptorPlan, StagingSwizzle } from '../tile_ir.ts'

/** Opt-in dynamic shared memory of a CTA on sm_90 and sm_100, bytes. */
export const SMEM_LIMIT = 232_448
/** The dynamic window is only 16-byte aligned by the language; swizzle patterns need 1024. */
const ALIGNMENT_SLACK = 1024
const SWIZZLE_SPAN = 128
/** Rows of one 128-byte swizzle atom. */
const ATOM_ROWS = 8
const MAX_STAGES = 12
/** f32 columns that the epilogue holds at once: 32 accumulator registers, 32 results, 16–32 of each full operand. */
export const SUBTILE_COLUMNS = 32
export const EPILOGUE_WARPS = 4
export const ACCUMULATORS = 2
/** Staging slots of each epilogue warp: one is filled while the other is being stored. */
export const STAGING_SLOTS = 2

export interface OperandPlan {
  readonly operand: TensorOperand
  /** Contiguous along k, or along its own free axis. */
  readonly major: 'k' | 'mn'
  readonly boxes: number
  readonly boxExtents: readonly [number, number, number]
  readonly boxBytes: number
  readonly tileBytes: number
  readonly descriptor: DescriptorPlan
}

export interface AuxPlan {
  readonly operand: TensorOperand
  readonly shape: 'full' | 'row' | 'column' | 'uniform'
  readonly vector: boolean
}

export interface OutputPlan {
  readonly operand: TensorOperand
  readonly value: Node
  readonly store: 'tma' | 'direct'
  readonly contiguous: 'n' | 'm'
  readonly elementBytes: number
  readonly swizzle: StagingSwizzle
}

export interface Sm100Plan {
  readonly kind: 'sm100'
  readonly instance: Instance
  readonly program: TensorProgram
  readonly design: Sm100Design
  readonly gemm: GemmShape
  readonly tile: readonly [number, number, number]
  readonly a: OperandPlan
  readonly b: OperandPlan
  readonly aux: readonly AuxPlan[]
  readonly outputs: readonly OutputPlan[]
  readonly instructionDescriptor: number
  readonly mmaK: number
  readonly stages: number
  readonly stageBytes: number
  readonly stagingSlotBytes: number
  readonly tmemColumns: number
  readonly rowsPerWarp: number
  readonly threads: number
  readonly smemBytes: number
}

const AB_TYPE_CODE: Partial<Record<string, number>> = { f16: 0, bf16: 1 }

/** `gemm` is what `classify` found in the instance's program. */
export function planSm100(instance: Instance, gemm: GemmShape): Sm100Plan | Rejection {
  const { program } = instance
  const design = instance.design as Sm100Design
  const late = notLoweredYet(design) ?? unsupportedContraction(program, gemm)
  if (late) return late

  const [tileM, tileN] = design.tile
  const operand = (name: string): TensorOperand => program.operands.find((o) => o.name === name)!
  const a = planOperand(operand(gemm.a), gemm.m, gemm.k, tileM)
  const b = planOperand(operand(gemm.b), gemm.n, gemm.k, tileN)
  if (isRejection(a)) return a
  if (isRejection(b)) return b

  const values = program.outputs.map((o) => o.value)
  const rowsPerWarp = tileM / EPILOGUE_WARPS
  const outputs: OutputPlan[] = []
  for (const output of program.outputs) {
    const plan = planOutput(operand(output.operand), output.value, gemm)
    if (isRejection(plan)) return plan
    outputs.push(plan)
  }
  const reduced = topological(values, gemm.contraction).find((node) => node.kind === 'reduce')
  if (reduced?.kind === 'reduce') {
    const form = `a reduction over \`${reduced.over.join(', ')}\` on the tensor cores`
    return rejection('KTL2904', { form, help: 'the kernel runs on the CUDA cores' })
  }
  const aux: AuxPlan[] = []
  for (const name of operandsOf(values, gemm.contraction)) {
    const plan = planAux(operand(name), gemm)
    if (isRejection(plan)) return plan
    aux.push(plan)
  }

  for (const scalar of program.scalars)
    if (scalar.pointer) aux.push({ operand: pointerOperand(scalar), shape: 'uniform', vector: false })

  const stageBytes = a.tileBytes + b.tileBytes
  const staged = outputs.filter((o) => o.store === 'tma')
  const stagingSlotBytes = Math.max(0, ...staged.map((o) => 32 * SUBTILE_COLUMNS * o.elementBytes))
  const staging = stagingSlotBytes * STAGING_SLOTS * EPILOGUE_WARPS
  const barrierBytes = (stages: number): number => 8 * (2 * stages + 2 * ACCUMULATORS) + 16
  const bytesFor = (stages: number): number => ALIGNMENT_SLACK + stages * stageBytes + staging + barrierBytes(stages)
  let stages = design.stages === 'auto' ? MAX_STAGES : design.stages
  if (design.stages === 'auto') while (stages > 1 && bytesFor(stages) > SMEM_LIMIT) stages--
  const smemBytes = bytesFor(stages)
  if (smemBytes > SMEM_LIMIT) return rejection('KTL4510', { stages, need: smemBytes, limit: SMEM_LIMIT })
  const typeCode = AB_TYPE_CODE[a.operand.dtype]!
  return {
    kind: 'sm100',
    instance,
    program,
    design,
    gemm,
    tile: [tileM, tileN, SWIZZLE_SPAN / DTYPES[a.operand.dtype].storageBytes],
    a,
    b,
    aux,
    outputs,
    instructionDescriptor: instructionDescriptor(typeCode, a.major === 'mn', b.major === 'mn', tileM, tileN),
    mmaK: 16,
    stages,
    stageBytes,
    stagingSlotBytes,
    tmemColumns: Math.max(32, 2 ** Math.ceil(Math.log2(ACCUMULATORS * tileN))),
    rowsPerWarp,
    threads: 32 * (EPILOGUE_WARPS + 2),
    smemBytes,
  }
}

/** PTX ISA 9.7.16.4.2, kind::f16 with f32 accumulation. */
function instructionDescriptor(typeCode: number, aMn: boolean, bMn: boolean, m: number, n: number): number {
  const F32 = 1
  return (
    (F32 << 4) | (typeCode << 7) | (typeCode << 10) | (+aMn << 15) | (+bMn << 16) | ((n >> 3) << 17) | ((m >> 4) << 24)
  )
}

function notLoweredYet(design: Sm100Design): Rejection | null {
  const [m, n] = design.tile
  if (design.use2ctaMma) return rejection('KTL2920', {})
  if (design.cluster.some((c) => c !== 1))
    return rejection('KTL2921', { cluster: design.cluster.slice(0, 2).join('x') })
  if (design.scheduler !== 'static') return rejection('KTL2922', { scheduler: design.scheduler })
  if ((m !== 64 && m !== 128) || n % 32 !== 0 || n < 32 || n > 256) return rejection('KTL4511', { m, n })
  return null
}

function unsupportedContraction(program: TensorProgram, gemm: GemmShape): Rejection | null {
  const [a, b] = [gemm.a, gemm.b].map((name) => program.operands.find((o) => o.name === name)!.dtype) as [
    DTypeName,
    DTypeName,
  ]
  const { accumulator } = gemm.contraction
  if (AB_TYPE_CODE[a] === undefined || a !== b) return rejection('KTL2928', { a, b })
  if (accumulator !== 'f32') return rejection('KTL2924', { accumulator })
  return null
}

function planOperand(operand: TensorOperand, free: string, k: string, tileExtent: number): OperandPlan | Rejection {
  const bytes = DTYPES[operand.dtype].storageBytes
  const span = SWIZZLE_SPAN / bytes
  if (operand.divisibility !== 'vector')
    return rejection('KTL4513', { operand: operand.name }) // prettier-ignore
  const inner = operand.order.at(-1)
  if (inner === k) {
    return {
      operand,
      major: 'k',
      boxes: 1,
      boxExtents: [span, tileExtent, 1],
      boxBytes: SWIZZLE_SPAN * tileExtent,
      tileBytes: SWIZZLE_SPAN * tileExtent,
      // LBO is ignored for swizzled K-major layouts; SBO steps to the next 8 rows; K advances inside the swizzled row.
      descriptor: { leadingBytes: 16, strideBytes: ATOM_ROWS * SWIZZLE_SPAN, stepBytes: 16 * bytes },
    }
  }
  if (inner !== free) return rejection('KTL4514', { operand: operand.name })
  // MN-major: each box is one swizzle span of the free axis by the whole k tile; boxes lie one after another.
  const boxes = Math.ceil(tileExtent / span)
  const boxBytes = SWIZZLE_SPAN * span
  return {
    operand,
    major: 'mn',
    boxes,
    boxExtents: [span, span, 1],
    boxBytes,
    tileBytes: boxes * boxBytes,
    // LBO steps to the next span along the free axis, SBO to the next 8 k; 16 k are 16 rows of the atom.
    descriptor: { leadingBytes: boxBytes, strideBytes: ATOM_ROWS * SWIZZLE_SPAN, stepBytes: 16 * SWIZZLE_SPAN },
  }
}

const STAGING_SWIZZLE: Record<number, StagingSwizzle> = { 1: '32B', 2: '64B', 4: '128B' }

function planOutput(operand: TensorOperand, value: Node, gemm: GemmShape): OutputPlan | Rejection {
  const missing = [gemm.m, gemm.n, ...(gemm.l ? [gemm.l] : [])].filter((axis) => !operand.axes.includes(axis))
  if (missing.length > 0)
    return rejection('KTL2925', { operand: operand.name, axis: missing[0]! }) // prettier-ignore
  const other = operand.axes.find((axis) => axis !== gemm.m && axis !== gemm.n && axis !== gemm.l)
  if (other !== undefined) return rejection('KTL2904', { form: `an output with the further axis \`${other}\`` })
  const info = DTYPES[operand.dtype]
  if (!['f32', 'f16', 'bf16'].includes(operand.dtype))
    return rejection('KTL2926', { operand: operand.name, dtype: operand.dtype })
  const inner = operand.order.at(-1)
  if (inner !== gemm.n && inner !== gemm.m) return rejection('KTL4514', { operand: operand.name })
  const contiguous = inner === gemm.n ? 'n' : 'm'
  return {
    operand,
    value,
    store: operand.divisibility === 'vector' ? 'tma' : 'direct',
    contiguous,
    elementBytes: info.storageBytes,
    swizzle: contiguous === 'm' ? 'none' : STAGING_SWIZZLE[info.storageBytes]!,
  }
}

/** A scalar that the kernel reads through a pointer: an operand without axes. */
export function pointerOperand(scalar: ScalarOperand): TensorOperand {
  const { name, dtype, fromEpilogue } = scalar
  return { name, role: 'input', dtype, axes: [], order: [], divisibility: 'element', fromEpilogue }
}

function planAux(operand: TensorOperand, gemm: GemmShape): AuxPlan | Rejection {
  const info = DTYPES[operand.dtype]
  if (info.bits < 8) return rejection('KTL2927', { operand: operand.name, dtype: operand.dtype })
  const alongM = operand.axes.includes(gemm.m)
  const alongN = operand.axes.includes(gemm.n)
  const shape = alongM && alongN ? 'full' : alongN ? 'row' : alongM ? 'column' : 'uniform'
  const contiguousN = operand.order.at(-1) === gemm.n
  return {
    operand,
    shape,
    vector: shape === 'full' && contiguousN && operand.divisibility === 'vector' && info.storageBytes <= 4,
  }
}
