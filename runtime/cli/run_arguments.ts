/** From the options of `ktl run` to arguments of a kernel: seeded tensors of the right shapes, orders and dtypes. */
import { bindKernel } from '../../compiler/bind.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { allExtents } from '../../compiler/evaluate/evaluate.ts'
import { extentIn } from '../../compiler/evaluate/inputs.ts'
import {
  resolveType,
  type FamilyOperand,
  type KernelFamily,
  type OrderChoice,
  type TypeChoice,
} from '../../compiler/family.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { inTiles, tilingOf } from '../../compiler/stored/tiles.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { EpilogueArguments } from '../arguments/epilogue.ts'
import { KernelArguments } from '../arguments/kernel.ts'
import type { ScaledOperand } from '../arguments/scaled_operand.ts'
import { storedOperand } from '../arguments/stored.ts'
import type { Device } from '../devices/device.ts'
import { ktlError } from '../errors/fail.ts'
import { meaningfulValues } from '../selftest/meaningful.ts'
import { GuardedTensor } from '../selftest/guarded.ts'
import { randomScalar, randomValues, seedOf, type InputKind } from '../selftest/values.ts'
import { swizzleScales, type ScaleTilesOptions } from '../tensors/scale_tiles.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { elementCount } from '../tensors/layout.ts'
import { readEpilogue, type EpilogueChoice } from './epilogue.ts'
import { extentsOf } from './extents.ts'
import { chosenOrders, chosenTypes, orderText, slotOf } from './instances.ts'
import { bytes } from './output.ts'
import { dimsOf, illegal, type ArgValue, type ChoiceOptions, type Pairs } from './options.ts'

export interface ArgumentOptions extends ChoiceOptions {
  readonly dims?: Pairs
  readonly seed: number
  readonly inputs: InputKind
}

/** What the options say, checked against the kernel: no device is needed for it. */
export interface ArgumentPlan {
  readonly family: KernelFamily
  readonly types: TypeChoice
  readonly extents: Readonly<Record<string, number>>
  readonly orders: OrderChoice
  /** Numbers for the kernel's own scalars. */
  readonly scalars: Readonly<Record<string, number>>
  /** Values for its operands, in logical order. */
  readonly values: Readonly<Record<string, readonly number[]>>
  readonly epilogue: EpilogueChoice | null
  readonly options: ArgumentOptions
}

export interface PreparedArguments {
  readonly args: KernelArguments
  readonly plan: ArgumentPlan
  /** Lines about the operands, as they were chosen. */
  readonly operands: readonly string[]
  /** Lines about what nobody chose: seeded scalars, assumed operands of the epilogue. */
  readonly assumptions: readonly string[]
}

/** KTL41xx for what the kernel does not have, and what the epilogue's parser says. */
export function planArguments(family: KernelFamily, options: ArgumentOptions): ArgumentPlan {
  const types = chosenTypes(family, options.type)[0]!
  const extents = extentsOf(family, dimsOf(options.dims ?? {}))
  const orders = chosenOrders(family, options.order)
  for (const operand of family.operands) checkOrder(operand, orders[operand.name])
  const [scalars, values, rest] = splitArguments(family, options.arg ?? {})
  if (options.epilogue === undefined) {
    const [stray] = Object.keys(rest)
    const known = family.scalars.map(({ name }) => name)
    if (stray !== undefined)
      throw ktlError('KTL4105', { what: `scalar of ${family.name} (and there is no --epilogue)`, name: stray, known })
    return { family, types, extents, orders, scalars, values, epilogue: null, options }
  }
  const slot = slotOf(family)
  const present = slot.axes.filter((axis) => Object.hasOwn(extents, axis))
  const output = { axes: slot.axes, present, dtype: resolveType(slot.dtype, types) }
  const epilogue = readEpilogue(options.epilogue, rest, output)
  return { family, types, extents, orders, scalars, values, epilogue, options }
}

/** A tensor to make: `order` lists the numbers of its axes, outermost first. */
export interface TensorSpec {
  readonly name: string
  readonly role: 'input' | 'output'
  readonly dtype: DTypeName
  readonly shape: readonly number[]
  readonly order: readonly number[]
  readonly seed: number
  readonly inputs: InputKind
  /** What it must hold, in logical order; null: random values. */
  readonly values: ArrayLike<number> | null
}

export type MakeTensor = (device: Device, spec: TensorSpec) => Promise<Tensor>

