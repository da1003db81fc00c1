/** Kernels built ahead of time: folders of artifacts, the processes that use them, and builds by ninja. */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, promises as fs, readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { KtlError } from '../../grammar/diagnostics.ts'
import { parseManifest, type Manifest } from '../../runtime/artifacts/aot/manifest.ts'
import { IR_VERSION } from '../../runtime/artifacts/artifact.ts'
import { ninjaText } from '../../runtime/artifacts/aot/ninja.ts'
import {
  Artifact, ArtifactFolder, buildArtifacts, KTL_VERSION, loadSource, precompiled, registerArtifacts,
  type KtlKernel,
} from '../../runtime/index.ts' // prettier-ignore
import { EXIT, exitCodeOf } from '../../runtime/cli/exit.ts'
import { Output } from '../../runtime/cli/output.ts'
import { createProgram } from '../../runtime/cli/program.ts'
import { ktlProvider } from '../../runtime/discovery/providers/provider.ts'
import { removeTemporaries, writeFileSafely } from '../../runtime/files/safe_write.ts'
import { temporaryTag } from '../../runtime/files/temporary.ts'
import { ROOT } from '../root.ts'
import { folder, ktl, records } from './cli.ts'
import { errorOf } from './errors.ts'

const SOURCE = {
  name: 'kernels.ktl',
  text: `kernel scale(X: f32[m, n], s: f32) -> Y: f32[m, n] { Y = X * s }
kernel rows(A: f16[m, k], B: f16[k, n]) -> (D: f32[m, n], amax: f32[m]) {
  D = sum[k](A * B)
  amax[m] = max[n](abs(D))
}
schedule scale on simt { tile 32x32 | 16x16 | 8x32 }
`,
}
const program = loadSource(SOURCE)
const scales = (): KtlKernel[] => [...program.kernels.scale!.getInstances()]
const at = (...parts: string[]): string => path.join(folder, ...parts)
const readJson = async (file: string): Promise<any> => JSON.parse(await fs.readFile(file, 'utf8'))
const temporaries = (where: string): string[] =>
  (readdirSync(where, { recursive: true }) as string[]).filter((name) => name.endsWith('.tmp'))
const times = ({ artifacts }: Manifest, where: string): number[] =>
  artifacts.map(({ file }) => statSync(path.join(where, file)).mtimeMs)

/** A process that has ktl and no compiler: what it prints. */
function withoutNvcc(source: string): Promise<any> {
  const env = {
    ...process.env,
    PATH: '/nonexistent',
    KTL_NVCC: '/nonexistent/nvcc',
    KTL_CACHE_DIR: at('nothing cached'),
  }
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', source], { cwd: ROOT, env })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk) => (stdout += chunk))
    child.stderr.on('data', (chunk) => (stderr += chunk))
    child.on('close', (status) => (status === 0 ? resolve(JSON.parse(stdout)) : reject(new Error(stderr))))
  })
}

describe('one artifact in another process', () => {
  test('a kernel of two launches with a workspace: deserialised and run without a compiler; compiling is refused', async () => {
    const [kernel] = [...program.kernels.rows!.getInstances()].filter((k) => k.generated.recipe.next)
    const artifact = await kernel!.compile()
    expect(artifact.recipe.next!.workspace!.length).toBeGreaterThan(0)
    await fs.writeFile(at('rows.ktlbin'), artifact.serialize())
    const result = await withoutNvcc(`
      import { readFileSync } from 'node:fs'
      import { CompiledArtifact, getKernels, KernelArguments, loadSource, openDevice } from 'ktl'
      const artifact = CompiledArtifact.deserialize(readFileSync(${JSON.stringify(at('rows.ktlbin'))}))
      const program = loadSource(${JSON.stringify(SOURCE)})
      const device = await openDevice('virtual-sm100')
      const A = device.tensor('f16', [40, 16], Array.from({ length: 640 }, (_, i) => (i % 5) - 2))
      const B = device.tensor('f16', [16, 24], Array.from({ length: 384 }, (_, i) => (i % 7) - 3))
      const [D, amax] = [device.empty('f32', [40, 24]), device.empty('f32', [40])]
      const args = new KernelArguments(program.kernels.rows, { A, B, D, amax })
      const kernel = getKernels(args).find((k) => k.metadata.kernelName === artifact.kernelName)
      const refused = await kernel.compile(args).then(() => null, (error) => error.code)
      await kernel.run(args, { artifact })
      const rows = [await D.toArray(), await amax.toArray()].map((list) => [...list])
      console.log(JSON.stringify({ refused, rows, workspace: kernel.getWorkspaceSize(args) }))
      await device.close()`)
    const [a, b] = [(i: number) => (i % 5) - 2, (i: number) => (i % 7) - 3]
    const product = Array.from({ length: 40 * 24 }, (_, i) => {
      const [m, n] = [Math.floor(i / 24), i % 24]
      return Array.from({ length: 16 }, (_, k) => a(m * 16 + k) * b(k * 24 + n)).reduce((x, y) => x + y)
    })
    const amax = Array.from({ length: 40 }, (_, m) => Math.max(...product.slice(m * 24, m * 24 + 24).map(Math.abs)))
    expect(result).toEqual({ refused: 'KTL6001', rows: [product, amax], workspace: expect.any(Number) })
    expect(result.workspace).toBeGreaterThan(0)
  })
})

