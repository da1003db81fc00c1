/**
 * Planning the epilogue of a tensor-core kernel: how each operand reaches the registers of the epilogue warps, how each output
 * leaves, and how many columns a warp holds at once.
 */
import { DTYPES } from '../../dtypes.ts'
import type { Matmul } from '../../classes/matmul.ts'
import type { Rejection } from '../../instance.ts'
import { isRejection, rejection } from '../../rejection.ts'
import type { ComputeType, Node, TensorOperand, TensorProgram } from '../../ir/tensor.ts'
import { PIECE_BYTES, shiftedRowBytes, SWIZZLE_OF_ROW, type Swizzle } from '../../space/layout.ts'
import { operandNamed, operandsOf, topological } from '../../ir/walk.ts'
import type { AccumulatorLayout } from './accumulators.ts'
import { fetchLayout, isCopiedByRows, isFetchable, planAux, pointerOperand, type AuxPlan } from './epilogue_operands.ts'
import { planReduction, type ReductionPlan } from './reduction.ts'

export const EPILOGUE_WARPS = 4
/** Staging slots of each epilogue warp: one is filled while the other is being stored. */
export const STAGING_SLOTS = 2
/** Columns of an output that may share a scale, at most. */
export const WIDEST_BLOCK = 128
/** Widths of a sub-tile, widest first. Of rows: what tcgen05.ld reads at once; of fragments: what TMA stores at once. */
const SUBTILE_WIDTHS = { row: [64, 32, 16, 8], fragment: [64, 32, 16, 8] } as const
/**
 * The same of fragments whose outputs have 2 bytes, best first. TMA takes a row of the sub-tile at a time, whose ends should be those of sectors of 32 bytes:
 * rows of an odd multiple of 16 columns lie as they are, and two of eight meet in a bank; others fill a swizzle span. Very wide ones begin to store late. On an
 * H200, 578 kernels for 12 products: 112 columns instead of 16 take 0.96 of the time, 48 0.96, 208 0.97, 176 0.98, 80 instead of 32 0.99; odd multiples of 8 gain nothing.
 */
const SECTOR_WIDTHS = [112, 80, 64, 48, 208, 176, 32, 16, 8] as const
/**
 * Registers of a thread that hold a row of a sub-tile: accumulators, operands that vary along n, and results. The rest of the
 * 255 is for addresses, scalars and the temporaries of the expressions.
 */
const SUBTILE_REGISTERS = 192

/** Elements of an output that share a scale: so many columns of a row, or rows of a column. */
export interface OutputBlock {
  readonly along: 'n' | 'm'
  readonly size: number
}

/** What planning knows beyond the layout. */
export interface EpilogueBudget extends AccumulatorLayout {
  /** Rows of a column that the warps of the role hold at once, from a multiple of as many on; default: those of a warp alone. */
  readonly rowsTogether?: number
  /** How outputs leave that are staged in shared memory: as boxes by TMA, or as whole rows by the warp. Default: TMA. */
  readonly stores?: 'tma' | 'rows'
  /** A warp has whole rows of the tile. Default: it may have, or not. */
  readonly wholeRows?: boolean
  /** Full operands that TMA brings to shared memory ahead of the epilogue, at most. Default: none, loads go to registers. */
  readonly fetches?: number
  /** Registers beside the accumulators that values of a sub-tile may take; accumulators in TMEM count among them. */
  readonly spareRegisters?: number
  /** Of rows: registers for a sub-tile of blocks that are measured, which may be as narrow as it takes. Default: those of any other. */
  readonly measuring?: number
  /** Columns of a sub-tile, at most. */
  readonly widest?: number
  /** Sub-tiles of other widths than powers of two: an odd multiple of 8 columns, where the warps' columns are one, and of 16. Default: sub-tiles have 8 of these. */
  readonly oddWidths?: boolean
  /** Of fragments: columns of a sub-tile from which on its values take the place of their accumulators. Default: the widest blocks. */
  readonly inPlace?: number
  /** Registers of an operand along n, as a share of those of a value: fragments have two rows of each column. Default: 1. */
  readonly rowShare?: number
}

export interface EpiloguePlan {
  readonly layout: AccumulatorLayout
  readonly aux: readonly AuxPlan[]
  /** Elementwise ones. */
  readonly outputs: readonly OutputPlan[]
  readonly reductions: readonly ReductionPlan[]
  /** Columns that a warp holds at once; divides `layout.columns`. */
  readonly subtileColumns: number
  /** Columns of blocks that are several sub-tiles wide, whose largest magnitudes are found before any of them is stored; null: there are none. */
  readonly measured: number | null
  /** Shared memory of one staging slot; 0: no output is staged. */
  readonly stagingSlotBytes: number
}

