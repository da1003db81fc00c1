/** What a call costs the host, in work: every way to pay less leaves something out. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { probeAddon } from '../../runtime/addon/load.ts'
import {
  EpilogueArguments,
  GemmArguments,
  getKernels,
  openDevice,
  type Artifact,
  type Device,
  type KtlKernel,
} from '../../runtime/index.ts'
import { findNvcc } from '../../runtime/toolchain/nvcc.ts'
import { workOf } from '../work.ts'

const hasNvcc = await findNvcc().then(() => true, () => false) // prettier-ignore
const skipped = probeAddon().addon === null || !hasNvcc ? ' (skipped without nvcc and the native addon)' : ''

describe.skipIf(skipped !== '')(`enqueueing a launch${skipped}`, () => {
  let device: Device
  let kernel: KtlKernel
  let args: GemmArguments
  let artifact: Artifact
  beforeAll(async () => {
    device = await openDevice('virtual-sm100')
    const [A, B, C] = [device.tensor('f16', [64, 64], 1), device.tensor('f16', [64, 64], 1), device.tensor('f32', [64, 64], 1)]
    const epilogue = new EpilogueArguments('relu(acc * alpha + C)', { alpha: 2, C })
    args = new GemmArguments({ A, B, out: device.empty('f32', [64, 64]), epilogue })
    kernel = getKernels(args, { limit: 1 })[0] as KtlKernel
    artifact = await kernel.compile(args)
    await kernel.run(args, { artifact })
  })
  afterAll(() => device?.close())

  /** Once before, so that nothing is done for the first time. */
  async function work(call: () => void): Promise<number> {
    call()
    await device.synchronize()
    const counted = workOf(call)
    await device.synchronize()
    return counted
  }

  test('unchecked is cheaper than checked, prepared than unchecked, a graph than its launches', async () => {
    const prepared = kernel.prepare(args, artifact)
    const graph = device.capture((stream) => Array.from({ length: 20 }, () => prepared.launch(stream)))
    const checked = await work(() => kernel.launch(args, { artifact }))
    const unchecked = await work(() => kernel.launch(args, { artifact, assumeSupportedArgs: true }))
    const one = await work(() => prepared.launch())
    const twenty = await work(() => Array.from({ length: 20 }, () => prepared.launch()))
    const replayed = await work(() => graph.launch())
    graph.free()
    expect([unchecked < 0.8 * checked, one < 0.5 * unchecked, replayed < twenty]).toEqual([true, true, true])
  })
}) // prettier-ignore
