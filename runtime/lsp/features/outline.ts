/** The outline: kernels, epilogues and schedules, and what is declared in them. */
import { SymbolKind, type DocumentSymbol } from 'vscode-languageserver'
import type { Item, Name, Span, Statement } from '../../../grammar/ast.ts'
import { printTensorType } from '../../../grammar/printer.ts'
import type { Analysis } from '../analysis.ts'

export function outline(analysis: Analysis): DocumentSymbol[] {
  return analysis.program.items.flatMap((item) => itemSymbol(item, analysis) ?? [])
}

function itemSymbol(item: Item, analysis: Analysis): DocumentSymbol | null {
  const { span } = item
  const symbol = (name: string, at: Span, kind: SymbolKind, detail = '', children: DocumentSymbol[] = []) => ({
    name,
    detail,
    kind,
    // Editors refuse a name that is not inside of what it names.
    range: analysis.rangeOf({ start: Math.min(at.start, span.start), end: Math.max(at.end, span.end) }),
    selectionRange: analysis.rangeOf(at),
    children,
  })
  const part = (name: Name, at: Span, kind: SymbolKind, detail: string): DocumentSymbol[] =>
    name.span.end > name.span.start
      ? [{ name: name.text, detail, kind, range: analysis.rangeOf(at), selectionRange: analysis.rangeOf(name.span) }]
      : []
  const values = (body: readonly Statement[], outputs: readonly string[]): DocumentSymbol[] =>
    body.flatMap((statement) =>
      statement.kind !== 'equation'
        ? []
        : statement.targets
            .filter(({ name }) => !outputs.includes(name.text))
            .flatMap(({ name }) => part(name, statement.span, SymbolKind.Variable, '')),
    )
  switch (item.kind) {
    case 'kernel': {
      const operands = [...item.params, ...item.outputs].flatMap(({ name, alternatives, span }) =>
        part(name, span, SymbolKind.Field, alternatives[0] ? printTensorType(alternatives[0]) : ''),
      )
      const types = item.typeParams.flatMap(({ name, alternatives, span }) =>
        part(name, span, SymbolKind.TypeParameter, alternatives.map(({ text }) => text).join(' | ')),
      )
      const outputs = item.outputs.map(({ name }) => name.text)
      const children = [...types, ...operands, ...values(item.body, outputs)]
      return item.name.text === ''
        ? null
        : symbol(item.name.text, item.name.span, SymbolKind.Function, 'kernel', children)
    }
    case 'epilogue': {
      if (!item.name?.text) return null
      const parameters = item.params.flatMap(({ name, span }) => part(name, span, SymbolKind.Field, ''))
      const outputs = (item.outputs ?? []).map(({ text }) => text)
      const children = [...parameters, ...values(item.body, outputs)]
      return symbol(item.name.text, item.name.span, SymbolKind.Function, 'epilogue', children)
    }
    case 'schedule': {
      const kernels = item.kernels.map(({ text }) => text).join(', ')
      const children = item.entries.flatMap(({ key, span }) => part(key, span, SymbolKind.Property, ''))
      return kernels === ''
        ? null
        : symbol(kernels, item.kernels[0]!.span, SymbolKind.Object, `schedule on ${item.target.text}`, children)
    }
  }
}
