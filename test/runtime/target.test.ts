/** A made-up target is a few lines in the registries: checked, found, ranked, named, printed and run like those of ktl. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GENERATORS } from '../../codegen/targets/index.ts'
import type { Instance } from '../../compiler/instance.ts'
import { isRejection } from '../../compiler/rejection.ts'
import { wordEntry, type ValuesOf } from '../../compiler/schedule.ts'
import { TARGETS, type Backend } from '../../compiler/targets/index.ts'
import { simt } from '../../compiler/targets/simt/index.ts'
import type { SimtPlan } from '../../compiler/targets/simt/plan.ts'
import type { Target } from '../../compiler/targets/target.ts'
import { createProgram } from '../../runtime/cli/program.ts'
import { Output } from '../../runtime/cli/output.ts'
import { costOfEach } from '../../runtime/discovery/ranking/rank.ts'
import {
  BLASDesignMetadata, getKernels, KernelArguments, KernelMetadata, loadSource, openDevice, type Device, type KtlKernel,
} from '../../runtime/index.ts' // prettier-ignore
import { DESIGN_READERS } from '../../runtime/metadata/design.ts'
import { RUNTIME_TARGETS } from '../../runtime/targets/index.ts'
import { errorOf } from './errors.ts'

/** Squares of elements on plain CUDA cores, for sm_90a alone. */
interface ToyDesign {
  readonly kind: 'toy'
  readonly side: 8 | 16
}
interface ToyPlan extends Omit<SimtPlan, 'kind' | 'design'> {
  readonly kind: 'toy'
  readonly design: ToyDesign
}

const ENTRIES = { size: wordEntry('size small', 'small', 'large') }

const toy: Target<ToyPlan, ToyDesign, ValuesOf<typeof ENTRIES>> = {
  kind: 'toy',
  scope: 'own',
  archs: ['sm_90a'],
  schedules: { toy: ['toy_1'] },
  entries: ENTRIES,
  inconsistent: '',
  designs: (schedule) => (schedule?.size ?? ['small']).map((size) => ({ kind: 'toy', side: size === 'small' ? 8 : 16 })),
  leavesOut: () => false,
  plan(instance: Instance<ToyDesign>) {
    const { design } = instance
    const plan = simt.plan({ ...instance, design: { kind: 'simt', tile: [design.side, design.side] } })
    return isRejection(plan) ? plan : { ...plan, kind: 'toy', instance, design }
  },
  nameParts: ({ side }) => [`side${side}`],
  storeName: null,
  describe: ({ design }) => [`squares of ${design.side}`],
  minCc: () => 90,
  builtFor: () => ['sm_90a'],
  fields: { tileShape: ({ design: { side } }) => [side, side, 1], clusterShape: () => [1, 1, 1], side: ({ design }) => design.side },
  tmaOutputs: () => [],
  inPlace: () => [],
} // prettier-ignore

const KIND = 'toy' as Backend

function addToy(): () => void {
  const metadata = (fields: object) => new BLASDesignMetadata(fields as BLASDesignMetadata, KIND)
  const estimate = () => ({ microseconds: 1e-3, boundBy: 'launch', text: 'wins' }) as const
  const added = [
    TARGETS.add('toy', toy),
    GENERATORS.add('toy', { generate: (plan, name) => GENERATORS.get('simt').generate(plan, name) }),
    RUNTIME_TARGETS.add('toy', { metadata, costs: costOfEach(estimate), controls: false }),
    DESIGN_READERS.add('toy', metadata),
  ]
  return () => added.forEach((remove) => remove())
}

/** What a command prints. */
class Written extends Output {
  written = ''
  override text(text: string): void {
    this.written += text
  }
}

const SOURCE = {
  name: 'toy.ktl',
  text: 'kernel f(A: f32[m, k], B: f32[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule f on toy { size small | large }\n',
}
const folder = mkdtempSync(path.join(tmpdir(), 'ktl-target-'))
const file = path.join(folder, SOURCE.name)
afterAll(() => rmSync(folder, { recursive: true }))

