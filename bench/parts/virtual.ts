/** How fast the virtual SM100 executes: a tensor-core GEMM, and plain CUDA C++ for comparison. */
import {
  getKernels,
  openDevice,
  type Artifact,
  type Checks,
  type Device,
  type GemmArguments,
  type RunResult,
} from '../../runtime/index.ts'
import { medianTime, type Measurement } from '../measure.ts'
import { squareGemm, values } from '../problems.ts'

const SIZE = 1024
const NAIVE_SIZE = 256
const RUNS = 3

export async function virtualPart(): Promise<Measurement[]> {
  const device = await openDevice('virtual-sm100')
  const measurements = [
    ...(await tensorGemm(device)),
    ...(await naiveGemm(device)),
    ...(await blockScan(device)),
    await largeModule(device),
  ]
  await device.close()
  return measurements
}

async function tensorGemm(device: Device): Promise<Measurement[]> {
  const args = squareGemm(device, 'bf16', SIZE, false)
  const kernel = getKernels(args, { limit: 1 })[0]!
  const artifact = await kernel.compile(args)
  await kernel.run(args, { artifact })
  await checkRows(args)
  const measurements: Measurement[] = []
  for (const checks of ['default', 'none', 'full'] satisfies Checks[]) {
    let result: RunResult | void = undefined
    const value = await medianTime(RUNS, async () => (result = await kernel.run(args, { artifact, checks })), 1)
    const { stats } = result as unknown as RunResult
    const what = `bf16 GEMM ${SIZE}³, checks ${checks}`
    measurements.push(
      { part: 'virtual', what, value, unit: 'ms', goal: checks === 'default' ? 1000 : null, note: kernel.metadata.kernelName }, // prettier-ignore
      { part: 'virtual', what: `${what}: MACs`, value: stats.tensorMacs / value / 1000, unit: 'M/s', goal: null },
      { part: 'virtual', what: `${what}: warp instructions`, value: stats.warpInstructions / value / 1000, unit: 'M/s', goal: null }, // prettier-ignore
    )
  }
  return measurements
}

/** A fast wrong answer is no measurement: some rows against plain loops. Sums of small integers are exact. */
async function checkRows({ device, out }: GemmArguments): Promise<void> {
  const a = values(SIZE * SIZE)
  const got = await out.toArray()
  for (let row = 0; row < SIZE; row += 97) {
    const sums = new Float32Array(SIZE)
    for (let k = 0; k < SIZE; k++) {
      for (let n = 0; n < SIZE; n++) sums[n]! += a[row * SIZE + k]! * a[k * SIZE + n]!
    }
    const expected = await device.tensor(out.dtype, [SIZE], sums).toArray()
    const wrong = expected.findIndex((value, n) => value !== got[row * SIZE + n])
    if (wrong >= 0) throw new Error(`element [${row}, ${wrong}] is ${got[row * SIZE + wrong]}, expected ${expected[wrong]}`) // prettier-ignore
  }
}

/** One thread for each output, straight from global memory. */
const NAIVE = `
extern "C" __global__ void naive_gemm(const float* a, const float* b, float* d, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  d[row * n + column] = sum;
}`

async function naiveGemm(device: Device): Promise<Measurement[]> {
  const kernel = (await device.compileCuda(NAIVE, { name: 'naive_gemm.cu' })).function('naive_gemm')
  const n = NAIVE_SIZE
  const ones = () => device.tensor('f32', [n, n], new Float32Array(n * n).fill(1))
  const d = device.empty('f32', [n, n])
  const params = [ones(), ones(), d, { i32: n }]
  const launch = (options = {}) => kernel.launch({ grid: [n / 32, n / 8, 1], block: [32, 8, 1], params, ...options })
  const { stats } = await launch()
  if ((await d.toArray()).some((value) => value !== n)) throw new Error('the naive GEMM is wrong')
  const value = await medianTime(RUNS, launch)
  const what = `naive f32 GEMM ${n}³, CUDA C++`
  return [
    { part: 'virtual', what, value, unit: 'ms', goal: null },
    { part: 'virtual', what: `${what}: MACs`, value: n ** 3 / value / 1000, unit: 'M/s', goal: null },
    { part: 'virtual', what: `${what}: warp instructions`, value: stats.warpInstructions / value / 1000, unit: 'M/s', goal: null }, // prettier-ignore
    ...(await onOneCore(`naive f32 GEMM ${n}³ on one core, CUDA C++`, launch)),
  ]
}

