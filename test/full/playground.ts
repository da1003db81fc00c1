/**
 * `npx tsx test/full/playground.ts [FOLDER]`: the page of `ktl playground` in a browser: stories of users, accessibility by axe-core, and no request to any other host. Needs a
 * Chromium: KTL_CHROMIUM, default /usr/bin/chromium. Screenshots go to the folder that is named, if one is.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { createRequire } from 'node:module'
import { chromium, type Page } from 'playwright-core'

const ROOT = path.join(import.meta.dirname, '../..')
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

type Story = readonly [name: string, tell: (page: Page) => Promise<void>]

const write = async (page: Page, text: string): Promise<void> => {
  await page.locator('.cm-content').fill(text)
}

/** Fails, by running out of time, where the page does not come to say it. */
const says = (page: Page, id: string, text: string): Promise<void> =>
  page.locator(id).filter({ hasText: text }).waitFor({ timeout: 90_000 })

const STORIES: readonly Story[] = [
  ['the text that it begins with is right', (page) => says(page, '#said', 'checked, no errors')],
  ['a run is compared', async (page) => { await page.click('[data-call=run]'); await says(page, '#result', 'PASS') }],
  ['the timeline is drawn', async (page) => { await page.click('[data-call=timeline]'); await page.frameLocator('iframe').getByText('tensor core').waitFor() }],
  ['the timeline zooms', async (page) => { await page.frameLocator('iframe').getByLabel('zoom in').click(); await page.frameLocator('iframe').locator('.track[style*="200%"]').waitFor() }],
  ['the plan says the budget', async (page) => { await page.click('[data-call=plan]'); await says(page, '#result', 'stages') }],
  ['the tile program of another target', async (page) => { await page.selectOption('#target', 'sm_90a'); await page.click('[data-call=tile]'); await says(page, '#result', 'wgmma') }],
  ['CUDA', async (page) => { await page.click('[data-call=cuda]'); await says(page, '#result', '__global__') }],
  ['mistakes are said while they are written', async (page) => { await write(page, 'kernel f(x: f32[i]) -> y: f32[i] { y = z }'); await says(page, '#said', '1 error: KTL2'); await page.locator('.cm-lintRange-error').first().waitFor() }],
  ['dims that a kernel does not have', async (page) => { await write(page, 'kernel f(x: f32[i]) -> y: f32[i] { y = x }'); await says(page, '#said', 'no errors'); await page.click('[data-call=run]'); await says(page, '#result', 'KTL4105') }],
  ['a run by the keyboard', async (page) => { await page.fill('#dims', 'i=16'); await page.keyboard.press('Control+Enter'); await says(page, '#result', 'PASS') }],
] // prettier-ignore

async function main(shots: string | undefined): Promise<void> {
  const server = spawn(process.execPath, [path.join(ROOT, 'dist/cli.js'), 'playground', '--no-open'], { cwd: ROOT })
  const [address] = (await once(server.stdout.setEncoding('utf8'), 'data')) as [string]
  const url = new URL(address.trim())
  const browser = await chromium.launch({ executablePath: process.env.KTL_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] }) // prettier-ignore
  const problems: string[] = []
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
    page.on('request', (request) => {
      const { protocol, host } = new URL(request.url())
      if (protocol.startsWith('http') && host !== url.host) problems.push(`a request to ${host}`)
    })
    page.on('pageerror', (error) => problems.push(`an error on the page: ${error.message}`))
    await page.goto(url.href)
    for (const [name, tell] of STORIES) {
      try {
        await tell(page)
        console.log(`ok    ${name}`)
      } catch (error) {
        problems.push(`${name}: ${(error as Error).message.split('\n')[0]}`)
      }
      if (shots) await page.screenshot({ path: path.join(shots, `${name.replaceAll(' ', '-')}.png`) })
    }
    for (const [scheme, width] of [
      ['light', 1280],
      ['dark', 1280],
      ['dark', 390],
    ] as const) {
      // prettier-ignore
      await page.emulateMedia({ colorScheme: scheme })
      await page.setViewportSize({ width, height: 800 })
      const wide = await page.evaluate('document.documentElement.scrollWidth > document.documentElement.clientWidth')
      if (wide) problems.push(`at ${width} pixels the page is wider than the window`)
      problems.push(...(await violations(page)).map((text) => `${scheme}, ${width} pixels: ${text}`))
      if (shots) await page.screenshot({ path: path.join(shots, `${scheme}-${width}.png`), fullPage: true })
    }
  } finally {
    await browser.close()
    server.kill('SIGINT')
  }
  for (const problem of problems) console.log(`FAIL  ${problem}`)
  console.log(
    problems.length === 0 ? `playground: ${STORIES.length} stories` : `playground: ${problems.length} problems`,
  )
  process.exitCode = problems.length === 0 ? 0 : 1
}

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

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv[2])
