/** Modules of a virtual device: launches run on threads of the addon, and come back with findings. */
import { resolveExecution, type ExecutionOptions } from './execution.ts'
import { annotate, entryAt, findingsError, nativeError, type KernelSources } from '../addon/findings.ts'
import type { CheckedLaunch, ModuleFunction, ModuleBackend } from '../modules/module.ts'
import type { LaunchResult } from '../modules/result.ts'
import type { NativeModule } from '../addon/virtual.ts'
import { textOf } from '../errors/given.ts'

export class VirtualModule implements ModuleBackend {
  readonly functions: NativeModule['functions']
  readonly #native: NativeModule
  readonly #execution: Required<ExecutionOptions>

  constructor(native: NativeModule, execution: Required<ExecutionOptions>) {
    this.functions = native.functions
    this.#native = native
    this.#execution = execution
  }

  global(name: string): { address: bigint; bytes: number } | null {
    return this.#native.global(textOf('name', name))
  }

  launch(fn: ModuleFunction, launch: CheckedLaunch): Promise<LaunchResult> {
    return launch.stream.enqueue(this.#work(fn, launch), { signal: launch.options.signal })
  }

  enqueue(fn: ModuleFunction, launch: CheckedLaunch): void {
    const work = this.#work(fn, launch)
    const checked = async (): Promise<void> => {
      const error = findingsError((await work()).findings, fn.module.sources)
      if (error) throw error
    }
    launch.stream.enqueueDetached(checked, { signal: launch.options.signal })
  }

  #work(fn: ModuleFunction, { shape, params, tensors, options }: CheckedLaunch): () => Promise<LaunchResult> {
    const { signal, onProgress, onPrint = printed, trace = false, cooperative = false } = options
    const execution = resolveExecution(options, this.#execution)
    const { sources } = fn.module
    return async () => {
      const cancel = new Int32Array(new SharedArrayBuffer(4))
      const abort = (): void => {
        Atomics.store(cancel, 0, 1)
        Atomics.notify(cancel, 0)
      }
      signal?.addEventListener('abort', abort, { once: true })
      try {
        const result = await this.#native.launch(fn.name, {
          ...shape,
          ...execution,
          params,
          trace,
          cancel,
          cooperative,
          onPrint,
          ...(onProgress && { onProgress }),
        })
        signal?.throwIfAborted()
        const findings = result.findings.map((finding) => annotate(finding, sources))
        const events = result.trace === undefined ? null : nameRoles(result.trace, sources)
        return { findings, stats: result.stats, ...(events !== null && { trace: events }) }
      } catch (error) {
        throw nativeError(error, null)
      } finally {
        signal?.removeEventListener('abort', abort)
        // Until here the closure keeps the tensors from being collected, and so their memory from being freed.
        void tensors
      }
    }
  }
}

const printed = (text: string): void => void process.stdout.write(text)

/** `warp 3 (mma)`: each warp's row is named by the role whose lines it spent most of its ticks at. */
function nameRoles(trace: string, sources: KernelSources | undefined): string {
  return trace.replace(/"name":"(warp \d+)","lines":\{([^}]*)\}/g, (_, warp: string, lines: string) => {
    const ticks = new Map<string, number>()
    for (const [line, spent] of Object.entries<number>(JSON.parse(`{${lines}}`))) {
      const role = entryAt(sources?.map ?? [], Number(line))?.role
      if (role) ticks.set(role, (ticks.get(role) ?? 0) + spent)
    }
    const [most] = [...ticks].sort((a, b) => b[1] - a[1])
    return `"name":${JSON.stringify(most ? `${warp} (${most[0]})` : warp)}`
  })
}
