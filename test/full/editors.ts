/**
 * `npm run test:full -- --editors`: the configurations of editors/ in the editors themselves. Neovim runs without a screen (KTL_NVIM,
 * default `nvim`); VS Code is vscode.ts; Helix has its file read as TOML, by Python. What is not installed is skipped, with a line that says so.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Tally } from './covering_run.ts'
import { vscode, vscodeMissing } from './vscode.ts'

const ROOT = path.join(import.meta.dirname, '../..')
const NVIM = process.env.KTL_NVIM ?? 'nvim'

const KERNEL = 'kernel twice(A: f32[m]) -> D: f32[m] {\n  D = rellu(A)*2\n}\n'

interface Seen {
  readonly problem?: string
  readonly filetype: string
  readonly commentstring: string
  readonly diagnostics: readonly { code: string; line: number; column: number; message: string }[]
  readonly hover: string
  readonly definition: { readonly range: { readonly start: { readonly line: number; readonly character: number } } }
  readonly completion: readonly string[]
  readonly formatted: string
}

const isThere = (command: string, ...args: string[]): boolean => spawnSync(command, args).status === 0

/** What is wrong; null: nothing. */
type Check = () => string | null | Promise<string | null>

const unless = (holds: boolean, what: string, got: unknown): string[] =>
  holds ? [] : [`${what}: ${JSON.stringify(got)}`]

/** `npx ktl` in the checkout is the ktl that was built. */
const neovim: Check = () => {
  const home = mkdtempSync(path.join(tmpdir(), 'ktl-nvim-'))
  try {
    const plugins = path.join(home, 'nvim/after/plugin')
    mkdirSync(plugins, { recursive: true })
    copyFileSync(path.join(ROOT, 'editors/neovim/ktl.lua'), path.join(plugins, 'ktl.lua'))
    const file = path.join(home, 'twice.ktl')
    writeFileSync(file, KERNEL)
    const folders = Object.fromEntries(['CONFIG', 'DATA', 'STATE', 'CACHE'].map((name) => [`XDG_${name}_HOME`, home]))
    const { stdout, stderr } = spawnSync(NVIM, ['--headless', '-c', `luafile ${path.join(import.meta.dirname, 'neovim.lua')}`], { cwd: ROOT, encoding: 'utf8', timeout: 120_000, env: { ...process.env, ...folders, KTL_FILE: file } }) // prettier-ignore
    if (!stdout.startsWith('{')) return `Neovim ended: ${stderr}`
    const seen = JSON.parse(stdout) as Seen
    if (seen.problem !== undefined) return `${seen.problem}\n${stderr}`
    const [diagnostic] = seen.diagnostics
    const { code, line, column } = diagnostic ?? {}
    const { start } = seen.definition.range
    const wrong = [
      ...unless(seen.filetype === 'ktl' && seen.commentstring === '// %s', 'options', seen),
      ...unless(seen.diagnostics.length === 1 && code === 'KTL2004' && line === 1 && column === 6, 'diagnostics', seen.diagnostics), // prettier-ignore
      ...unless(/relu\(x\)/.test(seen.hover), 'hover', seen.hover),
      ...unless(start.line === 0 && start.character === 13, 'definition', seen.definition),
      ...unless(['relu', 'gelu', 'sum', 'A'].every((name) => seen.completion.includes(name)), 'completion', seen.completion), // prettier-ignore
      ...unless(seen.formatted === 'kernel twice(A: f32[m]) -> D: f32[m] {\n  D = relu(A) * 2\n}', 'formatted', seen.formatted), // prettier-ignore
    ]
    return wrong.length > 0 ? wrong.join('\n') : null
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}

interface HelixFile {
  readonly 'language-server': Readonly<Record<string, { readonly command: string; readonly args: readonly string[] }>>
  readonly language: readonly { readonly name: string; readonly 'file-types': readonly string[]; readonly 'language-servers': readonly string[] }[]
} // prettier-ignore

const PRINT_TOML = 'import json, sys, tomllib; json.dump(tomllib.load(open(sys.argv[1], "rb")), sys.stdout)'

const helix: Check = () => {
  const { status, stdout, stderr } = spawnSync('python3', ['-c', PRINT_TOML, path.join(ROOT, 'editors/helix/languages.toml')], { encoding: 'utf8' }) // prettier-ignore
  if (status !== 0) return stderr
  const { 'language-server': servers, language } = JSON.parse(stdout) as HelixFile
  const [ktl] = language
  const wrong = [
    ...unless(
      language.length === 1 && ktl?.name === 'ktl' && ktl['file-types'].join() === 'ktl',
      'languages',
      language,
    ),
    ...unless(ktl?.['language-servers'].every((name) => name in servers) ?? false, 'servers', servers),
    ...unless(
      `${servers['ktl']?.command} ${servers['ktl']?.args.join(' ')}` === 'npx ktl lsp --stdio',
      'command',
      servers,
    ),
  ]
  return wrong.length > 0 ? wrong.join('\n') : null
}

const EDITORS: readonly { readonly name: string; readonly check: Check; readonly missing: () => string | null }[] = [
  { name: 'Neovim', check: neovim, missing: () => (isThere(NVIM, '--version') ? null : `there is no ${NVIM}`) },
  { name: 'VS Code', check: vscode, missing: vscodeMissing },
  { name: 'Helix', check: helix, missing: () => (isThere('python3', '-c', 'import tomllib') ? null : 'there is no Python with tomllib') },
] // prettier-ignore

export async function runEditors(): Promise<Tally> {
  const tally = { passed: 0, failed: 0, skipped: 0 }
  for (const { name, check, missing } of EDITORS) {
    const reason = missing()
    const wrong = reason === null ? await check() : null
    if (reason !== null) tally.skipped++
    else if (wrong !== null) tally.failed++
    else tally.passed++
    console.log(`${name}: ${reason !== null ? `skipped, ${reason}` : (wrong ?? 'passed')}`)
  }
  return tally
}
