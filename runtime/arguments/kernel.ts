import { bindKernel } from '../../compiler/bind.ts'
import { allExtents } from '../../compiler/evaluate/evaluate.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import { suggest } from '../../grammar/suggest.ts'
import type { Device } from '../devices/device.ts'
import { ktlError } from '../errors/fail.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { describe } from '../errors/describe.ts'
import { unifyAxes, type UnifiedAxes } from './axes.ts'
import { RuntimeArguments } from './base.ts'
import { EpilogueArguments, ownExtents, type ResolvedEpilogue } from './epilogue.ts'
import { checkEpilogueIn } from './epilogue_check.ts'
import { shapesOf } from './gemm.ts'
import { checkIndices } from './indices.ts'
import { checkOneDevice, resolveOperands, type Operand } from './operands.ts'
import type { PerformanceControls } from './performance.ts'
import { optionsOf } from '../errors/given.ts'
import { OK, type Status } from '../errors/status.ts'
import { resolveScalars } from './scalars.ts'
import type { ScaledOperand } from './scaled_operand.ts'
import { expandStored } from './stored.ts'
import { isFamily } from '../../compiler/family.ts'

/** A kernel of a `.ktl` program, as arguments name it. */
export interface KernelReference {
  readonly family: KernelFamily
}

/** Where and how a call of a `.ktl` kernel runs. */
export interface KernelArgumentsOptions {
  /** Where arrays in host memory are copied to; needed when no operand is a tensor of a device. */
  readonly device?: Device | undefined
  readonly performance?: PerformanceControls | null
  /** Extents that count where operands have room for more, as rows of groups do: only a hint, by which kernels are ranked. */
  readonly expected?: Readonly<Record<string, number>>
}

/** Operands, scalars and `epilogue` of a `.ktl` kernel by name. */
export type KernelBindings = Readonly<
  Record<string, Operand | ScaledOperand | number | EpilogueArguments | null | undefined>
>

/**
 * Operands and scalars of a `.ktl` kernel by their names; `epilogue` fills its slot. Floats may be tensors of one element, which the
 * kernel reads on the device: graphs see new values. Throws KTL4022 and KTL4023 for
 * missing and unknown names, KTL4024 for values of the wrong kind, KTL4020 and KTL4021 for shapes that do not fit, KTL4044 for parts
 * of another stored form, KTL4046 for an index that leaves its operand.
 *
 * @example
 * const { kernels } = loadSource({ name: 'scale.ktl', text: 'kernel scale(X: f32[n], a: f32) -> Y: f32[n] { Y = a * X }' })
 * const args = new KernelArguments(kernels.scale!, { X: device.tensor('f32', [3], [1, 2, 3]), Y: device.empty('f32', [3]), a: 10 })
 * await getKernels(args)[0]!.run(args)
 * console.log(await args.tensors.Y!.toArray())
 */
export class KernelArguments extends RuntimeArguments {
  readonly family: KernelFamily
  /** Scalars that lie on the device behind the operands. */
  readonly tensors: Readonly<Record<string, Tensor>>
  /** Those that are numbers. */
  readonly scalars: Readonly<Record<string, number>>
  readonly outputs: readonly string[]
  readonly axes: UnifiedAxes
  /** Extents by which kernels are ranked. */
  readonly expected: Readonly<Record<string, number>>
  readonly fusion: ResolvedEpilogue | null
  /** Why no kernel runs them as they are: a whole number that lies on the device (KTL4048), a divisor of 0 or less (KTL4047). */
  readonly status: Status

  constructor(kernel: KernelReference, bindings: KernelBindings, options: KernelArgumentsOptions = {}) {
    const family = kernel?.family
    if (!isFamily(family))
      throw ktlError('KTL4015', { what: 'kernel', expected: 'a kernel of a loaded program', got: describe(kernel) })
    const { epilogue = null, ...values } = optionsOf('bindings', bindings ?? (null as never))
    optionsOf('options', options)
    checkNames(family, values)
    const outputs = family.operands.filter((operand) => operand.role === 'output').map((operand) => operand.name)
    const { operands, scalars, tiled } = expandStored(family, values)
    const tensors = resolveOperands(operands, outputs, options.device)
    if (epilogue !== null && !(epilogue instanceof EpilogueArguments)) {
      throw ktlError('KTL4024', { operand: 'epilogue', expected: 'EpilogueArguments', got: describe(epilogue) })
    }
    super(Object.values(tensors)[0]!.device, epilogue, options.performance)
    this.family = family
    const given = resolveScalars(family, { ...values, ...scalars }, this.device)
    checkOneDevice({ ...tensors, ...given.tensors })
    this.tensors = { ...tensors, ...given.tensors }
    this.outputs = outputs
    this.scalars = given.numbers
    this.axes = axesOf(family, shapesOf(tensors), this.scalars, tiled)
    this.expected = options.expected ? expectedOf(this.axes.extents, options.expected) : this.axes.extents
    const slot = family.operands.find((operand) => operand.name === (family.slot ?? outputs[0]))!
    this.fusion =
      epilogue?.resolve(slot.axes, this.axes.extents, tensors[slot.name]!, groupsOf(family, slot.axes)) ?? null
    const fused = this.fusion && checkEpilogueIn(family, family.typeChoices, this.fusion)
    const known = {
      extents: { ...this.axes.extents, ...ownExtents(this.fusion?.tensors ?? []) },
      scalars: { ...this.fusion?.scalars, ...this.scalars },
    }
    this.status = given.status ?? checkIndices(fused ?? bindKernel(family), known) ?? OK
    if (new.target === KernelArguments) Object.freeze(this)
  }
}

