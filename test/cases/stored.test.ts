/**
 * The stored forms of the table on tensor cores, under each order of asynchronous work and with the race detector (device.test.ts runs
 * them on every device, as they come).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Device } from '../../runtime/devices/device.ts'
import { openDevice, type DeviceSpec } from '../../runtime/devices/open.ts'
import { runCase } from '../../runtime/selftest/run_case.ts'
import { FULL, part, schedulesOf } from '../cases_of.ts'
import { prepareCase } from './prepare.ts'
import { STORED_CASES } from './stored_gemm.ts'

/** Forms that others have, in other tiles or of other numbers. */
const COMBINED = [
  'stored: rows of i8',
  'stored: 1x128 by 128x128',
  'stored: 1x128 by 128x128, whole tiles',
  'stored: 1x128 by 128x128, one warpgroup',
  'stored: 1x128 by rows',
  'stored: mxfp8',
  'stored: blocks of i8',
  'stored: two scaled weights, rows',
  'stored: into mxfp8',
  'stored: into 1x128',
  'stored: into blocks of 16 with a constant',
  'stored: into mxfp6, rows that end in a byte',
  'stored: from blocks into blocks',
]

describe.each(['virtual-sm90', 'virtual-sm100'] as const)('%s', { timeout: 120_000 }, (spec: DeviceSpec) => {
  let device: Device
  beforeAll(async () => {
    device = await openDevice(spec)
  })
  afterAll(() => device.close())

  // Each form on one of the devices; in the full test the random order with its races on the other, too.
  const turn = spec === 'virtual-sm90' ? 0 : 1
  const cases = part(STORED_CASES, COMBINED).map((testCase, i) => ({ ...testCase, isHere: i % 2 === turn }))
  test.each(cases.filter(({ isHere }) => FULL || isHere))('$name', async ({ isHere, ...testCase }) => {
    const schedules = schedulesOf(testCase.name)
    for (const schedule of isHere ? schedules : schedules.slice(-1)) {
      const prepared = await prepareCase(device, testCase)
      expect(prepared.kernel, 'a kernel').not.toBeNull()
      const { kind } = prepared.kernel!.plan
      if (spec === 'virtual-sm90') expect(kind).toBe(testCase.design.kind)
      // Plain CUDA has no asynchronous work.
      if (kind === 'simt') return prepared.guards.forEach((guard) => guard.free())
      const { pass, text, kernelName } = await runCase(prepared, { ...schedule, checks: 'full' })
      expect(pass, `${kernelName}, ${schedule.order}: ${text}`).toBe(true)
    }
  })
})
