/**
 * Planning the operands of the MMA: which tile of them a stage holds, as which boxes TMA brings it, how the CTAs of a cluster
 * share that work, and how the MMA's matrix descriptor reads it.
 *
 * Facts: PTX ISA 9.7.16.4 (matrix descriptors), 9.7.16.10.6 (canonical layouts), 5.5.7 (swizzles).
 */
import { freeAxis, type Matmul, type Segment } from '../../classes/matmul.ts'
import { DTYPES } from '../../dtypes.ts'
import type { Rejection } from '../../instance.ts'
import { isRejection, rejection } from '../../rejection.ts'
import type { TensorOperand, TensorProgram } from '../../ir/tensor.ts'
import { operandNamed, rowsRead } from '../../ir/walk.ts'
import type { Dealt } from '../../space/layout.ts'
import { blockOf } from '../../stored/blocks.ts'
import type { ClusterPlan } from './cluster.ts'

/** Bytes of one row of a tile along its contiguous axis; also the k extent of a stage. */
export const SWIZZLE_SPAN = 128
/** Rows of one swizzle atom; the least of a slice. */
const ATOM_ROWS = 8
/** Bytes of k that one MMA reads, of every dense kind. */
const MMA_K_BYTES = 32

export type OperandSwizzle = 'none' | '32B' | '64B' | '128B' | '128B_ATOM_32B'

/** Shared-memory matrix descriptor without its start address. */
export interface DescriptorPlan {
  readonly leadingBytes: number
  readonly strideBytes: number
  readonly swizzle: OperandSwizzle
  /** From one MMA of a stage to the next. */
  readonly stepBytes: number
}

export interface OperandPlan {
  readonly operand: TensorOperand
  /** Contiguous along k, or along its own free axis. */
  readonly major: 'k' | 'mn'
  /**
   * `gather`: warps copy it element by element, because TMA cannot address its rows, or it has to be transposed or computed;
   * `copy`: they copy it asynchronously (cp.async).
   */
  readonly source: 'tma' | 'gather' | 'copy'
  /** Bytes of one asynchronous copy by a thread. */
  readonly copyBytes?: 4 | 8 | 16
  /** Rows (of m or n) of a CTA's tile. */
  readonly rows: number
  /** The tile is loaded in so many slices, each by one of the CTAs that need it, multicast to all of them. */
  readonly slices: number
  /** Rows of m or n (K-major), or of k (MN-major), of a slice. */
  readonly sliceRows: number
  readonly sliceBytes: number
  /** Boxes of a slice: swizzle spans side by side along the free axis. */
  readonly boxes: number
  readonly boxExtents: readonly [number, number, number]
  readonly boxBytes: number
  /** From one box of a slice to the next in shared memory. */
  readonly boxPitch: number
  readonly tileBytes: number
  /** TMA puts each 16 elements of less than 8 bits at the start of 16 bytes, and counts those of memory. */
  readonly padded?: boolean
  /** Rows are copied as memory has them, wherever they begin in its 16 bytes. */
  readonly shifted?: true
  /** And put in place before MMAs read them, where several warps do. */
  readonly settled?: true
  /** Rows of m or n in the order in which lanes multiply them. */
  readonly dealt?: Dealt
  readonly descriptor: DescriptorPlan
}

/** A, and the B of each product, of one loop. */
export interface OperandPlans {
  readonly a: OperandPlan
  readonly b: readonly OperandPlan[]
}

/** The operands of all loops, and of the first one by name: what a stage holds of them lies alike. */
export interface LoopPlans extends OperandPlans {
  readonly loops: readonly OperandPlans[]
}

/**
 * `plan`: an operand by its free axis and the axis that is stepped through. KTL2904 for loops whose tiles lie differently, or
 * (`oneSource`: those who fill a stage arrive on one barrier) come differently.
 */