/**
 * Operands of a class of kernels. `family` says what is computed with them; every kernel of that structure serves them, whatever it
 * calls its operands and axes. Where the library has none, the family itself is one.
 *
 * @example
 * const A = device.tensor('bf16', [4, 16], 1)
 * const B = device.tensor('bf16', [2, 16, 8], 2)
 * const offsets = device.tensor('i32', [2], [1, 4])
 * const args = new GroupedGemmArguments({ A, B, out: device.empty('f32', [4, 8]), offsets })
 * console.log(args instanceof ClassArguments, getKernels(args)[0]!.metadata.kernelName.startsWith('ktl.grouped_gemm_')) // true true
 */
export class ClassArguments extends KernelArguments {
  constructor(family: KernelFamily, bindings: KernelBindings, options: KernelArgumentsOptions = {}) {
    super({ family }, bindings, options)
    if (new.target === ClassArguments) Object.freeze(this)
  }
}

export function declaredAxes(family: KernelFamily) {
  const optional = new Set(family.axes.filter((axis) => axis.optional).map((axis) => axis.name))
  return family.operands.map(({ name, role, axes, partOf, blocks }) => ({
    name,
    role,
    axes: axes.map((axis) => ({ name: axis, optional: optional.has(axis) })),
    partOf,
    blocks,
  }))
}

/** Extents of all axes, those that the kernel computes included. */
function axesOf(
  family: KernelFamily,
  shapes: Readonly<Record<string, readonly number[]>>,
  scalars: Readonly<Record<string, number>>,
  tiled: readonly string[],
): UnifiedAxes {
  const groups = family.axes.flatMap(({ name, ragged }) => (ragged?.form === 'packed' ? [[name, ragged.group]] : []))
  const unified = unifyAxes(
    declaredAxes(family).map((operand) => (tiled.includes(operand.name) ? { ...operand, tiled: true } : operand)),
    shapes,
    undefined,
    Object.fromEntries(groups),
  )
  if (family.axes.every(({ extent }) => extent === undefined)) return unified
  const all = allExtents(bindKernel(family), { tensors: {}, scalars, extents: unified.extents })
  return {
    ...unified,
    extents: Object.fromEntries(Object.entries(all).map(([axis, extent]) => [axis, Math.max(0, extent)])),
  }
}

/** KTL4015 for what is no axis, or no number of positions. */
function expectedOf(
  extents: Readonly<Record<string, number>>,
  given: Readonly<Record<string, number>>,
): Readonly<Record<string, number>> {
  for (const [axis, extent] of Object.entries(optionsOf('expected', given))) {
    if (!Object.hasOwn(extents, axis))
      throw ktlError('KTL4015', { what: 'expected', expected: Object.keys(extents).join(', '), got: axis })
    if (!Number.isInteger(extent) || extent < 0)
      throw ktlError('KTL4015', { what: `expected.${axis}`, expected: 'a number of positions', got: describe(extent) })
  }
  return { ...extents, ...given }
}

/** Of which group a position along these axes is follows from packed axes among them. */
const groupsOf = (family: KernelFamily, axes: readonly string[]): string[] =>
  family.axes.flatMap(({ name, ragged }) => (ragged?.form === 'packed' && axes.includes(name) ? [ragged.group] : []))

function checkNames(family: KernelFamily, values: Readonly<Record<string, unknown>>): void {
  const what = `kernel \`${family.name}\``
  const own = [...family.operands, ...family.scalars].filter(({ partOf }) => partOf === undefined)
  const required = own
    .filter((operand) => !('defaultValue' in operand) || operand.defaultValue === null)
    .map(({ name }) => name)
  const known = own.map(({ name }) => name)
  const missing = required.filter((name) => values[name] === undefined)
  const unknown = Object.keys(values).find((name) => !known.includes(name))
  if (unknown !== undefined) {
    const candidates = known.filter((name) => values[name] === undefined)
    throw ktlError('KTL4023', { what, name: unknown, known, nearest: suggest(unknown, candidates) })
  }
  if (missing.length > 0) throw ktlError('KTL4022', { what, missing, known })
}
