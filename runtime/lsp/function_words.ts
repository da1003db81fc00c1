/** The functions that completions offer, with how they are called. */
import { OPERATIONS } from '../../compiler/ops.ts'
import { signatureText } from '../../compiler/ops/describe.ts'
import {
  AXIS_FUNCTION_NAMES,
  DERIVED_REDUCTION_NAMES,
  FUNCTION_NAMES,
  REDUCTION_NAMES,
} from '../../grammar/vocabulary.ts'
import { functionText } from './texts.ts'

export interface FunctionWord {
  readonly label: string
  /** `relu(x)` */
  readonly detail: string
  /** Markdown. */
  readonly text: string
  /** What follows the name, as a snippet. */
  readonly behind: string
}

const word = (label: string, behind: string, detail: string): FunctionWord => ({
  label,
  detail,
  text: functionText(label) ?? label,
  behind,
})
const REDUCTIONS: readonly string[] = [...REDUCTION_NAMES, ...DERIVED_REDUCTION_NAMES]

export const FUNCTION_WORDS: readonly FunctionWord[] = [
  ...REDUCTIONS.map((name) => word(name, '[${1:k}](${2:x})', `${name}[axes](x)`)),
  ...FUNCTION_NAMES.filter((name) => !REDUCTIONS.includes(name)).map((name) =>
    word(name, name === 'skip0' ? '($1) * ' : '($1)', signatureText(OPERATIONS.get(name)!)),
  ),
  ...AXIS_FUNCTION_NAMES.map((name) => word(name, '($1)', `${name}(axis)`)),
]