export function planLoops(
  program: TensorProgram,
  matmul: Matmul,
  oneSource: boolean,
  plan: (side: 'a' | 'b', operand: TensorOperand, free: string, k: string) => OperandPlan | Rejection,
): LoopPlans | Rejection {
  const loops: OperandPlans[] = []
  for (const { a, b, k } of matmul.segments) {
    const rows = plan('a', operandNamed(program, a), matmul.m, k)
    if (isRejection(rows)) return rows
    const columns: OperandPlan[] = []
    for (const name of b) {
      const planned = plan('b', operandNamed(program, name), freeAxis(matmul, 'n'), k)
      if (isRejection(planned)) return planned
      columns.push(planned)
    }
    loops.push({ a: rows, b: columns })
  }
  const [first] = loops as [OperandPlans]
  const alike = (x: OperandPlan, y: OperandPlan): boolean =>
    (!oneSource || x.source === y.source) &&
    x.shifted === y.shifted &&
    x.dealt === y.dealt &&
    x.major === y.major &&
    x.tileBytes === y.tileBytes &&
    x.descriptor.swizzle === y.descriptor.swizzle
  if (loops.some(({ a, b }) => !alike(a, first.a) || b.some((other, i) => !alike(other, first.b[i]!))))
    return rejection('KTL2904', { form: 'a sum of contractions whose operands lie differently in memory' })
  return { ...first, loops }
}

/** How a target brings operands. */
interface Loading {
  /** Warps copy rows that are looked up. Default: they gather them. */
  readonly copies?: boolean
  /** Rows of a slice are a multiple of this. Default: those of swizzle atoms. */
  readonly sliceStep?: number
}

/** `rows`: of a CTA's tile of A, and of B. */
export function planOperands(
  program: TensorProgram,
  matmul: Matmul,
  { shape: [clusterM, clusterN], size, pair }: ClusterPlan,
  rows: { readonly a: number; readonly b: number },
  reads?: Reads,
  { copies = false, sliceStep = ATOM_ROWS }: Loading = {},
): LoopPlans | Rejection {
  const slices = { a: clusterN, b: clusterM / pair }
  const [{ k, outer }, ...others] = matmul.segments
  // Copies land by themselves, and not with what goes through registers.
  const isCopied = (name: string): boolean =>
    copies && others.length + outer.length === 0 && areRowsCopied(program, operandNamed(program, name), k)
  const gathered = besideGathered(program, matmul, isCopied)
  const planned = planLoops(program, matmul, true, (side, operand, free, k) =>
    planOperand(operand, free, k, rows[side], slices[side], sliceStep, size === 1, reads, gathered.has(operand.name)),
  )
  if (isRejection(planned)) return planned
  // What is transposed goes through registers, too.
  const isAlone = ({ source, operand }: OperandPlan): boolean => source !== 'gather' || isCopied(operand.name)
  const { loops } = planned
  if (!loops.every(({ a, b }) => [a, ...b].every(isAlone))) return planned
  const copied = (plan: OperandPlan): OperandPlan =>
    plan.source === 'gather' ? { ...plan, source: 'copy', copyBytes: 16 } : plan
  const all = loops.map(({ a, b }): OperandPlans => ({ a: copied(a), b: b.map(copied) }))
  return { ...all[0]!, loops: all }
}

/** Operands that go to where other loops have some that TMA cannot bring: who fills a stage arrives on one barrier. */
function besideGathered(
  program: TensorProgram,
  matmul: Matmul,
  isCopied: (name: string) => boolean,
): ReadonlySet<string> {
  const { groups, sums, segments } = matmul
  const places = segments[0].b.map((_, i) => segments.map(({ b }) => b[i]!))
  // TMA begins at multiples of 16 bytes along the contiguous axis, groups anywhere.
  const isGathered = (name: string): boolean => {
    const { divisibility, order } = operandNamed(program, name)
    if (isCopied(name)) return false
    const inner = order.at(-1)
    return (
      divisibility === 'element' ||
      (groups !== null && inner === matmul[groups.along]) ||
      (sums !== null && inner === segments[0].k)
    )
  }
  // TMA has the last rows of a group at the end of a tile, warps at its beginning, where blocks begin.
  const all = segments.flatMap(({ a, b }) => [a, ...b])
  if (sums && (all.some(isGathered) || hasBlocksOfTile(program, segments[0]))) return new Set(all)
  return new Set([segments.map(({ a }) => a), ...places].filter((names) => names.some(isGathered)).flat())
}

