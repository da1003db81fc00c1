/** `--epilogue EXPR` with its `--arg`s: what every name of the text stands for, without any tensor. */
import { withoutAxes } from '../../compiler/check/axes.ts'
import {
  inspectEpilogue,
  type EpilogueBinding,
  type EpilogueName,
  type EpilogueSignature,
} from '../../compiler/epilogue.ts'
import { KtlError, type Source } from '../../grammar/diagnostics.ts'
import { parseEpilogue } from '../../grammar/parse.ts'
import type { EpilogueDecl } from '../../grammar/ast.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { FusionShape } from '../discovery/calls/fusion.ts'
import { ktlError } from '../errors/fail.ts'
import { illegal, type ArgValue } from './options.ts'

export interface EpilogueOperand {
  readonly name: string
  readonly role: 'input' | 'output'
  readonly dtype: DTypeName
  /** Axes of the output that it varies along: as annotated, or in the output's order. */
  readonly axes: readonly string[]
  /** Memory order of `axes`. */
  readonly order: readonly string[]
  /** Dimensions of the tensor: an annotated operand has its axes, others align with the output, `1` where they broadcast. */
  readonly dimensions: readonly string[]
  /** Neither `--arg` nor a default says what it is. */
  readonly assumed: boolean
}

export interface EpilogueChoice {
  readonly text: string
  readonly declaration: EpilogueDecl
  readonly source: Source
  readonly operands: readonly EpilogueOperand[]
  readonly scalars: Readonly<Record<string, number>>
}

/** The output that the epilogue's slot stands for. */
export interface SlotOutput {
  readonly axes: readonly string[]
  /** Axes without those that the call leaves out. */
  readonly present: readonly string[]
  readonly dtype: DTypeName
}

/**
 * Names that `--arg` does not bind are tensors of the output's dtype: with the axes of their annotation, those that a
 * reduction leaves, or all of them; those of axes in comparisons are positions. Throws what the parser says, KTL4103 for operands
 * that are read at indices, whose shapes no option says, and KTL4105 and KTL4103 for arguments and axes that the text or the output lack.
 */
export function readEpilogue(
  text: string,
  args: Readonly<Record<string, ArgValue>>,
  output: SlotOutput,
): EpilogueChoice {
  const source = { name: '--epilogue', text }
  const { epilogue: declaration, diagnostics } = parseEpilogue(source)
  if (diagnostics.some((d) => d.severity === 'error')) throw new KtlError(diagnostics)
  const signature = inspectEpilogue(declaration, source)
  checkNames(signature, args)
  const operands: EpilogueOperand[] = []
  const scalars: Record<string, number> = {}
  const tensor = (role: EpilogueOperand['role'], named: EpilogueName): void => {
    const given = args[named.name]
    const kept = role === 'output' ? withoutAxes(output.present, reducedFor(named.name, declaration)) : output.present
    operands.push(operandOf(role, named, given?.kind === 'tensor' ? given : null, output, kept))
  }
  for (const input of signature.inputs) {
    const given = args[input.name]
    if (!given && input.mayBeAxis && output.axes.includes(input.name)) continue
    if (input.indexed) throw illegal('--epilogue', 'operands that are read at their own positions', `${input.name}[…]`)
    if (given?.kind === 'number') scalars[input.name] = given.value
    else if (!given && input.defaultValue !== null) scalars[input.name] = input.defaultValue.value
    else tensor('input', input)
  }
  for (const output of signature.outputs) tensor('output', output)
  return { text, declaration, source, operands, scalars }
}

/** Axes over which the equation of an output reduces. */
function reducedFor(name: string, { body }: EpilogueDecl): readonly string[] {
  for (const statement of body) {
    if (statement.kind !== 'equation' || !statement.targets.some((target) => target.name.text === name)) continue
    return statement.value.kind === 'reduce' ? statement.value.axes.map((axis) => axis.text) : []
  }
  return []
}

function operandOf(
  role: EpilogueOperand['role'],
  { name, axes: annotation }: EpilogueName,
  given: Extract<ArgValue, { kind: 'tensor' }> | null,
  output: SlotOutput,
  /** Where neither says its axes. */
  kept: readonly string[],
): EpilogueOperand {
  const order = given?.axes?.filter((axis) => axis !== '1') ?? annotation ?? kept
  const unknown = order.find((axis) => !output.axes.includes(axis))
  if (unknown !== undefined)
    throw ktlError('KTL4105', { what: `axis of the output for ${name}`, name: unknown, known: output.axes })
  if (annotation !== null && [...annotation].sort().join() !== [...order].sort().join()) {
    throw illegal(
      '--arg',
      `the axes that the text gives ${name}, [${annotation.join(', ')}]`,
      `${name}=${given?.dtype}[${order.join(',')}]`,
    )
  }
  const axes = annotation ?? output.axes.filter((axis) => order.includes(axis))
  const aligned = output.axes.slice(Math.max(0, output.axes.indexOf(axes[0] ?? output.axes.at(-1)!)))
  const dimensions = annotation ?? aligned.map((axis) => (axes.includes(axis) ? axis : '1'))
  return { name, role, dtype: given?.dtype ?? output.dtype, axes, order, dimensions, assumed: given === null }
}

/** The same as the compiler takes it. */
export function epilogueFromOptions(
  text: string,
  args: Readonly<Record<string, ArgValue>>,
  output: Pick<SlotOutput, 'axes' | 'dtype'>,
): FusionShape {
  const { axes, dtype } = output
  const { declaration, source, operands, scalars } = readEpilogue(text, args, { ...output, present: axes })
  const compute = dtype === 'f64' ? 'f64' : 'f32'
  const bindings: Record<string, EpilogueBinding> = {}
  for (const operand of operands) bindings[operand.name] = bindingOf(operand, axes)
  for (const name of Object.keys(scalars)) bindings[name] = { kind: 'scalar', dtype: compute }
  const bound = { declaration, source, bindings, axes }
  return { key: JSON.stringify([text, bindings, axes]), text, scalars: Object.keys(scalars), bound }
}

/** Full operands are taken as aligned, as freshly allocated ones are. */
function bindingOf({ dtype, axes, order }: EpilogueOperand, output: readonly string[]): EpilogueBinding {
  const isFull = output.slice(-2).every((axis) => axes.includes(axis))
  return { kind: 'tensor', dtype, axes, order, divisibility: isFull ? 'vector' : 'element' }
}

function checkNames({ inputs, outputs }: EpilogueSignature, args: Readonly<Record<string, ArgValue>>): void {
  const known = [...inputs, ...outputs].map(({ name }) => name)
  const unknown = Object.keys(args).find((name) => !known.includes(name))
  if (unknown !== undefined) throw ktlError('KTL4105', { what: 'name in the epilogue', name: unknown, known })
}
