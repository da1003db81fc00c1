/**
 * The stored forms of the table on tensor cores, under each order of asynchronous work and with the race detector (device.test.ts runs
 * them on every device, as they come).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Device } from '../../runtime/devices/device.ts'
import { openDevice, type DeviceSpec } from '../../runtime/devices/open.ts'
import { runCase } from '../../runtime/selftest/run_case.ts'
import { prepareCase } from './prepare.ts'
import { STORED_CASES } from './stored_gemm.ts'

const ORDERS = [
  { order: 'lazy', checks: 'full' },
  { order: 'eager', checks: 'full' },
  { order: 'random', seed: 11, checks: 'full' },
] as const

describe.each(['virtual-sm90', 'virtual-sm100'] as const)('%s', { timeout: 120_000 }, (spec: DeviceSpec) => {
  let device: Device
  beforeAll(async () => {
    device = await openDevice(spec)
  })
  afterAll(() => device.close())

  // All orders of each form on one of the devices, and the random one with its races on the other.
  const half = spec === 'virtual-sm90' ? 0 : 1
  test.each(STORED_CASES.map((testCase, i) => ({ ...testCase, i })))('$name', async ({ i, ...testCase }) => {
    for (const order of i % 2 === half ? ORDERS : ORDERS.slice(-1)) {
      const prepared = await prepareCase(device, testCase)
      expect(prepared.kernel, 'a kernel').not.toBeNull()
      const { kind } = prepared.kernel!.plan
      if (spec === 'virtual-sm90') expect(kind).toBe(testCase.design.kind)
      // Plain CUDA has no asynchronous work.
      if (kind === 'simt') return prepared.guards.forEach((guard) => guard.free())
      const { pass, text, kernelName } = await runCase(prepared, order)
      expect(pass, `${kernelName}, ${order.order}: ${text}`).toBe(true)
    }
  })
})