export interface OutputPlan {
  readonly operand: TensorOperand
  readonly value: Node
  /** `tma`, `rows`: through shared memory. */
  readonly store: 'tma' | 'rows' | 'direct'
  readonly contiguous: 'n' | 'm'
  readonly elementBytes: number
  readonly swizzle: Swizzle
  /** What shares a scale; null: it is stored as it is. */
  readonly block: OutputBlock | null
  /** Do warps exchange what they have of a block? */
  readonly shared: boolean
  /** Scatter: for each axis of the operand the axis of the tile, or the operand, that says where; null: its own axes. */
  readonly places: readonly string[] | null
  /** Rows that begin anywhere: where in the slot the beginnings of the next sub-tile's rows are; null: nothing is carried. */
  readonly carry: number | null
  /** The slot has room for all sub-tiles of the warp, which leave together where their rows follow each other in memory. */
  readonly dense: boolean
}

/** Values of the outputs, then of the reductions. */
export const valuesOf = ({ outputs, reductions }: EpiloguePlan): Node[] =>
  [...outputs, ...reductions].map(({ value }) => value)

/** Those in stored forms. */
export const quantisedOutputs = ({ outputs }: EpiloguePlan): OutputPlan[] =>
  outputs.filter(({ block }) => block !== null)

/** Those whose blocks are wider than a sub-tile. */
export const measuredOutputs = ({ outputs, measured }: EpiloguePlan): OutputPlan[] =>
  outputs.filter(({ block }) => measured !== null && block?.along === 'n' && block.size === measured)

/** Those that warps write as rows from shared memory. */
export const rowOutputs = ({ outputs }: EpiloguePlan): OutputPlan[] => outputs.filter(({ store }) => store === 'rows')

/** Those that wait in shared memory for a TMA store. */
export const tmaOutputs = ({ outputs }: EpiloguePlan): OutputPlan[] => outputs.filter(({ store }) => store === 'tma')

/** Slots of each warp for what is staged: of rows one, as it is read when the next one comes. */
export const stagingSlots = (epilogue: EpiloguePlan): number =>
  tmaOutputs(epilogue).length > 0 ? STAGING_SLOTS : Math.min(1, rowOutputs(epilogue).length)

/** The designs of a program share few epilogue plans. */
const planned = new WeakMap<TensorProgram, Map<string, EpiloguePlan | Rejection>>()

/** Rejections: KTL2904, 2925, 2927 (forms that are not lowered), 4514 (contiguous batch axis). */
export function planEpilogue(program: TensorProgram, gemm: Matmul, layout: EpilogueBudget): EpiloguePlan | Rejection {
  let plans = planned.get(program)
  if (!plans) planned.set(program, (plans = new Map()))
  const key = `${gemm.m} ${Object.values(layout).join(' ')}`
  let plan = plans.get(key)
  if (!plan) plans.set(key, (plan = makePlan(program, gemm, layout)))
  return plan
}

