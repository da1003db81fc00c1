/**
 * `npm run test:full -- --playground`, or `npx tsx test/full/playground.ts [FOLDER]`: the page of `ktl playground` in a browser, and the same as a site of files: stories of users,
 * accessibility by axe-core, and no request to any other host. Needs a Chromium: KTL_CHROMIUM, default /usr/bin/chromium. Screenshots go to the folder that is named, if one is.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { createRequire } from 'node:module'
import { chromium, type Browser, type Page } from 'playwright-core'
import type { Tally } from './covering_run.ts'

const ROOT = path.join(import.meta.dirname, '../..')
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

type Story = readonly [name: string, tell: (page: Page) => Promise<void>]

const write = async (page: Page, text: string): Promise<void> => {
  await page.locator('.cm-content').fill(text)
}

/** Fails, by running out of time, where the page does not come to say it. */
const says = (page: Page, id: string, text: string): Promise<void> =>
  page.locator(id).filter({ hasText: text }).waitFor({ timeout: 90_000 })

/** Of many kernels, each with a contraction. */
const BIG = Array.from({ length: 300 }, (_, i) => `kernel k${i}(A: f16[m, k], B: f16[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }`).join('\n') // prettier-ignore
/** Milliseconds between two timers of the page, the most in three seconds. */
const LONGEST_TASK = `new Promise((resolve) => {
  const began = performance.now()
  let [last, longest] = [began, 0]
  const timer = setInterval(() => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
    if (now - began > 3000) { clearInterval(timer); resolve(longest) }
  }, 10)
})`

const STORIES: readonly Story[] = [
  ['the text that it begins with is right', (page) => says(page, '#said', 'checked, no errors')],
  [
    'the plan says the budget',
    async (page) => {
      await page.click('[data-call=plan]')
      await says(page, '#result', 'stages')
    },
  ],
  [
    'the tile program of another target',
    async (page) => {
      await page.selectOption('#target', 'sm_90a')
      await page.click('[data-call=tile]')
      await says(page, '#result', 'wgmma')
    },
  ],
  [
    'CUDA',
    async (page) => {
      await page.click('[data-call=cuda]')
      await says(page, '#result .cm-content', '#include')
    },
  ],
  [
    'a line of the program shows its CUDA',
    async (page) => {
      await page.locator('#editor .cm-line').filter({ hasText: 'gelu(' }).click()
      await page.locator('#result .linked').first().waitFor()
    },
  ],
  [
    'a line of CUDA shows its line of the program',
    async (page) => {
      await page.locator('#editor .cm-line').last().click()
      await page.locator('#editor .cm-line').filter({ hasText: 'gelu(' }).click()
      await page.locator('#result .linked').first().click()
      await page.locator('#editor .linked').filter({ hasText: 'gelu(' }).waitFor()
    },
  ],
  [
    'mistakes are said while they are written',
    async (page) => {
      await write(page, 'kernel f(x: f32[i]) -> y: f32[i] { y = z }')
      await says(page, '#said', '1 error: KTL2')
      await page.locator('.cm-lintRange-error').first().waitFor()
    },
  ],
  [
    'a change is compiled again',
    async (page) => {
      await write(page, 'kernel f(x: f32[i]) -> y: f32[i] { y = x }')
      await page.click('[data-call=tensor]')
      await says(page, '#result', 'f32[i]')
      await write(page, 'kernel f(x: f16[i]) -> y: f16[i] { y = x }')
      await says(page, '#result', 'f16[i]')
    },
  ],
  [
    'the evaluator',
    async (page) => {
      await page.fill('#dims', 'i=16')
      await page.click('[data-call=evaluate]')
      await says(page, '#result', 'y [16]')
    },
  ],
  [
    'an example',
    async (page) => {
      await page.selectOption('#examples', 'attention')
      await says(page, '#said', 'no errors')
      await page.waitForFunction("document.getElementById('dims').value.includes('hk=')")
      await page.click('[data-call=evaluate]')
      await says(page, '#result', 'L [16, 16, 16]')
    },
  ],
  [
    'a link to a program, and without the token',
    async (page) => {
      await write(page, 'kernel shared(x: f32[i]) -> y: f32[i] { y = x }')
      await says(page, '#said', 'no errors')
      await page.click('#share')
      const link = new URL(await page.getByLabel('link to this program').inputValue())
      if (link.search !== '' || link.hash.length > 300) throw new Error(`the link is ${link.href}`)
      await write(page, 'kernel other(x: f32[i]) -> y: f32[i] { y = x }')
      await page.evaluate("location.hash = ''")
      await page.evaluate(`location.hash = ${JSON.stringify(link.hash)}`)
      await says(page, '#editor', 'kernel shared')
      await page.evaluate(`location.hash = ${JSON.stringify(link.hash.slice(0, -9))}`)
      await says(page, '#result', 'this link is broken')
    },
  ],
  [
    'what is slow does not stop typing',
    async (page) => {
      await write(page, BIG)
      await page.click('[data-call=cuda]')
      const longest = await page.evaluate(LONGEST_TASK)
      if ((longest as number) > 500) throw new Error(`the page did not answer for ${longest as number} ms`)
      await write(page, 'kernel f(x: f32[i]) -> y: f32[i] { y = x }')
      await says(page, '#said', 'no errors')
    },
  ],
]

