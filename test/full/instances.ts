/** From a row to the instance of the built-in library that it means. */
import { bindKernel, planInstance, type Design } from '../../codegen/index.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { resolveType, type KernelFamily, type TypeChoice } from '../../compiler/family.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import type { Sm100Design } from '../../compiler/targets/sm100/design.ts'
import { designsOf } from '../../compiler/designs.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import { ktlProvider } from '../../runtime/discovery/providers/provider.ts'
import { accumulatorOf } from '../../runtime/discovery/space/signature.ts'
import { FACTORS, mmaOf, shapeOf, typesOf, type FullRow } from './knobs.ts'

export const TARGET: TargetArch = 'sm_100a'

/** What a row asks of the design; the k extent and the stages follow from the operands. */
export type WantedDesign = Pick<
  Sm100Design,
  'use2ctaMma' | 'cluster' | 'fallbackCluster' | 'scheduler' | 'operands'
> & {
  readonly tile: readonly [number, number]
}

export function designOf({ mma, cluster, fallback, scheduler, operands }: FullRow): WantedDesign {
  const { pair, m, n } = mmaOf(mma)
  const shape = (text: string): readonly [number, number, number] => [...shapeOf(text), 1]
  return {
    use2ctaMma: pair === 2,
    tile: [m, n],
    cluster: shape(cluster),
    fallbackCluster: fallback === 'none' ? null : shape(fallback),
    scheduler,
    operands,
  }
}

export function designKey({ use2ctaMma, tile, cluster, fallbackCluster, scheduler, operands }: WantedDesign | Sm100Design): string {
  const mma = `${use2ctaMma ? 2 : 1}cta ${tile[0]}x${tile[1]}`
  return [mma, cluster.join('x'), fallbackCluster?.join('x') ?? 'none', scheduler, operands].join(' ')
} // prettier-ignore

export interface LibraryChoice {
  readonly family: KernelFamily
  readonly types: TypeChoice
}

/** The library's GEMM of these operand types; null: it has none. */
export function libraryChoice(row: Pick<FullRow, 'types' | 'out'>): LibraryChoice | null {
  const key = `${row.types} ${row.out}`
  if (!choices.has(key)) choices.set(key, findChoice(row))
  return choices.get(key)!
}

const choices = new Map<string, LibraryChoice | null>()

function findChoice({ types: text, out }: Pick<FullRow, 'types' | 'out'>): LibraryChoice | null {
  const { a, b, accumulator } = typesOf(text)
  for (const { family, operation, library } of ktlProvider.spaces) {
    if (!library || operation?.operation !== 'gemm' || family.slot === null) continue
    const typeOf = (name: string, types: TypeChoice): string =>
      resolveType(family.operands.find((operand) => operand.name === name)!.dtype, types)
    const names = [operation.A, operation.B, operation.out]
    const types = family.typeChoices.find(
      (choice) =>
        names.map((name) => typeOf(name, choice)).join() === [a, b, out].join() &&
        accumulatorOf(family, choice) === accumulator,
    )
    if (types) return { family, types }
  }
  return null
}

/** Designs that the schedule of a family gives for its tensor cores, by key. */
const designs = new Map<string, ReadonlyMap<string, Design>>()

function designsFor({ family }: LibraryChoice, elementBytes: number): ReadonlyMap<string, Design> {
  const key = `${family.name} ${elementBytes}`
  if (!designs.has(key)) {
    const all = [...designsOf(family.schedules, 'sm100', TARGET, elementBytes)] as Sm100Design[]
    designs.set(key, new Map(all.filter(({ stages }) => stages === 'auto').map((design) => [designKey(design), design])))
  }
  return designs.get(key)!
} // prettier-ignore

const DESIGN_KNOBS = ['mma', 'cluster', 'fallback', 'scheduler', 'operands'] as const

/** Has the library a kernel of these types with such a design? Of parts of rows. */
export function offered(part: Partial<FullRow>): boolean {
  const { types, out } = part
  if (types !== undefined && out !== undefined && libraryChoice({ types, out }) === null) return false
  const wanted = DESIGN_KNOBS.map((knob) => part[knob])
  const key = [types, ...wanted].join()
  let answer = known.get(key)
  if (answer === undefined) {
    const fits = (design: readonly string[]): boolean => design.every((value, i) => wanted[i] === undefined || wanted[i] === value)
    answer = (types === undefined ? FACTORS.types : [types]).some((each) => designRows(each).some(fits))
    known.set(key, answer)
  }
  return answer
} // prettier-ignore

const known = new Map<string, boolean>()
const rowsOfTypes = new Map<string, readonly (readonly string[])[]>()

/** The designs that the library has for operands of these types, in the words of `DESIGN_KNOBS`. */
function designRows(types: FullRow['types']): readonly (readonly string[])[] {
  if (!rowsOfTypes.has(types)) {
    const out = FACTORS.out.find((each) => libraryChoice({ types, out: each }) !== null)
    const choice = out === undefined ? null : libraryChoice({ types, out })
    const keys = choice ? [...designsFor(choice, DTYPES[typesOf(types).a].storageBytes).keys()] : []
    rowsOfTypes.set(types, keys.map(rowKey))
  }
  return rowsOfTypes.get(types)!
}

/** The key of a design, knob by knob. */
function rowKey(key: string): readonly string[] {
  const [pair, tile, cluster, fallback, scheduler, operands] = key.split(' ') as string[]
  const plane = (shape: string): string => shape.split('x').slice(0, 2).join('x')
  return [`${pair} ${tile}`, plane(cluster!), plane(fallback!), scheduler!, operands!]
}

/** Is the instance that a row means in the space of the library? By the planner alone: discovery must agree. */
export function inSpace(row: FullRow): boolean {
  const choice = libraryChoice(row)
  if (choice === null) return false
  const { family, types } = choice
  const design = designsFor(choice, DTYPES[typesOf(row.types).a].storageBytes).get(designKey(designOf(row)))
  if (!design) return false
  const [A, B] = family.operands.filter(({ role }) => role === 'input').map(({ name }) => name) as [string, string]
  const D = family.operands.find(({ role }) => role === 'output')!.name
  const orders = Object.fromEntries(
    [A, B, D].map((name, i) => {
      const { orders } = family.operands.find((operand) => operand.name === name)!
      return [name, orders.find((order) => isContiguous(order, row.orders[i]!, family, name))!]
    }),
  )
  const divisibility = { [A]: 'vector', [B]: 'vector', [D]: row.store === 'tma' ? 'vector' : 'element' } as const
  try {
    return 'kind' in planInstance({ program: bindKernel(family, { types, orders, divisibility }), target: TARGET, design })
  } catch (error) {
    if (error instanceof KtlError) return false
    throw error
  }
} // prettier-ignore

/** `t`: the last logical axis is written last; `n`: the one before it. */
function isContiguous(order: readonly string[], letter: string, family: KernelFamily, name: string): boolean {
  const { axes } = family.operands.find((operand) => operand.name === name)!
  return order.at(-1) === axes.at(letter === 't' ? -1 : -2)
}
