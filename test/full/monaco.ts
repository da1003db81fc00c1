/**
 * `npm run test:full -- --monaco`: what the extension for VS Code brings, in the engine of that editor (monaco-editor) and a Chromium: a document
 * coloured by our TextMate grammar, and diagnostics, hover and completion of `ktl lsp`. The engine is 100 MB, so it is installed into a
 * temporary folder, from the registry that npm is configured for. KTL_CHROMIUM: default /usr/bin/chromium.
 */
import { spawn, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { chromium, type Page } from 'playwright-core'
import { createProtocolConnection, StreamMessageReader, StreamMessageWriter } from 'vscode-languageserver/node'
import type { Tally } from './covering_run.ts'
import { serveFiles } from './playground.ts'

const ROOT = path.join(import.meta.dirname, '../..')
const ENGINE = ['monaco-editor@0.52.2', 'vscode-textmate@9.2.0', 'vscode-oniguruma@2.0.1'] as const

const RIGHT = `/// Scaled.
kernel scaled(A: bf16[m, k], B: bf16[k, n]) -> D: bf16[m, n] {
  D = relu(sum[k](A * B))
}
`
const WRONG = RIGHT.replace('relu(', 'reluu(')

type Step = readonly [name: string, tell: (page: Page) => Promise<void>]

function demand(holds: boolean, text: string): asserts holds {
  if (!holds) throw new Error(text)
}

interface Token {
  readonly offset: number
  readonly type: string
}

/** Of what the page defines (monaco/page.mjs). */
const evaluate = <A>(page: Page, call: string): Promise<A> => page.evaluate(call)
const put = (page: Page, text: string): Promise<void> => evaluate(page, `put(${JSON.stringify(text)})`)
const markersAre = (page: Page, count: number) => page.waitForFunction(`markers().length === ${count}`)
const word = (page: Page, text: string) =>
  page.locator('.view-line span span').filter({ hasText: new RegExp(`^${text}$`) }).first() // prettier-ignore
const colorOf = (page: Page, text: string): Promise<string> =>
  word(page, text).evaluate((element) => {
    const styled = element as unknown as { ownerDocument: { defaultView: { getComputedStyle(of: unknown): { color: string } } } }
    return styled.ownerDocument.defaultView.getComputedStyle(element).color
  }) // prettier-ignore

const STEPS: readonly Step[] = [
  [
    'tokens are those of the grammar',
    async (page) => {
      const lines = await evaluate<Token[][]>(page, `tokensOf(${JSON.stringify(RIGHT)})`)
      const text = RIGHT.split('\n')
      const scopeOf = (line: number, shown: string): string | undefined =>
        lines[line]!.findLast(({ offset }) => offset <= text[line]!.indexOf(shown))?.type
      const expected = [
        [0, '///', 'comment.line.documentation.ktl'],
        [1, 'kernel', 'keyword.control.ktl'],
        [1, 'scaled', 'source.ktl'],
        [1, 'bf16', 'support.type.ktl'],
        [1, '->', 'keyword.operator.ktl'],
        [2, 'relu', 'support.function.ktl'],
        [2, 'sum', 'support.function.ktl'],
      ] as const
      for (const [line, shown, scope] of expected) {
        const found = scopeOf(line, shown)
        demand(found === scope, `${shown} is ${found}, not ${scope}`)
      }
    },
  ],
  [
    'and have its colours on the screen',
    async (page) => {
      await put(page, RIGHT)
      await word(page, 'kernel').waitFor()
      const colors = await Promise.all(['kernel', 'bf16', 'relu'].map((text) => colorOf(page, text)))
      const expected = ['rgb(138, 47, 92)', 'rgb(29, 95, 153)', 'rgb(31, 111, 67)']
      demand(colors.join() === expected.join(), `colours are ${colors.join()}`)
    },
  ],
  [
    'a mistake is underlined where it is, and no more once it is mended',
    async (page) => {
      await markersAre(page, 0)
      await put(page, WRONG)
      await markersAre(page, 1)
      const [marker] = await evaluate<{ code: string; startLineNumber: number; startColumn: number; endColumn: number }[]>(page, 'markers()')
      const { code, startLineNumber, startColumn } = marker!
      demand(/^KTL2\d{3}$/.test(code) && startLineNumber === 3 && startColumn === 7, `the marker is ${JSON.stringify(marker)}`)
      await page.locator('.squiggly-error').first().waitFor()
      await put(page, RIGHT)
      await markersAre(page, 0)
      await page.locator('.squiggly-error').first().waitFor({ state: 'detached' })
    },
  ],
  [
    'typing is followed change by change',
    async (page) => {
      await evaluate(page, 'caretAt(3, 25)')
      await page.keyboard.type(' + q')
      await markersAre(page, 1)
      for (let i = 0; i < 4; i++) await page.keyboard.press('Backspace')
      await markersAre(page, 0)
      demand((await evaluate<string>(page, 'textNow()')) === RIGHT, 'the text is another')
    },
  ],
  [
    'hover tells what a function is',
    async (page) => {
      await word(page, 'relu').hover()
      await page.locator('.monaco-hover').filter({ hasText: 'relu' }).first().waitFor()
    },
  ],
  [
    'completion offers functions, and puts in the one that is chosen',
    async (page) => {
      await page.mouse.move(0, 0)
      await evaluate(page, 'caretAt(3, 25)')
      await page.keyboard.type(' + hardsw')
      await page.keyboard.press('Control+Space')
      await page.locator('.suggest-widget .monaco-list-row').filter({ hasText: 'hardswish' }).first().waitFor()
      await page.keyboard.press('Enter')
      await page.waitForFunction(`textNow().includes('+ hardswish')`)
    },
  ],
] // prettier-ignore

/** The page and what it loads, in `folder`. */
async function writePage(folder: string): Promise<string> {
  writeFileSync(path.join(folder, 'package.json'), '{"private":true}')
  const npm = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel', 'error', ...ENGINE]
  if (spawnSync('npm', npm, { cwd: folder, stdio: ['ignore', 2, 2] }).status !== 0) throw new Error('npm install failed: see above')
  const modules = path.join(folder, 'node_modules')
  const site = path.join(folder, 'site')
  mkdirSync(site)
  await build({
    entryPoints: {
      page: path.join(import.meta.dirname, 'monaco/page.mjs'),
      worker: path.join(modules, 'monaco-editor/esm/vs/editor/editor.worker.js'),
    },
    nodePaths: [modules],
    outdir: site,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    loader: { '.ttf': 'dataurl' },
    logLevel: 'error',
  })
  copyFileSync(path.join(modules, 'vscode-oniguruma/release/onig.wasm'), path.join(site, 'onig.wasm'))
  for (const name of ['syntaxes/ktl.tmLanguage.json', 'language-configuration.json'])
    copyFileSync(path.join(ROOT, 'editors/vscode', name), path.join(site, path.basename(name)))
  writeFileSync(
    path.join(site, 'index.html'),
    '<!doctype html><html lang="en"><title>ktl</title><link rel="icon" href="data:,"><link rel="stylesheet" href="page.css"><div id="editor" style="height: 90vh"></div><script type="module" src="page.js"></script></html>',
  )
  return site
} // prettier-ignore

/** `shots`: a folder for screenshots. */
export async function runMonaco(shots?: string): Promise<Tally> {
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 }
  const folder = mkdtempSync(path.join(tmpdir(), 'ktl-monaco-'))
  const child = spawn(process.execPath, [path.join(ROOT, 'dist/cli.js'), 'lsp', '--stdio'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const browser = await chromium.launch({ executablePath: process.env.KTL_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
  try {
    const site = await serveFiles(await writePage(folder))
    const server = createProtocolConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin))
    server.listen()
    await server.sendRequest('initialize', { processId: null, rootUri: null, capabilities: {} })
    await server.sendNotification('initialized', {})
    const page = await browser.newPage({ viewport: { width: 1000, height: 500 } })
    page.setDefaultTimeout(20_000)
    const problems: string[] = []
    page.on('pageerror', (error) => problems.push(`an error on the page: ${error.message}`))
    page.on('request', (request) => {
      const { protocol, host } = new URL(request.url())
      if (protocol.startsWith('http') && host !== site.url.host) problems.push(`a request to ${host}`)
    })
    server.onNotification('textDocument/publishDiagnostics', (params: object) => {
      void page.evaluate(`published(${JSON.stringify(params)})`).catch((error: Error) => problems.push(error.message))
    })
    await page.exposeFunction('ask', (method: string, params: object) => server.sendRequest(method, params))
    await page.exposeFunction('tell', (method: string, params: object) => server.sendNotification(method, params))
    await page.goto(site.url.href)
    await page.waitForFunction('self.isReady')
    for (const [name, tell] of STEPS) {
      try {
        await tell(page)
        tally.passed++
        console.log(`ok    ${name}`)
      } catch (error) {
        problems.push(`${name}: ${(error as Error).message.split('\n')[0]}`)
      }
      if (shots) await page.screenshot({ path: path.join(shots, `${name.replaceAll(/\W+/g, '-')}.png`) })
    }
    for (const problem of problems) console.log(`FAIL  ${problem}`)
    tally.failed += problems.length
    site.close()
  } finally {
    child.kill()
    await browser.close()
    rmSync(folder, { recursive: true, force: true })
  }
  return tally
} // prettier-ignore

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { passed, failed } = await runMonaco(process.argv[2])
  console.log(`monaco: ${passed} steps, ${failed} problems`)
  process.exitCode = failed > 0 ? 1 : 0
}
