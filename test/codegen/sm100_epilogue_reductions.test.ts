/** Reductions that are outputs of SM100 kernels: partial results in a workspace, combined by a second kernel. */
import { expect, test } from 'vitest'
import { Artifact } from '../../runtime/artifacts/artifact.ts'
import { openDevice } from '../../runtime/index.ts'
import { runCase, type PreparedCase } from '../../runtime/selftest/run_case.ts'
import { prepareCase } from '../cases/prepare.ts'
import type { Device } from '../../runtime/index.ts'
import { REDUCED } from './epilogue_sources.ts'

const SCHEDULES = {
  'one CTA': 'mma 1cta\n tile 128x64',
  '64 rows': 'mma 1cta\n tile 64x96',
  'column halves': 'mma 2cta\n tile 128x64\n cluster 2x1',
  'pairs in clusters of 4': 'mma 2cta\n tile 256x64\n cluster 2x2',
} as const

const prepare = (device: Device, schedule: string, extents: Record<string, number>, inputs: 'integers' | 'normal'): Promise<PreparedCase> => {
  const [, m, n] = /tile (\d+)x(\d+)/.exec(schedule)!
  return prepareCase(device, {
    name: 'reduced', kernel: 'reduced', source: `${REDUCED}\nschedule reduced on sm_100 {\n ${schedule}\n}\n`,
    types: {}, operands: {}, inputs, extents, design: { kind: 'sm100', tile: [Number(m), Number(n)] },
  })
} // prettier-ignore

test.each(Object.entries(SCHEDULES))('%s: equal to the reference', async (_, schedule) => {
  const device = await openDevice('virtual-sm100')
  const result = await runCase(await prepare(device, schedule, { l: 2, m: 200, n: 136, k: 72 }, 'integers'), {
    checks: 'full',
  })
  expect(result.text).toBe('max error 0')
  expect(result.pass).toBe(true)
  await device.close()
})

test('floats are within the bound of any order', async () => {
  const device = await openDevice('virtual-sm100')
  const result = await runCase(await prepare(device, SCHEDULES['one CTA'], { l: 2, m: 200, n: 136, k: 72 }, 'normal'))
  expect(result.pass).toBe(true)
  await device.close()
})

test('the workspace: its size, one of the caller, one that is too small, and the artifact that asks for it', async () => {
  const device = await openDevice('virtual-sm100')
  const { kernel, args } = await prepare(device, SCHEDULES['one CTA'], { l: 2, m: 200, n: 136, k: 72 }, 'integers')
  // rows: 2 x 200 x 3 parts of 64 columns; columns: 2 x 7 parts of 32 rows x 136; least: 2 x 7 x 3; average and most as rows and columns.
  const region = (elements: number): number => Math.ceil((4 * elements) / 256) * 256
  const bytes = 2 * region(2 * 200 * 3) + 2 * region(2 * 7 * 136) + region(2 * 7 * 3)
  expect(kernel!.getWorkspaceSize(args)).toBe(bytes)
  const artifact = Artifact.deserialize((await kernel!.compile(args)).serialize())
  await expect(kernel!.run(args, { artifact, workspace: device.empty('u8', [bytes - 1]) })).rejects.toMatchObject({
    code: 'KTL4041',
  })
  const given = await kernel!.run(args, { artifact, workspace: device.empty('u8', [bytes]) })
  expect(given.findings).toEqual([])
  const prepared = kernel!.prepare(args, artifact)
  prepared.launch()
  prepared.launch(device.createStream())
  await device.synchronize()
  await device.close()
})
