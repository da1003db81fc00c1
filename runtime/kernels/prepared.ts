/** Calls worked out beforehand: a launch of one validates nothing. */
import { ScaledOperand } from '../arguments/scaled_operand.ts'
import { launchesOf } from '../../compiler/ir/launch.ts'
import { resolveOperand, type FormOperand, type Operand } from '../arguments/operands.ts'
import type { Artifact } from '../artifacts/artifact.ts'
import type { Device } from '../devices/device.ts'
import { internalOf, type FastLaunch } from '../devices/internal.ts'
import { callTensors, type Call } from '../discovery/calls/call.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf } from '../errors/given.ts'
import type { Stream } from '../streams/stream.ts'
import { formatShape } from '../tensors/layout.ts'
import { Tensor } from '../tensors/tensor.ts'
import { enqueueLaunch, launchRequest, loadKernel, type LaunchRequest } from './launch.ts'
import { addressOffsets } from './plan_launch.ts'

/** A call on one stream: each has a workspace of its own. */
interface Ready {
  readonly stream: Stream
  request: LaunchRequest
  /** Where the device takes launches ready made. */
  readonly fast: FastLaunch | null
  /** The stream is known to use the tensors of the request. */
  announced: boolean
}

/**
 * A call worked out beforehand. Shapes and scalars stay; tensors may be exchanged.
 *
 * @example
 * const A = device.tensor('f16', [64, 32], 1)
 * const B = device.tensor('f16', [32, 48], 1)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 48]) })
 * const kernel = getKernels(args, { providers: [KtlProvider] })[0] as KtlKernel
 * const prepared = kernel.prepare(args, await kernel.compile(args))
 * const other = device.empty('f32', [64, 48])
 * prepared.launch()
 * prepared.rebind({ out: other }).launch()
 * console.log(prepared instanceof PreparedLaunch, (await other.toArray())[0]) // true 32
 */
export class PreparedLaunch {
  readonly #device: Device
  readonly #artifact: Artifact
  readonly #renames: ReadonlyMap<string, string>
  #call: Call
  /** null: nothing to compute. */
  readonly #streams = new Map<Stream, Ready | null>()
  /** The stream of the last launch. */
  #last: Ready | null

  /** Use `kernel.prepare`. */
  constructor(device: Device, artifact: Artifact, call: Call, renames: ReadonlyMap<string, string>) {
    this.#device = device
    this.#artifact = artifact
    this.#renames = renames
    this.#call = call
    loadKernel(device, artifact)
    this.#last = this.#on(device.defaultStream)
  }

  /** Enqueues without any checks; failures surface at the stream's next synchronize or copy. */
  launch(stream: Stream = this.#device.defaultStream): void {
    const last = this.#last
    const ready = last !== null && last.stream === stream ? last : this.#on(stream)
    if (ready === null) return
    if (ready.fast === null) return enqueueLaunch(ready.request, { stream })
    if (!ready.announced || stream.capturing) {
      for (const tensor of ready.request.uses) tensor.recordUse(stream)
      ready.announced = true
    }
    ready.fast.launch(stream)
  }

  /** Nanoseconds of the CPU that the driver alone takes for a launch on the default stream; null where that is not known. */
  driverTime(count: number): number | null {
    const ready = this.#on(this.#device.defaultStream)
    return ready?.fast?.time?.(ready.stream, count) ?? null
  }

