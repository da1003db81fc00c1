/** Text ⇄ AST: parsing, printing, and what to say about mistakes. Pure: runs in a browser as it is. */
export * from './ast.ts'
export {
  KtlError,
  type Diagnostic,
  type Fix,
  type KtlErrorDetails,
  type Label,
  type Severity,
  type Source,
} from './diagnostics.ts'
export { applyFixes, renderDiagnostic, renderDiagnostics, type RenderOptions } from './render.ts'
export {
  catalogue,
  diagnose,
  explainCode,
  RANGES,
  type Code,
  type Entry,
  type Example,
  type ParamsOf,
  type Place,
} from './catalogue/index.ts'
export { LIMITS } from './limits.ts'
export { lineColumn, lineStarts, lineText } from './lines.ts'
export { parseEpilogue, parseProgram } from './parse.ts'
export {
  formatProgram,
  printEpilogue,
  printExpr,
  printProgram,
  printScheduleValue,
  printStatement,
  printTensorType,
} from './printer.ts'
export { suggest } from './suggest.ts'
export * from './vocabulary.ts'
