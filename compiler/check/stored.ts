/** Stored forms: `data * scale`, `(data - zero) * scale`, each perhaps `* f32`. Every part is an operand or a scalar of its own. */
import type { AxisRef, OperandDecl, PartType, TensorType } from '../../grammar/ast.ts'
import { diagnose } from '../../grammar/catalogue/index.ts'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { DTYPES } from '../dtypes.ts'
import type { FamilyOperand, FamilyScalar, KernelFamily } from '../family.ts'
import type { StoredForm } from '../ir/tensor.ts'
import { tiledOrder, tilingOf } from '../stored/tiles.ts'
import type { FileContext } from './context.ts'

/** What stands right behind an operand in a stored form. */
export interface StoredParts {
  readonly stored: StoredForm
  readonly operands: readonly FamilyOperand[]
  readonly scalars: readonly FamilyScalar[]
}

/**
 * The parts of an operand; null: it has none. Types are checked later, for each choice (`formProblems`). `groups`: axes of which the
 * data have a position by way of a ragged axis. KTL2019, KTL2215, KTL2224, KTL2228.
 */
export function storedParts(
  { name: { text: name }, alternatives }: OperandDecl,
  role: FamilyOperand['role'],
  groups: readonly string[],
  { report, source }: FileContext,
): StoredParts | null {
  const [type, ...others] = alternatives as [TensorType, ...TensorType[]]
  for (const other of others) {
    if (formOf(other) === formOf(type)) continue
    report.report('KTL2224', source, other.span, { name, first: type.span })
  }
  const { zero, scale, global } = type
  if (!zero && !scale && !global) return null
  const operands: FamilyOperand[] = []
  const scalars: FamilyScalar[] = []
  const add = (
    part: PartType | null,
    what: 'scale' | 'zero' | 'global',
    role: FamilyOperand['role'],
  ): string | null => {
    if (!part) return null
    const own = { name: `${name}.${what}`, dtype: part.dtype.text, span: part.span, partOf: name }
    if (!part.axes) scalars.push({ ...own, defaultValue: null })
    else {
      checkPartAxes(part.axes, name, type.axes ?? [], groups, { report, source })
      const axes = part.axes.map((axis) => axis.name.text)
      const blocks = part.axes.map(({ divisor }) => divisor ?? 1)
      const orders = [axes, ...(what === 'scale' && tilingOf({ axes, blocks }) ? [tiledOrder(axes)] : [])]
      operands.push({ ...own, role, axes, orders, ...(blocks.some((block) => block !== 1) && { blocks }) })
    }
    return own.name
  }
  const names = {
    scale: add(scale, 'scale', role),
    zero: add(zero, 'zero', role),
    global: add(global, 'global', 'input'),
  }
  const norm = role === 'output' && global ? `${name}.norm` : null
  if (norm) scalars.push({ name: norm, dtype: 'f32', defaultValue: null, span: global!.span, partOf: name })
  return { stored: { ...names, norm, rounding: scale?.floor ? 'down' : 'up' }, operands, scalars }
}

/** Axes of the data in their order, each once, whole or in blocks; group axes beside them. */
function checkPartAxes(
  axes: readonly AxisRef[],
  operand: string,
  data: readonly AxisRef[],
  groups: readonly string[],
  { report, source }: Pick<FileContext, 'report' | 'source'>,
): void {
  const known = data.map((axis) => axis.name.text)
  let last = -1
  for (const [i, { name, divisor, span }] of axes.entries()) {
    const axis = name.text
    const position = known.indexOf(axis)
    const wrong = (got: string, help: string): void => report.report('KTL2215', source, span, { got, operand, help })
    if (axes.findIndex((other) => other.name.text === axis) < i)
      report.report('KTL2019', source, span, { axis, name: operand })
    else if (position < 0 && !groups.includes(axis))
      report.report('KTL2228', source, name.span, { axis, operand, candidates: [...known, ...groups] })
    else if (divisor !== null && divisor < 1) wrong(`blocks of ${divisor}`, 'a block has at least one position')
    else if (position < 0 && divisor !== null) wrong('a group axis in blocks', `write \`${axis}\``)
    else if (position >= 0 && position < last) {
      const inOrder = known.filter((name) => axes.some((other) => other.name.text === name)).join(', ')
      wrong('another order of the axes', `name the axes in the order of the data: ${inOrder}`)
    }
    last = Math.max(last, position)
  }
}

/** What alternatives of an operand have in common: the same parts, in any order of the axes. */
function formOf({ zero, scale, global }: TensorType): string {
  const axesOf = (axes: readonly AxisRef[]): string =>
    axes
      .map(({ name, divisor }) => `${name.text}/${divisor ?? 1}`)
      .sort()
      .join()
  const text = (part: PartType | null): string =>
    part ? `${part.dtype.text}${part.floor}[${part.axes ? axesOf(part.axes) : 'none'}]` : '-'
  return [zero, scale, global].map(text).join(' ')
}