function makePlan(program: TensorProgram, gemm: Matmul, layout: EpilogueBudget): EpiloguePlan | Rejection {
  const operand = (name: string): TensorOperand => operandNamed(program, name)
  const elementwise: Stored[] = []
  const reductions: ReductionPlan[] = []
  for (const store of gemm.stores) {
    const reduction = planReduction(store, gemm)
    if (reduction) reductions.push(reduction)
    else elementwise.push({ operand: store.operand, value: store.reduction ?? store.value, places: store.places })
  }
  const values = [...elementwise, ...reductions].map(({ value }) => value)
  const reduced = topological(values).find((node) => node.kind === 'reduce')
  if (reduced?.kind === 'reduce') {
    const form = `a reduction over \`${reduced.over.join(', ')}\` on the tensor cores`
    return rejection('KTL2904', { form, help: 'the kernel runs on the CUDA cores' })
  }

  const aux: AuxPlan[] = []
  const places = elementwise.flatMap((output) => output.places ?? []).filter((place) => operand(place))
  for (const name of new Set([...operandsOf(values), ...places])) {
    const plan = planAux(operand(name), gemm)
    if (isRejection(plan)) return plan
    aux.push(plan)
  }
  for (const scalar of program.scalars)
    if (scalar.pointer)
      aux.push({ operand: pointerOperand(scalar), shape: 'uniform', vector: false, fetch: null, rows: false })

  const along = (shape: AuxPlan['shape']): ComputeType[] =>
    aux.filter((a) => a.shape === shape).map((a) => DTYPES[a.operand.dtype].compute)
  const held = [
    ...(layout.held === 'row' ? gemm.accumulators.map((type) => DTYPES[type].compute) : []),
    ...along('full'),
    ...values.map((value) => value.type),
  ]
  const rows = along('row')
  const blocks = elementwise.map((output) => blockOf(program, output.operand, gemm, layout))
  const unfit = blocks.find((block) => block !== null && isRejection(block))
  if (unfit) return unfit as Rejection
  const fitting = blocks as (OutputBlock | null)[]
  // Of blocks that are that wide all values have to be there at once.
  const isWide =
    layout.held === 'fragment' && fitting.some((block) => block?.along === 'n' && block.size === WIDEST_BLOCK)
  // Of rows that begin anywhere, lanes share pieces by powers of two.
  const oddWidths =
    layout.oddWidths === true &&
    elementwise.every(({ operand }) => operand.divisibility === 'vector' || operand.order.at(-1) !== gemm.n)
  const perColumn = registersFor(held) + registersFor(rows) * (isWide ? 1 / 2 : (layout.rowShare ?? 1))
  const { width: subtileColumns, measured } = widthFor(
    perColumn,
    elementwise.map(({ operand }) => operand),
    { ...layout, oddWidths },
    fitting.flatMap((block) => (block?.along === 'n' ? block.size : [])),
  )
  if (subtileColumns === null)
    return rejection('KTL2904', { form: `an epilogue of ${held.length + rows.length} tiles at once` })

  const fetched = aux
    .filter((plan) => isFetchable(plan, gemm, layout, subtileColumns))
    // What TMA brings is read once.
    .slice(0, measured === null ? (layout.fetches ?? 0) : 0)
  const loaded = aux.map((plan) =>
    fetched.includes(plan) ? { ...plan, fetch: fetchLayout(plan, layout, subtileColumns) } : plan,
  )

  const outputs: OutputPlan[] = []
  for (const [i, stored] of elementwise.entries()) {
    const plan = planOutput(program, stored, gemm, layout, subtileColumns)
    if (isRejection(plan)) return plan
    const block = fitting[i]!
    outputs.push({ ...plan, block, shared: block?.along === 'm' && block.size > layout.rowsPerWarp })
  }
  // Slots are given back by TMA stores, or at once.
  const isMixed = outputs.some(({ store }) => store === 'tma') && outputs.some(({ store }) => store === 'rows')
  for (const [i, output] of outputs.entries())
    if (isMixed && output.store === 'rows') outputs[i] = { ...output, store: 'direct', swizzle: 'none' }
  const staged = outputs.filter((o) => o.store !== 'direct')
  // Powers of two, but for shifted rows, which have no swizzle: a slot starts whole repetitions of every swizzle pattern that its outputs use.
  const stagedRows = layout.held === 'row' ? 32 : 16
  const hasSlot = outputs.some(({ store }) => store === 'rows')
  const copied = loaded.map((plan) => ({
    ...plan,
    rows: hasSlot && isCopiedByRows(plan, gemm, layout, subtileColumns),
  }))
  const rowBytes = (o: OutputPlan): number =>
    isShifted(o) ? shiftedRowBytes(subtileColumns, o.elementBytes) : subtileColumns * o.elementBytes
  const subtileBytes = Math.max(
    0,
    ...staged.map((o) => stagedRows * rowBytes(o)),
    ...copied.map(({ operand, rows }) =>
      rows ? stagedRows * shiftedRowBytes(subtileColumns, DTYPES[operand.dtype].storageBytes) : 0,
    ),
  )
  // Behind the sub-tile, as all outputs stand there one after the other.
  let stagingSlotBytes = subtileBytes
  for (const [i, output] of outputs.entries()) {
    if (!isShifted(output)) continue
    outputs[i] = { ...output, carry: stagingSlotBytes }
    stagingSlotBytes += stagedRows * PIECE_BYTES
    // Nothing else passes through the slot meanwhile.
    const dense = layout.wholeRows === true && staged.length === 1 && !copied.some(({ rows }) => rows)
    if (!dense) continue
    outputs[i] = { ...outputs[i]!, dense }
    stagingSlotBytes = Math.max(stagingSlotBytes, stagedRows * layout.columns * output.elementBytes)
  }
  const { rowsPerWarp, columnHalves, columns } = layout
  return {
    layout: { held: layout.held, rowsPerWarp, columnHalves, columns },
    aux: copied,
    outputs,
    reductions,
    subtileColumns,
    measured,
    stagingSlotBytes,
  }
}

