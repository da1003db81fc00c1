/** Signature help: which argument of which function, cast, reduction or epilogue the cursor stands in. */
import type { IToken } from 'chevrotain'
import type { ParameterInformation, SignatureHelp } from 'vscode-languageserver'
import { OPERATIONS } from '../../../compiler/ops.ts'
import { accuracyText, parameterText } from '../../../compiler/ops/describe.ts'
import { FUNCTION_NAMES } from '../../../grammar/vocabulary.ts'
import * as T from '../../../grammar/tokens.ts'
import type { Analysis } from '../analysis.ts'
import { AXIS_FUNCTION_TEXTS, REDUCTION_TEXTS } from '../vocabulary.ts'

export function signatureHelp(analysis: Analysis, offset: number): SignatureHelp | null {
  const tokens = analysis.tokens.tokens.filter((token) => token.startOffset < offset && token.tokenType !== T.Newline)
  const call = enclosingCall(tokens)
  if (!call) return null
  const signature = signatureOf(call, analysis)
  if (!signature) return null
  const { name, parameters, text } = signature
  const between = call.isReduction ? `${name}[axes](` : `${name}(`
  return {
    signatures: [
      {
        label: `${between}${parameters.map(({ label }) => label).join(', ')})`,
        documentation: { kind: 'markdown', value: text },
        parameters: [...parameters],
      },
    ],
    activeSignature: 0,
    activeParameter: Math.min(call.argument, Math.max(0, parameters.length - 1)),
  }
}

interface EnclosingCall {
  readonly name: string
  readonly argument: number
  /** Behind `name[axes]`. */
  readonly isReduction: boolean
}

/** The innermost call whose brackets are open, without those that group or index. */
function enclosingCall(tokens: readonly IToken[]): EnclosingCall | null {
  let depth = 0
  let argument = 0
  for (let i = tokens.length - 1; i >= 0; i--) {
    const { image } = tokens[i]!
    if (image === ')' || image === ']' || image === '}') depth++
    else if (image === '{' && depth === 0) return null
    else if (image === ',' && depth === 0) argument++
    else if (image === '(' || image === '[' || image === '{') {
      if (depth-- > 0) continue
      depth = 0
      const callee = calleeBefore(tokens, i)
      if (image === '(' && callee) return { ...callee, argument }
      argument = 0
    }
  }
  return null
}

function calleeBefore(tokens: readonly IToken[], open: number): Omit<EnclosingCall, 'argument'> | null {
  const before = tokens[open - 1]
  if (before && T.isA(before, T.Word)) return { name: before.image, isReduction: false }
  if (before?.image !== ']') return null
  const from = tokens.findLastIndex(({ image }, i) => i < open && image === '[')
  const name = tokens[from - 1]
  return name && T.isA(name, T.Word) ? { name: name.image, isReduction: true } : null
}

interface Signature {
  readonly name: string
  readonly parameters: readonly ParameterInformation[]
  readonly text: string
}

function signatureOf({ name, isReduction }: EnclosingCall, analysis: Analysis): Signature | null {
  if (isReduction) {
    const text = REDUCTION_TEXTS[name]
    return text === undefined ? null : { name, parameters: [{ label: 'x' }], text }
  }
  const declaration = analysis.epilogues.get(name)
  if (declaration) {
    const parameters = declaration.params.map(({ span }) => ({ label: analysis.textOf(span) }))
    return { name, parameters, text: declaration.doc ?? 'An epilogue of this file.' }
  }
  if (name in AXIS_FUNCTION_TEXTS)
    return {
      name,
      parameters: [{ label: 'axis' }],
      text: AXIS_FUNCTION_TEXTS[name as keyof typeof AXIS_FUNCTION_TEXTS],
    }
  const op = (FUNCTION_NAMES as readonly string[]).includes(name) ? OPERATIONS.get(name) : undefined
  if (!op) return null
  const parameters = op.parameters.map((parameter) => ({ label: parameterText(parameter) }))
  return { name, parameters, text: `${op.doc}\n\nAccuracy: ${accuracyText(op)}` }
}
