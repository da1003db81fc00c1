/** Names and values in a few words, for hovers, completions and hints. */
import { accuracyText, RULE_TEXTS, signatureText } from '../../compiler/ops/describe.ts'
import { OPERATIONS } from '../../compiler/ops.ts'
import { DTYPES, legalContraction } from '../../compiler/dtypes.ts'
import type { KernelDecl, OperandDecl, PartType, TensorType } from '../../grammar/ast.ts'
import type { Diagnostic } from '../../grammar/diagnostics.ts'
import { printTensorType } from '../../grammar/printer.ts'
import { DTYPE_NAMES, type DTypeName } from '../../grammar/vocabulary.ts'
import type { Analysis } from './analysis.ts'
import type { Declared } from './bindings.ts'
import type { Value } from './values.ts'
import { AXIS_FUNCTION_TEXTS, KEYWORD_TEXTS, REDUCTION_TEXTS } from './vocabulary.ts'

/** `f32[m, n]` */
export const valueText = ({ type, axes }: Pick<Value, 'type' | 'axes'>): string =>
  `${type ?? 'number'}${axes.length > 0 ? `[${axes.join(', ')}]` : ''}`

export const ktlBlock = (text: string): string => ['```ktl', text, '```'].join('\n')

/** The declaration as it is written, for operands of kernels with what it says of how they lie in memory. */
export function declaredText(declared: Declared, analysis: Analysis): string {
  const { role, name, item, operand, equation } = declared
  switch (role) {
    case 'kernel':
    case 'epilogue': {
      const body = item.kind === 'schedule' ? undefined : item.body[0]
      const header = analysis.source.text.slice(item.span.start, body ? body.span.start : item.span.end)
      const doc = item.kind === 'schedule' ? null : item.doc
      return [ktlBlock(header.replace(/\{\s*$/, '').trimEnd()), ...(doc ? [doc] : [])].join('\n\n')
    }
    case 'type': {
      const parameter = item.kind === 'kernel' ? item.typeParams.find((one) => one.name.text === name) : undefined
      return ktlBlock(`${name}: ${parameter?.alternatives.map(({ text }) => text).join(' | ') ?? ''}`)
    }
    case 'input':
    case 'output':
      return operand ? operandText(operand, role, item as KernelDecl) : ktlBlock(name)
    case 'parameter':
      return `${ktlBlock(name)}\n\nParameter of the epilogue \`${nameOf(declared)}\``
    case 'axis':
      return axisText(declared)
    case 'value': {
      const value = equation && item.kind === 'kernel' ? analysis.valueAt(item, equation.value.span) : undefined
      const sums = value?.accumulator ? `\n\nA contraction, summed in ${value.accumulator}` : ''
      return `${ktlBlock(value ? `${name}: ${valueText(value)}` : name)}${sums}${equation?.doc ? `\n\n${equation.doc}` : ''}`
    }
  }
}

const nameOf = ({ item }: Declared): string => (item.kind === 'schedule' ? '' : (item.name?.text ?? ''))

function operandText(
  { name, alternatives, defaultValue, ragged }: OperandDecl,
  role: string,
  kernel: KernelDecl,
): string {
  const [first, ...others] = alternatives
  if (!first) return ktlBlock(name.text)
  const value = defaultValue ? ` = ${defaultValue.text}` : ''
  const lines = [
    ktlBlock(`${name.text}: ${printTensorType(first)}${value}`),
    `${role === 'input' ? (first.axes ? 'Input' : 'Scalar') : 'Output'} of \`${kernel.name.text}\``,
  ]
  if (first.axes && first.axes.length > 0)
    lines.push(`Callers pass the shape [${first.axes.map(({ name }) => name.text).join(', ')}].`)
  const orders = others.flatMap(({ axes }) => (axes ? [`[${axes.map(({ name }) => name.text).join(', ')}]`] : []))
  if (orders.length > 0) lines.push(`May also lie in memory as ${orders.join(', ')}, the last axis contiguous.`)
  const stored = storedText(first)
  if (stored !== null) lines.push(stored)
  if (ragged)
    lines.push(
      ragged.form === 'by'
        ? `Groups \`${ragged.as.text}\` lie one behind another along \`${ragged.axis.text}\`; \`${ragged.by.text}[${ragged.as.text}]\` is where each ends.`
        : `Of the rows \`${ragged.axis.text}\` of each group the first \`${ragged.by.text}[${ragged.as.text}]\` count.`,
    )
  return lines.join('\n\n')
}

/** How elements are stored; null: by themselves. */
function storedText({ dtype, zero, scale, global }: TensorType): string | null {
  if (!scale && !global) return null
  const part = (what: string, { dtype, axes, floor }: PartType): string => {
    const blocks = (axes ?? []).map(({ name, divisor }) =>
      divisor ? `${divisor} of \`${name.text}\`` : `each \`${name.text}\``,
    )
    return `- ${what}: ${dtype.text}${blocks.length > 0 ? `, one for ${blocks.join(', ')}` : ', one for the tensor'}${floor ? ', rounded down' : ''}`
  }
  return [
    `Stored as ${dtype.text}; a value is (data${zero ? ' - zero' : ''})${scale ? ' * scale' : ''}${global ? ' * global' : ''}:`,
    ...(zero ? [part('zero points', zero)] : []),
    ...(scale ? [part('scales', scale)] : []),
    ...(global ? [part('global scale', global)] : []),
  ].join('\n')
}

function axisText({ name, item }: Declared): string {
  if (item.kind !== 'kernel') return ktlBlock(`axis ${name}`)
  const operands = [...item.params, ...item.outputs]
  const axesOf = ({ alternatives }: OperandDecl) => alternatives[0]?.axes ?? []
  const carriers = operands.filter((operand) => axesOf(operand).some((axis) => axis.name.text === name))
  const isOptional = carriers.some((operand) =>
    axesOf(operand).some((axis) => axis.name.text === name && axis.optional),
  )
  const inOutput = carriers.some((operand) => item.outputs.includes(operand))
  const ragged = operands.find((operand) => operand.ragged?.axis.text === name)?.ragged
  return [
    ktlBlock(`axis ${name}`),
    `Axis of ${carriers.map((operand) => `\`${operand.name.text}\``).join(', ') || 'no operand'}${inOutput ? '' : '; no output has it'}`,
    ...(isOptional ? ['Optional: callers may leave it out.'] : []),
    ...(ragged ? [`Ragged: it has groups \`${ragged.as.text}\`, which \`${ragged.by.text}\` describes.`] : []),
  ].join('\n\n')
}

