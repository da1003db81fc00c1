/** What the command is in a shell: completion, colours, files of several kinds at once. */
import { spawnSync } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { noAddonFor } from '../../runtime/addon/platform.ts'
import { completionScript, SHELLS } from '../../runtime/cli/completion.ts'
import { hasColors, Output } from '../../runtime/cli/output.ts'
import { createProgram } from '../../runtime/cli/program.ts'
import { sampled } from '../cases_of.ts'
import { folder, ktl, records } from './cli.ts'
import { command } from './command.ts'

const program = createProgram({ out: new Output(), signal: new AbortController().signal }, () => {})
const has = (shell: string): boolean => spawnSync(shell, ['-c', 'true']).status === 0

describe('completion', () => {
  test.each(SHELLS)('ktl completion %s prints the script', async (shell) => {
    const { status, stdout, stderr } = await command(['completion', shell])
    expect([status, stderr, stdout]).toEqual([0, '', completionScript(shell, program)])
  })

  test('other shells are refused', async () => {
    const { status, stderr } = await command(['completion', 'tcsh'])
    expect([status, stderr]).toEqual([2, expect.stringContaining('bash, zsh, fish')])
  })

  const checks = { bash: ['-n'], zsh: ['-n'], fish: ['--no-execute'] } as const
  for (const shell of SHELLS) {
    test.skipIf(!has(shell))(`${shell} reads it (skipped without ${shell})`, () => {
      const file = path.join(folder, `completion.${shell}`)
      writeFileSync(file, completionScript(shell, program))
      const { status, stderr } = spawnSync(shell, [...checks[shell], file], { encoding: 'utf8' })
      expect([status, stderr]).toEqual([0, ''])
    })
  }

  /** What bash offers for the last word of each line. */
  function inBash(lines: readonly (readonly string[])[]): string[][] {
    const calls = lines.map((words) => {
      const all = ['ktl', ...words].map((word) => `'${word}'`).join(' ')
      return `COMP_WORDS=(${all}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _ktl; echo "\${COMPREPLY[*]}"`
    })
    const { stdout } = spawnSync('bash', ['--norc', '-c', [completionScript('bash', program), ...calls].join('\n')], { encoding: 'utf8' }) // prettier-ignore
    return stdout.split('\n').slice(0, -1).map((line) => line.split(' ').filter((word) => word !== '')) // prettier-ignore
  }

  test.skipIf(!has('bash'))('bash completes commands, options, their values and files', () => {
    expect(inBash([['ins'], ['inspect', '--sta'], ['inspect', '--stage', 't'], ['run', 'x.ktl', '--device', 'virtual-'], ['cache', 'c'], ['check', 'samp'], ['run', '--dims', '']]))
      .toEqual([['inspect'], ['--stage'], ['tensor', 'tile', 'timeline'], ['virtual-sm100', 'virtual-sm90'], ['clear'], [], []])
  }) // prettier-ignore

  test.skipIf(!has('bash'))('every option of every command is known', () => {
    const options = program.commands.flatMap((command) => command.options.map(({ long }) => [command.name(), long!]))
    expect(options.length).toBeGreaterThan(60)
    expect(inBash(options).map((offered, i) => offered.includes(options[i]![1]!))).toEqual(options.map(() => true))
    expect(inBash([['']])[0]).toEqual(program.commands.map((command) => command.name()))
  })

  test.skipIf(!has('fish'))('fish does the same (skipped without fish)', () => {
    const script = `${completionScript('fish', program)}\ncomplete -C 'ktl inspect --st'\ncomplete -C 'ktl build --emit cu'`
    const { stdout } = spawnSync('fish', ['--no-config', '-c', script], { encoding: 'utf8' })
    const offered = stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.split('\t')[0])
    expect(offered).toEqual(['--stage', 'cubin', 'cuda'])
  })
})

