/** A GEMM of the library with an epilogue of your own: describe it, take the best kernel, run it. */
import { EpilogueArguments, explainKernels, GemmArguments, getKernels, openDevice } from 'ktl'

const device = await openDevice('auto')
const [M, N, K] = [96, 64, 128]
const A = device.tensor(
  'bf16',
  [M, K],
  Float32Array.from({ length: M * K }, (_, i) => (i % 7) - 3),
)
const B = device.tensor(
  'bf16',
  [K, N],
  Float32Array.from({ length: K * N }, (_, i) => (i % 5) - 2),
)
const bias = device.tensor(
  'f32',
  [N],
  Float32Array.from({ length: N }, (_, i) => i),
)
const out = device.empty('f32', [M, N])

// `bias` has one dimension: it aligns at the right, so there is one value for each column.
const args = new GemmArguments({
  A,
  B,
  out,
  epilogue: new EpilogueArguments('relu(acc * alpha + bias)', { alpha: 0.5, bias }),
})
console.log(`${explainKernels(args).supported} kernels support this call`)

const kernel = getKernels(args, { limit: 1 })[0]!
console.log(kernel.metadata.kernelName)
await kernel.run(args)
console.log((await out.toArray()).slice(0, 4))
await device.close()
