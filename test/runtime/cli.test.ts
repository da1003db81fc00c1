/** What every command has in common: usage, exit statuses, where text goes. */
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { FULL, part } from '../cases_of.ts'
import { folder, ktl, records } from './cli.ts'
import { command } from './command.ts'

const COMMANDS = [
  'run',
  'check',
  'build',
  'list',
  'count',
  'inspect',
  'explain',
  'selftest',
  'doctor',
  'cache',
  'fmt',
  'bench',
]

describe('help', () => {
  test('ktl --help lists every command on stdout', async () => {
    const { status, stdout, stderr } = await ktl(['--help'])
    expect([status, stderr]).toEqual([0, ''])
    for (const command of COMMANDS) expect(stdout).toMatch(new RegExp(`^  ${command}\\b`, 'm'))
    expect(stdout).toContain('Exit status: 0 pass, 1 diagnostics or failed check, 2 wrong usage')
  })

  test('ktl run --help names every option of the contract', async () => {
    const { status, stdout } = await ktl(['run', '--help'])
    expect(status).toBe(0)
    const options = ['kernel', 'dims', 'type', 'order', 'epilogue', 'arg', 'device', 'instance', 'index', 'all', 'limit', 'seed', 'checks', 'trace', 'json']
    for (const option of options) expect(stdout).toContain(`--${option}`)
  }) // prettier-ignore

  test('--version is that of package.json', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    expect(await ktl(['--version'])).toEqual({ status: 0, stdout: `${version}\n`, stderr: '' })
  })
})

