/** `--epilogue EXPR` with its `--arg`s: what every name of the text stands for, without any tensor. */
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
import type { FusionShape } from '../discovery/fusion.ts'
import { ktlError } from '../fail.ts'
import type { ArgValue } from './options.ts'

export interface EpilogueOperand {
  readonly name: string
  readonly role: 'input' | 'output'
  readonly dtype: DTypeName
  /** Of the output; `1` where it broadcasts. */
  readonly axes: readonly string[]
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

/**
 * Names that `--arg` does not bind are tensors of `dtype`: with the axes of their annotation, or all of `axes`. Throws
 * what the parser says, and KTL4105 for arguments that the text does not name.
 */
export function readEpilogue(
  text: string,
  args: Readonly<Record<string, ArgValue>>,
  axes: readonly string[],
  dtype: DTypeName,
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
    const own = given?.kind === 'tensor' ? given : null
    operands.push({
      name: named.name,
      role,
      dtype: own?.dtype ?? dtype,
      axes: own?.axes ?? named.axes ?? axes,
      assumed: own === null,
    })
  }
  for (const input of signature.inputs) {
    const given = args[input.name]
    if (given?.kind === 'number') scalars[input.name] = given.value
    else if (!given && input.defaultValue !== null) scalars[input.name] = input.defaultValue.value
    else tensor('input', input)
  }
  for (const output of signature.outputs) tensor('output', output)
  return { text, declaration, source, operands, scalars }
}

/** The same as the compiler takes it. */
export function epilogueFromOptions(
  text: string,
  args: Readonly<Record<string, ArgValue>>,
  axes: readonly string[],
  dtype: DTypeName,
  compute: 'f32' | 'f64',
): FusionShape {
  const { declaration, source, operands, scalars } = readEpilogue(text, args, axes, dtype)
  const bindings: Record<string, EpilogueBinding> = {}
  for (const operand of operands) bindings[operand.name] = bindingOf(operand, axes)
  for (const name of Object.keys(scalars)) bindings[name] = { kind: 'scalar', dtype: compute }
  const bound = { declaration, source, bindings, axes }
  return { key: JSON.stringify([text, bindings, axes]), text, scalars: Object.keys(scalars), bound }
}

/** Full operands are taken as aligned, as freshly allocated ones are. */
function bindingOf({ dtype, axes }: EpilogueOperand, output: readonly string[]): EpilogueBinding {
  const own = axes.filter((axis) => axis !== '1')
  const isFull = output.slice(-2).every((axis) => own.includes(axis))
  return { kind: 'tensor', dtype, axes: own, order: own, divisibility: isFull ? 'vector' : 'element' }
}

function checkNames({ inputs, outputs }: EpilogueSignature, args: Readonly<Record<string, ArgValue>>): void {
  const known = [...inputs, ...outputs].map(({ name }) => name)
  const unknown = Object.keys(args).find((name) => !known.includes(name))
  if (unknown !== undefined) throw ktlError('KTL4105', { what: 'name in the epilogue', name: unknown, known })
}