describe('a made-up target', () => {
  let device: Device
  let remove: () => void
  beforeAll(async () => {
    writeFileSync(file, SOURCE.text)
    device = await openDevice('virtual-sm90')
    remove = addToy()
  })
  afterAll(() => device?.close())

  const args = (): KernelArguments => {
    const ones = (shape: number[]) => device.tensor('f32', shape, 1)
    const bindings = { A: ones([9, 5]), B: ones([5, 7]), D: device.empty('f32', [9, 7]) }
    return new KernelArguments(loadSource(SOURCE).kernels['f']!, bindings)
  }
  const toys = (call = args()) => getKernels(call, { where: { design: { kind: KIND } } })

  test('its schedules are checked, each spelling of its name is known', async () => {
    const check =
      (entries: string, name = 'toy') =>
      () =>
        void loadSource({ ...SOURCE, text: SOURCE.text.replace(/schedule.*/, `schedule f on ${name} { ${entries} }`) })
    check('size large', 'toy_1')()
    expect((await errorOf(check('size huge'))).diagnostics[0]).toMatchObject({ code: 'KTL3004', label: 'expected `small` or `large`' }) // prettier-ignore
    expect((await errorOf(check('tile 16x16'))).diagnostics[0]).toMatchObject({ code: 'KTL3010', help: '`toy` takes `size`' }) // prettier-ignore
    expect((await errorOf(check('sizes small'))).diagnostics[0]!.help).toBe('did you mean `size`?')
    expect((await errorOf(check('size small', 'toyy'))).diagnostics[0]!.help).toMatch(/did you mean `toy(_1)?`/)
  })

  test('its kernels are found on its architecture alone, and ranked by its costs', () => {
    const sides = Array.from(toys(), ({ metadata: { kernelName } }) => /side\d+/.exec(kernelName)![0])
    expect(sides.sort()).toEqual(['side16', 'side8'])
    expect(getKernels(args())[0]!.metadata.design.kind).toBe('toy')
    expect(getKernels(args(), { where: { design: { kind: KIND } }, cc: 100 })).toHaveLength(0)
    expect(getKernels(args(), { where: { design: { side: 16 } as object } })).toHaveLength(1)
  })

  test('metadata: what the target says, there and back', () => {
    const { metadata } = toys()[0]!
    expect([metadata.kernelName, metadata.minCc, metadata.targets]).toEqual([
      expect.stringMatching(/^ktl\.f_toy_ttt_Af32_Bf32_outf32_accf32_side(8|16)_u/), 90, ['sm_90a'],
    ]) // prettier-ignore
    const json = JSON.parse(JSON.stringify(metadata)) as unknown
    expect(JSON.parse(JSON.stringify(KernelMetadata.fromJSON(json)))).toEqual(json)
  })

  test('its text runs', async () => {
    const call = args()
    await (toys(call)[0] as KtlKernel).run(call, { checks: 'full' })
    expect([...(await call.tensors['D']!.toArray())]).toEqual(new Array(63).fill(5))
  })

  test.each([
    [['--stage', 'plan'], /^plan ktl\.f_toy_.*\n {2}squares of 8\n$/],
    [['--stage', 'plan', '--index', '1'], /squares of 16\n$/],
    [['--stage', 'cuda'], /__global__/],
  ])('ktl inspect --design toy %j', async (options, expected) => {
    const out = new Written()
    const program = createProgram({ out, signal: new AbortController().signal }, () => {})
    await program.parseAsync(['inspect', file, '--target', 'sm_90a', '--design', 'toy', ...options], { from: 'user' })
    expect(out.written).toMatch(expected)
  })

  test('once it is removed, nothing knows it', async () => {
    remove()
    expect((await errorOf(() => loadSource(SOURCE))).diagnostics[0]!.code).toBe('KTL3002')
    expect(TARGETS.kinds).not.toContain('toy')
  })
})