/** Rows that begin anywhere. */
export const isShifted = ({ store, operand }: OutputPlan): boolean =>
  store === 'rows' && operand.divisibility !== 'vector'

const registersFor = (types: readonly ComputeType[]): number =>
  types.reduce((sum, type) => sum + (type === 'f64' ? 2 : 1), 0)

/** A sub-tile has whole blocks that share a scale, or, where registers lack for that, the widest blocks are several sub-tiles. */
function widthFor(
  perColumn: number,
  outputs: readonly TensorOperand[],
  layout: EpilogueBudget,
  blocks: readonly number[],
): { readonly width: number | null; readonly measured: number | null } {
  const { measuring = Infinity } = layout
  const whole = widthOfWhole(perColumn, outputs, layout, blocks)
  const widest = Math.max(0, ...blocks)
  const fits = whole !== null && (whole <= 32 || (perColumn - 1) * whole <= measuring)
  if (fits || widest === 0 || layout.columns % widest !== 0) return { width: whole, measured: null }
  const others = blocks.filter((block) => block !== widest)
  const width = widthOfWhole(perColumn, outputs, layout, others, layout.measuring)
  return width === null ? { width: whole, measured: null } : { width, measured: widest }
}

/** The widest sub-tile whose values stay in registers. `perColumn`: registers that a thread needs for each column of a row. */
function widthOfWhole(
  perColumn: number,
  outputs: readonly TensorOperand[],
  layout: EpilogueBudget,
  blocks: readonly number[],
  ofRow = SUBTILE_REGISTERS,
): number | null {
  const [registers, share] = layout.held === 'row' ? [ofRow, 1] : [layout.spareRegisters!, 1 / 2]
  // A row of a staged sub-tile is at most one swizzle span.
  const span = 128 / Math.max(1, ...outputs.map(({ dtype }) => Math.min(4, DTYPES[dtype].storageBytes)))
  const [widest, inPlace] =
    layout.held === 'row'
      ? [blocks.some((block) => block > 32) ? span : 32, 64]
      : [span, layout.inPlace ?? WIDEST_BLOCK]
  // Blocks that share a scale are whole. Bytes fill a span only then; beside other values registers lack.
  const isWide = blocks.includes(WIDEST_BLOCK) || (layout.inPlace !== undefined && perColumn === 1)
  const isOdd = layout.oddWidths === true && layout.columns % 16 !== 0
  const areHalves =
    layout.oddWidths === true && outputs.length > 0 && outputs.every(({ dtype }) => DTYPES[dtype].storageBytes === 2)
  const [widths, most]: readonly [readonly number[], number] = isOdd
    ? [oddWidthsOf(layout.columns), 2 * span]
    : areHalves
      ? [SECTOR_WIDTHS, Infinity]
      : [[...(isWide ? [WIDEST_BLOCK] : []), ...SUBTILE_WIDTHS[layout.held]], widest]
  return (
    widths.find(
      (width) =>
        layout.columns % width === 0 &&
        width <= Math.min(most, layout.widest ?? Infinity) &&
        blocks.every((block) => width % block === 0) &&
        // Values of wide sub-tiles take the place of their accumulators.
        (perColumn - (width >= inPlace ? 1 : 0)) * width * share <= registers,
    ) ?? null
  )
}

/** Multiples of 8 that divide an odd one, widest first. TMA stores rows of them as they are, and warps write these without conflicts of banks. */
const oddWidthsOf = (columns: number): number[] =>
  Array.from({ length: columns / 8 }, (_, i) => columns / (i + 1)).filter((width) => width % 8 === 0)

/** Columns of the widest blocks of outputs. */
export const widestBlock = ({ operands }: TensorProgram, { n }: Matmul): number =>
  operands.reduce(
    (widest, { role, partOf, axes, blocks }) =>
      role === 'output' && partOf !== undefined ? Math.max(widest, blocks?.[axes.indexOf(n)] ?? 1) : widest,
    1,
  )