describe('wrong usage: status 2, nothing on stdout, the nearest fix', () => {
  const gemm = ['run', 'samples/gemm.ktl', '--dims', 'm=8,n=8,k=8']
  const cases: readonly (readonly [string, readonly string[], string, string])[] = [
    ['no command', [], 'KTL4101', '`ktl --help` lists them'],
    ['unknown command', ['rnu'], 'KTL4101', 'did you mean `run`?'],
    ['unknown option', ['run', 'a.ktl', '--dmis', 'm=1'], 'KTL4101', 'did you mean `--dims`?'],
    ['no file', ['check'], 'KTL4101', '`ktl check --help`'],
    ['missing file', ['check', 'no/such.ktl'], 'KTL4102', 'no such file'],
    ['a folder', ['run', 'samples'], 'KTL4102', 'it is a folder'],
    ['dims: no number', ['run', 'samples/gemm.ktl', '--dims', 'm=0x10'], 'KTL4103', '`m=0x10`'],
    ['dims: no value', ['run', 'samples/gemm.ktl', '--dims', 'm'], 'KTL4103', 'name=value'],
    ['dims: negative', ['run', 'samples/gemm.ktl', '--dims', 'm=-1,n=8,k=8'], 'KTL4103', '`m=-1`'],
    ['dims: twice', ['run', 'samples/gemm.ktl', '--dims', 'm=1,m=2'], 'KTL4103', 'each name once'],
    ['dims: too few', ['run', 'samples/gemm.ktl', '--dims', 'm=8,n=8'], 'KTL4106', 'extent for `k`'],
    ['dims: no such axis', ['run', 'samples/gemm.ktl', '--dims', 'm=8,n=8,q=8'], 'KTL4105', '`q`'],
    ['arg: neither number nor dtype', [...gemm, '--arg', 'alpha=two'], 'KTL4103', '`alpha=two`'],
    ['arg: no value', [...gemm, '--arg', 'alpha'], 'KTL4103', '`alpha=2`, `C=f32[m,n]` or `ends=[3,3,8]`'],
    ['arg: nobody reads it', [...gemm, '--epilogue', 'acc*alpha', '--arg', 'alhpa=2'], 'KTL4105', 'did you mean `alpha`?'],
    ['arg: no epilogue', [...gemm, '--arg', 'alpha=2'], 'KTL4105', '`alpha`'],
    ['arg: no such axis', [...gemm, '--epilogue', 'acc+C', '--arg', 'C=f32[q]'], 'KTL4105', '`q`'],
    ['arg: other axes than the text says', [...gemm, '--epilogue', 'acc+C[m]', '--arg', 'C=f32[n]'], 'KTL4103', '[m]'],
    ['dims: too large for the host', ['run', 'samples/gemm.ktl', '--dims', 'm=99999,n=99999,k=8'], 'KTL4103', 'D [99999, 99999]'],
    ['type: no dtype', [...gemm, '--type', 'T=f24'], 'KTL4103', '`T=f24`'],
    ['type: mistyped', [...gemm, '--type', 'T=bf61'], 'KTL4103', 'did you mean `bf16`?'],
    ['type: not among the alternatives', [...gemm, '--type', 'T=f32'], 'KTL4103', 'T: f16 | bf16'],
    ['type: no such parameter', [...gemm, '--type', 'U=f16'], 'KTL4105', '`U`'],
    ['order: other axes', [...gemm, '--order', 'A=mn'], 'KTL4103', 'lmk | lkm'],
    ['kernel: which', ['run', 'samples/elementwise.ktl', '--dims', 'i=1,j=1'], 'KTL4104', '`axpby` and `scaled_amax`'],
    ['kernel: none of that name', ['run', 'samples/elementwise.ktl', '--kernel', 'axpy'], 'KTL4105', 'did you mean `axpby`?'],
    ['device', [...gemm, '--device', 'gpu'], 'KTL4103', 'virtual-sm100'],
    ['device: mistyped', [...gemm, '--device', 'virtual-sm10'], 'KTL4103', 'did you mean `virtual-sm100`?'],
    ['index', [...gemm, '--index', '1000'], 'KTL4107', '`--index` takes 0 to '],
    ['inspect: index', ['inspect', 'samples/gemm.ktl', '--stage', 'plan', '--index', '99999'], 'KTL4107', '`--index` takes 0 to '],
    ['inspect: a design of another target', ['inspect', 'samples/gemm.ktl', '--stage', 'plan', '--target', 'sm_90a', '--design', 'sm100'], 'KTL4107', 'it takes sm90, simt'],
    ['inspect: types without a tensor core', ['inspect', 'samples/dgemm.ktl', '--stage', 'tile'], 'KTL4107', '`ktl explain KTL2928`'],
    ['build: a design of another target', ['build', 'samples/gemm.ktl', '--emit', 'cuda', '--out', path.join(folder, 'none'), '--design', 'sm90'], 'KTL4107', 'it takes sm100, simt'],
    ['selftest: no such case', ['selftest', '--filter', 'sparse'], 'KTL4107', 'without `--filter`'],
    ['instance', [...gemm, '--instance', 'ktl.gemm'], 'KTL4105', '`ktl.gemm`'],
    ['instance and all', [...gemm, '--index', '0', '--all'], 'KTL4103', 'beside it'],
    ['stage', ['inspect', 'samples/gemm.ktl', '--stage', 'tiel'], 'KTL4103', 'ast, tensor, plan, tile'],
    ['code', ['explain', 'KTL0001'], 'KTL4105', '`KTL0001`'],
    ['fmt: no file', ['fmt'], 'KTL4103', '--stdin'],
    ['lsp: no port', ['lsp', '--socket', '99999'], 'KTL4103', 'from 1 to 65535'],
    ['bench: no such option', ['bench', '--quick'], 'KTL4101', '`--quick`'],
    ['bench: two choices', ['bench', '--dims', 'm=8,n=8,k=8', '--top', '2', '--all'], 'KTL4103', 'beside it'],
    ['bench: no GEMM of these dtypes', ['bench', '--dims', 'm=8,n=8,k=8', '--type', 'A=f16,B=bf16'], 'KTL4103', 'A=f16,B=bf16'],
  ] // prettier-ignore
  // Each code, command and option is in others, too.
  const leftOut = [
    'no file', 'a folder', 'dims: no value', 'dims: negative', 'arg: no value', 'arg: no epilogue', 'arg: no such axis', 'type: no dtype', 'type: not among the alternatives',
    'device', 'kernel: none of that name', 'inspect: index', 'inspect: types without a tensor core', 'build: a design of another target', 'bench: no such option', 'bench: two choices',
    'instance', 'type: no such parameter',
  ] // prettier-ignore
  test.each(part(cases, leftOut))('%s', async (_, args, code, text) => {
    const { status, stdout, stderr } = await command(args)
    expect([status, stdout]).toEqual([2, ''])
    expect(stderr).toContain(`error ${code}: `)
    expect(stderr).toContain(text)
    expect(stderr).not.toMatch(/^\s+at /m)
  }) // prettier-ignore

  test('of thousands of kernels the first ones', async () => {
    const one = (i: number): string => `kernel k${i}(x: f32[i]) -> y: f32[i] { y = x }`
    const stdin = Array.from({ length: 2000 }, (_, i) => one(i)).join('\n')
    const which = await command(['inspect', '-', '--stage', 'plan'], { stdin })
    expect([which.status, which.stderr]).toEqual([2, expect.stringMatching(/KTL4104: .* declares 2000 kernels: .*`k18`, `k19`, …$/m)]) // prettier-ignore
    const none = await command(['inspect', '-', '--stage', 'plan', '--kernel', 'something'], { stdin })
    expect([none.status, none.stderr]).toEqual([2, expect.stringMatching(/help: there is `k0`, .*`k19`, …$/m)])
  })

  test('what a target has instead of a design, each once', async () => {
    const { status, stderr } = await command([
      'build',
      '--library',
      '--design',
      'sm90',
      '--aot',
      path.join(folder, 'none'),
    ])
    expect(status).toBe(2)
    expect(stderr).toMatch(/^ {2}help: `--design sm90` has no kernels for sm_100a; it takes sm100, simt$/m)
  })

  test('with --json the diagnostic is a record', async () => {
    const ended = await ktl(['rnu', '--json'])
    expect([ended.status, ended.stderr]).toEqual([2, ''])
    expect(records(ended)).toMatchObject([{ schema: 1, kind: 'diagnostic', code: 'KTL4101', severity: 'error' }])
  })
})

