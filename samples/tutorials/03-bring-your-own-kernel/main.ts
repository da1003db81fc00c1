/** A kernel of your own, found and run like any other: once in CUDA C++, once in ktl. README.md has the prose. */
import {
  BLASDesignMetadata, CudaProvider, GemmArguments, getKernels, loadKtl, openDevice, randomValues, register, type Kernel,
} from 'ktl' // prettier-ignore
import { F64GemmKernel } from './f64_gemm.ts'

const device = await openDevice('virtual-sm100') // 'auto' takes a GPU where there is one

// --- Register: a provider takes the class and looks at what it lists ---
const unregister = CudaProvider.register(F64GemmKernel)
const own = getKernels(undefined, { providers: [CudaProvider] })
console.log(`${own.length} kernels of ${F64GemmKernel.name}:`)
for (const { metadata } of own) console.log(`  ${metadata.kernelName}`)

// --- Arguments as for any GEMM ---
const [L, M, N, K] = [1, 256, 1024, 128]
const A = device.tensor('f64', [L, M, K], randomValues('f64', L * M * K, 1, 'integers'))
const B = device.tensor('f64', [L, K, N], randomValues('f64', L * K * N, 2, 'integers'))
const out = device.empty('f64', [L, M, N])
const args = new GemmArguments({ A, B, out, accumulatorType: 'f64' })

// --- Plain discovery finds them, behind the kernels of ktl, which have an estimate ---
const kernels = getKernels(args)
const found = kernels.filter(({ metadata }) => metadata.kernelClass === F64GemmKernel)
console.log(`${kernels.length} kernels support the arguments, of which ${found.length} are ours:`)
for (const { metadata } of found) console.log(`  ${metadata.kernelName}, a kernel of provider ${metadata.provider}`)

for (const kernel of found) {
  const artifact = await kernel.compile(args)
  console.log(`${kernel}: workspace ${kernel.getWorkspaceSize(args)} bytes`)
  await kernel.run(args, { artifact })
  await check(kernel)
}

// --- What it does not take, it says ---
const flat = new GemmArguments(
  device.tensor('f64', [M, K], 1),
  device.tensor('f64', [K, N], 1),
  device.empty('f64', [M, N]),
  'f64',
)
const status = found[0]!.supports(flat)
if (!status.ok) console.log(`rank 2: ${status.error}`)

// --- Filters see its metadata ---
const rows = (tile: number) => (design: unknown) => design instanceof BLASDesignMetadata && design.tileShape[0] === tile
for (const tile of [16, 256]) {
  const chosen = getKernels(args, { providers: ['cuda'], metadataFilter: ({ design }) => rows(tile)(design) })
  console.log(`tiles of ${tile} rows: ${chosen.length}`)
}
unregister()
console.log(`taken back: ${getKernels(undefined, { providers: [CudaProvider] }).length}`)

// --- The same in ktl: orders and tiles are alternatives, and there is nothing to launch by hand ---
const program = await loadKtl(new URL('dgemm.ktl', import.meta.url))
const takeBack = register(program)
const instances = [...program.kernels['f64_gemm']!.getInstances()]
const [best] = getKernels(args, { metadataFilter: ({ kernelName }) => kernelName.startsWith('ktl.f64_gemm_') })
console.log(`f64_gemm in ktl: ${instances.length} instances, the best one here is`)
console.log(`  ${best}`)
await best!.run(args)
await check(best!)
takeBack()
await device.close()

/** Sums of small integers are exact: a plain loop gives the same. The output is cleared for the next one. */
async function check(kernel: Kernel): Promise<void> {
  const [a, b, d] = await Promise.all([A, B, out].map((tensor) => tensor.toArray()))
  for (let m = 0; m < M; m++) {
    for (let n = 0; n < N; n++) {
      let sum = 0
      for (let k = 0; k < K; k++) sum += a![m * K + k]! * b![k * N + n]!
      if (d![m * N + n] !== sum) throw new Error(`${kernel}: wrong at [${m}, ${n}]`)
    }
  }
  console.log('  verified: all elements are exact')
  await out.copyFrom(new Float64Array(L * M * N).fill(NaN))
}