/** Inputs are filled from the host; outputs keep the guard's pattern, so that elements left unwritten are seen. */
const guarded: MakeTensor = async (device, { name, role, dtype, shape, order, seed, inputs, values }) => {
  const size = elementCount(shape) * Math.max(4, DTYPES[dtype].storageBytes)
  if (size > OPERAND_LIMIT)
    throw illegal(
      '--dims',
      `extents that leave operands below ${bytes(OPERAND_LIMIT)}`,
      `${name} [${shape.join(', ')}]`,
    )
  const { tensor } = new GuardedTensor(device, dtype, shape, { order })
  if (role === 'input') await tensor.copyFrom(values ?? randomValues(dtype, elementCount(shape), seed, inputs))
  return tensor
}

export async function makeArguments(
  plan: ArgumentPlan,
  device: Device,
  make: MakeTensor = guarded,
): Promise<PreparedArguments> {
  const { family, types, extents, orders } = plan
  const maker = new OperandMaker(device, plan, make)
  const program = bindKernel(family, { types })
  const scalars = scalarValues(plan, maker)
  const all = allExtents(program, { tensors: {}, scalars, extents })
  const bindings: Record<string, Tensor | ScaledOperand | number> = Object.fromEntries(
    family.scalars.flatMap(({ name, partOf }) =>
      partOf === undefined && scalars[name] !== undefined ? [[name, scalars[name]]] : [],
    ),
  )
  const made: Record<string, Tensor> = {}
  for (const { name, role, dtype, axes: declared } of family.operands) {
    const axes = declared.filter((axis) => Object.hasOwn(all, axis))
    const order = orders[name]?.filter((axis) => axes.includes(axis))
    const operand = operandNamed(program, name)
    const shape = axes.map((axis) => extentIn(operand, declared.indexOf(axis), program, all))
    const given = plan.values[name]
    const count = elementCount(shape)
    const values =
      given ??
      (role === 'input'
        ? meaningfulValues(program, name, count, seedOf(plan.options.seed, name), { extents: all, scalars })
        : null)
    made[name] = await maker.tensor(name, role, resolveType(dtype, types), axes, order, {
      shape,
      values,
      blocks: axes.map((axis) => operand.blocks?.[declared.indexOf(axis)] ?? 1),
    })
  }
  for (const { name } of family.operands.filter((operand) => inTiles(orders[operand.name] ?? [])))
    made[name] = await swizzleScales(made[name]!, tilesOf(program, name, all, made))
  for (const operand of family.operands.filter(({ partOf }) => partOf === undefined))
    bindings[operand.name] = operand.stored
      ? storedOperand(family, operand, made, scalars, (scale) => inTiles(orders[scale] ?? []))
      : made[operand.name]!
  const epilogue = plan.epilogue && (await maker.epilogue(plan.epilogue))
  return {
    args: new KernelArguments({ family }, { ...bindings, epilogue }),
    plan,
    operands: maker.operands,
    assumptions: maker.assumptions,
  }
}

/** Numbers for all scalars without a default: global scales are positive, whole numbers 1. */
function scalarValues({ family, types, scalars, options }: ArgumentPlan, maker: OperandMaker): Record<string, number> {
  const values: Record<string, number> = { ...scalars }
  for (const { name, dtype, defaultValue, partOf } of family.scalars) {
    if (values[name] !== undefined) continue
    if (partOf !== undefined)
      values[name] = name.endsWith('.norm') ? 0 : Math.abs(randomScalar(seedOf(options.seed, name), options.inputs))
    else if (defaultValue !== null) continue
    else if (DTYPES[resolveType(dtype, types)].class === 'int') values[name] = maker.whole(name)
    else values[name] = maker.scalar(name)
  }
  return values
}

/** How scales lie in tiles whose axes are those of `extents`. */
function tilesOf(
  program: TensorProgram,
  name: string,
  extents: Readonly<Record<string, number>>,
  made: Readonly<Record<string, Tensor>>,
): ScaleTilesOptions {
  const operand = operandNamed(program, name)
  const { outer, inner } = tilingOf(operand)!
  const axes = operand.axes.filter((axis) => Object.hasOwn(extents, axis))
  const ragged = program.axes.find((axis) => axis.name === outer)!.ragged
  const offsets = ragged?.form === 'packed' ? { offsets: made[ragged.by]! } : {}
  return { outer: axes.indexOf(outer), inner: axes.indexOf(inner), ...offsets }
}

/** Only declared orders can be run; the contiguous axis is what tells them apart. */
function checkOrder({ name, orders }: FamilyOperand, order: readonly string[] | undefined): void {
  if (order === undefined || orders.some((declared) => declared.at(-1) === order.at(-1))) return
  const expected = `an order that ${name} is declared with: ${orders.map(orderText).join(' | ')}`
  throw illegal('--order', expected, `${name}=${orderText(order)}`)
}