describe('check', () => {
  const BAD = 'kernel f(A: f16[m, k], B: f16[k, n]) -> D: f32[m, n] { D = sum[k](A * B) + C }\n'

  test('right files: status 0, a line each on stdout', async () => {
    const { status, stdout, stderr } = await command(['check', 'samples/gemm.ktl', 'samples/linear.ktl'])
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(
      /^samples\/gemm\.ktl: ok: gemm \(48 choices of types and orders\)\n {2}gemm {2}sm_80, sm_90a, sm_100a, sm_103a: tensor cores\nsamples\/linear\.ktl: ok: linear_gelu/,
    )
  })
  test('what each target has for a kernel, by choice of types, and why it has no better', async () => {
    const stdin = `kernel any<T: e4m3 | f16 | f32>(A: T[m, k], B: T[k, n]) -> D: f32[m, n] { D = f32(sum[k](A * B)) }
kernel scale(A: e4m3[m, n]) -> D: e4m3[m, n] { D = A * 2 }
`
    const { stdout } = await command(['check', '-'], { stdin })
    expect(stdout).toContain(
      '  any  sm_80, sm_90a, sm_100a, sm_103a with T=f32: CUDA cores, because no tensor cores multiply f32 x f32',
    )
    expect(stdout).toContain('  any  sm_80, sm_90a, sm_100a, sm_103a with T=e4m3 | T=f16: tensor cores\n')
    expect(stdout).toContain('  scale  sm_80, sm_90a, sm_100a, sm_103a: CUDA cores\n')
    const [record] = records(await command(['check', '-', '--json'], { stdin }))
    const { targets } = (record as { kernels: { targets: object[] }[] }).kernels[0]!
    expect(targets).toContainEqual({
      target: 'sm_100a', types: [{ T: 'f32' }], designs: ['sm80', 'simt'],
      refused: [
        { design: 'sm100', code: 'KTL2928', reason: expect.stringContaining('f32'), fix: 'the kernel runs on the CUDA cores' },
        { design: 'sm80', code: 'KTL2928', reason: expect.stringContaining('f32') },
      ],
    }) // prettier-ignore
    expect(targets).toContainEqual({
      target: 'sm_90a',
      types: [{ T: 'e4m3' }, { T: 'f16' }],
      designs: ['sm90', 'simt'],
      refused: [],
    })
  })
  test('wrong files: status 1, diagnostics on stderr; the others are still checked', async () => {
    const { status, stdout, stderr } = await ktl(['check', '-', 'samples/gemm.ktl'], { stdin: BAD })
    expect(status).toBe(1)
    expect(stdout).toMatch(/^samples\/gemm\.ktl: ok/)
    expect(stderr).toMatch(/^<stdin>:1:76: error KTL2001: unknown name `C`\n {2}1 \| kernel f/)
    expect(stderr).toContain('\n<stdin>: 1 error')
  })
  test('a missing file does not keep the others from being checked', async () => {
    const { status, stdout, stderr } = await command(['check', 'nowhere.ktl', 'samples/gemm.ktl'])
    expect(status).toBe(2)
    expect(stdout).toMatch(/^samples\/gemm\.ktl: ok/)
    expect(stderr).toContain('KTL4102')
  })
  test('--json: diagnostics and a record for each file', async () => {
    const ended = await command(['check', '-', '--json'], { stdin: BAD })
    expect(ended.status).toBe(1)
    const [diagnostic, result] = records(ended)
    expect(diagnostic).toMatchObject({
      schema: 1,
      kind: 'diagnostic',
      code: 'KTL2001',
      file: '<stdin>',
      line: 1,
      column: 76,
    })
    expect(result).toMatchObject({ schema: 1, kind: 'check', file: '<stdin>', ok: false, errors: 1 })
  })
  test('remarks about cost are notes, and no warnings', async () => {
    const stdin = 'kernel f(A: f16[m, k], B: f16[k, n]) -> D: f32[m, n] { D = sum[k](relu(A) * B) }\n'
    const { status, stderr } = await command(['check', '-'], { stdin })
    expect(status).toBe(0)
    expect(stderr).toContain('note KTL2306')
    const json = await command(['check', '-', '--json'], { stdin })
    expect(json.stdout).toContain('"warnings":0')
  })
  test('any bytes are safe', async () => {
    expect((await command(['check', '-'], { stdin: '\0\u0001\ufeff\u202e {{{(((' })).status).toBe(1)
    expect((await command(['check', '-'], { stdin: '('.repeat(100_000) })).status).toBe(1)
  })
})

