/** Timing, tuning and what they are made of; no GPU is needed. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { probeAddon } from '../../runtime/addon/load.ts'
import { agree, majority } from '../../runtime/bench/agree.ts'
import { fillNormal, poison } from '../../runtime/bench/fill.ts'
import { arithmeticOf, peakOf } from '../../runtime/bench/peaks.ts'
import { geomean, median, summarize } from '../../runtime/bench/statistics.ts'
import { createTimer, launchesOf, type Subject, type Timer } from '../../runtime/bench/timer.ts'
import { compare, tune } from '../../runtime/bench/tune.ts'
import { ratesOf, workOf } from '../../runtime/bench/work.ts'
import {
  GemmArguments,
  getKernels,
  KtlKernel,
  openDevice,
  type Artifact,
  type Device,
  type DTypeName,
} from '../../runtime/index.ts'
import { ktlError } from '../../runtime/errors/fail.ts'
import { findNvcc } from '../../runtime/toolchain/nvcc.ts'

const hasNvcc = await findNvcc().then(() => true, () => false) // prettier-ignore
const noDevice = probeAddon().addon === null ? ' (skipped without the native addon)' : ''
const noCompiler = noDevice || (hasNvcc ? '' : ' (skipped without nvcc)')
let device: Device
beforeAll(async () => {
  if (noDevice === '') device = await openDevice('virtual-sm100')
})
afterAll(() => device?.close())

describe('statistics', () => {
  test('medians and geometric means', () => {
    expect([median([3, 1, 2]), median([4, 1, 2, 3]), geomean([1, 4])]).toEqual([2, 2.5, 2])
    expect([median([]), geomean([])]).toEqual([NaN, NaN])
  })

  test('a summary is of the medians of the rounds', () => {
    expect(summarize([[1, 2, 90], [], [4, 3, 5], [3, 3, 3]])).toEqual({ median: 3, low: 2, high: 4, rounds: 3 })
  })

  test('launches of a round', () => {
    expect([launchesOf(10), launchesOf(0.5), launchesOf(0.001), launchesOf(0)]).toEqual([10, 40, 100, 100])
    expect(launchesOf(3, { targetMs: 4, least: 1 })).toBe(2)
  })
})

describe('peaks', () => {
  test('by product name', () => {
    expect(peakOf('NVIDIA H100 80GB HBM3')).toMatchObject({ name: 'H100 SXM', gigabytes: 3352 })
    expect(peakOf('NVIDIA H100 PCIe')?.name).toBe('H100 PCIe')
    expect(peakOf('NVIDIA H200')?.name).toBe('H200')
    expect(peakOf('virtual-sm100')?.name).toBe('B200')
    expect(peakOf('GeForce 8800')).toBeNull()
  })

  test('by what is multiplied', () => {
    expect([arithmeticOf('bf16', 'bf16'), arithmeticOf('e4m3', 'e5m2'), arithmeticOf('tf32', 'tf32'), arithmeticOf('u8', 'i8')]).toEqual(['f16', 'f8', 'tf32', 'i8'])
    expect([arithmeticOf('f16', 'f32'), arithmeticOf('e2m1', 'e2m1')]).toEqual(['f32', 'f4'])
  }) // prettier-ignore
})

/** The documented values, written down once more. */
function expectedSum(i: number, seed: number): number {
  const mix = (x: number): number => {
    let y = (x ^ (x >>> 16)) >>> 0
    y = Math.imul(y, 0x7feb352d) >>> 0
    y = (y ^ (y >>> 15)) >>> 0
    y = Math.imul(y, 0x846ca68b) >>> 0
    return (y ^ (y >>> 16)) >>> 0
  }
  const key = mix((i + mix(seed)) >>> 0)
  let sum = -393210
  for (let j = 1; j <= 6; j++) {
    const word = mix((key + Math.imul(j, 0x9e3779b9)) >>> 0)
    sum += (word & 0xffff) + (word >>> 16)
  }
  return sum
}

