/** The plugin in a language service of TypeScript 6, and by its name in tsserver. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type TypeScript from '@typescript/typescript6'
import { afterAll, describe, expect, test } from 'vitest'
import init from '../../runtime/tsserver/index.ts'
import { PRETEND_OLD } from '../package/pretend_old.ts'
import { ROOT } from '../root.ts'

const require = createRequire(import.meta.url)
const ts = require('@typescript/typescript6') as typeof TypeScript
const tsserver = createRequire(require.resolve('@typescript/typescript6')).resolve('@typescript/old/lib/tsserver.js')

const FILE = '/app/main.ts'
const DECLARATIONS = `export declare class EpilogueArguments {
  constructor(epilogue: string, bindings?: { readonly [name: string]: unknown })
}
export declare class Tensor { readonly dtype: string }
`
const HEAD = `import { EpilogueArguments, type Tensor } from 'ktl'\ndeclare const C: Tensor, bias: Tensor, F: Tensor\n`

/** The service for one file; `│` marks the cursor. */
function serviceFor(marked: string, head = HEAD) {
  const whole = head + marked
  const cursor = whole.indexOf('│')
  const text = whole.replace('│', '')
  const files: Record<string, string> = { [FILE]: text, '/app/node_modules/ktl/index.d.ts': DECLARATIONS }
  const host: TypeScript.LanguageServiceHost = {
    getScriptFileNames: () => [FILE],
    getScriptVersion: () => '1',
    getScriptSnapshot: (name) => (name in files ? ts.ScriptSnapshot.fromString(files[name]!) : undefined),
    getCurrentDirectory: () => '/app',
    getCompilationSettings: () => ({ noLib: true, types: [], strict: true }),
    getDefaultLibFileName: () => 'lib.d.ts',
    fileExists: (name) => name in files,
    readFile: (name) => files[name],
  }
  const languageService = ts.createLanguageService(host)
  const service = init({ typescript: ts }).create({ languageService } as TypeScript.server.PluginCreateInfo)
  return {
    /** `KTL2023 at the text under it`. */
    diagnostics: () =>
      service
        .getSemanticDiagnostics(FILE)
        .filter(({ source }) => source === 'ktl')
        .map(({ messageText, code, start, length }) => {
          expect(messageText).toMatch(new RegExp(`^KTL${code}: .`))
          return `KTL${code} ${text.slice(start, start! + length!)}`
        }),
    hover: () => {
      const info = service.getQuickInfoAtPosition(FILE, cursor)
      const { start, length } = info?.textSpan ?? { start: 0, length: 0 }
      return { text: ts.displayPartsToString(info?.documentation), of: text.slice(start, start + length) }
    },
    completion: () => service.getCompletionsAtPosition(FILE, cursor, undefined)?.entries ?? [],
    details: (name: string) =>
      service.getCompletionEntryDetails(FILE, cursor, name, undefined, undefined, undefined, undefined),
  }
}
const diagnosticsOf = (text: string, head?: string): string[] => serviceFor(text, head).diagnostics()