describe('buildArtifacts', () => {
  const built = at('built')

  test('writes artifacts and a manifest; both formats; limits', async () => {
    const manifest = await buildArtifacts(scales(), built, { limit: 2, jobs: 1 })
    expect(await readJson(path.join(built, 'manifest.json'))).toEqual(manifest)
    expect(manifest).toMatchObject({ format: 1, ktl: KTL_VERSION, sources: [SOURCE] })
    expect(manifest.artifacts.map(({ target, formats }) => [target, formats])).toEqual(Array(2).fill(['sm_100a', ['ptx', 'cubin']]))
    const [entry] = manifest.artifacts
    const artifact = await (await ArtifactFolder.open(built)).load(entry!.kernelName, 'sm_100a')
    expect([artifact.section('cubin', 'sm_100a')!.subarray(0, 4), artifact.info.resources.length]).toEqual([Uint8Array.of(0x7f, 0x45, 0x4c, 0x46), 1])
    expect(artifact.ptx('sm_100a')).toContain('.target sm_100a')
  })

  test('built again: what is whole is kept, what is damaged, lost or of other CUDA text is made again', async () => {
    const before = await buildArtifacts(scales(), built)
    const stamps = times(before, built)
    const [kept, cut, lost] = before.artifacts.map(({ file }) => path.join(built, file)) as [string, string, string]
    await fs.truncate(cut, 1000)
    await fs.rm(lost)
    const leftover = path.join(built, 'sm_100a', `.half.${temporaryTag().replace(`-${process.pid}-`, '-999999999-')}.tmp`)
    await fs.writeFile(leftover, 'half')
    let keptCount = 0
    const after = await buildArtifacts(scales(), built, { onProgress: ({ kept }) => (keptCount = kept) })
    expect([after.artifacts, keptCount, existsSync(leftover)]).toEqual([before.artifacts, 1, false])
    expect(statSync(kept).mtimeMs).toBe(stamps[0])

    // Right checksums, another text.
    const artifact = Artifact.deserialize(await fs.readFile(kept))
    const sections = artifact.sections.map((s) => (s.name === 'cuda' ? { ...s, bytes: new TextEncoder().encode('// other') } : s))
    await fs.writeFile(kept, new Artifact(artifact.info, sections).serialize())
    expect((await buildArtifacts(scales(), built)).artifacts).toEqual(before.artifacts)
  })

  test('interrupted: rejects with the reason, lists what is done, leaves nothing partial; the next call does the rest', async () => {
    const where = at('interrupted')
    const controller = new AbortController()
    const reason = new Error('enough')
    const onProgress = (): void => controller.abort(reason)
    await expect(buildArtifacts(scales(), where, { jobs: 1, signal: controller.signal, onProgress })).rejects.toBe(reason)
    expect((await readJson(path.join(where, 'manifest.json'))).artifacts.length).toBe(1)
    expect(temporaries(where)).toEqual([])
    const rest: number[] = []
    const { artifacts } = await buildArtifacts(scales(), where, { onProgress: ({ kept }) => rest.push(kept) })
    expect([artifacts.length, rest.at(-1)]).toEqual([3, 1])
  })

  test('a process that is gone leaves nothing to others; one that runs keeps its files', async () => {
    const where = at('temporaries')
    await fs.mkdir(where)
    const tag = temporaryTag()
    for (const name of [`.a.${tag}.tmp`, `.b.${tag.replace(`-${process.pid}-`, '-999999999-')}.tmp`, 'c.tmp']) await fs.writeFile(path.join(where, name), '')
    await removeTemporaries(where)
    expect(readdirSync(where).sort()).toEqual([`.a.${tag}.tmp`, 'c.tmp'])
  })

  test.each([
    ['a folder of another version', async (where: string) => {
      const manifest = await readJson(path.join(built, 'manifest.json'))
      await fs.mkdir(where)
      await fs.writeFile(path.join(where, 'manifest.json'), JSON.stringify({ ...manifest, ktl: '0.0.1' }))
    }, 'KTL6061', 'made by ktl 0.0.1'],
    ['a file in its place', (where: string) => fs.writeFile(where, ''), 'KTL6060', 'ENOTDIR'],
  ] as const)('%s is refused before anything is compiled', async (name, make, code, text) => {
    const where = at(name)
    await make(where)
    const error = await errorOf(() => buildArtifacts(scales(), where))
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(text)])
  })
}) // prettier-ignore

