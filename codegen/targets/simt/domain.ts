/** Points as CUDA: from a linear index to positions along axes, groups of ragged axes included. */
import { ownAxes, packedOf, paddedOf } from '../../../compiler/targets/simt/domain.ts'
import type { RaggedAxis } from '../../../compiler/ir/tensor.ts'
import { TILE_OUTER } from '../../../compiler/stored/tiles.ts'
import { call, type SimtContext } from './context.ts'

/** Positions of an axis that are counted together, as CUDA. */
interface Range {
  readonly axis: string
  /** Of the first one; null: 0. */
  readonly begin: string | null
  readonly extent: string
}

/** Points of some axes, where others (`known`) have a position already. */
export interface Points {
  readonly ranges: readonly Range[]
  /** Number of points. */
  readonly count: string
  /** All axes that have a position at a point. */
  readonly known: ReadonlySet<string>
  /** Groups that packed axes say, which have no position before. */
  readonly implied: readonly { readonly group: string; readonly by: string }[]
  /** Padded and packed axes whose rows depend on a position among these points. */
  readonly guarded: readonly string[]
}

/** `op_off, op_off_stride_g` */
const endsOf = ({ names }: SimtContext, { by, group }: RaggedAxis): string[] => [
  names.operand(by),
  names.stride(by, group),
]

/** Arguments of device functions about one group: ends, stride, group, extent. */
const groupArgs = (context: SimtContext, axis: string, { by, group, form }: RaggedAxis): string[] => [
  ...endsOf(context, { by, group, form }),
  context.names.index(group),
  context.names.extent(axis),
]

/** Arguments about all groups: ends, stride, groups, extent. */
const allArgs = (context: SimtContext, axis: string, ragged: RaggedAxis): string[] => [
  ...endsOf(context, ragged),
  context.names.extent(ragged.group),
  context.names.extent(axis),
]

export const startOf = (context: SimtContext, axis: string): string => {
  const packed = packedOf(context.program, axis)
  return packed ? call(context, 'ktl_start', ...groupArgs(context, axis, packed)) : '0'
}

export const lengthOf = (context: SimtContext, axis: string): string => {
  const packed = packedOf(context.program, axis)
  if (packed) return call(context, 'ktl_length', ...groupArgs(context, axis, packed))
  return call(context, 'ktl_count', ...groupArgs(context, axis, paddedOf(context.program, axis)!))
}

/** Number of rows of a packed axis, of all groups. */
export const rowsOf = (context: SimtContext, axis: string, packed: RaggedAxis): string =>
  call(context, 'ktl_rows', ...allArgs(context, axis, packed))

/** The group of a row, as CUDA. */
export const groupOf = (context: SimtContext, axis: string, packed: RaggedAxis, row: string): string =>
  call(context, 'ktl_group', ...allArgs(context, axis, packed), row)

/** The block of a row of which the group has a position (`known`), or not. */
export function blockOf(
  context: SimtContext,
  axis: string,
  packed: RaggedAxis,
  per: number,
  row: string,
  known: boolean,
): string {
  const group = known ? context.names.index(packed.group) : groupOf(context, axis, packed, row)
  return call(context, 'ktl_block', ...endsOf(context, packed), group, context.names.extent(axis), per, row)
}

/** A row of which the group has a position (`known`), or not, as rows of tiles have it. */
export function tileRowOf(context: SimtContext, axis: string, packed: RaggedAxis, row: string, known: boolean): string {
  const group = known ? context.names.index(packed.group) : groupOf(context, axis, packed, row)
  return call(context, 'ktl_tile_row', ...endsOf(context, packed), group, context.names.extent(axis), TILE_OUTER, row)
}

/** The first row of the block that the current row of a packed axis is in. */
export function firstRowOf(context: SimtContext, axis: string, per: number): string {
  const row = context.names.index(axis)
  return `${row} - (${row} - ${startOf(context, axis)}) % ${per}`
}

/** Declares the group of the block `index` of a packed axis, and the block's first row as `begin` and the number of its rows as `length`. */
export function emitBlock(
  context: SimtContext,
  axis: string,
  per: number,
  index: string,
  known: boolean,
  [begin, length]: readonly [string, string],
): void {
  const { out, names } = context
  const packed = packedOf(context.program, axis)!
  const g = names.index(packed.group)
  if (!known)
    out.line(`const int ${g} = ${call(context, 'ktl_block_group', ...allArgs(context, axis, packed), per, index)};`)
  const args = groupArgs(context, axis, packed)
  const start = call(context, 'ktl_start', ...args)
  out.line(
    `const int ${begin} = ${start} + (int)(${index} - ${call(context, 'ktl_first_block', ...args, per)}) * ${per};`,
  )
  // Blocks before the first one of a group that is known are those of others.
  const isOther = known ? `${begin} < ${start} ? 0 : ` : ''
  out.line(`const int ${length} = ${isOther}min(${per}, ${call(context, 'ktl_end', ...args)} - ${begin});`)
}

