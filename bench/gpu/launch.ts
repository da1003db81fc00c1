/**
 * What a launch costs the host, on a GPU: a loop in C++ over cuLaunchKernelEx, `prepared.launch`, `kernel.launch`, and a
 * graph of launches against the launches themselves. The kernel is the smallest there is: one CTA, one tile. Then a product of
 * groups of rows, whose ends the kernel reads on the device, against the dense product of the same size.
 *   node dist/bench/launch.js [--json]
 */
import {
  GemmArguments, getKernels, GroupedGemmArguments, KernelArguments, KtlKernel, loadSource, openDevice, type Device, type PreparedLaunch,
} from '../../runtime/index.ts' // prettier-ignore

/** As many as the driver queues without waiting for the GPU (1,024 on this class of driver). */
const BATCH = 512
const ROUNDS = 21
const GRAPH = 20
const [ROWS, SIDE, GROUPS] = [1024, 512, 8]

const SOURCE = 'kernel tiny(X: f32[m]) -> Y: f32[m] { Y = X * 2 }'

interface Row {
  readonly what: string
  /** Median nanoseconds of the CPU for each launch, and the quartiles. */
  readonly ns: number
  readonly low: number
  readonly high: number
}

function quartiles(what: string, samples: number[]): Row {
  const sorted = samples.sort((a, b) => a - b)
  const at = (share: number): number => sorted[Math.round(share * (sorted.length - 1))]!
  return { what, ns: at(0.5), low: at(0.25), high: at(0.75) }
}

/** Rounds of all ways in turn, so that none has a quieter machine than another. */
async function measure(device: Device, ways: Readonly<Record<string, () => number>>): Promise<Row[]> {
  const samples = new Map(Object.keys(ways).map((what) => [what, [] as number[]]))
  for (let round = -2; round < ROUNDS; round++) {
    for (const [what, way] of Object.entries(ways)) {
      const ns = way()
      await device.synchronize()
      if (round >= 0) samples.get(what)!.push(ns)
    }
  }
  return [...samples].map(([what, list]) => quartiles(what, list))
}

/** Nanoseconds of the CPU for each of `count` calls. */
function timed(count: number, call: () => void): number {
  const start = process.hrtime.bigint()
  for (let i = 0; i < count; i++) call()
  return Number(process.hrtime.bigint() - start) / count
}

const device = await openDevice('cuda')
try {
  const { tiny } = loadSource({ name: 'tiny.ktl', text: SOURCE }).kernels
  const args = new KernelArguments(tiny!, { X: device.tensor('f32', [32], 1), Y: device.empty('f32', [32]) })
  const kernel = getKernels(args, { limit: 1 })[0] as KtlKernel
  const artifact = await kernel.compile(args)
  const prepared = kernel.prepare(args, artifact)
  const { defaultStream } = device
  prepared.launch()
  await device.synchronize()
  const products = await prepareProducts(device)
  const graph = device.capture(() => {
    for (let i = 0; i < GRAPH; i++) prepared.launch()
  })
  const rows = await measure(device, {
    'cuLaunchKernelEx, a loop in C++': () => prepared.driverTime(BATCH)!,
    'prepared.launch()': () => timed(BATCH, () => prepared.launch()),
    'prepared.launch(stream)': () => timed(BATCH, () => prepared.launch(defaultStream)),
    'kernel.launch': () => timed(BATCH, () => kernel.launch(args, { artifact, assumeSupportedArgs: true })),
    'kernel.launch, arguments checked': () => timed(BATCH, () => kernel.launch(args, { artifact })),
    [`prepared.launch, ${GRAPH} of them`]: () => timed(BATCH / GRAPH, () => { for (let i = 0; i < GRAPH; i++) prepared.launch() }),
    [`graph of ${GRAPH} launches`]: () => timed(BATCH / GRAPH, () => graph.launch()),
    'a dense product': () => timed(BATCH, () => products.dense.launch()),
    'the same rows in groups': () => timed(BATCH, () => products.grouped.launch()),
    'prepared.rebind, two tensors': () => timed(64, () => prepared.rebind({ X: args.tensors.X!, Y: args.tensors.Y! })),
  }) // prettier-ignore
  const endToEnd = await gpuTimes(device, { launches: () => { for (let i = 0; i < GRAPH; i++) prepared.launch() }, graph: () => graph.launch() }) // prettier-ignore
  const onGpu = await gpuTimes(device, {
    dense: () => products.dense.launch(),
    grouped: () => products.grouped.launch(),
  })

  if (process.argv.includes('--json')) {
    console.log(JSON.stringify({ schema: 1, kind: 'launch', device: device.properties, rows, endToEnd, onGpu }))
  } else {
    const base = rows[0]!.ns
    console.log(`${device.properties.name}, driver for CUDA ${device.properties.driverVersion / 1000}, node ${process.version}`)
    for (const { what, ns, low, high } of rows)
      console.log(`${what.padEnd(34)} ${(ns / 1000).toFixed(2).padStart(8)} µs  (${(low / 1000).toFixed(2)} to ${(high / 1000).toFixed(2)})${what.includes(`${GRAPH}`) || what.includes('rebind') ? '' : `  driver + ${((ns - base) / 1000).toFixed(2)} µs`}`)
    console.log(`on the GPU, ${GRAPH} launches: ${endToEnd.launches!.toFixed(1)} µs one by one, ${endToEnd.graph!.toFixed(1)} µs as a graph`)
    console.log(`on the GPU, ${ROWS} rows: ${onGpu.dense!.toFixed(1)} µs dense, ${onGpu.grouped!.toFixed(1)} µs in ${GROUPS} groups`)
  } // prettier-ignore
  const value = (await args.tensors.Y!.toArray())[31]
  if (value !== 2) throw new Error(`the kernel wrote ${value}, not 2`)
} finally {
  await device.close()
}

/** Rows by a square B: all of them by one, and in groups of which each has its own. */
async function prepareProducts(gpu: Device): Promise<Record<'dense' | 'grouped', PreparedLaunch>> {
  const [A, out] = [gpu.empty('bf16', [ROWS, SIDE]), gpu.empty('bf16', [ROWS, SIDE])]
  const ends = Array.from({ length: GROUPS }, (_, i) => ((i + 1) * ROWS) / GROUPS)
  const calls = {
    dense: new GemmArguments({ A, B: gpu.empty('bf16', [SIDE, SIDE]), out }),
    grouped: new GroupedGemmArguments({ A, B: gpu.empty('bf16', [GROUPS, SIDE, SIDE]), out, offsets: gpu.tensor('i32', [GROUPS], ends) }),
  }
  const prepareOne = async (args: GemmArguments | GroupedGemmArguments): Promise<PreparedLaunch> => {
    const first = getKernels(args, { limit: 1 })[0] as KtlKernel
    return first.prepare(args, await first.compile(args))
  }
  return { dense: await prepareOne(calls.dense), grouped: await prepareOne(calls.grouped) }
} // prettier-ignore

/** Microseconds of the device from the first to the end of the last, the median. */
async function gpuTimes<K extends string>(
  gpu: Device,
  ways: Readonly<Record<K, () => void>>,
): Promise<Record<K, number>> {
  const result = {} as Record<K, number>
  for (const [what, way] of Object.entries<() => void>(ways)) {
    const times: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const [start, end] = [gpu.createEvent(), gpu.createEvent()]
      start.record()
      way()
      end.record()
      times.push((await end.elapsedMs(start)) * 1000)
    }
    result[what as K] = quartiles(what, times).ns
  }
  return result
}
