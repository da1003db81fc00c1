/** From a row to a device case: extents, memory layouts and an epilogue that suit its instance. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { CaseOperand, DeviceCase } from '../../runtime/selftest/case.ts'
import { epilogueOf } from './epilogues.ts'
import { libraryChoice } from './instances.ts'
import { mmaOf, shapeOf, rowText, typesOf, type FullRow } from './knobs.ts'

export interface FullCase {
  /** Without the design, which `FullRow` says in full. */
  readonly device: DeviceCase
  readonly smCount: number
  /** Integer-valued inputs give results that are equal everywhere. */
  readonly exact: boolean
}

/** Multiply-adds of a case at most, so that a row takes seconds. */
const MACS = 80e6
/** Most of what one stage can be: a ring has at most twelve. */
const RING = 14

export function toCase(row: FullRow): FullCase {
  const { family, types } = libraryChoice(row)!
  const { a, b } = typesOf(row.types)
  const out = row.out as DTypeName
  const mma = mmaOf(row.mma)
  // Computed as the transpose, rows of the MMA are columns of D.
  const [tileM, tileN] = row.operands === 'ab' ? [mma.m, mma.n] : [mma.n, mma.m]
  const stage = 128 / DTYPES[a].storageBytes
  const l = { none: null, '3': 3, 'broadcast A': 2, 'broadcast B': 2 }[row.batch]
  const extents = { m: rowsOf(row.m, tileM, unitRows(row)), n: columnsOf(row.n, tileN), k: depthOf(row.k, stage) }

  const [orderA, orderB, orderD] = [...row.orders].map((letter, i) => ORDERS[i]![letter as 't' | 'n'])
  const inner = orderD![1] as 'm' | 'n'
  const unit = 16 / DTYPES[out].storageBytes
  // TMA clips rows to 16 bytes; an odd number of elements never ends there.
  if (row.store === 'tma') extents[inner] = Math.ceil(extents[inner] / unit) * unit
  else if (extents[inner] % unit === 0) extents[inner]++
  limit(extents, l ?? 1)

  const padded = row.layout === 'padded'
  const batched = (axes: string): string[] => [...(l === null ? [] : ['l']), ...axes]
  /** A and B reach TMA: strides and addresses are multiples of 16 bytes. */
  const input = (axes: string, dtype: DTypeName, broadcast: boolean): CaseOperand => {
    const vector = 16 / DTYPES[dtype].storageBytes
    return {
      order: broadcast ? [...axes] : batched(axes),
      padding: padTo(extents[axes[1] as 'm' | 'n' | 'k'], vector) + (padded ? 2 * vector : 0),
      offset: padded ? 3 * vector : 0,
      ...(broadcast && { without: ['l'] }),
    }
  }
  const epilogue = epilogueOf(row, l !== null, padded)
  const [A, B] = family.operands.filter(({ role }) => role === 'input').map(({ name }) => name) as [string, string]
  const D = family.operands.find(({ role }) => role === 'output')!.name
  return {
    device: {
      name: rowText(row),
      kernel: family.name,
      types,
      design: { kind: 'sm100' },
      extents: { ...(l !== null && { l }), ...extents },
      operands: {
        [A]: input(orderA!, a, row.batch === 'broadcast A'),
        [B]: input(orderB!, b, row.batch === 'broadcast B'),
        [D]: {
          order: batched(orderD!),
          padding: padded ? (row.store === 'tma' ? unit : 3) : 0,
          offset: padded ? (row.store === 'tma' ? unit : 1) : 0,
        },
      },
      ...(epilogue && { epilogue: epilogue.epilogue }),
      inputs: 'integers',
    },
    smCount: smsOf(row),
    exact: epilogue?.exact ?? true,
  }
}

/** Axes outermost first, for both letters: of A, B and D. */
const ORDERS = [
  { t: 'mk', n: 'km' },
  { t: 'kn', n: 'nk' },
  { t: 'mn', n: 'nm' },
] as const

/** Rows of D that one cluster computes. */
function unitRows({ mma, cluster, operands }: FullRow): number {
  const { pair, m, n } = mmaOf(mma)
  const [cm, cn] = shapeOf(cluster)
  return operands === 'ab' ? (m / pair) * cm : n * cn
}

function rowsOf(kind: FullRow['m'], tile: number, unit: number): number {
  return { one: 1, 'tile-1': tile - 1, 'tile+1': tile + 1, several: 2 * tile + 44, 'unit+': Math.min(unit, 1024) + 3 }[kind]
} // prettier-ignore

function columnsOf(kind: FullRow['n'], tile: number): number {
  return { few: 8, 'tile-8': tile - 8, tile, 'tile+8': tile + 8, several: 2 * tile + 16 }[kind]
}

function depthOf(kind: FullRow['k'], stage: number): number {
  return { zero: 0, short: 8, 'stage-': stage - 1, 'stage+': stage + 9, several: 3 * stage + 24, ring: RING * stage + 8 }[kind] // prettier-ignore
}

/** Cuts what costs most until the case is small enough: the depth first, then rows. */
function limit(extents: { m: number; n: number; k: number }, l: number): void {
  const area = l * extents.m * extents.n
  if (area * extents.k > MACS) extents.k = Math.max(40, Math.floor(MACS / area))
}

/** Rows of no elements, too, have a stride that TMA can take. */
const padTo = (extent: number, multiple: number): number =>
  extent === 0 ? multiple : (multiple - (extent % multiple)) % multiple

/** Whole clusters, so that a persistent grid fills the device. */
function smsOf({ cluster, room, mma }: FullRow): number {
  const [m, n] = shapeOf(cluster)
  const size = Math.max(m * n, mmaOf(mma).pair)
  return size * { one: 1, two: 2, many: Math.max(2, Math.floor(16 / size)) }[room]
}
