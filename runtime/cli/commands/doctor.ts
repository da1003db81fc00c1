import { constants, promises as fs } from 'node:fs'
import path from 'node:path'
import { KtlError } from '../../../grammar/diagnostics.ts'
import { addonMissing, probeAddon } from '../../addon/load.ts'
import { noAddonFor, platformName, thisMachine } from '../../addon/platform.ts'
import { defaultCache } from '../../cache/cache.ts'
import { openDevice } from '../../devices/open.ts'
import { probeCuda, probeNvrtc } from '../../addon/probe.ts'
import { findNvcc } from '../../toolchain/nvcc.ts'
import type { AddCommand, Context } from '../context.ts'
import { findDisassembler } from '../disassemble.ts'
import { EXIT, type ExitCode } from '../exit.ts'
import { bytes } from '../output.ts'
import { reasonOf } from '../../files/read_file.ts'
import { MINIMUM_NODE, nodeTooOld } from '../../node_minimum.ts'

interface Finding {
  readonly name: string
  /** `missing` is what the exit status is about; `absent` things are only needed for what `detail` says. */
  readonly state: 'ok' | 'missing' | 'absent'
  readonly detail: string
  readonly fix?: string
}

export const addDoctor: AddCommand = (program, context, finish) => {
  program
    .command('doctor')
    .summary('say what is missing on this machine, and the fix')
    .description('Checks what ktl needs of this machine. Exit status 3 when something that is required is missing.')
    .option('--json', 'one JSON line for each thing')
    .action(async () => finish(await doctor(context)))
}

async function doctor({ out }: Context): Promise<ExitCode> {
  const findings = [
    checkNode(),
    checkSystem(),
    checkAddon(),
    await checkNvcc(),
    await checkHostCompiler(),
    checkDriver(),
    ...(await checkGpus()),
    checkNvrtc(),
    await checkDisassembler(),
    await checkCache(),
  ]
  const marks = {
    ok: out.colors.green('ok     '),
    missing: out.colors.red('MISSING'),
    absent: out.colors.yellow('absent '),
  }
  for (const { name, state, detail, fix } of findings) {
    out.record('doctor', { name, state, detail, fix })
    out.line(`${marks[state]} ${name.padEnd(14)} ${detail}`)
    if (fix !== undefined) out.line(`        ${''.padEnd(14)} fix: ${fix}`)
  }
  const missing = findings.filter(({ state }) => state === 'missing')
  if (missing.length === 0) out.line('everything that ktl needs is here')
  return missing.length === 0 ? EXIT.pass : EXIT.environment
}

function checkNode(): Finding {
  const recent = nodeTooOld(process.versions.node) === null
  const detail = `${process.version}, needed is ${MINIMUM_NODE.join('.')} or later`
  return { name: 'node', state: recent ? 'ok' : 'missing', detail, ...(!recent && { fix: 'install a newer Node.js' }) }
}

function checkSystem(): Finding {
  const machine = thisMachine()
  const unsupported = noAddonFor(machine)
  if (unsupported === null) {
    const libc = machine.libc === null ? '' : `, ${machine.libc} ${machine.libcVersion}`
    return { name: 'system', state: 'ok', detail: platformName(machine) + libc }
  }
  return {
    name: 'system',
    state: 'missing',
    detail: unsupported,
    fix: 'use Linux on x86-64 or arm64 to run kernels (on Windows: WSL 2)',
  }
}

function checkAddon(): Finding {
  const { path: file, tried } = probeAddon()
  if (file !== null) return { name: 'native addon', state: 'ok', detail: file }
  const detail = tried.map(({ path, reason }) => `${path}: ${reason}`).join('; ')
  const [{ help: fix } = {}] = addonMissing(tried).diagnostics
  return { name: 'native addon', state: 'missing', detail, ...(fix !== undefined && { fix }) }
}

/** kind::f16 of tcgen05 and sm_100a are known from 12.8 on, sm_103a from 12.9. */
const MINIMUM_NVCC = [12, 8] as const

