/** `new EpilogueArguments(text, bindings)` in a program of TypeScript. */
import type ts from '@typescript/typescript6'
import { writtenText, type WrittenText } from './literals.ts'

type TypeScript = typeof ts

const CLASS = 'EpilogueArguments'

export interface BoundName {
  /** As TypeScript writes it. */
  readonly type: string
  readonly isNumber: boolean
}

export interface EpilogueCall {
  readonly written: WrittenText
  readonly bound: ReadonlyMap<string, BoundName>
  /** No other names are bound: all of them are written there. */
  readonly isComplete: boolean
}

/** Those whose text is known. Classes are known by their name, under whatever name they are imported. */
export function epilogueCalls(ts: TypeScript, file: ts.SourceFile, checker: ts.TypeChecker): EpilogueCall[] {
  if (!file.text.includes(CLASS)) return []
  const calls: EpilogueCall[] = []
  const visit = (node: ts.Node): void => {
    ts.forEachChild(node, visit)
    if (!ts.isNewExpression(node) || !isEpilogueArguments(ts, node.expression, checker)) return
    const [text, bindings] = node.arguments ?? []
    const written = text && writtenText(ts, text, checker)
    if (written) calls.push({ written, ...boundNames(ts, bindings, checker) })
  }
  visit(file)
  return calls
}

function isEpilogueArguments(ts: TypeScript, callee: ts.Expression, checker: ts.TypeChecker): boolean {
  const name = ts.isPropertyAccessExpression(callee) ? callee.name : callee
  if (!ts.isIdentifier(name)) return false
  const symbol = checker.getSymbolAtLocation(name)
  // What is imported from a package without declarations is known by how it is spelled there.
  const [declared] = symbol?.declarations ?? []
  if (declared && ts.isImportSpecifier(declared) && (declared.propertyName ?? declared.name).text === CLASS) return true
  if (!symbol) return name.text === CLASS
  return (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol).name === CLASS
}

function boundNames(
  ts: TypeScript,
  bindings: ts.Expression | undefined,
  checker: ts.TypeChecker,
): Pick<EpilogueCall, 'bound' | 'isComplete'> {
  if (!bindings) return { bound: new Map(), isComplete: true }
  const properties = checker.getTypeAtLocation(bindings).getProperties()
  const bound = properties.map((property): [string, BoundName] => {
    const type = checker.getTypeOfSymbolAtLocation(property, bindings)
    return [property.name, { type: checker.typeToString(type), isNumber: (type.flags & ts.TypeFlags.NumberLike) !== 0 }]
  })
  const isComplete =
    ts.isObjectLiteralExpression(bindings) &&
    bindings.properties.every((one) => one.name !== undefined && !ts.isComputedPropertyName(one.name))
  return { bound: new Map(bound), isComplete }
}