describe.skipIf(noCompiler !== '')(`inputs made on the device${noCompiler}`, () => {
  test.each(['f32', 'tf32', 'f16', 'bf16', 'e4m3', 'e5m2', 'f64'] as const)('%s: rounded to nearest', async (dtype) => {
    const tensor = device.empty(dtype, [3, 67])
    await fillNormal(tensor, 7)
    const exact = Array.from({ length: 201 }, (_, i) => expectedSum(i, 7) / 65536)
    const rounded = device.tensor(dtype, [3, 67], exact)
    expect(await tensor.toBytes()).toEqual(await rounded.toBytes())
  })

  test('i8: the sum shifted; normal with standard deviation 32', async () => {
    const tensor = device.empty('i8', [100])
    await fillNormal(tensor, 1)
    expect([...(await tensor.toArray())]).toEqual(Array.from({ length: 100 }, (_, i) => Math.max(-127, Math.min(127, expectedSum(i, 1) >> 11)))) // prettier-ignore
  })

  test('memory order: values belong to places in memory', async () => {
    const rows = device.empty('f32', [4, 6])
    const columns = device.empty('f32', [4, 6], { strides: [1, 4] })
    await Promise.all([fillNormal(rows, 3), fillNormal(columns, 3)])
    expect(await columns.toBytes()).toEqual(await rows.toBytes())
  })

  test('seeds and moments', async () => {
    const [a, b] = [device.empty('f32', [20000]), device.empty('f32', [20000])]
    await fillNormal(a, 1)
    await fillNormal(b, 2)
    const [x, y] = [[...(await a.toArray())], [...(await b.toArray())]]
    const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
    expect(Math.abs(mean(x))).toBeLessThan(0.03)
    expect(mean(x.map((value) => value * value))).toBeCloseTo(1, 1)
    expect(mean(x.map((value) => value ** 4))).toBeCloseTo(2.9, 0)
    expect(Math.abs(mean(x.map((value, i) => value * y[i]!)))).toBeLessThan(0.03)
  })

  test('other dtypes from the host, nothing for no elements', async () => {
    const tensor = device.empty('u32', [5])
    await fillNormal(tensor, 1)
    expect((await tensor.toArray()).length).toBe(5)
    await fillNormal(device.empty('f32', [0, 4]), 1)
  })

  test('poison is a NaN in every float format', async () => {
    for (const dtype of ['f32', 'f16', 'bf16', 'e4m3', 'e5m2', 'f64'] as const) {
      const tensor = device.tensor(dtype, [33], new Array(33).fill(1))
      await poison(tensor)
      expect([...(await tensor.toArray())].every(Number.isNaN), dtype).toBe(true)
    }
  })
})

const gemm = (on: Device, m: number, n: number, k: number, dtype: DTypeName = 'bf16'): GemmArguments =>
  new GemmArguments({ A: on.empty(dtype, [m, k]), B: on.empty(dtype, [k, n]), out: on.empty(dtype, [m, n]) })

const kernelsFor = (args: GemmArguments, count: number): KtlKernel[] =>
  Array.from(getKernels(args, { limit: count })).filter((kernel): kernel is KtlKernel => kernel instanceof KtlKernel)

describe.skipIf(noDevice !== '')(`work${noDevice}`, () => {
  test('operations and bytes of a GEMM, and rates', () => {
    const args = gemm(device, 64, 32, 128)
    const [kernel] = kernelsFor(args, 1)
    const work = workOf(kernel!.plan.program, kernel!.call(args).extents)
    expect(work).toEqual({
      operations: 2 * 64 * 32 * 128,
      bytes: 2 * (64 * 128 + 128 * 32 + 64 * 32),
      arithmetic: 'f16',
    })
    const rates = ratesOf({ operations: 989.4e9, bytes: 3352e6, arithmetic: 'f16' }, 2, peakOf('H100'))
    expect(rates).toMatchObject({ teraops: 494.7, gigabytes: 1676, ofPeak: 0.5, ofBandwidth: 0.5 })
    expect(ratesOf(work, 1, null)).toMatchObject({ ofPeak: null, ofBandwidth: null })
  })
})

/** Says what was launched, and takes the time that a table gives each place of the list. */
class TableTimer implements Timer {
  readonly kind = 'measured'
  readonly cyclesPerMs = null
  readonly launches = new Map<string, number>()
  readonly order: string[] = []
  readonly #times: ReadonlyMap<string, number | 'fails'>

  constructor(times: ReadonlyMap<string, number | 'fails'>) {
    this.#times = times
  }

  async round({ kernel }: Subject, launches: number): Promise<number[]> {
    const name = kernel.metadata.kernelName
    const time = this.#times.get(name)!
    this.order.push(name)
    this.launches.set(name, (this.launches.get(name) ?? 0) + launches)
    if (time === 'fails') throw ktlError('KTL4006', { what: name, state: 'does not run' })
    return new Array<number>(launches).fill(time)
  }

