/** nvcc on generated kernels, and the compile cache in front of it. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { ElementwiseArguments, getKernels, KtlKernel, openDevice, type RuntimeArguments } from '../../runtime/index.ts'
import { Cache } from '../../runtime/cache/cache.ts'
import { compileCached } from '../../runtime/toolchain/cached.ts'
import { compileCuda } from '../../runtime/toolchain/compile.ts'
import { medianTime, type Measurement } from '../measure.ts'
import { squareGemm, values } from '../problems.ts'

const ARCH = 'sm_100a'
const RUNS = 3

export async function nvccPart(): Promise<Measurement[]> {
  const device = await openDevice('virtual-sm100')
  const matrix = () => device.tensor('f32', [32, 32], values(1024))
  const kernels: readonly (readonly [string, RuntimeArguments])[] = [
    ['GEMM with relu(acc*alpha+C)', squareGemm(device, 'f16', 256, true)],
    ['plain GEMM', squareGemm(device, 'bf16', 256, false)],
    ['SIMT elementwise', new ElementwiseArguments({ A: matrix(), B: matrix(), out: device.empty('f32', [32, 32]) })],
  ]
  const measurements: Measurement[] = []
  for (const [name, args] of kernels) {
    const cuda = cudaOf(args)
    for (const kind of ['ptx', 'cubin'] as const) {
      const value = await medianTime(RUNS, () => compileCuda(cuda, { arch: ARCH, kind }))
      measurements.push({ part: 'nvcc', what: `${name} → ${kind === 'ptx' ? 'PTX' : 'cubin'}`, value, unit: 'ms', goal: 1000 }) // prettier-ignore
    }
  }
  measurements.push(...(await cachedTimes(cudaOf(kernels[0]![1]))))
  await device.close()
  return measurements
}

function cudaOf(args: RuntimeArguments): string {
  const [kernel] = getKernels(args, { limit: 1 })
  if (!(kernel instanceof KtlKernel)) throw new Error('no generated kernel supports the arguments')
  return kernel.generated.cuda
}

async function cachedTimes(cuda: string): Promise<Measurement[]> {
  const folder = mkdtempSync(path.join(tmpdir(), 'ktl-bench-'))
  try {
    const cache = new Cache({ folder })
    const compile = (from: Cache) => compileCached(cuda, { arch: ARCH, kind: 'ptx', cache: from })
    await compile(cache)
    const memory = await medianTime(50, () => compile(cache))
    const disk = await medianTime(20, () => compile(new Cache({ folder })))
    return [
      { part: 'nvcc', what: 'cached in memory', value: memory, unit: 'ms', goal: 5 },
      { part: 'nvcc', what: 'cached on disk', value: disk, unit: 'ms', goal: 5 },
    ]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