  /**
   * Other tensors of the same dtype, shape, strides and alignment; arrays in host memory are copied in, never back.
   * KTL4023 for unknown names, KTL4024 for other tensors.
   */
  rebind(tensors: Readonly<Record<string, FormOperand>>): this {
    const declared: Record<string, Tensor> = { ...this.#call.tensors }
    let fused = this.#call.fusion
    const changed = new Map<string, bigint>()
    for (const [name, value] of this.#parts(optionsOf('tensors', tensors ?? (null as never)))) {
      const own = this.#renames.get(name) ?? name
      const before = declared[own] ?? fused?.tensors.find((t) => t.name === name)?.tensor
      if (!before) {
        const known = [...this.#renames.keys(), ...(fused?.tensors.map((t) => t.name) ?? [])]
        throw ktlError('KTL4023', { what: 'the prepared call', name, known, nearest: null })
      }
      const tensor = resolveOperand(name, value, this.#device, false)
      checkExchange(name, before, tensor)
      changed.set(declared[own] ? own : name, tensor.pointer)
      if (declared[own]) declared[own] = tensor
      else if (fused) fused = { ...fused, tensors: fused.tensors.map((t) => (t.name === name ? { ...t, tensor } : t)) }
    }
    this.#call = { ...this.#call, tensors: declared, fusion: fused }
    for (const [stream, ready] of this.#streams)
      if (!ready || !this.#patch(ready, changed)) this.#streams.delete(stream)
    this.#last = this.#on(this.#device.defaultStream)
    return this
  }

  /** Scaled operands as tensors under the names of their parts. KTL4024 for parts or numbers that the prepared ones did not have. */
  *#parts(given: Readonly<Record<string, FormOperand>>): Generator<readonly [string, Operand]> {
    for (const [name, value] of Object.entries(given)) {
      if (!(value instanceof ScaledOperand)) {
        yield [name, value]
        continue
      }
      const { data, scale, zero, globalScale, normConstant } = value
      const own = this.#renames.get(name) ?? name
      yield [name, data]
      if (scale) yield [`${own}.scale`, scale]
      if (zero) yield [`${own}.zero`, zero]
      yield* this.#number(name, `${own}.global`, globalScale)
      if (normConstant instanceof Tensor) yield [`${own}.norm`, normConstant]
    }
  }

  /** Those that lie on the device may be exchanged. */
  *#number(name: string, part: string, given: number | Tensor | null): Generator<readonly [string, Operand]> {
    const before = this.#call.scalars[part] ?? null
    if (given instanceof Tensor) yield [part, given]
    else if (given !== before)
      throw ktlError('KTL4024', {
        operand: name,
        expected: `the global scale of the one prepared (${before})`,
        got: String(given),
      })
  }

  /** Only addresses change: everything else of the launches stays as it is. */
  #patch(ready: Ready, changed: ReadonlyMap<string, bigint>): boolean {
    const { fast, request } = ready
    if (!fast?.patchable) return false
    for (const rule of launchesOf(this.#artifact.recipe)) {
      const { entry } = rule
      const i = request.plans.findIndex((plan) => plan.entry === entry)
      if (i < 0) continue
      const offsets = addressOffsets(rule)
      if ([...changed.keys()].some((name) => offsets.get(name) === null)) return false
      for (const [name, pointer] of changed)
        for (const offset of offsets.get(name) ?? []) fast.patch(i, offset, pointer)
    }
    const tensors = callTensors(this.#call).map(({ tensor }) => tensor)
    ready.request = { ...request, uses: [...tensors, ...request.uses.slice(tensors.length)] }
    ready.announced = false
    return true
  }

  #on(stream: Stream): Ready | null {
    const known = this.#streams.get(stream)
    if (known !== undefined) return known
    const device = this.#device
    const request = launchRequest(device, this.#artifact, this.#call, { stream })
    const { module } = loadKernel(device, this.#artifact)
    const fast = (request && module && internalOf(device).prepareLaunch?.(module, request.plans)) ?? null
    const ready = request && { stream, request, fast, announced: false }
    this.#streams.set(stream, ready)
    return ready
  }
}

function checkExchange(name: string, before: Tensor, after: Tensor): void {
  const equal = (a: readonly number[], b: readonly number[]): boolean =>
    a.length === b.length && a.every((x, i) => x === b[i])
  const alike = before.dtype === after.dtype && equal(before.shape, after.shape) && equal(before.strides, after.strides)
  const aligned = before.pointer % 16n !== 0n || after.pointer % 16n === 0n
  if (alike && aligned && before.device === after.device) return
  const like = (tensor: Tensor): string =>
    `${tensor.dtype} ${formatShape(tensor.shape)} strides ${formatShape(tensor.strides)}`
  const got = aligned ? like(after) : `a pointer that is not aligned to 16 bytes`
  throw ktlError('KTL4024', { operand: name, expected: `a tensor like the one prepared (${like(before)})`, got })
}