/** What a function computes, its types and its error bound; null: there is none of that name. */
export function functionText(name: string): string | null {
  const op = /^\w/.test(name) ? OPERATIONS.get(name) : undefined
  const reduction = REDUCTION_TEXTS[name]
  const axis = (AXIS_FUNCTION_TEXTS as Readonly<Record<string, string>>)[name]
  const parts: string[] = []
  if (op && op.spelling === name)
    parts.push(
      `${ktlBlock(signatureText(op))}\n\n${op.doc}\n\n- type: ${RULE_TEXTS[op.rule]}\n- accuracy: ${accuracyText(op)}`,
    )
  if (reduction !== undefined) parts.push(`${ktlBlock(`${name}[axes](x)`)}\n\n${reduction}`)
  if (axis !== undefined) parts.push(`${ktlBlock(`${name}(axis)`)}\n\n${axis}`)
  return parts.length > 0 ? parts.join('\n\n---\n\n') : null
}

export function dtypeText(name: DTypeName): string {
  const { class: kind, bits, exponentBits, mantissaBits, maxFinite, overflow, compute } = DTYPES[name]
  const isFloat = kind === 'float' || kind === 'scale'
  const sums = legalContraction(name, name)
  const partners = DTYPE_NAMES.filter((other) => legalContraction(name, other))
  return [
    ktlBlock(name),
    `- ${bits} bits${isFloat ? `: ${exponentBits} of exponent, ${mantissaBits} of mantissa` : ''}`,
    `- largest finite value ${maxFinite}; beyond it, stores give ${isFloat && overflow === 'infinity' ? 'infinity' : 'that value'}`,
    `- computed in ${compute}`,
    ...(partners.length > 0
      ? [`- an MMA multiplies it with ${partners.join(', ')}${sums ? `, and sums in ${sums.join(' or ')}` : ''}`]
      : []),
  ].join('\n')
}

export const keywordText = (word: string): string | null =>
  Object.hasOwn(KEYWORD_TEXTS, word)
    ? `${ktlBlock(word)}\n\n${KEYWORD_TEXTS[word as keyof typeof KEYWORD_TEXTS]}`
    : null

/** What a diagnostic says, without its place. */
export const diagnosticText = ({ message, label, notes = [], help }: Diagnostic): string =>
  [
    label === undefined ? message : `${message}: ${label}`,
    ...notes.map((note) => `note: ${note}`),
    ...(help === undefined ? [] : [`help: ${help}`]),
  ].join('\n')
