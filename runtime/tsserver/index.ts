/**
 * A plugin for the language service of TypeScript: diagnostics, hovers and completion in the text of
 * `new EpilogueArguments('…', …)`. `"plugins": [{ "name": "ktl/typescript-plugin" }]` in tsconfig.json.
 */
import type ts from '@typescript/typescript6'
import type { Diagnostic, Severity } from '../../grammar/diagnostics.ts'
import { diagnosticText } from '../lsp/texts.ts'
import { epilogueCalls, type EpilogueCall } from './calls.ts'
import { EpilogueText, type Offered } from './epilogue_text.ts'
import { offsetIn, rangeOf } from './literals.ts'

export default function init({
  typescript: ts,
}: {
  typescript: typeof import('@typescript/typescript6')
}): ts.server.PluginModule {
  const categories: Readonly<Record<Severity, ts.DiagnosticCategory>> = {
    error: ts.DiagnosticCategory.Error,
    warning: ts.DiagnosticCategory.Warning,
    note: ts.DiagnosticCategory.Message,
  }
  const kinds: Readonly<Record<Offered['kind'], ts.ScriptElementKind>> = {
    name: ts.ScriptElementKind.variableElement,
    function: ts.ScriptElementKind.functionElement,
    dtype: ts.ScriptElementKind.typeElement,
    word: ts.ScriptElementKind.keyword,
  }

  /** Clients show the number alone, so the code stands in the text as well. */
  const shown = (diagnostic: Diagnostic, { written }: EpilogueCall, file: ts.SourceFile): ts.Diagnostic => ({
    file,
    ...rangeOf(written, diagnostic.span ?? { start: 0, end: written.text.length }),
    category: categories[diagnostic.severity],
    code: Number(diagnostic.code.slice('KTL'.length)),
    source: 'ktl',
    messageText: `${diagnostic.code}: ${diagnosticText(diagnostic)}`,
  })
  const markdown = (text: string): ts.SymbolDisplayPart[] => [{ kind: 'text', text }]

  function decorate(service: ts.LanguageService): ts.LanguageService {
    const callsOf = (fileName: string) => {
      const program = service.getProgram()
      const file = program?.getSourceFile(fileName)
      return { file, calls: program && file ? epilogueCalls(ts, file, program.getTypeChecker()) : [] }
    }
    const at = (fileName: string, position: number) => {
      for (const call of callsOf(fileName).calls) {
        const offset = offsetIn(call.written, position)
        if (offset !== null) return { call, offset, epilogue: new EpilogueText(call) }
      }
      return null
    }

    const added: Partial<ts.LanguageService> = {
      getSemanticDiagnostics(fileName) {
        const before = service.getSemanticDiagnostics(fileName)
        const { file, calls } = callsOf(fileName)
        if (!file) return before
        const found = calls.flatMap((call) => new EpilogueText(call).diagnostics.map((one) => shown(one, call, file)))
        // Several calls may share a text.
        const distinct = new Map(found.map((one) => [`${one.start}:${one.code}`, one]))
        return [...before, ...distinct.values()]
      },
      getQuickInfoAtPosition(fileName, position, ...others) {
        const here = at(fileName, position)
        const hover = here?.epilogue.hover(here.offset)
        if (!here || !hover) return service.getQuickInfoAtPosition(fileName, position, ...others)
        return {
          kind: ts.ScriptElementKind.string,
          kindModifiers: '',
          textSpan: rangeOf(here.call.written, hover.span),
          documentation: markdown(hover.text),
        }
      },
      getCompletionsAtPosition(fileName, position, ...others) {
        const here = at(fileName, position)
        if (!here) return service.getCompletionsAtPosition(fileName, position, ...others)
        const replacementSpan = rangeOf(here.call.written, here.epilogue.wordAt(here.offset))
        return {
          isGlobalCompletion: false,
          isMemberCompletion: false,
          isNewIdentifierLocation: false,
          entries: here.epilogue.completion(here.offset).map(({ label, kind }) => ({
            name: label,
            kind: kinds[kind],
            kindModifiers: '',
            // What is at hand comes before the functions of the language.
            sortText: String(Object.keys(kinds).indexOf(kind)),
            replacementSpan,
          })),
        }
      },
      getCompletionEntryDetails(fileName, position, name, ...others) {
        const here = at(fileName, position)
        if (!here) return service.getCompletionEntryDetails(fileName, position, name, ...others)
        const offered = here.epilogue.completion(here.offset).find(({ label }) => label === name)
        if (!offered) return undefined
        return {
          name,
          kind: kinds[offered.kind],
          kindModifiers: '',
          displayParts: markdown(offered.detail),
          documentation: markdown(offered.text),
        }
      },
    }
    return Object.assign(Object.create(service) as ts.LanguageService, added)
  }

  return { create: ({ languageService }) => decorate(languageService) }
}
