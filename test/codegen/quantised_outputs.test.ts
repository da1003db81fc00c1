/**
 * Outputs that tensor-core kernels quantise, to the bit: values with every kind of special among them, as the steps of the definition
 * quantise them.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { generatePlan, planInstance } from '../../codegen/index.ts'
import { ARCHS } from '../../compiler/archs.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { uniform } from '../../compiler/evaluate/generate.ts'
import { KernelArguments } from '../../runtime/arguments/kernel.ts'
import { ScaledOperand } from '../../runtime/arguments/scaled_operand.ts'
import type { Device } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import type { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { loadSource } from '../../runtime/programs/program.ts'
import { inTurn, part, schedulesOf } from '../cases_of.ts'
import { blockIndices, blockShape, quantise } from '../compiler/quantise_whole.ts'
import { assemble } from './assemble.ts'
import { GOLDEN_CASES } from './golden_cases.ts'

interface Form {
  readonly data: DTypeName
  readonly scale: DTypeName
  readonly blocks: readonly [number, number]
  readonly down?: boolean
  readonly globalScale?: number
}

const text = ({ data, scale, blocks: [rows, columns], down, globalScale }: Form): string => {
  const axes = `${scale}[${rows > 1 ? `m/${rows}` : 'm'}, ${columns > 1 ? `n/${columns}` : 'n'}]`
  return `${data}[m, n] * ${down ? `floor(${axes})` : axes}${globalScale === undefined ? '' : ' * f32'}`
}

/** Values of all magnitudes, whole blocks of zeros, -0, NaN and infinities. */
function values(m: number, n: number): Float32Array {
  const next = uniform(5)
  const special = [NaN, Infinity, -Infinity, 1e-42, 3e38]
  return Float32Array.from({ length: m * n }, (_, i) => {
    const [row, column] = [Math.floor(i / n), i % n]
    if (row >= 32 && row < 64 && column >= 32 && column < 64) return column % 2 === 0 ? 0 : -0
    if (next() < 0.0008) return special[Math.floor(next() * special.length)]!
    return (next() - 0.5) * 2 ** Math.floor(next() * 24 - 12)
  })
}

const MX: Form = { data: 'e4m3', scale: 'ue8m0', blocks: [1, 32] }
const TURNED: Form = { ...MX, blocks: [32, 1] }
const NV: Form = { data: 'e2m1', scale: 'ue4m3', blocks: [1, 16], globalScale: 0.25 }
const CASES: readonly (readonly [string, readonly Form[], schedules: Readonly<Record<'sm100' | 'sm90', string>>])[] = [
  ['columns of 32', [TURNED], { sm100: 'tile 128x128', sm90: 'consumers cooperative; tile 128x128' }],
  ['rows and columns', [MX, TURNED], { sm100: 'tile 128x64; scheduler clc', sm90: 'consumers cooperative; tile 256x64' }],
  ['columns of 128', [{ data: 'i8', scale: 'f32', blocks: [128, 1] }], { sm100: 'tile 128x64', sm90: 'consumers cooperative; tile 128x64' }],
  ['columns of 16, OCP', [{ data: 'e5m2', scale: 'ue8m0', blocks: [16, 1], down: true }], { sm100: 'tile 64x96', sm90: 'consumers pingpong; tile 64x64' }],
  ['columns of 8', [{ data: 'i8', scale: 'f32', blocks: [8, 1] }], { sm100: 'mma 2cta; tile 128x128; cluster 2x1', sm90: 'consumers cooperative; tile 64x64' }],
  ['nvfp4', [NV], { sm100: 'tile 128x128', sm90: 'consumers cooperative; tile 128x128' }],
  ['mxfp4 and columns of fp8', [{ ...MX, data: 'e2m1' }, TURNED], { sm100: 'mma 2cta; tile 256x64; cluster 2x1', sm90: 'consumers cooperative; tile 128x64' }],
  ['columns of nvfp4, blocks of rows of i4', [{ ...NV, blocks: [16, 1] }, { data: 'i4', scale: 'f32', blocks: [1, 32] }], { sm100: 'tile 128x128', sm90: 'consumers cooperative; tile 128x64' }],
  ['mxfp6', [{ data: 'e3m2', scale: 'ue8m0', blocks: [1, 32] }], { sm100: 'tile 128x128', sm90: 'consumers cooperative; tile 128x128' }],
  ['mxfp6 of OCP, and columns of e2m3', [{ data: 'e2m3', scale: 'ue8m0', blocks: [1, 16], down: true }, { data: 'e2m3', scale: 'f32', blocks: [32, 1] }], { sm100: 'mma 2cta; tile 256x64; cluster 2x1; scheduler clc', sm90: 'consumers cooperative; tile 128x64' }],
  ['fp8 in rows of 128', [{ data: 'e4m3', scale: 'f32', blocks: [1, 128] }], { sm100: 'tile 128x128', sm90: 'consumers pingpong; tile 128x128' }],
  ['i8 in rows of 128', [{ data: 'i8', scale: 'f32', blocks: [1, 128] }], { sm100: 'tile 128x128', sm90: 'consumers cooperative; tile 128x256' }],
  ['i8 in rows of 32, coarse scales', [{ data: 'i8', scale: 'ue8m0', blocks: [1, 32], down: true }], { sm100: 'tile 128x128', sm90: 'consumers cooperative; tile 128x128' }],
  ['fp8 in rows of 16', [{ data: 'e4m3', scale: 'f32', blocks: [1, 16] }], { sm100: 'tile 128x128', sm90: 'consumers cooperative; tile 128x64' }],
] // prettier-ignore