  close(): void {}
}

describe.skipIf(noDevice !== '')(`tune${noDevice}`, () => {
  const artifactOf = async (): Promise<Artifact> => ({}) as Artifact
  const timerOf = (kernels: readonly KtlKernel[], times: (place: number) => number | 'fails'): TableTimer =>
    new TableTimer(new Map(kernels.map(({ metadata }, place) => [metadata.kernelName, times(place)])))

  test('finds the fastest, spends little on the slow ones, and times four to the end', async () => {
    const args = gemm(device, 256, 256, 256)
    const kernels = kernelsFor(args, 32)
    const timer = timerOf(kernels, (place) => 0.1 + Math.abs(place - 21) / 100)
    const { ranking, summaries, failed } = await tune(kernels, args, timer, { artifactOf, rounds: 3 })
    expect(ranking.map(({ place }) => place).slice(0, 3)).toEqual([21, 20, 22])
    expect([ranking.length, failed.length, summaries.size]).toEqual([32, 0, 4])
    expect(ranking[0]!.milliseconds).toBe(0.1)
    expect(summaries.get(21)).toEqual({ median: 0.1, low: 0.1, high: 0.1, rounds: 3 })
    const launchesAt = (place: number): number => timer.launches.get(kernels[place]!.metadata.kernelName)!
    // Left behind after the first stage; and 2 + 4 + 8 launches of the stages, 2 before and 100 in each of the rounds.
    expect([launchesAt(0), launchesAt(21)]).toEqual([2, 2 + 4 + 8 + 2 + 3 * 100])
  })

  test('long kernels are launched ten times from the start: two tell of a cool device', async () => {
    const args = gemm(device, 256, 256, 256)
    const kernels = kernelsFor(args, 5)
    const timer = timerOf(kernels, (place) => 1 + place)
    const { ranking } = await tune(kernels, args, timer, { artifactOf, rounds: 1 })
    expect(ranking.map(({ place }) => place)).toEqual([0, 1, 2, 3, 4])
    expect(timer.launches.get(kernels[4]!.metadata.kernelName)).toBe(2 + 10)
  })

  test('kernels that fail are left out and told', async () => {
    const args = gemm(device, 256, 256, 256)
    const kernels = kernelsFor(args, 6)
    const timer = timerOf(kernels, (place) => (place === 1 ? 'fails' : 9 - place))
    const broken = async (kernel: KtlKernel): Promise<Artifact> => {
      if (kernel === kernels[5]) throw ktlError('KTL4006', { what: 'it', state: 'does not compile' })
      return artifactOf()
    }
    const told: string[] = []
    const onFailure = (kernelName: string): void => void told.push(kernelName)
    const { ranking, failed } = await tune(kernels, args, timer, { artifactOf: broken, onFailure })
    expect(told).toEqual(failed.map(({ kernelName }) => kernelName))
    expect(ranking.map(({ place }) => place)).toEqual([4, 3, 2, 0])
    expect(failed.map(({ kernelName }) => kernelName).sort()).toEqual([kernels[1]!, kernels[5]!].map(({ metadata }) => metadata.kernelName).sort())
    expect(failed.map(({ reason }) => reason).join()).toContain('does not compile')
    await expect(tune(kernels, args, timerOf(kernels, () => 'fails'), { artifactOf })).rejects.toMatchObject({ code: 'KTL4006' })
  }) // prettier-ignore

  test('finalists take turns, forwards and backwards', async () => {
    const args = gemm(device, 256, 256, 256)
    const kernels = kernelsFor(args, 2)
    const [a, b] = kernels.map(({ metadata }) => metadata.kernelName) as [string, string]
    const timer = timerOf(kernels, () => 1)
    const field = kernels.map((kernel, place) => ({ subject: { kernel, args, artifact: {} as Artifact }, place }))
    await compare(field, timer, { rounds: 3 })
    expect(timer.order).toEqual([a, b, a, b, b, a, a, b])
  })

  test('an aborted search rejects with the reason', async () => {
    const args = gemm(device, 256, 256, 256)
    const kernels = kernelsFor(args, 4)
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(
      tune(
        kernels,
        args,
        timerOf(kernels, () => 1),
        { artifactOf, signal },
      ),
    ).rejects.toThrow('enough')
  })
})

