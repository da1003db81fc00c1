/** Performance controls change how a call runs, and nothing that it computes. */
import { afterAll, expect, test } from 'vitest'
import {
  explainKernels,
  GemmArguments,
  getKernels,
  openDevice,
  PerformanceControls,
  randomValues,
  type RunResult,
} from '../../runtime/index.ts'

const device = await openDevice('virtual-sm100')
afterAll(() => device.close())
const [M, N, K] = [512, 256, 64]
const A = device.tensor('f16', [M, K], randomValues('f16', M * K, 1, 'integers'))
const B = device.tensor('f16', [K, N], randomValues('f16', K * N, 2, 'integers'))

async function run(performance: PerformanceControls | null) {
  const out = device.empty('f32', [M, N])
  const args = new GemmArguments({ A, B, out, performance })
  const where = {
    design: {
      kind: 'sm100',
      use2ctaMma: false,
      tileShape: [128, 64, null],
      clusterShape: [1, 1, 1],
      tileScheduler: 'static',
    },
  } as const
  const [kernel] = getKernels(args, { where, limit: 1 })
  const { stats } = (await kernel!.run(args)) as RunResult
  return { ctas: stats.ctas, values: await out.toArray() }
}

test('maxSms bounds the CTAs of a persistent kernel, tileOrder their order; results stay', async () => {
  const free = await run(null)
  expect(free.ctas).toBe(16)
  const [few, ordered] = [
    await run(new PerformanceControls({ maxSms: 3 })),
    await run(new PerformanceControls({ tileOrder: 'm' })),
  ]
  expect([few.ctas, ordered.ctas]).toEqual([3, 16])
  expect([few.values, ordered.values]).toEqual([free.values, free.values])
})

test('explainKernels counts the designs that cannot do it', () => {
  const args = new GemmArguments({
    A,
    B,
    out: device.empty('f32', [M, N]),
    performance: new PerformanceControls({ maxSms: 3 }),
  })
  const { supported, considered, reasons } = explainKernels(args)
  expect(supported).toBe(getKernels(args).length)
  const refused = reasons.filter(({ code }) => code === 'KTL4176').reduce((sum, { count }) => sum + count, 0)
  expect([refused > 0, refused < considered]).toEqual([true, true])
})
