/** Whatever comes in, the server answers and goes on. */
import { describe, expect, test } from 'vitest'
import type { CompletionItem, Hover } from 'vscode-languageserver'
import { startServer, URI } from './client.ts'

const FINE = 'kernel f(X: f32[n]) -> Y: f32[n] { Y = X }\n'
const START = { line: 0, character: 0 }

describe('documents', () => {
  test('of one unit more than the language allows have one diagnostic, and features without an answer', async () => {
    const client = await startServer()
    const { diagnostics } = await client.open(' '.repeat((1 << 20) + 1 - FINE.length) + FINE)
    expect(diagnostics.map(({ code }) => code)).toEqual(['KTL1020'])
    expect(await client.at('textDocument/documentSymbol', START)).toEqual([])
    expect(await client.at('textDocument/semanticTokens/full', START)).toMatchObject({ data: [] })
    expect((await client.change(FINE)).diagnostics).toEqual([])
  })

  test('with 10,000 errors: of syntax and of names', async () => {
    const client = await startServer()
    const syntax = await client.open('kernel f(X: f32[n]) -> Y: f32[n] {\n' + 'Y = = X\n'.repeat(10_000) + '}')
    expect(syntax.diagnostics.length).toBeGreaterThan(10)
    expect(syntax.diagnostics.length).toBeLessThanOrEqual(51)
    const one = (i: number): string => `kernel f${i}(X: f32[n]) -> Y: f32[n] { Y = Z${i} }`
    const names = await client.change(Array.from({ length: 5_000 }, (_, i) => one(i)).join('\n'))
    expect(names.diagnostics).toHaveLength(500)
    expect(names.diagnostics[0]!.message).toMatch(/9\d\d\d more are not shown/)
    expect((await client.change(FINE)).diagnostics).toEqual([])
  }, 30_000)

  test('that are closed, or were never open, have no answers', async () => {
    const client = await startServer()
    await client.open(FINE)
    await client.connection.sendNotification('textDocument/didClose', { textDocument: { uri: URI } })
    expect((await client.published()).diagnostics).toEqual([])
    expect(await client.at<Hover | null>('textDocument/hover', START)).toBeNull()
    expect(await client.at<CompletionItem[]>('textDocument/completion', START)).toEqual([])
  })

  test('are not asked for where they end: positions beyond are the end', async () => {
    const client = await startServer()
    await client.open(FINE)
    const far = { line: 1e6, character: 1e6 }
    expect(await client.at<CompletionItem[]>('textDocument/completion', far)).not.toEqual([])
    expect(await client.at('textDocument/hover', far)).toBeNull()
  })
})

test('requests without their parameters, and unknown ones, are refused', async () => {
  const client = await startServer()
  await client.open(FINE)
  await expect(client.connection.sendRequest('textDocument/hover', {})).rejects.toThrow()
  await expect(client.connection.sendRequest('textDocument/rename', { textDocument: { uri: URI } })).rejects.toThrow()
  await expect(client.connection.sendRequest('ktl/unknown', {})).rejects.toThrow('Unhandled method')
  await client.connection.sendNotification('textDocument/didChange', { textDocument: { uri: URI, version: 7 } })
  await client.connection.sendNotification('textDocument/didOpen', {})
  expect((await client.open(FINE)).diagnostics).toEqual([])
})

test('a message that is no JSON is passed over', async () => {
  const client = await startServer()
  client.raw.write('Content-Length: 5\r\n\r\n{"a":')
  expect((await client.open(FINE)).diagnostics).toEqual([])
})