test('many writers make the same new folders at once', async () => {
  for (let round = 0; round < 20; round++) {
    const files = Array.from({ length: 16 }, (_, i) =>
      at('at_once', String(round), 'a', 'b', String(i % 3), `${i}.txt`),
    )
    await Promise.all(files.map((file) => writeFileSafely(file, 'x')))
    for (const file of files) expect(await fs.readFile(file, 'utf8')).toBe('x')
  }
})

describe('registerArtifacts', () => {
  test('in a process without nvcc: kernels are found, run, and after unregistering refused', async () => {
    const where = at('served')
    await buildArtifacts(scales(), where, { limit: 2, formats: ['ptx'] })
    const result = await withoutNvcc(`
      import { getKernels, KernelArguments, openDevice, precompiled, registerArtifacts } from 'ktl'
      const { programs: [program], folder, unregister } = await registerArtifacts(${JSON.stringify(where)})
      const device = await openDevice('virtual-sm100')
      const Y = { data: new Float32Array(6), shape: [2, 3] }
      const args = new KernelArguments(program.kernels.scale, { X: [[1, 2, 3], [4, 5, 6]], s: 10, Y }, { device })
      const all = getKernels(args).length
      const kernels = getKernels(args, { metadataFilter: precompiled })
      await kernels[0].run(args)
      // The same, called by name.
      await program.kernels.scale({ X: args.tensors.X, s: 100, Y: [[0, 0, 0], [0, 0, 0]] }, { metadataFilter: precompiled })
      const names = () => [...program.kernels.scale.getInstances()].filter((k) => precompiled(k.metadata)).length
      const named = names()
      const other = getKernels(args).find((k) => !folder.has(k.metadata.kernelName))
      const codes = [await other.compile(args).then(() => null, (error) => error.code)]
      unregister()
      codes.push(await kernels[0].compile(args).then(() => null, (error) => error.code))
      console.log(JSON.stringify({ all, served: kernels.length, named, values: [...Y.data], codes, after: names() }))
      await device.close()`)
    expect(result).toEqual({ all: 3, served: 2, named: 2, values: [10, 20, 30, 40, 50, 60], codes: ['KTL6001', 'KTL6001'], after: 0 })
  })

  test('damage shows when an artifact is used, with the file and the reason', async () => {
    const where = at('damaged')
    const { artifacts } = await buildArtifacts(scales(), where, { formats: ['ptx'] })
    const [cut, changed, linked] = artifacts.map(({ file }) => path.join(where, file)) as [string, string, string]
    await fs.truncate(cut, 100)
    const bytes = await fs.readFile(changed)
    bytes[bytes.length - 1]! ^= 1
    await fs.writeFile(changed, bytes)
    await fs.rename(linked, `${linked}.elsewhere`)
    await fs.symlink(`${linked}.elsewhere`, linked)
    const { folder: opened, unregister } = await registerArtifacts(where)
    const reasons = ['has 100 bytes', 'its checksum is not', 'is not a file']
    for (const [i, { kernelName }] of artifacts.entries()) {
      const error = await errorOf(() => opened.load(kernelName, 'sm_100a'))
      expect([error.code, error.message]).toEqual(['KTL6062', expect.stringContaining(reasons[i]!)])
      // Found kernels do not fall back to another artifact.
      const kernel = scales().find((k) => k.metadata.kernelName === kernelName)!
      expect((await errorOf(() => kernel.compile())).code).toBe('KTL6062')
    }
    expect((await errorOf(() => opened.load('ktl.none', 'sm_100a'))).code).toBe('KTL6062')
    unregister()
  })

  test('an artifact that is listed under the name of another kernel is refused', async () => {
    const where = at('swapped')
    const { artifacts } = await buildArtifacts(scales(), where, { formats: ['ptx'], limit: 2 })
    const [first, second] = artifacts.map(({ file }) => path.join(where, file)) as [string, string]
    const [a, b] = [await fs.readFile(first), await fs.readFile(second)]
    await fs.writeFile(first, b)
    await fs.writeFile(second, a)
    const swap = { ...artifacts[0]!, bytes: artifacts[1]!.bytes, sha256: artifacts[1]!.sha256 }
    await fs.writeFile(path.join(where, 'manifest.json'), JSON.stringify({ format: 1, ktl: KTL_VERSION, ir: IR_VERSION, sources: [], artifacts: [swap] }))
    const opened = await ArtifactFolder.open(where)
    expect((await errorOf(() => opened.load(swap.kernelName, 'sm_100a'))).message).toContain('it holds ktl.scale')
  })

  test('registered programs are not registered twice', async () => {
    const where = at('served')
    const registered = (): number => ktlProvider.spaces.filter(({ family }) => family.source.text === SOURCE.text).length
    const first = await registerArtifacts(where)
    expect([registered(), scales().filter(({ metadata }) => precompiled(metadata)).length]).toEqual([2, 2])
    const second = await registerArtifacts(where)
    expect(registered()).toBe(2)
    second.unregister()
    first.unregister()
    expect([registered(), scales().filter(({ metadata }) => precompiled(metadata)).length]).toEqual([0, 0])
  })
}) // prettier-ignore

