/** `.ktl` text and an epilogue string → CUDA text: everything from lexer to printer, nothing cached. */
import { readFileSync } from 'node:fs'
import { bindKernel, checkProgram, generate, parseEpilogue, parseProgram, type Instance } from '../../codegen/index.ts'
import type { Source } from '../../grammar/diagnostics.ts'
import { medianTime, type Measurement } from '../measure.ts'

export function readSample(): Source {
  return { name: 'gemm.ktl', text: readFileSync(new URL('../../samples/gemm.ktl', import.meta.url), 'utf8') }
}

/** One SM100 instance of the sample with the demo's epilogue. */
export function sampleToCuda(source: Source): string {
  const family = checkProgram(parseProgram(source).program, source).program!.kernels.find((k) => k.name === 'gemm')!
  const epilogue = { name: '<epilogue>', text: 'relu(acc*alpha+C)' }
  const program = bindKernel(
    family,
    { types: { T: 'f16', O: 'f16' }, orders: {}, divisibility: { A: 'vector', B: 'vector', D: 'vector' } },
    {
      declaration: parseEpilogue(epilogue).epilogue!,
      axes: ['l', 'm', 'n'],
      source: epilogue,
      bindings: {
        alpha: { kind: 'scalar', dtype: 'f32' },
        C: { kind: 'tensor', dtype: 'f16', axes: ['l', 'm', 'n'], order: ['l', 'm', 'n'], divisibility: 'vector' },
      },
    },
  )
  const design: Instance['design'] = {
    kind: 'sm100',
    use2ctaMma: false,
    tile: [128, 128, 64],
    cluster: [1, 1, 1],
    fallbackCluster: null,
    scheduler: 'static',
    parts: 1,
    operands: 'ab',
    stages: 'auto',
  }
  const kernel = generate({ program, target: 'sm_100a', design }, 'ktl.bench')
  if ('code' in kernel) throw new Error(`${kernel.code}: ${kernel.reason}`)
  return kernel.cuda
}

export async function codegenPart(fresh: () => { readonly codegenMs: number }): Promise<Measurement[]> {
  const source = readSample()
  const warm = await medianTime(50, () => sampleToCuda(source), 10)
  const lines = 200
  const long = { name: 'long.ktl', text: source.text.repeat(Math.ceil(lines / source.text.split('\n').length)) }
  const parse = await medianTime(50, () => parseProgram(long), 10)
  return [
    { part: 'codegen', what: '.ktl → CUDA text, warm', value: warm, unit: 'ms', goal: 10 },
    { part: 'codegen', what: `parsing ${lines} lines, warm`, value: parse, unit: 'ms', goal: 2 },
    { part: 'codegen', what: '.ktl → CUDA text, first in a process', value: fresh().codegenMs, unit: 'ms', goal: 10 },
  ]
}