/** Are there several scales in the k of a tile? */
function hasBlocksOfTile(program: TensorProgram, { a, scales, k }: Segment): boolean {
  const depth = SWIZZLE_SPAN / DTYPES[operandNamed(program, a).dtype].storageBytes
  return [scales.a, ...scales.b].some(
    (name) => name !== null && (blockOf(operandNamed(program, name), k) ?? depth) % depth !== 0,
  )
}

/** Do warps bring any? */
export const copiesRows = ({ a, b }: OperandPlans): boolean => [a, ...b].some(({ source }) => source === 'copy')

export const broughtByWarps = ({ a, b }: OperandPlans): boolean => [a, ...b].some(({ source }) => source !== 'tma')

/**
 * Rows that are looked up, whole and aligned as TMA would have them: they are copied as they are. `k`: the axis that is stepped through.
 */
function areRowsCopied(program: TensorProgram, operand: TensorOperand, k: string): boolean {
  const read = rowsRead(operand)
  if (!read || operand.order.at(-1) !== k) return false
  const { dtype, order, axes, divisibility, stored, blocks } = operandNamed(program, read.operand)
  const along = read.at!.findIndex((position) => position.axes.includes(k))
  const position = read.at![along]!
  return (
    dtype === operand.dtype &&
    divisibility === 'vector' &&
    !stored &&
    !blocks &&
    position.kind === 'axis' &&
    position.axis === axes[along] &&
    order.at(-1) === axes[along]
  )
}

/** What TMA brings of a tile. */
export const copiedBytes = ({ operand, padded, tileBytes }: OperandPlan): number =>
  padded ? (tileBytes * DTYPES[operand.dtype].bits) / 8 : tileBytes

/** A and B of one stage of one CTA. */
export const stageBytesOf = ({ a, b }: OperandPlans): number =>
  b.reduce((sum, { tileBytes }) => sum + tileBytes, a.tileBytes)

export const gathersAny = ({ a, b }: OperandPlans): boolean => [a, ...b].some(({ source }) => source === 'gather')

/** Tiles that the MMA reads: of any order, K-major ones, or those whose elements of 4 bits lie packed, K-major too. */
export type Reads = 'any' | 'k' | 'packed'

/** Designs share few operand plans; a space has hundreds of designs for each operand. */
const planned = new WeakMap<TensorOperand, Map<number, KnownPlan>>()

interface KnownPlan {
  readonly free: string
  readonly k: string
  readonly plan: OperandPlan | Rejection
}

/**
 * `rows`: of the CTA's tile along `free`; `slices`: CTAs of the cluster that need the same tile, each of which loads a multiple of `sliceStep`
 * rows; `alone`: there is one CTA; `reads`: what the MMA reads. Where it reads K-major tiles only, warps transpose the others on their way.
 */
function planOperand(
  operand: TensorOperand,
  free: string,
  k: string,
  rows: number,
  slices: number,
  sliceStep: number,
  alone: boolean,
  reads: Reads = 'any',
  gathered = false,
): OperandPlan | Rejection {
  let plans = planned.get(operand)
  if (!plans) planned.set(operand, (plans = new Map()))
  const key =
    ((((rows * 32 + slices) * 16 + sliceStep) * 2 + +alone) * 3 + ['any', 'k', 'packed'].indexOf(reads)) * 2 + +gathered
  const known = plans.get(key)
  if (known && known.free === free && known.k === k) return known.plan
  const plan = makePlan(operand, free, k, rows, slices, sliceStep, alone, reads, gathered)
  plans.set(key, { free, k, plan })
  return plan
}