describe('manifests', () => {
  const entry = { kernelName: 'ktl.k', target: 'sm_100a', formats: ['ptx'], toolkit: '13.0.88', file: 'sm_100a/ktl.k.ktlbin', bytes: 1, sha256: '0'.repeat(64) } // prettier-ignore
  const manifest = (change: object, artifact: object = {}) =>
    JSON.stringify({
      format: 1,
      ktl: KTL_VERSION,
      ir: IR_VERSION,
      sources: [],
      artifacts: [{ ...entry, ...artifact }],
      ...change,
    })

  test('as written', () => {
    expect(parseManifest(manifest({}), '.').artifacts).toEqual([entry])
  })

  test.each<[string, string, string]>([
    ['[', 'KTL6060', 'not JSON'],
    ['null', 'KTL6060', 'not an object'],
    [manifest({ format: 2 }), 'KTL6060', 'manifest.format is 2'],
    [manifest({ ktl: '9.9.9', artifacts: 'of a later format' }), 'KTL6061', 'made by ktl 9.9.9'],
    [manifest({ ir: 99 }), 'KTL6061', 'IR version 99'],
    [manifest({}, { file: '../../etc/passwd' }), 'KTL6060', 'artifacts[0].file is not sm_100a/ktl.k.ktlbin'],
    [manifest({}, { kernelName: '../k', file: 'sm_100a/../k.ktlbin' }), 'KTL6060', 'kernelName is not the name'],
    [manifest({}, { kernelName: '.', file: 'sm_100a/..ktlbin' }), 'KTL6060', 'kernelName is not the name'],
    [manifest({}, { target: 'sm_100a/..' }), 'KTL6060', 'artifacts[0].target'],
    [manifest({}, { bytes: -1 }), 'KTL6060', 'artifacts[0].bytes'],
    [manifest({}, { sha256: 'x' }), 'KTL6060', 'artifacts[0].sha256'],
    [manifest({ sources: [{ name: 'a.ktl' }] }), 'KTL6060', 'sources[0].text is missing'],
  ])('%#: %s', async (text, code, message) => {
    const error = await errorOf(() => parseManifest(text, '.'))
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(message)])
  })

  test('anything else gives a manifest or a KtlError', () => {
    const json = fc.oneof(fc.json(), fc.tuple(fc.constantFrom('format', 'ktl', 'ir', 'sources', 'artifacts'), fc.jsonValue()).map(([key, value]) => manifest({ [key]: value })))
    fc.assert(
      fc.property(json, (text) => {
        try {
          parseManifest(text, '.')
        } catch (error) {
          if (!(error instanceof KtlError)) throw error
        }
      }),
    )
  }) // prettier-ignore
})

