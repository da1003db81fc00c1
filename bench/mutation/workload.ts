/** The kernel that is mutated, and problems on which missing synchronisation has consequences. */
import {
  EpilogueArguments, GemmArguments, getKernels, KtlKernel, type Artifact, type Device, type Tensor,
} from '../../runtime/index.ts' // prettier-ignore

export interface Problem {
  readonly name: string
  readonly L: number
  readonly M: number
  readonly N: number
  readonly K: number
}

/** With few SMs each CTA computes several tiles, so that both rings wrap and both accumulators are used again. */
export const SM_COUNT = 2

export const PROBLEMS: readonly Problem[] = [
  // 14 steps of k for each of 4 tiles a CTA: the loads run as far ahead of the MMAs as the ring lets them.
  { name: 'deep k', L: 2, M: 200, N: 256, K: 872 },
  // One step of k for each of 8 tiles a CTA: the MMAs run as far ahead of the epilogue as the accumulators let them.
  { name: 'shallow k', L: 2, M: 250, N: 512, K: 64 },
]

/** The demo's. */
const EPILOGUE = 'relu(acc*alpha+C)'
const ALPHA = 2

/** A kernel with the arguments of one problem and what must come out. */
export interface Workload {
  readonly problem: Problem
  readonly kernel: KtlKernel
  readonly args: GemmArguments
  readonly artifact: Artifact
  readonly out: Tensor
  /** D as it must be stored. */
  readonly expected: Uint8Array
}

/** Small integers: every partial sum is exact, in any order, so right results are equal bytes. */
export async function prepareWorkload(device: Device, problem: Problem): Promise<Workload> {
  const { L, M, N, K } = problem
  const [a, b, c] = [integers(L * M * K, 1), integers(L * K * N, 2), integers(L * M * N, 3)]
  const out = device.empty('f16', [L, M, N])
  const args = new GemmArguments({
    A: device.tensor('f16', [L, M, K], a),
    B: device.tensor('f16', [L, K, N], b),
    out,
    epilogue: new EpilogueArguments(EPILOGUE, { alpha: ALPHA, C: device.tensor('f16', [L, M, N], c) }),
  })
  const [kernel] = getKernels(args, {
    limit: 1,
    metadataFilter: ({ design }) => design.kind === 'sm100' && design.tileShape.join('x').startsWith('128x128x'),
  })
  if (!(kernel instanceof KtlKernel)) throw new Error('no SM100 kernel with a tile of 128x128 supports the problem')
  const expected = await device.tensor('f16', [L, M, N], plainGemm(problem, a, b, c)).toBytes()
  return { problem, kernel, args, artifact: await kernel.compile(args), out, expected }
}

function plainGemm({ L, M, N, K }: Problem, a: Float32Array, b: Float32Array, c: Float32Array): Float32Array {
  const sums = new Float32Array(L * M * N)
  for (let l = 0; l < L; l++) {
    for (let m = 0; m < M; m++) {
      const row = sums.subarray((l * M + m) * N, (l * M + m + 1) * N)
      for (let k = 0; k < K; k++) {
        const x = a[(l * M + m) * K + k]!
        for (let n = 0; n < N; n++) row[n]! += x * b[(l * K + k) * N + n]!
      }
    }
  }
  return sums.map((sum, i) => Math.max(0, sum * ALPHA + c[i]!))
}

/** -1, 0 or 1, from a linear congruential generator. */
function integers(count: number, seed: number): Float32Array {
  let state = seed
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return ((state >>> 16) % 3) - 1
  })
}