describe('explain', () => {
  test('wrong and right example, with what the wrong one gives', async () => {
    const { status, stdout } = await command(['explain', 'ktl2001'])
    expect(status).toBe(0)
    expect(stdout).toMatch(/^KTL2001 \(error\): unknown name\n/)
    expect(stdout).toContain('error KTL2001: unknown name `C`')
    expect(stdout).toMatch(/\nright\n {2}kernel f/)
  })
  test('--json', async () => {
    expect(records(await command(['explain', '4104', '--json']))).toMatchObject([
      { schema: 1, kind: 'explanation', code: 'KTL4104' },
    ])
  })
})

describe('count and list', () => {
  // runtime/discovery_space.test.ts has it without a process of its own.
  const count = async () => {
    const counts = records(await command(['count', '--target', 'sm_80', '--json']))
    expect(counts.map(({ target }) => target)).toEqual(['sm_80'])
    for (const count of counts) {
      expect(Object.keys(count)).toEqual(['schema', 'kind', 'target', 'instances', 'byRejection'])
      expect(count).toMatchObject({ schema: 1, kind: 'count' })
      expect(count['instances']).toBeGreaterThan(100)
    }
  }
  if (FULL) test('count --json: a record of the target', count)

  test('list: as many names as asked for, narrowed by types, orders and design', async () => {
    const { status, stdout, stderr } = await command(['list', 'samples/gemm.ktl', '--type', 'T=bf16,O=f32', '--order', 'A=km', '--design', 'sm100', '--limit', '4'])
    expect(status).toBe(0)
    expect(stderr).toContain('the first 4 instances')
    const names = stdout.trimEnd().split('\n')
    expect(names.length).toBe(4)
    for (const name of names) expect(name).toMatch(/^ktl\.gemm_sm100_n.._Abf16_Bbf16_outf32_/)
  }) // prettier-ignore
})

describe('doctor', () => {
  test('a machine with everything: status 0', async () => {
    const { status, stdout } = await ktl(['doctor'])
    expect(status).toBe(0)
    expect(stdout).toMatch(/^ok +nvcc/m)
    expect(stdout).toMatch(/^ok +native addon/m)
  })
  test('no nvcc, no addon, no g++: status 3, each with its fix', async () => {
    const ended = await ktl(['doctor', '--json'], {
      env: { KTL_NVCC: '/nonexistent/nvcc', KTL_NATIVE: '/nonexistent/ktl.node', PATH: '' },
    })
    expect(ended.status).toBe(3)
    const missing = records(ended).filter(({ state }) => state === 'missing')
    expect(missing.map(({ name }) => name)).toEqual(['native addon', 'nvcc', 'host compiler'])
    for (const { fix } of missing) expect(fix).toMatch(/install|set|run/)
  })
})

describe('cache', () => {
  test('path, stats and clear', async () => {
    const directory = path.join(tmpdir(), 'ktl-cache-that-is-not-there')
    const env = { KTL_CACHE_DIR: directory }
    expect((await ktl(['cache', 'path'], { env })).stdout).toBe(`${directory}\n`)
    expect((await ktl(['cache'], { env })).stdout).toContain('0 entries, 0 B')
    expect((await ktl(['cache', 'clear'], { env })).stdout).toContain('removed 0 entries')
  })
})