describe('ktl build --aot', () => {
  const library = ['build', '--library', '--kernel', 'gemm', '--type', 'T=f16,O=f32', '--order', 'A=lmk,B=lkn,D=lmn']

  test('the library by part of a name, with an epilogue: what it makes serves calls with that epilogue', async () => {
    const where = at('library')
    const epilogue = ['--epilogue', 'relu(acc*alpha+C)', '--arg', 'alpha=2', '--arg', 'C=f16[m,n]']
    const filter = ['--filter', '1cta_cluster1x1x1_tile64x64x64_static_tma', '--formats', 'ptx', '--limit', '1']
    const ended = await ktl([...library, '--aot', where, ...epilogue, ...filter, '--json'])
    expect([ended.status, ended.stderr]).toEqual([0, expect.stringContaining('1 kernel')])
    expect(records(ended)).toEqual([{ schema: 1, kind: 'file', path: path.join(where, 'manifest.json'), emit: 'artifacts', kernels: 1, kept: 0 }])
    const { sources, artifacts } = await readJson(path.join(where, 'manifest.json'))
    expect([sources, artifacts.length]).toEqual([[], 1])
    const result = await withoutNvcc(`
      import { EpilogueArguments, GemmArguments, getKernels, openDevice, precompiled, registerArtifacts } from 'ktl'
      await registerArtifacts(${JSON.stringify(where)})
      const device = await openDevice('virtual-sm100')
      const [A, B] = [device.tensor('f16', [64, 64], 1), device.tensor('f16', [64, 64], 2)]
      const [C, out] = [device.tensor('f16', [64, 64], -50), device.empty('f32', [64, 64])]
      const epilogue = new EpilogueArguments('relu(acc*alpha+C)', { alpha: 3, C })
      const args = new GemmArguments({ A, B, out, epilogue })
      const kernels = getKernels(args, { metadataFilter: precompiled })
      if (kernels.length > 0) await kernels[0].run(args)
      console.log(JSON.stringify([kernels.length, [...new Set(await out.toArray())]]))
      await device.close()`)
    expect(result).toEqual([1, [64 * 2 * 3 - 50]])
  })

  test('interrupted by Ctrl-C, then run again', async () => {
    const where = at('ctrl-c')
    const args = [...library, '--aot', where, '--target', 'sm_100a,sm_103a', '--limit', '3', '--formats', 'ptx', '--jobs', '1']
    const env = { KTL_CACHE_DIR: at('a cache of its own') }
    const first = await ktl(args, {
      env,
      started: (child) => {
        const timer = setInterval(() => {
          const first = existsSync(path.join(where, 'sm_100a')) && readdirSync(path.join(where, 'sm_100a')).some((name) => name.endsWith('.ktlbin'))
          if (!first) return
          clearInterval(timer)
          child.kill('SIGINT')
        }, 20)
        child.on('close', () => clearInterval(timer))
      },
    })
    expect([first.status, first.stdout]).toEqual([130, ''])
    const done = (await readJson(path.join(where, 'manifest.json'))).artifacts.length
    expect(done).toBeGreaterThanOrEqual(1)
    expect(done).toBeLessThan(6)
    expect(temporaries(where)).toEqual([])
    const second = await ktl(args, { env })
    expect([second.status, second.stderr]).toEqual([0, expect.stringContaining(`6 kernels, ${done} of them built before`)])
    const { artifacts } = await readJson(path.join(where, 'manifest.json'))
    expect(artifacts.map(({ target }: { target: string }) => target)).toEqual([...Array(3).fill('sm_100a'), ...Array(3).fill('sm_103a')])
  })

  test.each<[string, string[], string, string]>([
    ['neither files nor library', ['--aot', 'x'], 'KTL4101', '.ktl files or --library'],
    ['both', ['samples/dgemm.ktl', '--library', '--aot', 'x'], 'KTL4101', '.ktl files or --library'],
    ['no folder', ['samples/dgemm.ktl'], 'KTL4101', '--out'],
    ['no file', ['--out', 'x'], 'KTL4101', 'files'],
    ['PTX beside artifacts', ['samples/dgemm.ktl', '--aot', 'x', '--emit', 'ptx'], 'KTL4103', '--formats'],
    ['ninja without a folder of artifacts', ['samples/dgemm.ktl', '--out', 'x', '--emit', 'ninja'], 'KTL4103', '--aot'],
    ['several targets of files', ['samples/dgemm.ktl', '--out', 'x', '--emit', 'ptx', '--target', 'sm_100a,sm_80'], 'KTL4103', 'one target'],
    ['no such target', ['samples/dgemm.ktl', '--aot', 'x', '--target', 'sm_100a,sm_1'], 'KTL4103', 'sm_100a, sm_103a'],
    ['no such format', ['samples/dgemm.ktl', '--aot', 'x', '--formats', 'sass'], 'KTL4103', 'ptx, cubin'],
    ['jobs', ['samples/dgemm.ktl', '--aot', 'x', '--jobs', '0'], 'KTL4103', '--jobs'],
    ['library without --aot', ['samples/dgemm.ktl', '--out', 'x', '--library'], 'KTL4103', '--library'],
    ['no name contains it', ['samples/dgemm.ktl', '--aot', 'x', '--filter', 'sparse'], 'KTL4107', 'no name contains sparse'],
    ['no such kernel', ['--library', '--kernel', 'gemv', '--aot', 'x'], 'KTL4105', 'gemv'],
    ['collect with files', ['samples/dgemm.ktl', '--aot', 'x', '--collect'], 'KTL4103', 'no files'],
  ])('wrong usage: %s', async (_, args, code, text) => {
    const { signal } = new AbortController()
    const command = createProgram({ out: new Output(), signal }, () => {})
    const error = await errorOf(() => command.parseAsync(['build', ...args], { from: 'user' }))
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(text)])
    expect(exitCodeOf(error, signal)).toBe(EXIT.usage)
    expect(existsSync('x')).toBe(false)
  })
}) // prettier-ignore

