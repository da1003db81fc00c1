/** `npm run demo`: a .ktl GEMM with an epilogue string, found, compiled and checked on the default device. */
import { readFileSync } from 'node:fs'
import {
  EpilogueArguments, formatError, getKernels, KernelArguments, KTL_VERSION, KtlKernel, loadKtl, openDevice, randomValues,
  Sm100DesignMetadata, verify, type DTypeName,
} from 'ktl' // prettier-ignore

const FILE = 'samples/gemm.ktl'
const EPILOGUE = 'relu(acc*alpha+C)'
const [L, M, N, K] = [2, 512, 512, 256] as const

const row = (label: string, text: string): void => console.log(`${label.padEnd(11)}${text}`)
const seconds = (ms: number): string =>
  ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1000).toFixed(2)} s`
const timed = async <T>(work: () => Promise<T> | T): Promise<[T, number]> => {
  const start = performance.now()
  return [await work(), performance.now() - start]
}

console.log(`ktl ${KTL_VERSION}: ${FILE}\n`)
console.log(readFileSync(FILE, 'utf8').trimEnd().replaceAll(/^/gm, '  '), '\n')

const device = await openDevice('auto')
const random = (dtype: DTypeName, shape: number[], seed: number) =>
  device.tensor(dtype, shape, randomValues(dtype, shape.reduce((a, b) => a * b), seed, 'normal')) // prettier-ignore
const A = random('f16', [L, M, K], 1)
const B = random('f16', [L, K, N], 2)
const C = random('f16', [L, M, N], 3)
const D = device.empty('f16', [L, M, N])
row('problem', `L=${L} M=${M} N=${N} K=${K}: f16 x f16 -> f16, f32 accumulator, normal random inputs`)
row('epilogue', `${EPILOGUE}  with alpha = 2, C: f16 [L, M, N]`)
row(
  'device',
  `${device.name}: ${device.arch}, ${device.smCount} SMs${device.isVirtual ? ', in this process: no GPU is used' : ''}`,
)

const program = await loadKtl(FILE)
const epilogue = new EpilogueArguments(EPILOGUE, { alpha: 2, C })
const args = new KernelArguments(program.kernels['gemm']!, { A, B, D, epilogue })
const [kernels, findMs] = await timed(() => getKernels(args))
const [kernel] = kernels
if (!(kernel instanceof KtlKernel)) throw new Error(kernels.why ?? 'no kernel')
row('found', `${kernels.length} instances support these arguments, ranked in ${seconds(findMs)}; the best one:`)
row('kernel', kernel.metadata.kernelName)
row('why first', kernel.rankReason ?? '')

const { cuda } = kernel.generated
const [artifact, compileMs] = await timed(() => kernel.compile(args))
const { registers, spillLoadBytes, spillStoreBytes } = await kernel.resources()
const { design } = kernel.metadata
if (design instanceof Sm100DesignMetadata) {
  row('design', `tile ${design.tileShape.join('x')}, ${design.stages} stages, ${design.threads} threads, ${design.useTmaStore ? 'TMA' : 'direct'} stores`)
  row('resources', `shared memory ${design.sharedMemBytes} B, TMEM ${design.tmemColumns} columns, ${registers} registers, ${spillLoadBytes + spillStoreBytes} B spilled`)
} // prettier-ignore

const { run, check, runMs } = await verify(kernel, args, { artifact })
row(
  'compile',
  `${seconds(compileMs)}: ${cuda.split('\n').length} lines of CUDA C++ by nvcc ${artifact.info.toolkit}, kept in the cache`,
)
row('run', `${seconds(runMs)}: ${run.stats.ctas} CTAs; ${Math.round(run.stats.modelledCycles)} cycles modelled`)
row('findings', run.findings.length === 0 ? 'none' : run.findings.map(({ message }) => message).join('; '))
row('compared', `${check.description} with the reference evaluator`)
const where = check.worst ? `, at ${check.worst.actual} where ${formatError(check.worst.bound)} is allowed` : ''
console.log(`\n${check.pass ? 'PASS' : 'FAIL'}  max error ${formatError(check.maxError)}${where}`)
await device.close()
process.exitCode = check.pass ? 0 : 1