async function checkNvcc(): Promise<Finding> {
  const name = 'nvcc'
  try {
    const { path: file, version } = await findNvcc()
    const [major = 0, minor = 0] = version.split('.').map(Number)
    const recent = major > MINIMUM_NVCC[0] || (major === MINIMUM_NVCC[0] && minor >= MINIMUM_NVCC[1])
    const detail = `${version} at ${file}`
    if (recent) return { name, state: 'ok', detail }
    return {
      name,
      state: 'missing',
      detail: `${detail} is too old`,
      fix: `install CUDA ${MINIMUM_NVCC.join('.')} or later`,
    }
  } catch (error) {
    if (!(error instanceof KtlError)) throw error
    const [first] = error.diagnostics
    return {
      name,
      state: 'missing',
      detail: [first!.message, ...(first!.notes ?? [])].join('; '),
      fix: first!.help ?? 'set KTL_NVCC to a working nvcc',
    }
  }
}

async function checkHostCompiler(): Promise<Finding> {
  const file = await onPath('g++')
  if (file !== null) return { name: 'host compiler', state: 'ok', detail: file }
  return { name: 'host compiler', state: 'missing', detail: 'nvcc needs g++ in PATH', fix: 'install g++' }
}

function checkDriver(): Finding {
  const name = 'CUDA driver'
  const status = probeCuda()
  if (status.reason !== undefined)
    return { name, state: 'absent', detail: `${status.reason}; not needed: kernels run on the virtual device` }
  return { name, state: 'ok', detail: `${status.path}, for CUDA ${versionText(status.version)}` }
}

/** One row for each; none without a driver. */
async function checkGpus(): Promise<Finding[]> {
  const status = probeCuda()
  if (status.reason !== undefined) return []
  return Promise.all(status.devices.map((_, i) => checkGpu(i)))
}

async function checkGpu(ordinal: number): Promise<Finding> {
  const name = `cuda:${ordinal}`
  try {
    await using device = await openDevice(`cuda:${ordinal}`)
    const { name: chip, cc, smCount, memoryBytes, l2Bytes } = device.properties
    const parts = [
      `compute capability ${(cc / 10).toFixed(1)}`,
      device.arch,
      `${smCount} SMs`,
      bytes(memoryBytes),
      `L2 ${bytes(l2Bytes)}`,
    ]
    return { name, state: 'ok', detail: `${chip}, ${parts.join(', ')}` }
  } catch (error) {
    return { name, state: 'absent', detail: reasonOf(error) }
  }
}

function checkNvrtc(): Finding {
  const name = 'NVRTC'
  const status = probeNvrtc()
  if (status.reason !== undefined)
    return { name, state: 'absent', detail: `only needed where there is no nvcc: ${status.reason}` }
  return { name, state: 'ok', detail: `${status.version} at ${status.path}` }
}

const versionText = (version: number): string => `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`

async function checkDisassembler(): Promise<Finding> {
  const name = 'disassembler'
  const found = await findDisassembler()
  if (found !== null) return { name, state: 'ok', detail: found }
  const detail = 'only needed for `ktl inspect --stage sass`'
  return { name, state: 'absent', detail, fix: 'install nvdisasm or cuobjdump of the CUDA toolkit' }
}

async function checkCache(): Promise<Finding> {
  const { folder } = defaultCache().disk
  const name = 'compile cache'
  try {
    // The folder appears with the first entry: what counts is where it would be made.
    let place = folder
    while (!(await exists(place)) && path.dirname(place) !== place) place = path.dirname(place)
    await fs.access(place, constants.W_OK)
    const { entries, bytes: size } = await defaultCache().usage()
    return { name, state: 'ok', detail: `${folder}: ${entries} entries, ${bytes(size)}` }
  } catch (error) {
    const detail = `${folder}: ${reasonOf(error)}; every run compiles again`
    return { name, state: 'absent', detail, fix: 'set KTL_CACHE_DIR to a folder of yours' }
  }
}

const exists = (file: string): Promise<boolean> =>
  fs.access(file).then(
    () => true,
    () => false,
  )

async function onPath(name: string): Promise<string | null> {
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    if (folder !== '' && (await exists(path.join(folder, name)))) return path.join(folder, name)
  }
  return null
}