describe('diagnostics', () => {
  test('of syntax, of functions and of bindings, where they stand', () => {
    expect(diagnosticsOf(`new EpilogueArguments('relu(acc * alpha + C)', { alpha: 2, C })`)).toEqual([])
    expect(diagnosticsOf(`new EpilogueArguments('relu(acc')`)).toEqual(['KTL1005 ('])
    expect(diagnosticsOf(`new EpilogueArguments('rellu(acc)')`)).toEqual(['KTL2004 rellu'])
    expect(diagnosticsOf(`new EpilogueArguments('acc * alpha + C', { C })`)).toEqual(['KTL2023 alpha'])
    expect(diagnosticsOf(`new EpilogueArguments('acc + C', { C, bias })`)).toEqual(['KTL2024 acc + C'])
    expect(diagnosticsOf(`new EpilogueArguments('F = acc; D = F; return D, F', { F: 2 })`)).toEqual(['KTL2030 F'])
    expect(diagnosticsOf(`new EpilogueArguments('F = acc; D = F', { F })`)).toEqual(['KTL2031 F'])
    expect(diagnosticsOf(`new EpilogueArguments('def f(acc, x):\\n  return acc * x')`)).toEqual(['KTL2023 x'])
  })

  test('bindings that are not all written there may hold any name', () => {
    const some = `declare const some: { readonly [name: string]: Tensor }\n`
    expect(diagnosticsOf(`${some}new EpilogueArguments('acc + X', { ...some })`)).toEqual([])
    expect(diagnosticsOf(`${some}new EpilogueArguments('acc + X', some)`)).toEqual([])
    expect(diagnosticsOf(`${some}new EpilogueArguments('acc +* X', some)`)).toEqual(['KTL1003 *'])
  })

  test('escapes, templates, sums and constants are followed to their characters', () => {
    expect(diagnosticsOf(String.raw`new EpilogueArguments('x = \u{61}cc\n\x44 = rellu(x)')`)).toEqual(['KTL2004 rellu'])
    expect(diagnosticsOf('new EpilogueArguments(`x = acc\r\nD = rellu(x)`)')).toEqual(['KTL2004 rellu'])
    expect(diagnosticsOf(`new EpilogueArguments('x = acc; ' + ('D = ' + "rellu(x)"))`)).toEqual(['KTL2004 rellu'])
    expect(
      diagnosticsOf(`const text = 'rellu(acc)'\nnew EpilogueArguments(text); new EpilogueArguments(text)`),
    ).toEqual(['KTL2004 rellu'])
    expect(
      diagnosticsOf('declare const f: string; new EpilogueArguments(`${f}(acc)`); new EpilogueArguments(f)'),
    ).toEqual([])
    expect(diagnosticsOf(`const text = text\nnew EpilogueArguments(text)`)).toEqual([])
  })

  test('the class is known under other names, and without declarations; other classes are left alone', () => {
    const renamed = `import { EpilogueArguments as E } from 'ktl'\n`
    expect(diagnosticsOf(`new E('rellu(acc)')`, renamed)).toEqual(['KTL2004 rellu'])
    expect(diagnosticsOf(`new E('rellu(acc)')`, renamed.replace('ktl', 'unknown'))).toEqual(['KTL2004 rellu'])
    expect(diagnosticsOf(`new ktl.EpilogueArguments('rellu(acc)')`, `import * as ktl from 'ktl'\n`)).toEqual([
      'KTL2004 rellu',
    ])
    expect(diagnosticsOf(`class Other {}; new Other('rellu(acc)') // EpilogueArguments`)).toEqual([])
  })
})

describe('hover', () => {
  test('of functions, names with what is bound to them, and words', () => {
    const at = (call: string) => serviceFor(call).hover()
    expect(at(`new EpilogueArguments('re│lu(acc)')`)).toMatchObject({
      of: 'relu',
      text: expect.stringContaining('relu(x)'),
    })
    expect(at(`new EpilogueArguments('acc + bi│as[n]', { bias })`)).toMatchObject({
      of: 'bias',
      text: expect.stringMatching(/A tensor of \[n\][^]*Bound here: `Tensor`/),
    })
    expect(at(`new EpilogueArguments('ac│c')`).text).toContain('What the kernel has computed')
    expect(at(`new EpilogueArguments('f16│(acc)')`).text).toContain('16 bits')
    expect(at(`new EpilogueArguments('select(n│ <= m, acc, 0)')`).text).toContain('position along this axis')
  })

  test('outside of epilogues it is that of TypeScript', () => {
    expect(serviceFor(`new EpilogueArguments('acc + C', { C│ })`).hover().of).toBe('C')
    expect(serviceFor(`const other = 'relu│(acc)'`).hover().text).toBe('')
  })
})