/** What shares a scale; null: the output is no stored form. KTL2904: blocks that are no runs of a row or a column that warps hold. */
function blockOf(
  program: TensorProgram,
  { name, axes, stored }: TensorOperand,
  gemm: Matmul,
  { rowsPerWarp, rowsTogether = rowsPerWarp }: EpilogueBudget,
): OutputBlock | null | Rejection {
  if (!stored) return null
  const scale = program.operands.find((operand) => operand.name === stored.scale)
  const global = program.operands.some((operand) => operand.name === stored.global)
  const form = (what: string): Rejection => rejection('KTL2904', { form: `${what} of \`${name}\` on the tensor cores` })
  if (!scale || global) return form('the scale')
  const of = (axis: string): number => (scale.axes.includes(axis) ? (scale.blocks?.[scale.axes.indexOf(axis)] ?? 1) : 0)
  const along = of(gemm.n) === 1 ? 'm' : 'n'
  const size = of(gemm[along])
  if (axes.some((axis) => axis !== gemm[along] && of(axis) !== 1) || ![8, 16, 32, 64, WIDEST_BLOCK].includes(size))
    return form('blocks')
  if (along === 'm' && rowsPerWarp % size !== 0 && rowsTogether % size !== 0) return form('blocks of rows')
  return { along, size }
}

/** An elementwise output. */
type Stored = Pick<OutputPlan, 'operand' | 'value' | 'places'>

function planOutput(
  program: TensorProgram,
  { operand, value, places }: Stored,
  gemm: Matmul,
  layout: EpilogueBudget,
  columns: number,
): OutputPlan | Rejection {
  const axes = places?.flatMap((place) => operandNamed(program, place)?.axes ?? [place]) ?? operand.axes
  const isImplied = gemm.groups?.form === 'packed' && !axes.includes(gemm.l!)
  const missing = [gemm.m, gemm.n, ...(gemm.l && !isImplied ? [gemm.l] : [])].find((axis) => !axes.includes(axis))
  if (missing !== undefined) return rejection('KTL2925', { operand: operand.name, axis: missing })
  const other = axes.find((axis) => axis !== gemm.m && axis !== gemm.n && axis !== gemm.l)
  if (places && operand.stored) return rejection('KTL2904', { form: `a scatter of blocks to \`${operand.name}\`` })
  if (other !== undefined) return rejection('KTL2904', { form: `an output with the further axis \`${other}\`` })
  const { bits, storageBytes } = DTYPES[operand.dtype]
  const inner = operand.order.at(-1)
  // Neighbours of less than a byte share some, and a lane has them, or the one beside it.
  if (bits < 8 && places) return rejection('KTL2904', { form: `a scatter of ${bits} bits to \`${operand.name}\`` })
  if (bits < 8 && inner !== gemm.n)
    return rejection('KTL2904', { form: `\`${operand.name}\` of ${bits} bits, contiguous along \`${inner}\`,` })
  if (!places && inner !== gemm.n && inner !== gemm.m) return rejection('KTL4514', { operand: operand.name })
  const contiguous = inner === gemm.m ? 'm' : 'n'
  const rowBytes = (contiguous === 'n' ? columns : layout.rowsPerWarp) * storageBytes
  // Staged are rows of whole 16-byte chunks.
  const isStageable =
    places === null &&
    bits >= 8 &&
    storageBytes <= 4 &&
    rowBytes % 16 === 0 &&
    // Groups begin anywhere.
    contiguous !== gemm.groups?.along
  const isAligned = operand.divisibility === 'vector'
  const unaligned = contiguous === 'n' ? 'rows' : 'direct'
  const store = !isStageable ? 'direct' : isAligned ? (layout.stores ?? 'tma') : unaligned
  const isSwizzled =
    contiguous === 'n'
      ? store !== 'direct'
      : byMatrices({ store, contiguous, elementBytes: storageBytes }, layout.held, columns)
  return {
    operand,
    value,
    store,
    contiguous,
    elementBytes: storageBytes,
    swizzle: (isSwizzled && SWIZZLE_OF_ROW[rowBytes]) || 'none',
    block: null,
    shared: false,
    places,
    carry: null,
    dense: false,
  }
}

/** Fragments of 16-bit elements: stmatrix writes 16 columns of them at a time, and the last 8, as rows of either order (sm_90 and later). */
export const byMatrices = (
  { store, contiguous, elementBytes }: Pick<OutputPlan, 'store' | 'contiguous' | 'elementBytes'>,
  held: AccumulatorLayout['held'],
  columns: number,
): boolean => held === 'fragment' && (contiguous === 'n' || store === 'tma') && elementBytes === 2 && columns >= 16
