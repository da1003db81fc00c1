/** The instances of a kernel that the options of `build`, `inspect`, `list` and `run` choose; no device is needed. */
import { resolveType, type KernelFamily, type OrderChoice, type TypeChoice } from '../../compiler/family.ts'
import { inTiles, TILES, tiledOrder } from '../../compiler/stored/tiles.ts'
import type { Rejection } from '../../compiler/instance.ts'
import { epilogueFromOptions } from './epilogue.ts'
import { TARGETS, type Backend } from '../../compiler/targets/index.ts'
import type { FamilySpace } from '../discovery/space/space.ts'
import type { Alignment } from '../discovery/space/choices.ts'
import type { PlannedInstance } from '../discovery/space/planned.ts'
import type { FusionShape } from '../discovery/calls/fusion.ts'
import type { KtlError } from '../../grammar/diagnostics.ts'
import { ktlError } from '../errors/fail.ts'
import { illegal, orderOf, typesOf, type ChoiceOptions, type InstanceOptions, type Pairs } from './options.ts'
import { plural } from './output.ts'

/** A backend first, then types, orders and alignments in the order they are written. */
export function* instancesOf(
  space: FamilySpace,
  options: InstanceOptions,
  rejected: Rejections = new Rejections(),
): Generator<PlannedInstance> {
  const { family } = space
  const types = chosenTypes(family, options.type)
  const orders = chosenOrders(family, options.order)
  const vector: Alignment = Object.fromEntries(family.operands.map(({ name }) => [name, 'vector' as const]))
  const seen = new Set<string>()
  for (const backend of backendsOf(space, options)) {
    for (const choice of types) {
      const fusion = fusionOf(family, choice, options)
      for (const order of space.orderChoices(choice)) {
        if (!matches(order, orders)) continue
        for (const alignment of space.alignments(backend, options.target, choice, vector, order)) {
          const found = space.find(backend, options.target, { types: choice, orders: order, alignment }, fusion)
          found.rejections.forEach(({ rejection, count }) => rejected.add(rejection, count))
          for (const instance of found.instances) {
            if (seen.has(instance.name)) continue
            seen.add(instance.name)
            yield instance
          }
        }
      }
    }
  }
}

/** Fallbacks have kernels for every target, where they are asked for. */
function backendsOf(space: FamilySpace, { target, design }: InstanceOptions): readonly Backend[] {
  if (design === undefined) return space.backends(target)
  return TARGETS.get(design).scope === 'fallback' || space.backends(target).includes(design) ? [design] : []
}

/** Reasons with how often they were met, the most frequent first. */
export class Rejections {
  readonly #counts = new Map<string, number>()

  add({ code, reason }: Rejection, count: number): void {
    const key = `${code}: ${reason}`
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + count)
  }

  get reasons(): string[] {
    return [...this.#counts].sort((a, b) => b[1] - a[1]).map(([reason, count]) => `${count}x ${reason}`)
  }
}

/** KTL4107 for options that leave none: why, and which of them to change. */
export function noInstance(
  what: string,
  rejected: Rejections,
  options: InstanceOptions,
  spaces: readonly FamilySpace[],
): KtlError {
  const { target, design } = options
  const backends = [...new Set(spaces.flatMap((space) => space.backends(target)))]
  const reasons = rejected.reasons.slice(0, 5)
  const missing = design !== undefined && !spaces.some((space) => backendsOf(space, options).length > 0)
  const code = /KTL\d+/.exec(reasons[0] ?? '')?.[0]
  const help = missing
    ? `\`--design ${design}\` has no kernels for ${target}; it takes ${backends.join(', ')}`
    : `${code ? `\`ktl explain ${code}\` says more; ` : ''}other types, orders or targets may have one`
  return ktlError('KTL4107', { what, reasons, help })
}

/** The same for an index beyond the last of `count` instances. */
export const noIndex = (name: string, index: number, count: number): KtlError =>
  ktlError('KTL4107', {
    what: `${name} with index ${index}`,
    reasons: [`the arguments have ${plural(count, 'instance')}`],
    help: `\`--index\` takes 0 to ${count - 1}`,
  })

/** The consistent choices of dtypes that `--type` leaves. */
export function chosenTypes(family: KernelFamily, given: Pairs = {}): readonly TypeChoice[] {
  const wanted = typesOf(given)
  const known = family.typeParameters.map(({ name }) => name)
  const unknown = Object.keys(wanted).find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw ktlError('KTL4105', { what: `type parameter of ${family.name}`, name: unknown, known })
  const left = family.typeChoices.filter((choice) =>
    Object.entries(wanted).every(([name, dtype]) => choice[name] === dtype),
  )
  if (left.length > 0) return left
  const choices = family.typeParameters.map(({ name, alternatives }) => `${name}: ${alternatives.join(' | ')}`)
  const got = Object.entries(given)
    .map(([name, dtype]) => `${name}=${dtype}`)
    .join()
  throw illegal('--type', `a consistent choice of ${choices.join(', ')}`, got)
}

/** The memory orders that `--order` asks for, by operand. */
export function chosenOrders(family: KernelFamily, given: Pairs = {}): OrderChoice {
  const known = family.operands.map(({ name }) => name)
  return Object.fromEntries(
    Object.entries(given).map(([name, text]) => {
      const operand = family.operands.find((o) => o.name === name)
      if (!operand) throw ktlError('KTL4105', { what: `operand of ${family.name}`, name, known })
      if (text === TILES && operand.orders.some(inTiles)) return [name, tiledOrder(operand.axes)]
      const optional = new Set(family.axes.filter((axis) => axis.optional).map((axis) => axis.name))
      const required = operand.axes.filter((axis) => !optional.has(axis))
      const order = orderOf(text, operand.axes) ?? orderOf(text, required)
      if (order !== null) return [name, order]
      throw illegal('--order', `the axes of ${name}: ${operand.orders.map(orderText).join(' | ')}`, `${name}=${text}`)
    }),
  )
}

/** A memory order as `--order` takes it. */
export const orderText = (order: readonly string[]): string => (inTiles(order) ? TILES : order.join(''))

/** Orders count by their contiguous axis: outer strides are parameters of the launch. */
const matches = (order: OrderChoice, wanted: OrderChoice): boolean =>
  Object.entries(wanted).every(([name, axes]) => order[name]!.at(-1) === axes.at(-1))

/** `--epilogue` in the kernel's slot; null: there is none. Numbers for the kernel's own scalars are not its business. */
export function fusionOf(
  family: KernelFamily,
  types: TypeChoice,
  { epilogue, arg = {} }: ChoiceOptions,
): FusionShape | null {
  if (epilogue === undefined) return null
  const slot = slotOf(family)
  const dtype = resolveType(slot.dtype, types)
  const own = Object.entries(arg).filter(([name]) => !family.scalars.some((scalar) => scalar.name === name))
  return epilogueFromOptions(epilogue, Object.fromEntries(own), { axes: slot.axes, dtype })
}

/** The output that the slot stands for. KTL4035: the kernel has none. */
export function slotOf(family: KernelFamily) {
  if (family.slot === null) throw ktlError('KTL4035', { kernel: family.name })
  return family.operands.find((operand) => operand.name === family.slot)!
}

/** `T=f16, O=f32`; empty without type parameters. */
export const describeTypes = (types: TypeChoice): string =>
  Object.entries(types)
    .map(([name, dtype]) => `${name}=${dtype}`)
    .join(', ')