const SCALE_TYPES: readonly DTypeName[] = ['f32', 'f16', 'bf16', 'ue8m0', 'ue4m3']
const OUTPUT_SCALES: readonly DTypeName[] = ['f32', 'ue8m0', 'ue4m3']
/** Formats with a largest value that blocks are scaled to. */
const OUTPUT_DATA: readonly DTypeName[] = ['e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1', 'i8', 'i4']
const integers = (): DTypeName[] => Object.values(DTYPES).flatMap(({ name, class: c }) => (c === 'int' ? [name] : []))
/** Formats whose elements f32 holds exactly. */
const isData = (dtype: DTypeName): boolean =>
  dtype !== 'f64' &&
  DTYPES[dtype].bits <= 32 &&
  (DTYPES[dtype].class === 'float' || (DTYPES[dtype].class === 'int' && DTYPES[dtype].bits <= 8))

/** Rules of stored forms that a choice of types breaks: KTL2225, KTL2226, KTL2227, KTL2229, KTL2230. */
export function formProblems(
  { operands, scalars, source }: Pick<KernelFamily, 'operands' | 'scalars' | 'source'>,
  typeOf: (type: string) => DTypeName,
): readonly Diagnostic[] {
  const parts = [...operands, ...scalars].filter(({ partOf }) => partOf !== undefined)
  return operands.flatMap((operand) => {
    const { stored } = operand
    if (!stored) return []
    const find = (name: string | null) => parts.find((part) => part.name === name)
    const [scale, zero, global] = [find(stored.scale), find(stored.zero), find(stored.global)]
    const data = typeOf(operand.dtype)
    const at = (part: { readonly span: FamilyOperand['span'] }) => ({ source, span: part.span, operand: operand.name })
    const found: Diagnostic[] = []
    if (!isData(data)) found.push(diagnose('KTL2229', { ...at(operand), got: data }))
    if (scale && !SCALE_TYPES.includes(typeOf(scale.dtype)))
      found.push(diagnose('KTL2225', { ...at(scale), got: typeOf(scale.dtype), legal: SCALE_TYPES }))
    if (scale && stored.rounding === 'down' && typeOf(scale.dtype) !== 'ue8m0')
      found.push(diagnose('KTL2225', { ...at(scale), got: `floor(${typeOf(scale.dtype)})`, legal: ['floor(ue8m0)'] }))
    if (zero) {
      const legal = [...new Set([data, ...integers(), ...(scale ? [typeOf(scale.dtype)] : [])])]
      if (!legal.includes(typeOf(zero.dtype)))
        found.push(diagnose('KTL2226', { ...at(zero), got: typeOf(zero.dtype), legal }))
    }
    const perElement = global && 'axes' in global && (global.axes.length !== 1 || global.blocks)
    if (global && (typeOf(global.dtype) !== 'f32' || perElement))
      found.push(diagnose('KTL2230', { ...at(global), got: textOf(source, global.span) }))
    if (operand.role === 'output' && found.length === 0) {
      const why = notStorable(operand, data, scale && 'axes' in scale ? scale : null, zero !== undefined, typeOf)
      if (why !== null) found.push(diagnose('KTL2227', { ...at(scale ?? global ?? operand), ...why }))
    }
    return found
  })
}

/** Why no kernel can write that form: its scales are those of blocks along one axis. */
function notStorable(
  { name, axes }: FamilyOperand,
  data: DTypeName,
  scale: FamilyOperand | null,
  hasZero: boolean,
  typeOf: (type: string) => DTypeName,
): { reason: string; help: string } | null {
  const quantize = 'use `quantize()` on the tensor'
  if (hasZero) return { reason: 'zero points are not computed', help: quantize }
  if (!OUTPUT_DATA.includes(data))
    return { reason: `${data} has no largest value to scale to`, help: `store one of ${OUTPUT_DATA.join(', ')}` }
  // The caller says what the tensor, or a group of it, is scaled by.
  if (!scale) return null
  const type = typeOf(scale.dtype)
  if (!OUTPUT_SCALES.includes(type))
    return { reason: `scales of type ${type} are not computed`, help: `use one of ${OUTPUT_SCALES.join(', ')}` }
  const whole = axes.filter((axis) => !scale.axes.includes(axis))
  if (whole.length > 0) return { reason: `one scale for all of \`${whole[0]}\` is not computed`, help: quantize }
  const blocked = scale.blocks?.filter((block) => block !== 1).length ?? 0
  if (blocked === 1 && scale.axes.length === axes.length) return null
  const reason = blocked > 1 ? 'blocks lie along one axis' : 'no axis of the scale is in blocks'
  return { reason, help: `write \`* ${type}[${axes.join(', ')}/32]\`` }
}

const textOf = ({ text }: Source, { start, end }: FamilyOperand['span']): string => text.slice(start, end)