/** Declares what the ranges of `axes` need: nothing is read but group ends. `extents`: where they are others than those of the axes. */
export function emitPoints(
  context: SimtContext,
  axes: readonly string[],
  known: ReadonlySet<string>,
  extents: Readonly<Record<string, string>> = {},
): Points {
  const { program, names, out } = context
  const own = ownAxes(program, axes).filter((axis) => !known.has(axis))
  const has = new Set([...known, ...own])
  const implied: { group: string; by: string }[] = []
  const guarded: string[] = []
  const ranges = own.map((axis): Range => {
    const plain = { axis, begin: null, extent: extents[axis] ?? names.extent(axis) }
    const packed = packedOf(program, axis)
    const padded = paddedOf(program, axis)
    if (packed && known.has(packed.group)) {
      const n = context.temporaries.count++
      out.line(`const int start_${n} = ${startOf(context, axis)}, length_${n} = ${lengthOf(context, axis)};`)
      return { axis, begin: `start_${n}`, extent: `length_${n}` }
    }
    if (packed && !has.has(packed.group)) {
      has.add(packed.group)
      implied.push({ group: packed.group, by: axis })
      const n = context.temporaries.count++
      out.line(`const int rows_${n} = ${rowsOf(context, axis, packed)};`)
      return { axis, begin: null, extent: `rows_${n}` }
    }
    if (padded && known.has(padded.group)) {
      const n = context.temporaries.count++
      out.line(`const int length_${n} = ${lengthOf(context, axis)};`)
      return { axis, begin: null, extent: `length_${n}` }
    }
    if (packed || (padded && has.has(padded.group))) guarded.push(axis)
    return plain
  })
  // A padded axis may stand before the packed one that says its group.
  for (const { axis } of ranges) {
    const padded = paddedOf(program, axis)
    if (padded && has.has(padded.group) && !known.has(padded.group) && !guarded.includes(axis)) guarded.push(axis)
  }
  const [first, ...others] = ranges.map(({ extent }) => extent)
  const count = first === undefined ? '1LL' : [`(long long)${first}`, ...others].join(' * ')
  return { ranges, count, known: has, implied, guarded }
}

/**
 * Declares positions from the linear index in `rest`, using it up (`more`: something is left over); returns conditions under which the
 * point exists.
 */
export function emitPositions(
  context: SimtContext,
  { ranges, implied, guarded }: Points,
  rest: string,
  more = false,
): string[] {
  const { out, names, program } = context
  for (const [i, { axis, begin, extent }] of [...ranges].reverse().entries()) {
    const inner = i === ranges.length - 1 && !more ? `(int)${rest}` : call(context, 'ktl_split', rest, extent)
    out.line(`const int ${names.index(axis)} = ${begin === null ? '' : `${begin} + `}${inner};`)
  }
  for (const { group, by } of implied)
    out.line(`const int ${names.index(group)} = ${groupOf(context, by, packedOf(program, by)!, names.index(by))};`)
  return guarded.flatMap((axis) => {
    const i = names.index(axis)
    const packed = packedOf(program, axis)
    if (!packed) return [`${i} < ${lengthOf(context, axis)}`]
    return [
      `${i} >= ${startOf(context, axis)}`,
      `${i} < ${call(context, 'ktl_end', ...groupArgs(context, axis, packed))}`,
    ]
  })
}

/** Once for all stages: ends that decrease or leave their axis are findings. */
export function emitChecks(context: SimtContext): void {
  const { out, program, names, checked } = context
  for (const { name, ragged } of program.axes) {
    const used = ragged && names.used.has(`pointer ${ragged.by}`)
    if (!used || checked.has(`${name} ${ragged.by}`)) continue
    checked.add(`${name} ${ragged.by}`)
    const check = ragged.form === 'packed' ? 'ktl_check_ends' : 'ktl_check_counts'
    out.line(`${call(context, check, ...allArgs(context, name, ragged))};`)
  }
}