describe('colours', () => {
  const escape = '\x1b['
  const inPipes: readonly (readonly [Readonly<Record<string, string>>, boolean])[] = [
    [{}, false],
    [{ FORCE_COLOR: '' }, true],
    [{ FORCE_COLOR: '1' }, true],
    [{ FORCE_COLOR: '0' }, false],
    [{ NO_COLOR: '1' }, false],
  ]
  test.each(inPipes)('in what is no terminal, with %j: %s', (env, colored) => expect(hasColors({}, env)).toBe(colored))
  test.each(sampled(inPipes))('in a pipe, with %j: %s', async (env, colored) => {
    const { stdout } = await ktl(['explain', 'KTL2001'], { env })
    expect(stdout.includes(escape)).toBe(colored)
    const { stderr } = await ktl(['check', 'samples/no_such_file.ktl'], { env })
    expect(stderr.includes(escape)).toBe(colored)
    expect((await ktl(['explain', 'KTL2001', '--json'], { env })).stdout).not.toContain(escape)
  })

  test.each([
    [{ TERM: 'xterm-256color' }, true],
    [{ TERM: 'xterm-256color', NO_COLOR: '1' }, false],
    [{ TERM: 'dumb' }, false],
  ])('on a terminal, with %j: %s', (env, colored) => expect(hasColors({ isTTY: true }, env)).toBe(colored))
})

describe('build --emit of several formats', () => {
  const args = ['build', 'samples/dgemm.ktl', '--limit', '1']

  test('writes all of them, or none', async () => {
    const out = path.join(folder, 'several')
    const ended = await command([...args, '--emit', 'ts, cuda,dts', '--out', out, '--json'])
    expect([ended.status, records(ended).map(({ emit }) => emit)]).toEqual([0, ['ts', 'dts', 'cuda']])
    const names = readdirSync(out).sort()
    expect(names).toEqual(['dgemm.d.ktl.ts', 'dgemm.ts', expect.stringMatching(/^ktl\.dgemm_.*\.cu$/)])
    const none = path.join(folder, 'none')
    const failed = await command([...args, '--emit', 'ts,ptx', '--out', none], { env: { KTL_NVCC: '/nonexistent' } })
    expect(failed.status).toBe(3)
    expect(readdirSync(folder)).not.toContain('none')
  })

  test.each([
    ['ts,cude', 'did you mean `cuda`'],
    ['ts,ninja', '--aot beside `ninja`'],
    ['', 'ts, dts, cuda'],
  ])('%j is refused', async (emit, message) => {
    const { status, stderr } = await command([...args, '--emit', emit, '--out', path.join(folder, 'refused')])
    expect([status, stderr]).toEqual([2, expect.stringContaining(message)])
  })
})

describe('on other systems', () => {
  const PRETEND =
    "Object.defineProperty(process, 'platform', { value: 'win32' }); process.env.KTL_NATIVE = '/nonexistent'"
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(PRETEND)}`
  const SENTENCE = 'devices need Linux or macOS on x86-64 or arm64, this is win32'

  test('there is no device, and the reason is said', async () => {
    const run = await ktl(['run', 'samples/gemm.ktl', '--dims', 'm=8,n=8,k=8'], { env: { NODE_OPTIONS } })
    expect([run.status, run.stderr]).toEqual([3, expect.stringContaining(`KTL6004: the native addon is not there: ${SENTENCE}`)])
    expect(run.stderr).toContain('WSL 2')
    expect((await ktl(['doctor'], { env: { NODE_OPTIONS } })).stdout).toContain(SENTENCE)
    expect([noAddonFor({ platform: 'linux', arch: 'x64' }), noAddonFor({ platform: 'linux', arch: 'arm64' }), noAddonFor({ platform: 'linux', arch: 'riscv64' })]).toEqual([null, null, expect.stringContaining('linux riscv64')])
  }) // prettier-ignore

  test('what runs nothing works', async () => {
    const out = path.join(folder, 'elsewhere')
    const args = ['build', 'samples/dgemm.ktl', '--limit', '1', '--emit', 'ts,cuda', '--out', out]
    expect((await ktl(args, { env: { NODE_OPTIONS } })).status).toBe(0)
    expect((await ktl(['check', 'samples/gemm.ktl'], { env: { NODE_OPTIONS } })).status).toBe(0)
  })
})
