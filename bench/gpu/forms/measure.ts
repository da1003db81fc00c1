/** One problem on both sides: the same tensors, the same clock, and whether the results agree. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import { uniform } from '../../../compiler/evaluate/generate.ts'
import { fillNormal, poison } from '../../../runtime/bench/fill.ts'
import { median } from '../../../runtime/bench/statistics.ts'
import { launchesOf, type EventTimer } from '../../../runtime/bench/timer.ts'
import type { Device, DeviceModule, Tensor } from '../../../runtime/index.ts'
import { seedOf } from '../../../runtime/selftest/values.ts'
import type { Extents, Form } from './form.ts'
import { bindForm, shapesOf, type FormKernel } from './subject.ts'

export interface Sides {
  readonly form: Form
  readonly kernel: FormKernel
  /** By the tile that they are compiled for. */
  readonly peers: ReadonlyMap<number, DeviceModule>
}

export interface Measured {
  /** Milliseconds. */
  readonly ours: number
  readonly theirs: number
  /** Of the faster peer. */
  readonly tile: number
  /** The largest norm of a difference over the norm of an output. */
  readonly error: number
}

/** Of the fewest and the most launches of a round. */
const ROUND = { targetMs: 10, least: 3, most: 30 } as const
/** Elements of an output that are compared, evenly chosen. */
const SAMPLE = 1 << 19

export async function measureForm(
  device: Device,
  timer: EventTimer,
  { form, kernel, peers }: Sides,
  given: Extents,
  { seed, rounds }: { readonly seed: number; readonly rounds: number },
): Promise<Measured> {
  const scalars = form.scalars?.(given) ?? {}
  const { program } = kernel
  const { extents, shapes } = shapesOf(program, given, scalars)
  const tensors: Record<string, Tensor> = {}
  for (const { name, role, dtype } of program.operands) {
    const tensor = (tensors[name] = emptyTensor(device, dtype, shapes.get(name)!))
    const values = form.values?.[name]
    const next = uniform(seedOf(seed, name))
    if (values) await tensor.copyFrom(values(tensor.elementCount, extents, next))
    // Two elements of any bits in a byte.
    else if (role === 'input') await fillNormal(DTYPES[dtype].bits === 4 ? tensor.as('u8') : tensor, seedOf(seed, name))
  }
  const outputs = program.operands.filter(({ role }) => role === 'output').map(({ name }) => name)
  const subject = bindForm(kernel, device, { tensors, extents, scalars })
  const scratch: bigint[] = []
  const peerOf = (tile: number) => {
    const problem = { tensors, extents, tile, scratch: (elements: number) => {
      scratch.push(device.malloc(4 * elements))
      return scratch.at(-1)!
    } } // prettier-ignore
    const launches = form.peer(problem).map((launch) => ({ kernel: peers.get(tile)!.function(launch.kernel), launch }))
    return () => launches.forEach(({ kernel: fn, launch: { grid, block, params } }) => fn.enqueue({ grid, block, params }))
  }
  try {
    const sides = new Map<string, () => void>([['ours', subject.launch]])
    for (const tile of peers.keys()) sides.set(`${tile}`, peerOf(tile))
    const results = new Map<string, Map<string, Float64Array>>()
    for (const [side, launch] of sides) {
      for (const name of outputs) await poison(tensors[name]!)
      launch()
      await device.synchronize()
      results.set(side, new Map())
      for (const name of outputs) results.get(side)!.set(name, await sampleOf(tensors[name]!))
    }
    const ours = results.get('ours')!
    const errors = [...results.values()].flatMap((found) => outputs.map((name) => distance(ours.get(name)!, found.get(name)!)))
    const times = await takeTurns(timer, sides, rounds)
    const [tile, theirs] = [...times].filter(([side]) => side !== 'ours').sort((a, b) => a[1] - b[1])[0]!
    return { ours: times.get('ours')!, theirs, tile: Number(tile), error: Math.max(...errors) }
  } finally {
    subject.free()
    scratch.forEach((pointer) => device.free(pointer))
    Object.values(tensors).forEach((tensor) => tensor.free())
  }
} // prettier-ignore

const emptyTensor = (device: Device, dtype: Tensor['dtype'], shape: readonly number[]): Tensor =>
  device.empty(dtype, shape)

/** Medians of rounds that take turns, in milliseconds. */
async function takeTurns(timer: EventTimer, sides: ReadonlyMap<string, () => void>, rounds: number): Promise<Map<string, number>> {
  const launches = new Map<string, number>()
  for (const [side, launch] of sides) launches.set(side, launchesOf(median(await timer.roundOf(launch, 1)), ROUND))
  const times = new Map<string, number[]>([...sides.keys()].map((side) => [side, []]))
  for (let i = 0; i < rounds; i++)
    for (const [side, launch] of sides) times.get(side)!.push(median(await timer.roundOf(launch, launches.get(side)!)))
  return new Map([...times].map(([side, found]) => [side, median(found)]))
} // prettier-ignore

async function sampleOf(tensor: Tensor): Promise<Float64Array> {
  const step = Math.ceil(tensor.elementCount / SAMPLE) | 1
  const every = step === 1 ? tensor : tensor.reshape([-1]).slice([0, tensor.elementCount, step])
  return Float64Array.from((await every.toArray()) as ArrayLike<number>)
}

/** ‖a − b‖ / ‖b‖; not a number where one of them has something that is none: what is left unwritten is. */
function distance(a: Float64Array, b: Float64Array): number {
  let [off, all] = [0, 0]
  for (let i = 0; i < a.length; i++) {
    off += (a[i]! - b[i]!) ** 2
    all += b[i]! ** 2
  }
  return off === 0 ? 0 : Math.sqrt(off / all)
}
