/** Operands of a kernel in stored forms: what callers pass as one is an operand for each part. */
import type { FamilyOperand, KernelFamily } from '../../compiler/family.ts'
import { inTiles, TILES } from '../../compiler/stored/tiles.ts'
import { DTYPES, dtypesThat } from '../../compiler/dtypes.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { Tensor } from '../tensors/tensor.ts'
import { ScaledOperand, type ScaleMode } from './scaled_operand.ts'

export interface ExpandedParts {
  /** Tensors by the names of the kernel's operands, parts behind their operand, in the kernel's order. */
  readonly operands: Readonly<Record<string, unknown>>
  readonly scalars: Readonly<Record<string, number | Tensor>>
  /** Parts that lie in tiles: their tensors have one axis, of bytes. */
  readonly tiled: readonly string[]
}

/** KTL4024 where a tensor stands for a stored form or the other way round; KTL4044 for parts of another form, KTL4045 for tiles that it lacks. */
export function expandStored(family: KernelFamily, values: Readonly<Record<string, unknown>>): ExpandedParts {
  const operands: Record<string, unknown> = {}
  const scalars: Record<string, number | Tensor> = {}
  const tiled: string[] = []
  for (const operand of family.operands) {
    if (operand.partOf !== undefined) continue
    const { name, stored } = operand
    const value = values[name]
    if (!stored) {
      if (value instanceof ScaledOperand)
        throw ktlError('KTL4024', { operand: name, expected: 'a tensor without parts', got: 'a ScaledOperand' })
      operands[name] = value
      continue
    }
    if (!(value instanceof ScaledOperand))
      throw ktlError('KTL4024', {
        operand: name,
        expected: `a ScaledOperand (${textOf(family, operand)})`,
        got: describe(value),
      })
    checkForm(family, operand, value)
    operands[name] = value.data
    if (stored.scale !== null) operands[stored.scale] = value.scale
    if (stored.zero !== null) operands[stored.zero] = value.zero
    // Where a constant is given, nothing reads the global scale.
    const global = value.globalScale ?? (typeof value.normConstant === 'number' ? 1 / value.normConstant : 1)
    if (stored.global !== null && isScalar(family, stored.global)) scalars[stored.global] = global
    else if (stored.global !== null) operands[stored.global] = global
    if (stored.norm !== null) scalars[stored.norm] = value.normConstant ?? 0
    if (value.swizzle === 'none' || stored.scale === null) continue
    checkTiles(family, stored.scale, value.scale!)
    tiled.push(stored.scale)
  }
  return { operands, scalars, tiled }
}

/** KTL4045 where scales of a form have no tiles: those of more than a byte, or without one axis in blocks beside others. */
function checkTiles(family: KernelFamily, name: string, { dtype }: Tensor): void {
  const { orders, span } = family.operands.find((operand) => operand.name === name)!
  if (orders.some(inTiles) && DTYPES[dtype].class === 'scale') return
  const bytes = dtypesThat((known) => known.class === 'scale').join(' or ')
  throw ktlError('KTL4045', {
    operand: name,
    expected: `${bytes} with one axis in blocks and another one`,
    got: family.source.text.slice(span.start, span.end),
  })
}

/** Mode of a stored operand of a kernel, whose data have `rank` axes: optional ones are left out, outermost first. null: it has no scales of its own. */
export function modeOf(family: KernelFamily, { axes, stored }: FamilyOperand, rank: number): ScaleMode | null {
  const scale = family.operands.find(({ name }) => name === stored?.scale)
  if (!scale) return null
  const isOptional = (axis: string): boolean => family.axes.some(({ name, optional }) => optional && name === axis)
  let missing = axes.length - rank
  const present = axes.filter((axis) => !(missing > 0 && isOptional(axis) && missing-- > 0))
  return present.map((axis) => {
    const position = scale.axes.indexOf(axis)
    return position < 0 ? 'all' : (scale.blocks?.[position] ?? 1)
  })
}

/** An operand of its parts by name: `A.scale`, `A.zero`, tensors for `A.global`; numbers for `A.global` and `A.norm` (0: none). */
export function storedOperand(
  family: KernelFamily,
  operand: FamilyOperand,
  parts: Readonly<Record<string, Tensor>>,
  scalars: Readonly<Record<string, number>>,
  isTiled: (scale: string) => boolean = () => false,
): ScaledOperand {
  const { scale, zero, global, norm, rounding } = operand.stored!
  const data = parts[operand.name]!
  const mode = modeOf(family, operand, data.rank)
  return new ScaledOperand(data, scale === null ? null : parts[scale]!, {
    ...(mode && { mode }),
    swizzle: scale !== null && isTiled(scale) ? TILES : 'none',
    zero: zero === null ? null : parts[zero]!,
    globalScale: global === null ? null : (parts[global] ?? scalars[global]!),
    normConstant: (norm === null ? 0 : scalars[norm]!) || null,
    rounding: rounding === 'down' ? 'floor' : 'up',
  })
}

const isScalar = ({ scalars }: KernelFamily, name: string): boolean => scalars.some((scalar) => scalar.name === name)

const isOne = (value: number | Tensor): boolean => typeof value === 'number' || value.elementCount === 1

const textOf = ({ source }: KernelFamily, { span }: FamilyOperand): string => source.text.slice(span.start, span.end)

function checkForm(family: KernelFamily, operand: FamilyOperand, given: ScaledOperand): void {
  const { name, role, stored } = operand
  const refuseForm = (part: string, expected: string, got: string): never => {
    throw ktlError('KTL4044', { operand: `${name}.${part}`, expected, got })
  }
  const has = (part: string, declared: string | null, value: unknown): void => {
    if (declared !== null && value === null) refuseForm(part, `one, as in ${textOf(family, operand)}`, 'none')
    if (declared === null && value !== null) refuseForm(part, `none, as in ${textOf(family, operand)}`, 'one')
  }
  has('scale', stored!.scale, given.scale)
  has('zero', stored!.zero, given.zero)
  if (stored!.norm === null || given.normConstant === null) has('globalScale', stored!.global, given.globalScale)
  if (role === 'input' && stored!.global !== null && given.globalScale === null && given.normConstant instanceof Tensor)
    refuseForm('globalScale', 'one beside a normConstant on the device, of which it is the inverse', 'none')
  // What one kernel writes the next one reads: of inputs neither the norm nor the rounding says anything.
  if (role === 'output' && stored!.norm === null && given.normConstant !== null)
    refuseForm('normConstant', 'none without a global scale', 'one')
  const one = stored!.global !== null && isScalar(family, stored!.global)
  const isNumber = typeof given.globalScale === 'number'
  if (stored!.global !== null && given.globalScale !== null && (one ? !isOne(given.globalScale) : isNumber))
    refuseForm(
      'globalScale',
      one ? 'a number, or a tensor with one element' : 'a tensor with a number for each group',
      describe(given.globalScale),
    )
  const rounding = stored!.rounding === 'down' ? 'floor' : 'up'
  if (role === 'output' && given.rounding !== rounding)
    refuseForm('rounding', `'${rounding}', as in ${textOf(family, operand)}`, `'${given.rounding}'`)
  const own = modeOf(family, operand, given.mode.length)
  if (own && own.join() !== given.mode.join())
    refuseForm('mode', `[${own.join(', ')}], as in ${textOf(family, operand)}`, `[${given.mode.join(', ')}]`)
}