/** Inclusive sums over each CTA's 1024 integers: vector loads, shuffles, shared memory and barriers. */
const SCAN = `
extern "C" __global__ void block_scan(const int* x, int* y) {
  __shared__ int sums[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, base = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  const int4 v = ((const int4*)x)[base / 4];
  const int items[4] = {v.x, v.x + v.y, v.x + v.y + v.z, v.x + v.y + v.z + v.w};
  int sum = items[3];
  for (int d = 1; d < 32; d *= 2) { const int other = __shfl_up_sync(~0u, sum, d); if (lane >= d) sum += other; }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    int total = lane < blockDim.x / 32 ? sums[lane] : 0;
    for (int d = 1; d < 32; d *= 2) { const int other = __shfl_up_sync(~0u, total, d); if (lane >= d) total += other; }
    sums[lane] = total;
  }
  __syncthreads();
  const int before = sum - items[3] + (warp ? sums[warp - 1] : 0);
  for (int i = 0; i < 4; ++i) y[base + i] = items[i] + before;
}`

async function blockScan(device: Device): Promise<Measurement[]> {
  const kernel = (await device.compileCuda(SCAN, { name: 'block_scan.cu' })).function('block_scan')
  const count = 1 << 20
  const x = device.tensor('i32', [count], new Int32Array(count).fill(1))
  const y = device.empty('i32', [count])
  const launch = (options = {}) => kernel.launch({ grid: count / 1024, block: 256, params: [x, y], ...options })
  await launch()
  const wrong = (await y.toArray()).findIndex((value, i) => value !== (i % 1024) + 1)
  if (wrong >= 0) throw new Error(`element ${wrong} of the scan is wrong`)
  return onOneCore('scan of 2^20 integers on one core, CUDA C++', launch)
}

/** Millions of warp instructions a second of one core that plain code under all checks is to reach. */
const GOAL = 15

/** Plain code on one core, with and without the race detector: processor time, which other work on the machine hardly changes. */
async function onOneCore(
  what: string,
  launch: (options: { threads: 1; checks: Checks }) => Promise<RunResult>,
): Promise<Measurement[]> {
  const measurements: Measurement[] = []
  for (const checks of ['default', 'full'] satisfies Checks[]) {
    const { stats } = await launch({ threads: 1, checks })
    const times: number[] = []
    for (let run = 0; run < 7; run++) {
      const before = process.cpuUsage()
      await launch({ threads: 1, checks })
      const { user, system } = process.cpuUsage(before)
      times.push((user + system) / 1000)
    }
    const value = times.sort((a, b) => a - b)[3]!
    const rate = stats.warpInstructions / value / 1000
    measurements.push(
      {
        part: 'virtual',
        what: `${what}, checks ${checks}`,
        value,
        unit: 'ms',
        goal: stats.warpInstructions / GOAL / 1000,
        note: 'processor time',
      },
      { part: 'virtual', what: `${what}, checks ${checks}: warp instructions`, value: rate, unit: 'M/s', goal: null },
    )
  }
  return measurements
}

/** What a module costs before its first launch: a megabyte of PTX, many copies of one tensor-core kernel. */
async function largeModule(device: Device): Promise<Measurement> {
  const args = squareGemm(device, 'bf16', 256, false)
  const ptx = ((await getKernels(args, { limit: 1 })[0]!.compile(args)) as Artifact).ptx()!
  const start = ptx.indexOf('.visible .entry')
  const end = ptx.indexOf('\n}\n', start) + 3
  const [head, kernel, tail] = [ptx.slice(0, start), ptx.slice(start, end), ptx.slice(end)]
  const [, name] = /entry\s+(\w+)/.exec(kernel)!
  const copies = Math.ceil((1 << 20) / kernel.length)
  const text = [head, ...Array.from({ length: copies }, (_, i) => kernel.replaceAll(name!, `${name}_${i}`)), tail].join(
    '\n',
  )
  const value = await medianTime(RUNS, () => device.loadModule(text, { name: 'large' }))
  return { part: 'virtual', what: `load a module, ${copies} kernels in ${(text.length / 2 ** 20).toFixed(1)} MiB of PTX`, value, unit: 'ms', goal: 100 } // prettier-ignore
}
