/** Code blocks of the docs: kernels check and run, calls do what stands beside them, command lines have options that there are. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { EpilogueArguments } from '../../runtime/arguments/epilogue.ts'
import { checkSource } from '../../runtime/programs/check_source.ts'
import { createProgram } from '../../runtime/cli/program.ts'
import { Output } from '../../runtime/cli/output.ts'
import { commandsOfKtl } from '../../docs/make/command_line.ts'
import { ROOT } from '../root.ts'
import { ktl } from '../runtime/cli.ts'
import { MemoryDevice } from '../runtime/memory_device.ts'
import { blocksOf, PAGES, WRITTEN, wordsOf, type Block } from './pages.ts'

const folder = mkdtempSync(path.join(os.tmpdir(), 'ktl-pages-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const written = WRITTEN.flatMap(blocksOf)
const at = ({ page, line }: Block): string => `${page}:${line}`
const named = (blocks: readonly Block[]): [string, Block][] => blocks.map((block) => [at(block), block])

class Lines extends Output {
  readonly lines: string[] = []
  override line(text = ''): void {
    this.lines.push(text)
  }
  override note(): void {}
  override diagnostics(): void {}
}

describe('kernels', () => {
  const kernels = written.filter(({ language }) => language === 'ktl')

  test.each(named(kernels))('%s checks', (name, { text }) => {
    const { diagnostics } = checkSource({ name, text })
    expect(diagnostics.filter(({ severity }) => severity !== 'note').map((d) => `${d.code} ${d.message}`)).toEqual([])
  })

  test('the page of the language runs all of its own', () => {
    const own = kernels.filter(({ page, text }) => page === 'docs/language.md' && /^\w* ?kernel /m.test(text))
    expect(own.length).toBeGreaterThan(20)
    expect(own.filter(({ directive }) => !directive?.startsWith('run ')).map(at)).toEqual([])
  })

  const runs = kernels.filter(({ directive }) => directive?.startsWith('run '))
  test.concurrent.each(named(runs))('%s runs', async (name, { text, directive }) => {
    const file = path.join(folder, `${name.replaceAll(/\W/g, '_')}.ktl`)
    writeFileSync(file, text)
    const out = new Lines()
    const program = createProgram({ out, signal: new AbortController().signal }, () => {})
    await program.parseAsync(['run', file, ...wordsOf(directive!).slice(1)], { from: 'user' })
    expect(out.lines.at(-1)).toMatch(/^PASS/)
  })
})

test.each(named(written.filter(({ directive }) => directive?.startsWith('epilogue '))))('%s is an epilogue', (_, { text, directive }) => {
  const operands = Object.fromEntries(directive!.split(' ').slice(1).map((name) => [name, 1]))
  const F = new MemoryDevice().empty('f32', [4, 4])
  const bindings = { alpha: 1, ...operands, ...(text.includes('return') && { F }) }
  expect(() => new EpilogueArguments(text, bindings)).not.toThrow()
}) // prettier-ignore

/** Numbers aside: times and modelled cycles are those of one day. */
const stable = (line: string): string => line.replaceAll(/\d[\d.,]*/g, '#').trim()

describe('what commands print', () => {
  const shown = written.flatMap((block, i) => (block.directive?.startsWith('shown by') ? [[at(block), block, written[i - 1]!] as const] : [])) // prettier-ignore

  test.each(shown)('%s', async (_, { text, page }, { text: command }) => {
    for (const { text: source, directive } of written.filter((block) => block.page === page && block.directive?.startsWith('file ')))
      writeFileSync(path.join(folder, directive!.split(' ')[1]!), source)
    const cwd = command.includes('samples/') ? ROOT : folder
    const { stdout } = await ktl(wordsOf(command).slice(2), { cwd })
    const printed = stdout.split('\n').map(stable)
    for (const line of text.split('\n')) expect(printed.some((one) => one.includes(stable(line.replaceAll(/^…|…$/g, '')))), line).toBe(true)
  })
}) // prettier-ignore

/** Commands of `npx ktl`, without comments. */
const commandsOf = ({ text }: Block): string[] =>
  text.replaceAll('\\\n', ' ').split('\n').flatMap((line) => line.split(/\s+#\s|; (?=npx)| \| /)).map((line) => line.trim()).filter((line) => /^npx ktl /.test(line)) // prettier-ignore

describe('command lines', () => {
  const lines = PAGES.flatMap(blocksOf).filter(({ language }) => language === 'sh').flatMap((block) => commandsOf(block).map((command) => [at(block), command])) // prettier-ignore

  test('there are some', () => expect(lines.length).toBeGreaterThan(20))

  test.each(lines)('%s: %s', (_, line) => {
    const [name, ...words] = wordsOf(line!).slice(2)
    if (name === '--help') return
    const command = commandsOfKtl().commands.find((one) => one.name() === name)
    expect(command, name).toBeDefined()
    expect(command!.parseOptions(words).unknown).toEqual([])
  })
})