/** Numbers for the kernel's own scalars, values of its operands, and the rest, which is the epilogue's. */
function splitArguments(
  family: KernelFamily,
  given: Readonly<Record<string, ArgValue>>,
): [Record<string, number>, Record<string, readonly number[]>, Record<string, ArgValue>] {
  const own: Record<string, number> = {}
  const values: Record<string, readonly number[]> = {}
  const rest: Record<string, ArgValue> = {}
  const has = (list: readonly { readonly name: string }[], name: string): boolean =>
    list.some((known) => known.name === name)
  for (const [name, value] of Object.entries(given)) {
    if (value.kind === 'values') {
      const known = family.operands.filter(({ role }) => role === 'input').map((operand) => operand.name)
      if (!known.includes(name)) throw ktlError('KTL4105', { what: `input of ${family.name}`, name, known })
      values[name] = value.values
    } else if (!has(family.scalars, name)) rest[name] = value
    else if (value.kind === 'number') own[name] = value.value
    else throw illegal('--arg', `a number for ${name}`, `${name}=${value.dtype}`)
  }
  return [own, values, rest]
}

/** What is known of a tensor beside its axes. */
interface TensorParts {
  /** Default: the extents of the axes. */
  readonly shape?: readonly number[]
  readonly values?: ArrayLike<number> | null
  /** Positions of each axis that one element stands for. */
  readonly blocks?: readonly number[]
}

class OperandMaker {
  readonly operands: string[] = []
  readonly assumptions: string[] = []
  readonly #device: Device
  readonly #plan: ArgumentPlan
  readonly #make: MakeTensor

  constructor(device: Device, plan: ArgumentPlan, make: MakeTensor) {
    this.#device = device
    this.#plan = plan
    this.#make = make
  }

  async tensor(
    name: string,
    role: 'input' | 'output',
    dtype: DTypeName,
    axes: readonly string[],
    order = axes,
    { shape, values, blocks }: TensorParts = {},
  ): Promise<Tensor> {
    const { extents, options } = this.#plan
    const extentsOfAxes = shape ?? axes.map((axis) => extents[axis] ?? 1)
    const seed = seedOf(options.seed, name)
    const place = { shape: extentsOfAxes, order: memoryOrder(axes, order) }
    const spec = { name, role, dtype, ...place, seed, inputs: options.inputs, values: values ?? null }
    const tensor = await this.#make(this.#device, spec)
    const stored = order.join() === axes.filter((axis) => axis !== '1').join() ? '' : ` stored [${order.join(', ')}]`
    const shown = axes.map((axis, i) => ((blocks?.[i] ?? 1) === 1 ? axis : `${axis}/${blocks![i]}`))
    this.operands.push(`${name}: ${dtype}[${shown.join(', ')}]${stored}`)
    return tensor
  }

  scalar(name: string): number {
    const { seed, inputs } = this.#plan.options
    const value = randomScalar(seedOf(seed, name), inputs)
    this.assumptions.push(`${name} = ${value}, seeded (--arg ${name}=… sets it)`)
    return value
  }

  whole(name: string): number {
    this.assumptions.push(`${name} = 1 (--arg ${name}=… sets it)`)
    return 1
  }

  async epilogue({ text, operands, scalars }: EpilogueChoice): Promise<EpilogueArguments> {
    const bindings: Record<string, Tensor | number> = { ...scalars }
    for (const { name, role, dtype, axes, order, dimensions, assumed } of operands) {
      if (assumed)
        this.assumptions.push(`${name} is a ${dtype}[${axes.join(', ')}] tensor (--arg ${name}=… says otherwise)`)
      bindings[name] = await this.tensor(name, role, dtype, dimensions, order)
    }
    return new EpilogueArguments(text, bindings)
  }
}

/** Axis numbers, outermost first: dimensions of extent 1 that have no name, then the others as in `order`. */
function memoryOrder(dimensions: readonly string[], order: readonly string[]): readonly number[] {
  const unnamed = dimensions.flatMap((axis, i) => (axis === '1' ? [i] : []))
  return [...unnamed, ...order.map((axis) => dimensions.indexOf(axis))]
}

/** Bytes of one operand that the host can hold as values. */
const OPERAND_LIMIT = 2 ** 31

export const describeDims = (extents: Readonly<Record<string, number>>): string =>
  Object.entries(extents)
    .map(([axis, extent]) => `${axis}=${extent}`)
    .join(' ')