describe.skipIf(noDevice !== '')(`agreement of results${noDevice}`, () => {
  test('NaNs at the same places, infinities equal, small differences', () => {
    const [x, nan] = [Float32Array.of(1, 2, 3), Float32Array.of(1, NaN, 3)]
    expect([agree(x, x), agree(nan, nan), agree(x, nan), agree(nan, x)]).toEqual([true, true, false, false])
    expect([agree(Float32Array.of(1.01, 2, 3), x), agree(Float32Array.of(1.5, 2, 3), x)]).toEqual([true, false])
    const infinite = Float32Array.of(1, Infinity)
    expect([agree(infinite, infinite), agree(Float32Array.of(1, 9), infinite)]).toEqual([true, false])
    expect(agree(new Float32Array(2), new Float32Array(2))).toBe(true)
  })

  test.skipIf(noCompiler !== '')(
    `one that leaves an element unwritten, or differs, is outvoted${noCompiler}`,
    async () => {
      const args = gemm(device, 40, 40, 8)
      const writing = (values: (i: number) => number): Subject => {
        const run = async (): Promise<void> =>
          args.out.copyFrom(Float32Array.from({ length: 1600 }, (_, i) => values(i)))
        return { kernel: { run } as unknown as KtlKernel, args, artifact: {} as Artifact }
      }
      const [right, rounded, wrong, unwritten] = [
      writing((i) => i % 7), writing((i) => (i % 7) * 1.004), writing((i) => i % 5), writing((i) => (i === 1599 ? NaN : i % 7)),
    ] // prettier-ignore
      expect(await majority([wrong!, right!, rounded!])).toEqual([1, 2])
      expect(await majority([unwritten!, right!, rounded!])).toEqual([1, 2])
      expect([await majority([right!]), await majority([right!, wrong!])]).toEqual([[0], []])
    },
  )
})

describe('timers', () => {
  test('on a GPU: events around each launch, behind an overwriting of more than twice the L2', async () => {
    const log: string[] = []
    let clock = 0
    const gpu = {
      isVirtual: false,
      l2Bytes: 50 << 20,
      malloc: (bytes: number) => (log.push(`malloc ${bytes}`), 4096n),
      free: () => log.push('free'),
      memset: (_: bigint, byte: number, bytes: number) => (log.push(`memset ${byte} ${bytes}`), (clock += 100)),
      synchronize: async () => void log.push('synchronize'),
      createEvent: () => {
        const event = { at: 0, record: () => (log.push('record'), (event.at = clock)), elapsedMs: async (start: { at: number }) => event.at - start.at }
        return event
      },
    } // prettier-ignore
    const timer = createTimer(gpu as unknown as Device)
    const kernel = { prepare: () => ({ launch: () => (log.push('launch'), (clock += 7)) }) } as unknown as KtlKernel
    const subject = { kernel, args: {}, artifact: {} } as Subject
    expect([timer.kind, await timer.round(subject, 6)]).toEqual(['measured', [7, 7, 7, 7, 7, 7]])
    const flushed = (100 << 20) + (16 << 20)
    // In turn, none to three events more before the one that starts the clock.
    const timed = (i: number): string[] => [
      `memset ${i} ${flushed}`,
      ...Array.from({ length: i % 4 }, () => 'record'),
      'record',
      'launch',
      'record',
    ]
    expect(log).toEqual([
      `malloc ${flushed}`,
      'launch',
      'launch',
      'launch',
      'synchronize',
      ...[0, 1, 2, 3, 4, 5].flatMap(timed),
      'synchronize',
    ])
    timer.close()
    expect(log.at(-1)).toBe('free')
  })

  test.skipIf(noCompiler !== '')(`on a virtual device: modelled cycles, which do not vary${noCompiler}`, async () => {
    const args = gemm(device, 64, 64, 64)
    const [kernel] = kernelsFor(args, 1)
    const timer = createTimer(device)
    const round = async (): Promise<number[]> =>
      timer.round({ kernel: kernel!, args, artifact: await kernel!.compile(args) }, 50)
    const [first, second] = [await round(), await round()]
    expect([timer.kind, first.length]).toEqual(['modelled', 1])
    expect(first).toEqual(second)
    const { stats } = await kernel!.run(args)
    expect(Math.round(first[0]! * timer.cyclesPerMs!)).toBe(stats.modelledCycles)
  })
})
