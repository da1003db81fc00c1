/** The sizes at which the language says no; each has a diagnostic. */
export const LIMITS = {
  /** Brackets and prefix operators, checked on tokens before any recursion. */
  nesting: 200,
  /** UTF-16 code units of one source. */
  sourceLength: 1 << 20,
  /** Inputs and outputs of a kernel, or parameters of an epilogue. */
  operands: 64,
  /** Of one operand, target or reduction. */
  axes: 8,
  /** Names, literals and operators of one kernel or epilogue. */
  expressionNodes: 4096,
  /** Syntax errors after which the parser gives up: recovering from each costs time. */
  syntaxErrors: 500,
  /** Diagnostics of one parse; the rest is counted. */
  diagnostics: 50,
} as const