/** The commands of a ninja file in its order, in which every edge follows those it needs. */
async function commandsOf(file: string): Promise<string[]> {
  const text = await fs.readFile(file, 'utf8')
  const blocks = text.split(/\n(?=\S)/).map((block) => block.split('\n').map((line) => line.trim()))
  const globals = new Map(blocks.flatMap(([first]) => /^(\w+) = (.*)$/.exec(first!)?.slice(1) as [string, string] ?? []).map((_, i, all) => [all[i - (i % 2)]!, all[i - (i % 2) + 1]!])) // prettier-ignore
  const rules = new Map<string, string>()
  const commands: string[] = []
  for (const [first, ...rest] of blocks) {
    const settings = new Map(rest.map((line) => line.split(/ = (.*)/).slice(0, 2) as [string, string]))
    const rule = /^rule (\w+)$/.exec(first!)
    const edge = /^build (\S+): (\w+) (.*)$/.exec(first!)
    if (rule) rules.set(rule[1]!, settings.get('command')!)
    if (!edge) continue
    const [, out, name, inputs] = edge
    const values = new Map([...globals, ...settings, ['in', inputs!], ['out', out!]])
    commands.push(rules.get(name!)!.replaceAll(/\$(\w+)/g, (_, variable: string) => values.get(variable)!))
  }
  return commands
}