function makePlan(
  operand: TensorOperand,
  free: string,
  k: string,
  rows: number,
  slices: number,
  sliceStep: number,
  alone: boolean,
  reads: Reads,
  gathered: boolean,
): OperandPlan | Rejection {
  const { bits, storageBytes } = DTYPES[operand.dtype]
  const bytes = reads === 'packed' ? bits / 8 : storageBytes
  const inner = operand.order.at(-1)
  const transposes = inner === free && reads !== 'any'
  const source: OperandPlan['source'] =
    operand.divisibility !== 'element' && !transposes && !gathered ? 'tma' : 'gather'
  if (bits < 8 && inner !== k)
    return rejection('KTL2904', { form: `${operand.dtype} that is not contiguous along the summed axis` })
  const copies = operand.divisibility === 'repacked'
  if (bits < 8 ? copies || source === 'gather' : source === 'gather' && (copies || !alone))
    return rejection(transposes ? 'KTL4523' : 'KTL4513', { operand: operand.name })
  const kRows = SWIZZLE_SPAN / bytes
  const sliceRows = (inner === k || transposes ? rows : kRows) / slices
  // TMA and the MMA both XOR bits of absolute addresses (measured on an H100), so that a slice may begin at any row of an atom, as in CUTLASS.
  if (sliceRows < ATOM_ROWS || sliceRows % sliceStep !== 0)
    return rejection('KTL4515', { operand: operand.name, rows: inner === k ? rows : kRows, slices, step: sliceStep })
  const padded = bits < 8 && reads !== 'packed'
  const common = { operand, source, padded, rows, slices, sliceRows, tileBytes: SWIZZLE_SPAN * rows }
  if (inner === k || transposes) {
    return {
      ...common,
      major: 'k',
      sliceBytes: sliceRows * SWIZZLE_SPAN,
      boxes: 1,
      boxExtents: [kRows, sliceRows, 1],
      boxBytes: sliceRows * SWIZZLE_SPAN,
      boxPitch: 0,
      // LBO is ignored for swizzled K-major layouts; SBO steps to the next 8 rows; k advances inside the swizzled row.
      descriptor: { leadingBytes: 16, strideBytes: ATOM_ROWS * SWIZZLE_SPAN, swizzle: '128B', stepBytes: MMA_K_BYTES },
    }
  }
  if (inner !== free) return rejection('KTL4514', { operand: operand.name })
  // MN-major: each box is one swizzle span of the free axis by the slice's k; spans lie one after another.
  const swizzle = mnMajorSwizzle(rows * bytes, bytes)
  if (swizzle === null)
    return rejection('KTL4516', { operand: operand.name, rows, multiple: bytes === 4 ? 32 : 32 / bytes })
  const [name, span] = swizzle
  const atomRows = name === '128B_ATOM_32B' ? 4 : ATOM_ROWS
  return {
    ...common,
    major: 'mn',
    sliceBytes: sliceRows * span,
    boxes: (rows * bytes) / span,
    boxExtents: [span / bytes, sliceRows, 1],
    boxBytes: sliceRows * span,
    boxPitch: kRows * span,
    // LBO steps to the next span along the free axis, SBO to the next rows of k of the atom.
    descriptor: {
      leadingBytes: kRows * span,
      strideBytes: atomRows * span,
      swizzle: name,
      stepBytes: (MMA_K_BYTES / bytes) * span,
    },
  }
}

/** The widest pattern whose span divides a row of `rowBytes`. Transposed 32-bit operands have one pattern only. */
function mnMajorSwizzle(rowBytes: number, elementBytes: number): readonly [OperandSwizzle, number] | null {
  if (elementBytes === 4) return rowBytes % 128 === 0 ? ['128B_ATOM_32B', 128] : null
  for (const span of [128, 64, 32] as const) if (rowBytes % span === 0) return [`${span}B`, span]
  return null
}

/** Bits 61:63 of the descriptor. */
const SWIZZLE_CODE: Readonly<Record<OperandSwizzle, bigint>> = {
  none: 0n,
  '128B_ATOM_32B': 1n,
  '128B': 2n,
  '64B': 4n,
  '32B': 6n,
}

/** Everything of a matrix descriptor but the start address (bits 0:13). */
export function descriptorBits({ leadingBytes, strideBytes, swizzle }: DescriptorPlan): bigint {
  const field = (bytes: number, at: bigint): bigint => BigInt(bytes >> 4) << at
  return field(leadingBytes, 16n) | field(strideBytes, 32n) | (1n << 46n) | (SWIZZLE_CODE[swizzle] << 61n)
}
