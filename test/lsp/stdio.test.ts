/** The built command over standard input and output. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { InlayHint } from 'vscode-languageserver'
import { expect, test } from 'vitest'
import { ROOT } from '../root.ts'
import { Client } from './client.ts'

test('ktl lsp serves, works facts out in a thread of its own, and ends when it is told to', async () => {
  const child = spawn(process.execPath, [path.join(ROOT, 'dist/cli.js'), 'lsp', '--stdio'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const client = new Client(child.stdout, child.stdin)
  const { serverInfo } = await client.initialize()
  expect(serverInfo?.name).toBe('ktl')
  expect((await client.open('kernel f(X: f32[n]) -> Y: f32[n] { Y = Z }')).diagnostics.at(-1)!.code).toBe('KTL2001')
  expect((await client.change('kernel f(X: f32[n]) -> Y: f32[n] { Y = X }')).diagnostics).toEqual([])
  const range = { start: { line: 0, character: 0 }, end: { line: 1, character: 0 } }
  const hints = () => client.at<InlayHint[]>('textDocument/inlayHint', range.start, { range })
  expect(await hints()).toEqual([])
  await expect.poll(() => client.refreshes, { timeout: 20_000 }).toBe(1)
  expect(JSON.stringify(await hints())).toMatch(/sm_80 \d+/)
  await client.connection.sendRequest('shutdown')
  await client.connection.sendNotification('exit')
  expect(await ended).toEqual([0, null])
}, 30_000)