const onPath = (program: string): boolean => {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

describe('--emit ninja', () => {
  const where = at('by ninja')
  const file = at('scale.ktl')
  const env = { ...process.env, PATH: `${path.join(ROOT, 'node_modules/.bin')}:${process.env.PATH}` }

  test('its commands, run by a shell, make the artifacts that ktl makes itself', async () => {
    await fs.writeFile(file, SOURCE.text)
    const args = ['build', file, '--kernel', 'scale', '--limit', '2', '--aot', where]
    const emitted = await ktl([...args, '--emit', 'ninja'])
    expect([emitted.status, emitted.stdout, emitted.stderr]).toEqual([0, `${path.join(where, 'build.ninja')}\n`, expect.stringContaining('2 kernels: run')])
    expect(existsSync(path.join(where, 'manifest.json'))).toBe(false)
    const early = await ktl(['build', '--aot', where, '--collect'])
    expect([early.status, early.stderr]).toEqual([1, expect.stringContaining('ninja has not made it')])

    const commands = await commandsOf(path.join(where, 'build.ninja'))
    expect(commands.length).toBe(5)
    expect(commands[0]).toMatch(/^nvcc -std=c\+\+17 -lineinfo -fmad=false -DKTL_DEVICE_ONLY -arch=sm_100a -ptx ninja\/sm_100a\/\S+\.cu -o ninja\/sm_100a\/\S+\.ptx$/)
    expect(commands.at(-1)).toBe('ktl build --aot . --collect')
    for (const command of commands) execFileSync('/bin/sh', ['-c', command], { cwd: where, env, stdio: 'ignore' })

    const collected = (await readJson(path.join(where, 'manifest.json'))) as Manifest
    const direct = await ktl(['build', file, '--kernel', 'scale', '--limit', '2', '--aot', at('by itself')])
    expect(direct.status).toBe(0)
    const own = (await readJson(at('by itself', 'manifest.json'))) as Manifest
    expect(collected.sources).toEqual(own.sources)
    for (const [i, entry] of own.artifacts.entries()) {
      const [a, b] = [Artifact.deserialize(await fs.readFile(path.join(where, entry.file))), Artifact.deserialize(await fs.readFile(at('by itself', entry.file)))]
      expect(a.info).toEqual(b.info)
      // They differ in what the CUDA text is called.
      const code = (ptx: string): string => ptx.replace(/\.file\s.*/, '')
      expect(code(a.ptx('sm_100a')!)).toBe(code(b.ptx('sm_100a')!))
      expect(a.ptx('sm_100a')).not.toContain(where)
      expect(collected.artifacts[i]!.formats).toEqual(['ptx', 'cubin'])
    }
    // Built again by ktl itself, they are as good as its own.
    expect((await ktl(args)).stderr).toContain('2 of them built before')
    const foreign = path.join(where, 'ninja', own.artifacts[0]!.file.replace('.ktlbin', '.ptx'))
    await fs.writeFile(foreign, (await fs.readFile(foreign, 'utf8')).replace('.target sm_100a', '.target sm_80'))
    const mixed = await ktl(['build', '--aot', where, '--collect'])
    expect([mixed.status, mixed.stderr]).toEqual([1, expect.stringContaining('not PTX of nvcc for sm_100a')])
  })

  test.skipIf(!onPath('ninja'))('ninja itself takes the file, and has nothing to do when it is done', async () => {
    const ninja = (...args: string[]): string => execFileSync('ninja', args, { cwd: where, env, encoding: 'utf8' })
    await fs.rm(path.join(where, 'ninja', 'sm_100a'), { recursive: true })
    await ktl(['build', file, '--kernel', 'scale', '--limit', '1', '--aot', where, '--emit', 'ninja'])
    expect(ninja()).toContain('artifacts')
    expect(ninja()).toContain('no work to do')
  })

  test('blanks, dollars and colons in paths are escaped', () => {
    const entry = { kernelName: 'a b$c:d', target: 'sm_100a', formats: ['ptx'], toolkit: '', file: '', bytes: 0, sha256: '' } as const
    expect(ninjaText([entry])).toContain('build ninja/sm_100a/a$ b$$c$:d.ptx: ptx ninja/sm_100a/a$ b$$c$:d.cu')
  })
}) // prettier-ignore

test('a progress bar appears on terminals only', async () => {
  const { stderr } = await ktl(['build', 'samples/dgemm.ktl', '--aot', at('bar'), '--limit', '1', '--formats', 'ptx'])
  expect(stderr).not.toContain('building')
})
