import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Cache } from '../../runtime/cache/cache.ts'
import { temporaryTag } from '../../runtime/files/temporary.ts'
import { compileCached, type CachedCompileOptions } from '../../runtime/toolchain/cached.ts'
import { compileCuda, GENERATED_FLAGS } from '../../runtime/toolchain/compile.ts'
import { findNvcc, nvccPaths, nvccTimeout } from '../../runtime/toolchain/nvcc.ts'
import { runProgram, Semaphore, withTemporaryFolder } from '../../runtime/toolchain/process.ts'
import { parseResources } from '../../runtime/toolchain/resources.ts'
import { errorOf } from './errors.ts'

const ADD = `extern "C" __global__ void add(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i] * 2.0f + 1.0f;
}
`
const nvcc = await findNvcc().catch(() => null)
let folder: string
beforeAll(() => (folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ktl-test-'))))
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

/** A program that stands in for nvcc. */
function fakeNvcc(name: string, script: string): string {
  const file = path.join(folder, name)
  fs.writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return file
}

async function withNvcc<T>(file: string, work: () => Promise<T>): Promise<T> {
  const before = process.env.KTL_NVCC
  process.env.KTL_NVCC = file
  try {
    return await work()
  } finally {
    if (before === undefined) delete process.env.KTL_NVCC
    else process.env.KTL_NVCC = before
  }
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

describe('finding nvcc', () => {
  test('in KTL_NVCC alone, else CUDA_HOME, PATH, /usr/local/cuda', () => {
    expect(nvccPaths({ KTL_NVCC: '/x/nvcc', PATH: '/a' })).toEqual(['/x/nvcc'])
    expect(nvccPaths({ CUDA_HOME: '/c', PATH: '/a:/b' })).toEqual([
      '/c/bin/nvcc',
      '/a/nvcc',
      '/b/nvcc',
      '/usr/local/cuda/bin/nvcc',
    ])
  })

  test('none: KTL6001 with what was tried and the fix', async () => {
    const error = await errorOf(() => findNvcc({ KTL_NVCC: path.join(folder, 'missing') }))
    expect(error.code).toBe('KTL6001')
    expect(error.diagnostics[0]!.notes![0]).toMatch(/missing \(KTL_NVCC\): no such file$/)
    expect(error.diagnostics[0]!.help).toContain('install the CUDA toolkit')
  })

  test('KTL_NVCC that names a folder, or a file that cannot be run, says so', async () => {
    const at = (name: string) => errorOf(() => findNvcc({ KTL_NVCC: path.join(folder, name) }))
    fs.mkdirSync(path.join(folder, 'toolkit/bin'), { recursive: true })
    const empty = await at('toolkit')
    expect([empty.code, empty.diagnostics[0]!.message]).toEqual(['KTL6001', `nvcc was not found: KTL_NVCC is \`${folder}/toolkit\`, a folder`])
    fakeNvcc('toolkit/bin/nvcc', 'exit 0')
    expect((await at('toolkit')).diagnostics[0]!.help).toBe(`set KTL_NVCC to \`${folder}/toolkit/bin/nvcc\``)
    fs.writeFileSync(path.join(folder, 'plain'), 'text', { mode: 0o644 })
    expect((await at('plain')).message).toContain('plain`, not executable')
    // The system gives it to the shell.
    fs.writeFileSync(path.join(folder, 'text'), 'no program', { mode: 0o755 })
    const { code, message } = await at('text')
    expect([code, message]).toEqual(['KTL6003', expect.stringContaining('printed no version')])
  }) // prettier-ignore

  test('the version is asked again when the file changes', async () => {
    const versionOf = (version: string) => findNvcc({ KTL_NVCC: fakeNvcc('changing', `echo V${version}`) })
    expect((await versionOf('13.0.1')).version).toBe('13.0.1')
    expect((await versionOf('13.10.1')).version).toBe('13.10.1')
  })

  test.each([
    [undefined, {}, 300_000],
    [undefined, { KTL_NVCC_TIMEOUT: '0.5' }, 500],
    [7, { KTL_NVCC_TIMEOUT: '60' }, 7],
    [undefined, { KTL_NVCC_TIMEOUT: '1e12' }, 2 ** 31 - 1],
    [Infinity, {}, 2 ** 31 - 1],
  ])('the time limit given as %s and %j is %i ms', (given, env, expected) => {
    expect(nvccTimeout(given, env)).toBe(expected)
  })

  test.each([[undefined, { KTL_NVCC_TIMEOUT: 'soon' }], [undefined, { KTL_NVCC_TIMEOUT: '-1' }], [0, {}], ['5' as never, {}], [NaN, {}]])(
    'and %s and %j are none: KTL4015',
    async (given, env) => expect((await errorOf(async () => nvccTimeout(given, env))).code).toBe('KTL4015'),
  ) // prettier-ignore

  test('one that prints no version: KTL6003', async () => {
    const error = await errorOf(() => findNvcc({ KTL_NVCC: fakeNvcc('mute', 'exit 1') }))
    expect(error.code).toBe('KTL6003')
    expect(error.message).toContain('printed no version')
  })
})

describe.skipIf(nvcc === null)('compiling (skipped without nvcc)', () => {
  test('PTX keeps line information and no path of this machine', async () => {
    const { image, nvccVersion } = await compileCuda(ADD, { arch: 'sm_100a', kind: 'ptx' })
    expect(text(image)).toContain('.target sm_100a')
    expect(text(image)).toContain('.file\t1 "kernel.cu"')
    expect(text(image)).toContain('.loc\t1 3')
    expect(text(image)).not.toContain(os.tmpdir())
    // Generated text forms its own fma.
    expect(text(image)).not.toContain('fma.rn.f32')
    expect(nvccVersion).toMatch(/^\d+\.\d+\.\d+$/)
  })

  test('generated text is compiled with the headers of intrinsics alone, and with all of them where those do not do', async () => {
    const entry = (name: string, line: string) => `extern "C" __global__ void ${name}(float* out) { ${line} }\n`
    const entryOf = async (line: string, flags: readonly string[]) => {
      const cuda = `#ifdef __MATH_FUNCTIONS_H__\n${entry('all', line)}#else\n${entry('few', line)}#endif\n`
      const { image } = await compileCuda(cuda, { arch: 'sm_90a', kind: 'ptx', flags })
      return /\.entry (\w+)/.exec(text(image))?.[1]
    }
    expect(await entryOf('*out = 1.0f;', ['-std=c++17'])).toBe('all')
    expect(await entryOf('*out = 1.0f;', GENERATED_FLAGS)).toBe('few')
    expect(await entryOf('*out = sinf(*out);', GENERATED_FLAGS)).toBe('all')
  })

  test.each(['sm100_everything', 'sm90_sums_of_groups', 'sm80_fused'])(
    'the code of %s is the same with either',
    async (name) => {
      const cuda = fs.readFileSync(new URL(`../golden/lowering/${name}.cu`, import.meta.url), 'utf8')
      const arch = { sm100: 'sm_100a', sm90: 'sm_90a', sm80: 'sm_80' }[name.split('_')[0]!]!
      const code = async (given: string, flags: readonly string[]) => {
        const ptx = text((await compileCuda(given, { arch, kind: 'ptx', flags })).image).split('.section')[0]!
        return ptx.split('\n').filter((line) => !/^\s*\.(loc|file)\b/.test(line))
      }
      const all = GENERATED_FLAGS.filter((flag) => flag !== '-DKTL_DEVICE_ONLY')
      expect(await code(cuda, GENERATED_FLAGS)).toEqual(await code(`#define KTL_DEVICE_ONLY\n${cuda}`, all))
    },
  )

  test('a cubin comes with its resources, the same bytes every time', async () => {
    const first = await compileCuda(ADD, { arch: 'sm_90a', kind: 'cubin' })
    const second = await compileCuda(ADD, { arch: 'sm_90a', kind: 'cubin' })
    expect(text(first.image.slice(1, 4))).toBe('ELF')
    expect(Buffer.from(first.image).equals(second.image)).toBe(true)
    expect(first.resources).toHaveLength(1)
    expect(first.resources[0]).toMatchObject({ entry: 'add', spillStoreBytes: 0, spillLoadBytes: 0, stackBytes: 0 })
    expect(first.resources[0]!.registers).toBeGreaterThan(4)
  })

  test('an error is placed in the CUDA text', async () => {
    const error = await errorOf(() =>
      compileCuda(ADD.replace('a[i]', 'a[j]'), { arch: 'sm_100a', kind: 'ptx', name: 'add.cu' }),
    )
    expect(error.code).toBe('KTL6002')
    const { message, source, span } = error.diagnostics[0]!
    expect(message).toBe('nvcc: identifier "j" is undefined')
    expect(source!.name).toBe('add.cu')
    expect(source!.text.slice(span!.start, span!.end)).toBe('if (i < n) b[i] = a[j] * 2.0f + 1.0f;')
  })

  test('an error in generated text is placed in the .ktl, with the CUDA line as a note', async () => {
    const sources = {
      map: [{ cudaLine: 2, ktl: { start: 7, end: 14 }, role: null, note: null }],
      ktl: { name: 'k.ktl', text: 'kernel something' },
    }
    const error = await errorOf(() =>
      compileCuda('void f() {\n  x = 1;\n}\n', { arch: 'sm_100a', kind: 'ptx', sources }),
    )
    const { source, span, notes } = error.diagnostics[0]!
    expect(source!.name).toBe('k.ktl')
    expect(span).toEqual({ start: 7, end: 14 })
    expect(notes).toEqual(['kernel.cu:2: x = 1;'])
  })

  test('an unknown target, and one that is no target at all', async () => {
    const unknown = await errorOf(() => compileCuda(ADD, { arch: 'sm_999a', kind: 'ptx' }))
    expect(unknown.code).toBe('KTL6003')
    expect(unknown.diagnostics[0]!.notes!.join()).toContain('sm_999a')
    expect((await errorOf(() => compileCuda(ADD, { arch: 'sm_90 -o x.ptx', kind: 'ptx' }))).code).toBe('KTL4015')
  })

  test('the cache answers the second time; other flags, targets and formats are other entries', async () => {
    const cache = new Cache({ folder: path.join(folder, 'cache') })
    const first = await compileCached(ADD, { arch: 'sm_100a', kind: 'ptx', cache })
    const fresh = new Cache({ folder: path.join(folder, 'cache') })
    const second = await compileCached(ADD, { arch: 'sm_100a', kind: 'ptx', cache: fresh })
    expect(second).toEqual({ ...first, image: new Uint8Array(first.image) })
    expect(fresh.stats()).toMatchObject({ diskHits: 1, misses: 0 })
    await compileCached(ADD, { arch: 'sm_90a', kind: 'ptx', cache })
    await compileCached(ADD, { arch: 'sm_100a', kind: 'ptx', flags: [...GENERATED_FLAGS, '-DX'], cache })
    expect(cache.stats().misses).toBe(3)
  })
})

describe('a compiler that misbehaves', () => {
  const version = 'case "$1" in --version) echo "Cuda compilation tools, release 13.0, V13.0.1"; exit 0;; esac'

  test('is killed at the time limit, with its children', async () => {
    const mark = path.join(folder, 'child-survived')
    const file = fakeNvcc('slow', `${version}\n(sleep 2; touch ${mark}) &\nsleep 60`)
    const error = await errorOf(() =>
      withNvcc(file, () => compileCuda(ADD, { arch: 'sm_100a', kind: 'ptx', timeoutMs: 200 })),
    )
    expect(error.code).toBe('KTL6009')
    expect(error.message).toContain('nvcc was killed after 0.2 s')
    await new Promise((resolve) => setTimeout(resolve, 2200))
    expect(fs.existsSync(mark)).toBe(false)
  })

  const compile = (file: string, cache: Cache, options: Partial<CachedCompileOptions> = {}) =>
    withNvcc(file, () => compileCached(ADD, { arch: 'sm_100a', kind: 'ptx', cache, ...options }))
  const writing = (text: string) => `${version}\nwhile [ "$1" != -o ]; do shift; done\nprintf '${text}' > "$2"`
  const PTX = '.version 8.7\\n.target sm_100a\\n.address_size 64\\n'

  test.each([
    ['nothing', `${version}\nexit 0`, {}, 'is no PTX'],
    ['garbage', writing('garbage'), {}, 'is no PTX'],
    ['garbage for a cubin', writing(PTX), { kind: 'cubin' }, 'is no cubin'],
    ['another kernel', writing(`${PTX}.entry adder() { ret; }\\n`), { entries: ['add'] }, 'has no kernel `add`'],
  ] as const)('and writes %s with status 0: KTL6003, and nothing of it is kept', async (what, script, options, message) => {
    const name = `exits-0-${what}`
    const cache = new Cache({ folder: path.join(folder, name) })
    const error = await errorOf(() => compile(fakeNvcc(name, script), cache, options))
    expect([error.code, error.message]).toEqual(['KTL6003', expect.stringContaining(message)])
    expect((await cache.usage()).entries).toBe(0)
    const good = writing(`${PTX}.entry add() { ret; }\\n`)
    if (!('kind' in options)) expect(text((await compile(fakeNvcc(name, good), cache, options)).image)).toContain('.entry add')
  }) // prettier-ignore

  test('is killed by an AbortSignal', async () => {
    const file = fakeNvcc('slow2', `${version}\nsleep 60`)
    const signal = AbortSignal.timeout(150)
    await expect(withNvcc(file, () => compileCuda(ADD, { arch: 'sm_100a', kind: 'ptx', signal }))).rejects.toThrow(
      /timeout/,
    )
    expect(signal.aborted).toBe(true)
  })

  test('and many at once with one signal are no leak of listeners', async () => {
    const { signal } = new AbortController()
    const warnings: Error[] = []
    const warned = (warning: Error): void => void warnings.push(warning)
    process.on('warning', warned)
    const run = () => runProgram('sleep', ['0.2'], { cwd: folder, timeoutMs: 10_000, signal })
    await Promise.all(Array.from({ length: 12 }, run))
    process.off('warning', warned)
    expect(warnings).toEqual([])
  })

  test.skipIf(nvcc === null)('and aborted by one caller still answers another (skipped without nvcc)', async () => {
    const cache = new Cache({ folder: path.join(folder, 'shared') })
    const controller = new AbortController()
    const aborted = compileCached(ADD, { arch: 'sm_100a', kind: 'ptx', cache, signal: controller.signal })
    const kept = compileCached(ADD, { arch: 'sm_100a', kind: 'ptx', cache })
    setTimeout(() => controller.abort(), 20)
    await expect(aborted).rejects.toThrow(/abort/)
    expect(text((await kept).image)).toContain('.entry add')
  })

  test('that fails without naming a line is quoted', async () => {
    const file = fakeNvcc('broken', `${version}\necho "cicc: segmentation fault" >&2\nexit 3`)
    const error = await errorOf(() => withNvcc(file, () => compileCuda(ADD, { arch: 'sm_100a', kind: 'ptx' })))
    expect(error.message).toContain('nvcc failed with status 3')
    expect(error.diagnostics[0]!.notes).toEqual(['cicc: segmentation fault'])
  })
})

test('temporary folders of killed processes are swept by the next one', async () => {
  const { pid } = spawnSync('true')
  const ours = temporaryTag()
  const [killed, living] = [ours.replace(`-${process.pid}-`, `-${pid}-`), ours].map((tag) => path.join(folder, `ktl-${tag}`))
  const foreign = path.join(folder, 'ktl-notes')
  for (const made of [killed!, living!, foreign]) fs.mkdirSync(path.join(made, 'sub'), { recursive: true })
  const program = "const { withTemporaryFolder } = await import('./runtime/toolchain/process.ts'); await withTemporaryFolder(async (f) => console.log(f))"
  const { stdout } = spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', program], { env: { ...process.env, TMPDIR: folder }, encoding: 'utf8' })
  expect(stdout).toContain(path.join(folder, 'ktl-'))
  expect([killed!, living!, foreign, stdout.trim()].map((made) => fs.existsSync(made))).toEqual([false, true, true, false])
}) // prettier-ignore

test('a TMPDIR that is not there: KTL6008 with the cause', async () => {
  const before = process.env.TMPDIR
  process.env.TMPDIR = path.join(folder, 'nowhere')
  const error = await errorOf(() => withTemporaryFolder(async () => {}))
  if (before === undefined) delete process.env.TMPDIR
  else process.env.TMPDIR = before
  expect([error.code, (error.cause as NodeJS.ErrnoException).code]).toEqual(['KTL6008', 'ENOENT'])
})

test('programs get arguments as they are, not through a shell', async () => {
  const result = await runProgram('/bin/echo', ['$HOME; `id`', '*'], { cwd: folder, timeoutMs: 5000 })
  expect(result.output).toBe('$HOME; `id` *\n')
  const missing = await runProgram(path.join(folder, 'nothing'), [], { cwd: folder, timeoutMs: 5000 })
  expect(missing.startError?.message).toContain('ENOENT')
})

test('temporary folders are private and go away', async () => {
  let name = ''
  await withTemporaryFolder(async (temporary) => {
    name = temporary
    expect(fs.statSync(temporary).mode & 0o777).toBe(0o700)
  })
  expect(fs.existsSync(name)).toBe(false)
})

test('a semaphore lets through as many as it says, failures included', async () => {
  const semaphore = new Semaphore(2)
  let running = 0
  let most = 0
  const work = (i: number) =>
    semaphore.run(async () => {
      most = Math.max(most, ++running)
      await new Promise((resolve) => setTimeout(resolve, 3))
      running--
      if (i === 1) throw new Error('one fails')
    })
  const results = await Promise.allSettled(Array.from({ length: 8 }, (_, i) => work(i)))
  expect(most).toBe(2)
  expect(results.filter((r) => r.status === 'rejected')).toHaveLength(1)
})

test('resources of several kernels are read from ptxas', () => {
  const report = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_100a'
ptxas info    : Function properties for first
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_100a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers`
  expect(parseResources(report)).toEqual([
    { entry: 'first', registers: 168, spillStoreBytes: 8, spillLoadBytes: 12, stackBytes: 16, staticSharedBytes: 1024, barriers: 3 },
    { entry: 'second', registers: 10, spillStoreBytes: 0, spillLoadBytes: 0, stackBytes: 0, staticSharedBytes: 0, barriers: 0 },
  ]) // prettier-ignore
})
