/** A GEMM from its description to its result: discover, ask, compile, run, and choose by metadata. README.md has the prose. */
import {
  BLASDesignMetadata, GemmArguments, getKernels, openDevice, randomValues, Sm100DesignMetadata, type Tensor,
} from 'ktl' // prettier-ignore

const device = await openDevice('virtual-sm100') // 'auto' takes a GPU where there is one

// --- Arguments: what to compute, on which tensors ---
const [L, M, N, K] = [2, 128, 256, 64]
const A = device.tensor('f16', [L, M, K], randomValues('f16', L * M * K, 1, 'integers'))
const B = device.tensor('f16', [L, K, N], randomValues('f16', L * K * N, 2, 'integers'))
const out = device.empty('f32', [L, M, N])
const args = new GemmArguments({ A, B, out, accumulatorType: 'f32' })
console.log(`problem ${JSON.stringify(args.problemSize)}`)

// --- Discovery: everything there is, then what supports the arguments ---
const everything = getKernels()
console.log(`${everything.length} kernels for compute capability 100`)

const kernels = getKernels(args)
console.log(`${kernels.length} support the arguments; the first one:`)
const kernel = kernels[0]!
console.log(`  ${kernel.metadata.kernelName}`)
console.log(`  ${kernel.rankReason}`)

// --- Support: a Status, with the reason ---
console.log(`supports f16: ${kernel.supports(args).ok}`)
const A_bf16 = device.tensor('bf16', [L, M, K], 1)
const status = kernel.supports(new GemmArguments({ A: A_bf16, B, out, accumulatorType: 'f32' }))
if (!status.ok) console.log(`supports bf16: ${status.ok}: ${status.code} ${status.error}`)

// --- The short way: run compiles what it needs ---
await kernel.run(args)
await check(out, 'run')

// --- The long way: compile once, run often, on a stream, with a workspace, without asking again ---
const artifact = await kernel.compile(args)
const stream = device.createStream()
const bytes = kernel.getWorkspaceSize(args)
const workspace = device.empty('u8', [bytes])
console.log(`workspace: ${bytes} bytes`)
await out.copyFrom(new Float32Array(L * M * N))
await kernel.run(args, { artifact, stream, workspace, assumeSupportedArgs: true })
await check(out, 'run with artifact, stream and workspace')

// --- Metadata: choose by what a kernel is. `kind` narrows the type, `instanceof` says the same ---
const onBlackwell = getKernels(args, { metadataFilter: (m) => m.design instanceof Sm100DesignMetadata })
const linearAlgebra = getKernels(args, { metadataFilter: (m) => m.design instanceof BLASDesignMetadata })
console.log(`${onBlackwell.length} with Sm100DesignMetadata, ${linearAlgebra.length} with BLASDesignMetadata`)
const pairs = getKernels(args, { metadataFilter: (m) => m.design.kind === 'sm100' && m.design.use2ctaMma })
console.log(`${pairs.length} of them with a 2-CTA MMA`)

// --- No arguments at all: every kernel whose A is f16, whose tile has 128 rows, and whose MMA really is 2-CTA ---
const complex = getKernels(undefined, {
  cc: 100,
  where: {
    design: { kind: 'sm100', use2ctaMma: true, tileShape: [128, null, null] },
    operands: { A: { dtype: 'f16' } },
  },
})
console.log(`${complex.length} kernels take an f16 A, have 128 rows to a tile and a 2-CTA MMA`)
const sample = complex.filter((_, i) => i % 997 === 0).map(({ metadata }) => metadata)
const hold = sample.every(({ design, operands }) => {
  if (design.kind !== 'sm100' || operands.kind !== 'gemm') return false
  return design.use2ctaMma && design.tileShape[0] === 128 && operands.A.dtype === 'f16'
})
console.log(`the metadata of ${sample.length} of them say so: ${hold}`)

await device.close()

/** Small integers in f16 have exact sums in f32: the plain loop gives the same bits. */
async function check(result: Tensor, what: string): Promise<void> {
  const [a, b, d] = await Promise.all([A, B, result].map((tensor) => tensor.toArray()))
  for (let l = 0; l < L; l++) {
    for (let m = 0; m < M; m++) {
      for (let n = 0; n < N; n++) {
        let sum = 0
        for (let k = 0; k < K; k++) sum += a![(l * M + m) * K + k]! * b![(l * K + k) * N + n]!
        if (d![(l * M + m) * N + n] !== sum) throw new Error(`${what}: wrong at [${l}, ${m}, ${n}]`)
      }
    }
  }
  console.log(`${what}: all ${L * M * N} elements are exact`)
}
