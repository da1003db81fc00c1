/**
 * A page with the engine of VS Code's editor: the grammar of the extension by vscode-textmate and oniguruma, and the language server, of which
 * the test that opens the page is the transport: it gives `ask` and `tell`, and calls `published`.
 */
import * as monaco from 'monaco-editor'
import { INITIAL, Registry } from 'vscode-textmate'
import { loadWASM, OnigScanner, OnigString } from 'vscode-oniguruma'

self.MonacoEnvironment = { getWorker: () => new Worker('worker.js', { type: 'module' }) }

const json = async (name) => (await fetch(name)).json()

await loadWASM(await (await fetch('onig.wasm')).arrayBuffer())
const registry = new Registry({
  onigLib: Promise.resolve({
    createOnigScanner: (patterns) => new OnigScanner(patterns),
    createOnigString: (text) => new OnigString(text),
  }),
  loadGrammar: () => json('ktl.tmLanguage.json'),
})
const grammar = await registry.loadGrammar('source.ktl')

monaco.languages.register({ id: 'ktl', extensions: ['.ktl'] })
const { comments, brackets, autoClosingPairs } = await json('language-configuration.json')
const pairs = autoClosingPairs.map(([open, close]) => ({ open, close }))
monaco.languages.setLanguageConfiguration('ktl', { comments, brackets, autoClosingPairs: pairs })
monaco.languages.setTokensProvider('ktl', {
  getInitialState: () => INITIAL,
  tokenize(line, state) {
    const { tokens, ruleStack } = grammar.tokenizeLine(line, state)
    return {
      endState: ruleStack,
      tokens: tokens.map(({ startIndex, scopes }) => ({ startIndex, scopes: scopes.at(-1) })),
    }
  },
})
monaco.editor.defineTheme('ktl', {
  base: 'vs',
  inherit: true,
  colors: {},
  rules: [
    { token: 'keyword.control', foreground: '8a2f5c' },
    { token: 'support.type', foreground: '1d5f99' },
    { token: 'support.function', foreground: '1f6f43' },
    { token: 'comment', foreground: '52606d' },
  ],
})

// Positions of the protocol count from 0, those of the editor from 1.
const positionOf = ({ lineNumber, column }) => ({ line: lineNumber - 1, character: column - 1 })
const rangeOf = ({ start, end }) => ({
  startLineNumber: start.line + 1,
  startColumn: start.character + 1,
  endLineNumber: end.line + 1,
  endColumn: end.character + 1,
})
const { MarkerSeverity } = monaco
const { CompletionItemKind, CompletionItemInsertTextRule } = monaco.languages
const SEVERITIES = [
  MarkerSeverity.Error,
  MarkerSeverity.Error,
  MarkerSeverity.Warning,
  MarkerSeverity.Info,
  MarkerSeverity.Hint,
]

const uri = monaco.Uri.parse('file:///kernels/a.ktl')
const document = { uri: uri.toString() }
const model = monaco.editor.createModel('', 'ktl', uri)
const editor = monaco.editor.create(self.document.getElementById('editor'), {
  model,
  theme: 'ktl',
  minimap: { enabled: false },
  automaticLayout: true,
})

self.published = ({ diagnostics }) =>
  monaco.editor.setModelMarkers(
    model,
    'ktl',
    diagnostics.map(({ range, message, code, severity }) => ({
      ...rangeOf(range),
      message,
      code,
      severity: SEVERITIES[severity],
    })),
  )
self.markers = () => monaco.editor.getModelMarkers({ resource: uri })
self.tokensOf = (text) => monaco.editor.tokenize(text, 'ktl')
self.put = (text) => model.setValue(text)
self.textNow = () => model.getValue()
self.caretAt = (lineNumber, column) => {
  editor.focus()
  editor.setPosition({ lineNumber, column })
}

monaco.languages.registerHoverProvider('ktl', {
  async provideHover(_, position) {
    const hover = await self.ask('textDocument/hover', { textDocument: document, position: positionOf(position) })
    if (!hover) return null
    const { contents, range } = hover
    return { contents: [typeof contents === 'string' ? { value: contents } : contents], range: range && rangeOf(range) }
  },
})
monaco.languages.registerCompletionItemProvider('ktl', {
  async provideCompletionItems(_, position) {
    const given = await self.ask('textDocument/completion', { textDocument: document, position: positionOf(position) })
    const { startColumn, endColumn } = model.getWordUntilPosition(position)
    const { lineNumber } = position
    const word = { startLineNumber: lineNumber, endLineNumber: lineNumber, startColumn, endColumn }
    const suggestions = (given?.items ?? given ?? []).map((item) => ({
      label: item.label,
      detail: item.detail,
      kind: CompletionItemKind.Function,
      insertText: item.textEdit?.newText ?? item.insertText ?? item.label,
      range: item.textEdit ? rangeOf(item.textEdit.range) : word,
      ...(item.insertTextFormat === 2 && { insertTextRules: CompletionItemInsertTextRule.InsertAsSnippet }),
    }))
    return { suggestions }
  },
})

await self.tell('textDocument/didOpen', { textDocument: { ...document, languageId: 'ktl', version: 1, text: '' } })
let version = 1
model.onDidChangeContent(({ changes }) => {
  const contentChanges = changes.map(({ range, text }) => ({
    range: {
      start: positionOf({ lineNumber: range.startLineNumber, column: range.startColumn }),
      end: positionOf({ lineNumber: range.endLineNumber, column: range.endColumn }),
    },
    text,
  }))
  void self.tell('textDocument/didChange', { textDocument: { ...document, version: ++version }, contentChanges })
})
self.isReady = true