describe.each(['sm100', 'sm90'] as const)('%s', (kind) => {
  let device: Device
  beforeAll(async () => {
    device = await openDevice(`virtual-${kind}`, { checks: 'full', smCount: 4 })
  })
  afterAll(() => device.close())

  // Of narrow elements one device has some, the other the others.
  const leftOut = {
    sm100: ['columns of 128', 'nvfp4', 'mxfp6', 'i8 in rows of 128', 'fp8 in rows of 16'],
    sm90: [
      'columns of 32',
      'columns of 8',
      'mxfp4 and columns of fp8',
      'mxfp6 of OCP, and columns of e2m3',
      'i8 in rows of 32, coarse scales',
    ],
  }
  test.each(part(CASES, leftOut[kind]))('%s', { timeout: 120_000 }, async (_, forms, schedules) => {
    const [m, n, k] = [150, 211, 64]
    const names = forms.map((form, i) => `D${i}`)
    const source = `kernel q(A: bf16[m, k], B: bf16[n, k], C: f32[m, n]) -> (${forms.map((form, i) => `D${i}: ${text(form)}`).join(', ')}) {
  x = sum[k](A * B) + C
  ${names.map((name) => `${name} = x`).join('\n  ')}
}
schedule q on ${kind === 'sm100' ? 'sm_100' : 'sm_90'} { ${schedules[kind]} }`
    const C = values(m, n)
    const outputs = forms.map(({ data, scale, blocks, down, globalScale }) => {
      const parts = device.empty(scale, blockShape([m, n], blocks))
      return new ScaledOperand(device.empty(data, [m, n]), parts, {
        mode: blocks, ...(globalScale !== undefined && { globalScale }), ...(down && { rounding: 'floor' }),
      })
    })
    const zeros = (rows: number) => device.tensor('bf16', [rows, k], Array.from({ length: rows * k }, () => 0))
    const given = { A: zeros(m), B: zeros(n), C: device.tensor('f32', [m, n], C) }
    const args = new KernelArguments(loadSource({ name: 'q.ktl', text: source }).kernels['q']!, {
      ...given, ...Object.fromEntries(names.map((name, i) => [name, outputs[i]!])),
    })
    const kernel = getKernels(args).find(({ metadata }) => metadata.kernelName.includes(`_${kind}_`)) as KtlKernel
    expect(kernel, JSON.stringify(getKernels(args).why)).toBeDefined()
    for (const { order } of schedulesOf(source)) {
      await kernel.run(args, { order, seed: 3 })
      for (const [i, form] of forms.entries()) {
        const { data, scale, blocks, down, globalScale } = form
        const sum = C.map((x) => x + 0)
        const shape = blockShape([m, n], blocks)
        const wanted = quantise(
          { data, scale, rounding: down ? 'down' : 'up' }, sum, blockIndices([m, n], blocks), shape[0]! * shape[1]!,
          globalScale === undefined ? 1 : Math.fround(1 / globalScale),
        )
        const bytes = (dtype: DTypeName, of: readonly number[], x: Float32Array) => device.tensor(dtype, of, [...x]).toBytes()
        expect(await outputs[i]!.data.toBytes()).toEqual(await bytes(data, [m, n], wanted.data))
        if (scale !== 'f32') expect(await outputs[i]!.scale!.toBytes()).toEqual(await bytes(scale, shape, wanted.scale))
        else expect([...(await outputs[i]!.scale!.toArray())]).toEqual([...wanted.scale])
      }
    }
  }) // prettier-ignore
})

describe('ptxas spills nothing', () => {
  const names = [
    'into 32x1',
    'both copies',
    'into nvfp4',
    'into mxfp6',
    'into 128x1, clc',
    'into 16x1 of 64 rows',
    'into 8x1 in turns',
    'fp8 into 16x1',
  ]
  const cases = GOLDEN_CASES.filter(({ name }) => names.some((one) => name.endsWith(` ${one}`)))
  const leftOut = ['sm90 both copies', 'sm90 into nvfp4', 'sm100 into 32x1', 'sm100 into mxfp6']
  test.each(part(cases, leftOut))('$name', { timeout: 60_000 }, ({ name, instance }) => {
    const plan = planInstance(instance())
    if (!('kind' in plan)) throw new Error(plan.reason)
    const { cuda } = generatePlan(plan, 'ktl.quantised')
    const { target } = plan.instance
    for (const arch of ARCHS[target].cc >= 100 ? inTurn(name, ['sm_100a', 'sm_103a']) : [target]) {
      const { output } = assemble(cuda, arch)
      expect(output).not.toMatch(/error|warning/)
      expect(output).toContain('0 bytes spill stores, 0 bytes spill loads')
    }
  }) // prettier-ignore
})