/** Of the page with a server behind it. */
const WITH_DEVICES: readonly Story[] = [
  ['a run is compared', async (page) => { await page.click('[data-call=run]'); await says(page, '#result', 'PASS') }],
  ['the timeline is drawn', async (page) => { await page.click('[data-call=timeline]'); await page.frameLocator('iframe').getByText('tensor core').waitFor() }],
  ['the timeline zooms', async (page) => { await page.frameLocator('iframe').getByLabel('zoom in').click(); await page.frameLocator('iframe').locator('.track[style*="200%"]').waitFor() }],
  ['dims that a kernel does not have', async (page) => { await write(page, 'kernel f(x: f32[i]) -> y: f32[i] { y = x }'); await says(page, '#said', 'no errors'); await page.click('[data-call=run]'); await says(page, '#result', 'KTL4105') }],
  ['a run by the keyboard', async (page) => { await page.fill('#dims', 'i=16'); await page.keyboard.press('Control+Enter'); await says(page, '#result', 'PASS') }],
] // prettier-ignore

/** Of the page as a site of files. */
const WITHOUT_SERVER: readonly Story[] = [
  ['it says that no device is there', (page) => says(page, '#result', 'No device is behind this page')],
  ['a run is refused, plainly', async (page) => { await page.click('[data-call=run]'); await says(page, '#result', 'This needs a device') }],
] // prettier-ignore

/** KTL_CHROMIUM must be there. `shots`: a folder for screenshots. */
export async function runPlayground(shots?: string): Promise<Tally> {
  const browser = await chromium.launch({ executablePath: process.env.KTL_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] }) // prettier-ignore
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 }
  const told = (stories: readonly Story[], problems: readonly string[]): void => {
    for (const problem of problems) console.log(`FAIL  ${problem}`)
    tally.failed += problems.length
    tally.passed += Math.max(0, stories.length - problems.length)
  }
  try {
    const server = spawn(process.execPath, [path.join(ROOT, 'dist/cli.js'), 'playground', '--no-open'], { cwd: ROOT })
    try {
      const [address] = (await once(server.stdout.setEncoding('utf8'), 'data')) as [string]
      const stories = [...WITH_DEVICES.slice(0, 3), ...STORIES, ...WITH_DEVICES.slice(3)]
      told(stories, await tellAll(browser, new URL(address.trim()), stories, shots))
    } finally {
      server.kill('SIGINT')
    }
    const site = await serveFiles(await writeSite())
    const stories = [...WITHOUT_SERVER, ...STORIES]
    told(stories, await tellAll(browser, site.url, stories, undefined))
    site.close()
  } finally {
    await browser.close()
  }
  return tally
}

async function writeSite(): Promise<string> {
  const writing = spawn(process.execPath, [path.join(ROOT, 'playground/site.mjs')], { cwd: ROOT })
  const [folder] = (await once(writing.stdout.setEncoding('utf8'), 'data')) as [string]
  return path.join(ROOT, folder.trim())
}

/** In a folder of the host, as sites may lie. */
async function serveFiles(folder: string): Promise<{ readonly url: URL; close(): void }> {
  const types: Readonly<Record<string, string>> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' }
  const server = createServer(({ url = '' }, response) => {
    const name = path.basename(new URL(url, 'http://site').pathname.replace(/\/$/, '/index.html'))
    response.setHeader('content-type', types[path.extname(name)] ?? 'text/plain')
    try {
      response.end(readFileSync(path.join(folder, name)))
    } catch {
      response.writeHead(404).end()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { url: new URL(`http://127.0.0.1:${port}/some/folder/`), close: () => void server.close() }
}

/** What went wrong. */
async function tellAll(browser: Browser, url: URL, stories: readonly Story[], shots: string | undefined): Promise<string[]> {
  const problems: string[] = []
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
  page.on('request', (request) => {
    const { protocol, host } = new URL(request.url())
    if (protocol.startsWith('http') && host !== url.host) problems.push(`a request to ${host}`)
  })
  page.on('pageerror', (error) => problems.push(`an error on the page: ${error.message}`))
  page.on('requestfailed', (request) => {
    if (!request.url().includes('/api/')) problems.push(`a request failed: ${request.url()}`)
  })
  await page.goto(url.href)
  for (const [name, tell] of stories) {
    try {
      await tell(page)
      console.log(`ok    ${name}`)
    } catch (error) {
      problems.push(`${name}: ${(error as Error).message.split('\n')[0]}`)
    }
    if (shots) await page.screenshot({ path: path.join(shots, `${name.replaceAll(/\W+/g, '-')}.png`) })
  }
  await page.click('[data-call=cuda]')
  await says(page, '#result .cm-content', '#include')
  for (const [scheme, width] of [['light', 1280], ['dark', 1280], ['dark', 390]] as const) {
    await page.emulateMedia({ colorScheme: scheme })
    await page.setViewportSize({ width, height: 800 })
    const wide = await page.evaluate('document.documentElement.scrollWidth > document.documentElement.clientWidth')
    if (wide) problems.push(`at ${width} pixels the page is wider than the window`)
    problems.push(...(await violations(page)).map((text) => `${scheme}, ${width} pixels: ${text}`))
    if (shots) await page.screenshot({ path: path.join(shots, `${scheme}-${width}.png`), fullPage: true })
  }
  await page.close()
  return problems
} // prettier-ignore

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string }[]
}

async function violations(page: Page): Promise<string[]> {
  // In the page's own context: its policy has no word about scripts of the browser's owner.
  await page.evaluate(AXE)
  const found = (await page.evaluate('axe.run({ iframes: false }).then(({ violations }) => violations)')) as Violation[]
  return found.map(({ id, nodes }) => `${id}: ${nodes[0]!.html.slice(0, 120)}`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { passed, failed } = await runPlayground(process.argv[2])
  console.log(`playground: ${passed} stories, ${failed} problems`)
  process.exitCode = failed > 0 ? 1 : 0
}
