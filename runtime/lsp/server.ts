/** The language server: a connection, the open documents, and a feature for each request. It reads no files. */
import {
  TextDocuments,
  TextDocumentSyncKind,
  type Connection,
  type InitializeResult,
  type Position,
  type TextDocumentIdentifier,
} from 'vscode-languageserver'
import { TextDocument } from 'vscode-languageserver-textdocument'
import { KTL_VERSION } from '../../codegen/cuda/version.ts'
import { Analyses, type Analysis } from './analysis.ts'
import { codeActions } from './features/code_actions.ts'
import { completion, TRIGGERS } from './features/completion.ts'
import { shownDiagnostics } from './features/diagnostics.ts'
import { folding } from './features/folding.ts'
import { formatting } from './features/formatting.ts'
import { hover } from './features/hover.ts'
import { inlayHints } from './features/inlay_hints.ts'
import { definition, highlights, references } from './features/navigation.ts'
import { outline } from './features/outline.ts'
import { prepareRename, rename } from './features/rename.ts'
import { LEGEND, semanticTokens } from './features/semantic_tokens.ts'
import { signatureHelp } from './features/signature_help.ts'
import { KnownFacts, type FactsMaker } from './known_facts.ts'

const CAPABILITIES: InitializeResult['capabilities'] = {
  textDocumentSync: { openClose: true, change: TextDocumentSyncKind.Incremental },
  hoverProvider: true,
  definitionProvider: true,
  referencesProvider: true,
  documentHighlightProvider: true,
  documentSymbolProvider: true,
  foldingRangeProvider: true,
  documentFormattingProvider: true,
  inlayHintProvider: true,
  renameProvider: { prepareProvider: true },
  codeActionProvider: { codeActionKinds: ['quickfix', 'source.fixAll'] },
  completionProvider: { triggerCharacters: TRIGGERS },
  signatureHelpProvider: { triggerCharacters: ['(', ','] },
  semanticTokensProvider: { legend: LEGEND, full: true, range: true },
}

/** Serves `connection` until it closes. `maker`: works out what takes long. */
export function serve(connection: Connection, maker: FactsMaker): void {
  const documents = new TextDocuments(TextDocument)
  const analyses = new Analyses()
  let refreshes = false
  const known = new KnownFacts(maker, () => {
    if (refreshes) connection.languages.inlayHint.refresh().catch(() => {})
  })

  connection.onInitialize(({ capabilities }): InitializeResult => {
    refreshes = capabilities.workspace?.inlayHint?.refreshSupport ?? false
    return { capabilities: CAPABILITIES, serverInfo: { name: 'ktl', version: KTL_VERSION } }
  })

  documents.onDidChangeContent(({ document }) => {
    const diagnostics = shownDiagnostics(analyses.of(document))
    void connection.sendDiagnostics({ uri: document.uri, version: document.version, diagnostics })
  })
  documents.onDidClose(({ document: { uri } }) => {
    analyses.close(uri)
    void connection.sendDiagnostics({ uri, diagnostics: [] })
  })

  /** `answer` about a document; `otherwise` about one that is not open. */
  const about = <P extends { readonly textDocument: TextDocumentIdentifier }, R>(
    otherwise: R,
    answer: (analysis: Analysis, params: P) => R,
  ) => {
    return (params: P): R => {
      const document = documents.get(params.textDocument.uri)
      return document ? answer(analyses.of(document), params) : otherwise
    }
  }
  const offset = (analysis: Analysis, position: Position): number => analysis.document.offsetAt(position)

  connection.onHover(about(null, (analysis, { position }) => hover(analysis, offset(analysis, position))))
  connection.onDefinition(about(null, (analysis, { position }) => definition(analysis, offset(analysis, position))))
  connection.onReferences(
    about([], (analysis, { position, context }) =>
      references(analysis, offset(analysis, position), context?.includeDeclaration ?? true),
    ),
  )
  connection.onDocumentHighlight(
    about([], (analysis, { position }) => highlights(analysis, offset(analysis, position))),
  )
  connection.onPrepareRename(
    about(null, (analysis, { position }) => prepareRename(analysis, offset(analysis, position))),
  )
  connection.onRenameRequest(
    about(null, (analysis, { position, newName }) => rename(analysis, offset(analysis, position), newName)),
  )
  connection.onDocumentSymbol(about([], outline))
  connection.onFoldingRanges(about([], folding))
  connection.onDocumentFormatting(about([], formatting))
  connection.onCompletion(about([], (analysis, { position }) => completion(analysis, offset(analysis, position))))
  connection.onSignatureHelp(
    about(null, (analysis, { position }) => signatureHelp(analysis, offset(analysis, position))),
  )
  connection.onCodeAction(
    about([], (analysis, { range, context }) => {
      const span = { start: offset(analysis, range.start), end: offset(analysis, range.end) }
      return codeActions(analysis, span, context?.only)
    }),
  )
  connection.languages.semanticTokens.on(about({ data: [] }, (analysis) => semanticTokens(analysis)))
  connection.languages.semanticTokens.onRange(
    about({ data: [] }, (analysis, { range }) => semanticTokens(analysis, range)),
  )
  connection.languages.inlayHint.on(
    about([], (analysis, { range }) => {
      const span = { start: offset(analysis, range.start), end: offset(analysis, range.end) }
      return inlayHints(analysis, span, known)
    }),
  )
  connection.onShutdown(() => known.close())

  documents.listen(connection)
  connection.listen()
}
