/** The server of this process: over standard input and output, a socket, a pipe or Node's channel, as its command line says. */
import { createConnection, ProposedFeatures } from 'vscode-languageserver/node'
import { FactsThread } from './known_facts.ts'
import { serve } from './server.ts'

export function serveProcess(): void {
  serve(createConnection(ProposedFeatures.all), new FactsThread())
}
