/**
 * What `ktl bench --tune` found fastest, by device and problem, in one file; `getKernels` puts it first. Trouble with the
 * file costs the knowledge in it, never a result.
 */
import { shortHash } from '../../../compiler/short_hash.ts'
import { scaledGemm } from '../../operations/scaled_gemm.ts'
import { readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import envPaths from 'env-paths'
import { KTL_VERSION } from '../../../codegen/cuda/version.ts'
import type { KtlError } from '../../../grammar/diagnostics.ts'
import type { RuntimeArguments } from '../../arguments/base.ts'
import { GemmArguments } from '../../arguments/gemm.ts'
import { KernelArguments } from '../../arguments/kernel.ts'
import type { Device } from '../../devices/device.ts'
import { divisibilityOf } from '../../arguments/operands.ts'
import { ktlError } from '../../errors/fail.ts'
import { integer, list, oneOf, record, text, type Shape } from '../../files/json_shape.ts'
import { makeFolder, writeFileSafely } from '../../files/safe_write.ts'
import type { Tensor } from '../../tensors/tensor.ts'

export interface TunedKernel {
  /** `deviceKey` of the device, `problemOf` the arguments. */
  readonly device: string
  readonly problem: string
  readonly kernelName: string
  readonly microseconds: number
  /** Modelled: on a virtual device. */
  readonly times: 'measured' | 'modelled'
  /** Instances that were compared. */
  readonly tried: number
  /** Names of kernels mean something for one version only. */
  readonly ktl: string
  /** ISO 8601 */
  readonly at: string
}

/**
 * KTL_TUNING_FILE, else tuning.json in KTL_CACHE_DIR, else in the user's folder of settings: clearing the cache loses no
 * measurements.
 */
export function tuningFile(env: NodeJS.ProcessEnv = process.env): string {
  if (env.KTL_TUNING_FILE) return path.resolve(env.KTL_TUNING_FILE)
  const folder = env.KTL_CACHE_DIR ? path.resolve(env.KTL_CACHE_DIR) : envPaths('ktl', { suffix: '' }).config
  return path.join(folder, 'tuning.json')
}

/** Results of one GPU hold for others of its kind: the name is that of the product. */
export const deviceKey = (device: Device): string => device.properties.name

/**
 * Everything that decides which kernels there are for a call and how fast they are: operands with dtypes, shapes, contiguous axes and
 * alignment, accumulator, the text of a kernel, and the epilogue with its operands. Not run-time numbers, wherever they lie.
 */
export function problemOf(args: RuntimeArguments): string {
  if (args instanceof GemmArguments && args.isScaled) return problemOf(scaledGemm(args))
  const numbers = args instanceof KernelArguments ? args.family.scalars.map(({ name }) => name) : []
  const tensors = Object.entries(args.tensors).filter(([name]) => !numbers.includes(name))
  const operands = tensors.map(([name, tensor]) => `${name} ${layoutOf(tensor, args.outputs.includes(name))}`)
  const what =
    args instanceof GemmArguments
      ? `gemm ${args.accumulatorType}${args.allowTf32 ? ' tf32' : ''}`
      : args instanceof KernelArguments
        ? `${args.family.name} ${kernelHash(args)}`
        : args.constructor.name
  return [what, ...operands, ...(args.fusion ? [args.fusion.key] : [])].join('; ')
}

/** Kernels of one name may compute different things. */
const kernelHash = ({ family: { source, declaration } }: KernelArguments): string =>
  shortHash(source.text.slice(declaration.span.start, declaration.span.end))

/** `bf16[4096,4096] 0 vector`: the contiguous dimension, and whether rows begin at 16 bytes. */
function layoutOf(tensor: Tensor, isOutput: boolean): string {
  const unit = tensor.strides.findLastIndex((stride, i) => stride === 1 && tensor.shape[i] !== 1)
  const inner = unit >= 0 ? unit : tensor.rank - 1
  const divisibility = inner >= 0 ? divisibilityOf(tensor, inner, isOutput ? 'output' : 'input') : 'element'
  return `${tensor.dtype}[${tensor.shape.join()}] ${inner} ${divisibility}`
}

/** The oldest go first. */
const MAX_ENTRIES = 4096
const FORMAT = 1
const STALE_LOCK_MS = 5_000
/** Three times as long as the lock of a killed process counts; writing takes milliseconds. */
const LOCK_RETRIES = { retries: 200, factor: 1, minTimeout: 50, maxTimeout: 100, randomize: true }

const ENTRY: Shape = record({
  device: text,
  problem: text,
  kernelName: text,
  microseconds: (value, at) => {
    if (typeof value !== 'number' || !(value > 0)) integer(1, 1)(value, at)
  },
  times: oneOf(['measured', 'modelled']),
  tried: integer(1, 1e9),
  ktl: text,
  at: text,
})
const FILE: Shape = record({ format: oneOf([FORMAT]), kernels: list(ENTRY, { max: MAX_ENTRIES }) })

/** The file as this process knows it. Use `tuning()`. */
export class TuningFile {
  readonly path: string
  #kernels: Map<string, TunedKernel> | null = null
  #damage: KtlError | null = null
  #warned = false

  constructor(file: string) {
    this.path = file
  }

  /** All that is remembered, the oldest first. */
  get kernels(): readonly TunedKernel[] {
    return [...this.#load().values()]
  }

  /** KTL6050: there is a file and it cannot be used; it is replaced by the next result. */
  get damage(): KtlError | null {
    this.#load()
    return this.#damage
  }

  /** null: nothing is known, or of another version of ktl. Warns once when the file is damaged. */
  find(args: RuntimeArguments): TunedKernel | null {
    const kernels = this.#load()
    if (this.#damage !== null && !this.#warned) {
      this.#warned = true
      process.emitWarning(this.#damage.message, { type: 'KtlWarning', code: this.#damage.code })
    }
    if (kernels.size === 0) return null
    const found = kernels.get(keyOf(deviceKey(args.device), problemOf(args)))
    return found?.ktl === KTL_VERSION ? found : null
  }

  /**
   * Replaces what was known of the same device and problem; what other processes write at the same time stays. KTL6008 when the
   * file cannot be written.
   */
  async remember(
    args: RuntimeArguments,
    result: Pick<TunedKernel, 'kernelName' | 'microseconds' | 'times' | 'tried'>,
  ): Promise<TunedKernel> {
    const at = new Date().toISOString()
    const entry: TunedKernel = {
      device: deviceKey(args.device),
      problem: problemOf(args),
      ...result,
      ktl: KTL_VERSION,
      at,
    }
    await this.#locked(async () => {
      // Other processes may have written since.
      this.#kernels = null
      const kernels = this.#load()
      const key = keyOf(entry.device, entry.problem)
      kernels.delete(key)
      kernels.set(key, entry)
      const content = JSON.stringify({ format: FORMAT, kernels: [...kernels.values()].slice(-MAX_ENTRIES) }, null, 1)
      await writeFileSafely(this.path, `${content}\n`, 0o600)
    })
    this.#damage = null
    return entry
  }

  /** Forgets everything; the number of kernels that were known. KTL6008 when the file cannot be removed. */
  clear(): number {
    const { size } = this.#load()
    try {
      rmSync(this.path, { force: true })
    } catch (error) {
      throw ktlError('KTL6008', { file: this.path, reason: (error as Error).message })
    }
    this.#kernels = null
    return size
  }

  #load(): Map<string, TunedKernel> {
    if (this.#kernels) return this.#kernels
    const { kernels, damage } = readEntries(this.path)
    this.#damage = damage
    return (this.#kernels = new Map(kernels.map((entry) => [keyOf(entry.device, entry.problem), entry])))
  }

  /** No other process that does the same runs `work` at the same time. */
  async #locked(work: () => Promise<void>): Promise<void> {
    let unlock: () => Promise<void>
    try {
      await makeFolder(path.dirname(this.path), 0o700)
      // Only where it is needed: loading it listens to signals. The lock is a folder beside the file, which its owner touches
      // while it works: one of a killed process does not count for long.
      const { lock } = await import('proper-lockfile')
      unlock = await lock(this.path, {
        realpath: false,
        stale: STALE_LOCK_MS,
        retries: LOCK_RETRIES,
        onCompromised: () => {},
      })
    } catch (error) {
      throw ktlError('KTL6008', { file: this.path, reason: (error as Error).message }, { cause: error })
    }
    try {
      await work()
    } finally {
      // Taken over by another process, if this one slept too long: the file is whole all the same.
      await unlock().catch(() => {})
    }
  }
}

const keyOf = (device: string, problem: string): string => `${device}\n${problem}`

/** None when there is no file. */
function readEntries(file: string): { kernels: readonly TunedKernel[]; damage: KtlError | null } {
  let content: string
  try {
    content = readFileSync(file, 'utf8')
  } catch {
    return { kernels: [], damage: null }
  }
  try {
    const parsed: unknown = JSON.parse(content)
    FILE(parsed, 'the file')
    return { kernels: (parsed as { kernels: TunedKernel[] }).kernels, damage: null }
  } catch (error) {
    return { kernels: [], damage: ktlError('KTL6050', { file, reason: (error as Error).message }) }
  }
}

let shared: TuningFile | undefined
let ignored = 0

/** The file of this process. */
export function tuning(): TuningFile {
  const file = tuningFile()
  if (shared?.path !== file) shared = new TuningFile(file)
  return shared
}

/** Lists asked for within `work` are in the order of the cost model alone. */
export function withoutTuning<T>(work: () => T): T {
  ignored++
  try {
    return work()
  } finally {
    ignored--
  }
}

/** The kernel to put first for a call; null: nothing is known. */
export function tunedFor(args: RuntimeArguments): TunedKernel | null {
  return ignored > 0 ? null : tuning().find(args)
}
