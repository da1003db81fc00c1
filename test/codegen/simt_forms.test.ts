/** Every form of the language between guards, with inputs that are wrong on purpose, on both virtual devices; the kernels by hand agree. */
import { afterAll, expect, test } from 'vitest'
import { FORMS } from '../../bench/gpu/forms/cases.ts'
import { checkForm, type Check } from '../../bench/gpu/forms/check.ts'
import { HOSTILE } from '../../bench/gpu/forms/hostile.ts'
import { measureForm } from '../../bench/gpu/forms/measure.ts'
import { PEERS } from '../../bench/gpu/forms/peers.ts'
import { compileForm, programOf } from '../../bench/gpu/forms/subject.ts'
import { generateSimt } from '../../codegen/targets/simt/kernel.ts'
import { planSimt } from '../../compiler/targets/simt/plan.ts'
import type { EventTimer } from '../../runtime/bench/timer.ts'
import { openDevice } from '../../runtime/index.ts'
import { gridSize } from '../../runtime/kernels/plan_launch.ts'
import { FULL, sampled } from '../cases_of.ts'

const devices = await Promise.all([openDevice('virtual-sm90'), openDevice('virtual-sm100')])
afterAll(() => Promise.all(devices.map((device) => device.close())))

const small = FORMS.map(({ name, source, small: extents, scalars, values }) => ({
  source,
  checks: [{ name, extents, scalars: scalars?.(extents), values } as Check],
}))

for (const [at, device] of devices.entries())
  test(`on ${device.name} values are as defined, whatever the inputs, and nothing beside a tensor is written`, async () => {
    const wrong: string[] = []
    // Each form on one of them, and all on both in the full test.
    for (const [i, { source, checks }] of [...small, ...HOSTILE].entries()) {
      if (!FULL && i % devices.length !== at) continue
      const kernel = await compileForm(device, source)
      for (const check of checks)
        wrong.push(...(await checkForm(device, kernel, check, 7)).map((what) => `${check.name}: ${what}`))
    }
    expect(wrong).toEqual([])
  }, 240_000)

test('a kernel that stores one row too many is noticed', async () => {
  const [device] = devices
  const { source, small: extents } = FORMS.find(({ name }) => name === 'softmax')!
  const edit = (cuda: string): string => cuda.replaceAll('op_Y[i_m *', 'op_Y[(i_m + 1) *')
  const wrong = await checkForm(device, await compileForm(device, source, edit), { name: 'one row on', extents }, 7)
  expect(wrong.join()).toMatch(/bytes beside Y were written.*out of bounds/)
})

test('the kernels by hand give the same', async () => {
  const [device] = devices
  const peers = new Map([[16, await device.compileCuda(PEERS, { flags: ['-DTILE=16'], name: 'peers.cu' })]])
  const timer = { roundOf: () => Promise.resolve([1]) } as unknown as EventTimer
  const apart: string[] = []
  for (const form of sampled(FORMS)) {
    const sides = { form, kernel: await compileForm(device, form.source), peers }
    const { error } = await measureForm(device, timer, sides, form.small, { seed: 7, rounds: 1 })
    if (!(error < 1e-3)) apart.push(`${form.name}: ${error}`)
  }
  expect(apart).toEqual([])
}, 120_000)

const recipeOf = (name: string) => {
  const { source } = FORMS.find((form) => form.name === name)!
  const plan = planSimt({ program: programOf(source), target: 'sm_90a', design: { kind: 'simt', tile: [16, 16] } })
  return { plan, recipe: generateSimt(plan, name).recipe }
}

test('many small groups have a CTA each', () => {
  const extents = { t: 34, k: 941, n: 489, g: 61 }
  const ctas = gridSize(recipeOf('grouped').recipe, { operands: {}, extents, scalars: {} }, { smCount: 1000 })
  expect(ctas).toBe((Math.ceil(34 / 16) + 61) * Math.ceil(489 / 16))
})

test('a computed factor that results share is computed once', () => {
  const { plan } = recipeOf('paged decoding')
  const factors = plan.stages.flatMap(({ results }) =>
    results.flatMap((r) => (r.kind === 'region' && r.node.kind === 'apply' ? [r.region.axes.map(({ axis }) => axis)] : [])),
  )
  expect(factors).toEqual([['b', 'h', 'n']])
  // Where a tile shares it, it is not.
  expect(recipeOf('attention').plan.stages).toHaveLength(3)
}) // prettier-ignore