describe('completion', () => {
  test('names that are bound first, then functions; the word is replaced', () => {
    const service = serviceFor(`new EpilogueArguments('x = acc; relu(x) + b│', { bias, alpha: 2 })`)
    const entries = service.completion()
    const sorted = [...entries].sort((a, b) => a.sortText.localeCompare(b.sortText)).map(({ name }) => name)
    expect(sorted.slice(0, 4).sort()).toEqual(['acc', 'alpha', 'bias', 'x'])
    expect(sorted).toEqual(expect.arrayContaining(['relu', 'sum', 'f16', 'inf']))
    expect(entries.find(({ name }) => name === 'bias')?.replacementSpan?.length).toBe(1)
    expect(ts.displayPartsToString(service.details('bias')?.displayParts)).toBe('Tensor')
    expect(ts.displayPartsToString(service.details('relu')?.documentation)).toContain('accuracy')
  })

  test('none in comments; that of TypeScript elsewhere', () => {
    expect(serviceFor(`new EpilogueArguments('acc // re│')`).completion()).toEqual([])
    expect(
      serviceFor(`new EpilogueArguments('acc', {}); C.│`)
        .completion()
        .map(({ name }) => name),
    ).toEqual(['dtype'])
  })
})

describe('tsserver loads it from the package by its name', () => {
  const project = mkdtempSync(path.join(tmpdir(), 'ktl-plugin-'))
  afterAll(() => rmSync(project, { recursive: true }))
  const file = path.join(project, 'main.ts')
  mkdirSync(path.join(project, 'node_modules'))
  symlinkSync(ROOT, path.join(project, 'node_modules/ktl'))
  const compilerOptions = { noLib: true, types: [], plugins: [{ name: 'ktl/typescript-plugin' }] }
  writeFileSync(path.join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['main.ts'] }))
  writeFileSync(
    file,
    `declare class EpilogueArguments { constructor(text: string) }\nnew EpilogueArguments('rellu(acc)')\n`,
  )

  /** What the server says of the file, and what it has logged. */
  async function serve(...nodeArguments: string[]): Promise<{ diagnostics: readonly object[]; log: string }> {
    const logFile = path.join(project, 'tsserver.log')
    const server = spawn(process.execPath, [
      ...nodeArguments,
      tsserver,
      '--disableAutomaticTypingAcquisition',
      ...['--pluginProbeLocations', project],
      ...['--logFile', logFile, '--logVerbosity', 'normal'],
    ])
    const ended = once(server, 'exit')
    try {
      const send = (seq: number, command: string, args: object): void =>
        void server.stdin.write(`${JSON.stringify({ seq, type: 'request', command, arguments: args })}\n`)
      send(1, 'open', { file })
      send(2, 'semanticDiagnosticsSync', { file })
      for await (const line of createInterface(server.stdout)) {
        if (!line.startsWith('{')) continue
        const { request_seq, body } = JSON.parse(line) as { request_seq?: number; body: readonly object[] }
        if (request_seq !== 2) continue
        send(3, 'exit', {})
        await ended
        return { diagnostics: body, log: readFileSync(logFile, 'utf8') }
      }
      throw new Error('tsserver ended')
    } finally {
      server.kill()
    }
  }

  test('and shows its diagnostics', async () => {
    const { diagnostics, log } = await serve()
    const found = { code: 2004, source: 'ktl', start: { line: 2, offset: 24 } }
    expect(diagnostics).toEqual([expect.objectContaining(found)])
    expect(log).not.toContain('is not there')
  })

  test.each([
    ['a Node that is too old', ['--import', PRETEND_OLD], 'ktl needs Node.js 20.19 or later, this is v18.20.8'],
    ['a Node that loads no modules by require', ['--no-experimental-require-module'], 'ktl needs a Node.js that loads'],
  ])('%s: no plugin, the reason is logged, the server works', async (_, nodeArguments, reason) => {
    const { diagnostics, log } = await serve(...nodeArguments)
    expect(diagnostics).toEqual([])
    expect(log).toContain(`ktl/typescript-plugin is not there: ${reason}`)
    expect(log).not.toContain('Plugin activation failed')
  })
})
