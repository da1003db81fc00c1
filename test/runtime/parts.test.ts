/** Parts of k that meet in the workspace, through the API: repeated launches, streams, graphs, prepared launches, memory that callers hand in. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { KernelArguments } from '../../runtime/arguments/kernel.ts'
import type { Device, Tensor } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import type { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import type { Sm100DesignMetadata, Sm90DesignMetadata } from '../../runtime/metadata/design.ts'
import { loadSource } from '../../runtime/programs/program.ts'
import { FULL, sampled, schedulesOf } from '../cases_of.ts'
import { errorOf } from './errors.ts'

const SOURCE = `kernel product(A: f16[m, k], B: f16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }
schedule product on sm_90 {
  consumers cooperative
  tile 64x32
  parts 3
  reassociate
}
schedule product on sm_100 {
  tile 64x32
  scheduler clc
  parts 3
  reassociate
}
`
const [M, N, K] = [100, 40, 400]

describe.each(['sm90', 'sm100'] as const)('%s', (kind) => {
  let device: Device
  let A: Tensor
  let B: Tensor
  beforeAll(async () => {
    device = await openDevice(`virtual-${kind}`, { smCount: 4 })
    // Roundings differ between orders of summation.
    const values = (count: number, step: number) =>
      Float32Array.from({ length: count }, (_, i) => ((i * step) % 1009) / 1009 - 0.5)
    A = device.tensor('f16', [M, K], values(M * K, 37))
    B = device.tensor('f16', [N, K], values(N * K, 101))
  })
  afterAll(() => device.close())

  function product(): { args: KernelArguments; kernel: KtlKernel; D: Tensor } {
    const D = device.empty('f32', [M, N])
    const { family } = loadSource({ name: 'product.ktl', text: SOURCE }).kernels.product!
    const args = new KernelArguments({ family }, { A, B, D })
    const kernel = getKernels(args, { metadataFilter: ({ design }) => design.kind === kind })[0] as KtlKernel
    return { args, kernel, D }
  }

  const bytesOf = async (tensor: Tensor): Promise<string> => Buffer.from(await tensor.toBytes()).toString('base64')

  test('every way to launch gives the same bytes, whichever part comes last', { timeout: 60_000 }, async () => {
    const { args, kernel, D } = product()
    expect((kernel.metadata.design as Sm90DesignMetadata | Sm100DesignMetadata).parts).toBe(3)
    // 2 x 2 tiles of 64 x 32 sums, three parts of each; of 64 rows a warp of SM100 has 16, and place for 32.
    expect(kernel.getWorkspaceSize(args)).toBe(4 * 3 * (kind === 'sm90' ? 64 : 128) * 32 * 4)
    const artifact = await kernel.compile(args)
    await kernel.run(args, { artifact })
    const expected = await bytesOf(D)
    const again = async (launch: () => unknown): Promise<void> => {
      await device.memset(D.pointer, 0xcd, D.byteLength)
      await launch()
      await device.defaultStream.synchronize()
      expect(await bytesOf(D)).toBe(expected)
    }
    for (const order of ['lazy', 'eager', 'random'] as const)
      await again(() => kernel.run(args, { artifact, order, seed: 5, checks: 'full' }))
    const workspace = device.tensor('u8', [kernel.getWorkspaceSize(args)], 0xff)
    await again(() => kernel.run(args, { artifact, workspace }))
    await again(() => kernel.launch(args, { artifact }))
    const prepared = kernel.prepare(args, artifact)
    await again(() => {
      prepared.launch()
      prepared.launch()
    })
    const graph = device.capture((stream) => kernel.launch(args, { artifact, stream }))
    await again(() => {
      graph.launch()
      graph.launch()
    })
    const small = device.empty('u8', [kernel.getWorkspaceSize(args) - 1])
    expect(await errorOf(() => kernel.run(args, { artifact, workspace: small }))).toMatchObject({ code: 'KTL4041' })
  })

  test('streams do not share what parts exchange', { timeout: 60_000 }, async () => {
    const calls = [product(), product()]
    const artifact = await calls[0]!.kernel.compile(calls[0]!.args)
    const streams = calls.map(() => device.createStream())
    calls.forEach(({ kernel, args }, i) => kernel.launch(args, { artifact, stream: streams[i]! }))
    for (const stream of streams) await stream.synchronize()
    expect(await bytesOf(calls[0]!.D)).toBe(await bytesOf(calls[1]!.D))
  })

  test('a launch that fails leaves no counts for the next one', { timeout: 60_000 }, async () => {
    const { args, kernel, D } = product()
    const artifact = await kernel.compile(args)
    await kernel.run(args, { artifact })
    const expected = await bytesOf(D)
    const { warpInstructions } = (await kernel.run(args, { artifact })).stats
    for (const share of [0.5, 0.7, 0.9]) {
      const instructionBudget = Math.floor(share * warpInstructions)
      expect(await errorOf(() => kernel.run(args, { artifact, instructionBudget }))).toMatchObject({ code: 'KTL5014' })
      await kernel.run(args, { artifact })
      expect(await bytesOf(D)).toBe(expected)
    }
  })

  // A row of tiles more than the target's chip has SMs for.
  test('only what whole waves leave is cut, whatever the device', { timeout: 120_000 }, async () => {
    const waves = kind === 'sm90' ? 132 : 148
    const rows = 64 * (waves / 2) + 10
    const columns = 64
    const compute = async (smCount: number, parts: number): Promise<[Uint8Array, number]> => {
      await using own = await openDevice(`virtual-${kind}`, { smCount })
      const values = (count: number, step: number) =>
        Float32Array.from({ length: count }, (_, i) => ((i * step) % 1009) / 1009 - 0.5)
      const a = own.tensor('f16', [rows, K], values(rows * K, 37))
      const b = own.tensor('f16', [columns, K], values(columns * K, 101))
      const d = own.empty('f32', [rows, columns])
      const text = SOURCE.replaceAll('parts 3', `cluster 1x1\n  parts ${parts}`)
      const { family } = loadSource({ name: 'product.ktl', text }).kernels.product!
      const args = new KernelArguments({ family }, { A: a, B: b, D: d })
      const kernel = getKernels(args, { metadataFilter: ({ design }) => design.kind === kind })[0] as KtlKernel
      await kernel.run(args)
      return [await d.toBytes(), kernel.getWorkspaceSize(args)]
    }
    const [whole] = await compute(8, 1)
    const [cut, bytes] = await compute(8, 3)
    const [elsewhere] = await compute(20, 3)
    // Sums of parts are rounded in another order.
    const differing = new Set<string>()
    const words = (bytes: Uint8Array): Int32Array => new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
    words(whole).forEach((word, i) => {
      const [row, column] = [Math.floor(i / columns), i % columns]
      if (word !== words(cut)[i]) differing.add(`${Math.floor(row / 64)} ${Math.floor(column / 32)}`)
    })
    expect(differing.size).toBe(2)
    expect(Buffer.compare(elsewhere, cut)).toBe(0)
    expect(bytes).toBe((waves - 1) * 3 * (kind === 'sm90' ? 64 : 128) * 32 * 4)
  })
})

// Tiles of 64 x 64 sums in nine parts: on 18 SMs all run at once, wait for each other and sum up shares, on fewer the last of a tile does it alone.
const MEETING = [
  ['sm90', 'sm_90', 'consumers cooperative\n  tile 64x64\n  splits 1'],
  ['sm90', 'sm_90', 'consumers pingpong\n  tile 64x64'],
  ['sm100', 'sm_100', 'tile 64x64\n  scheduler static'],
  ['sm90', 'sm_80', 'tile 64x64'],
  ['sm100', 'sm_80', 'tile 128x128'],
] as const

test.each(sampled(MEETING))(
  'virtual-%s: parts on %s, %s, meet with the bytes of those that do not',
  { timeout: 60_000 },
  async (device, target, design) => {
    const text = `kernel product(A: f16[m, k], B: f16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }
schedule product on ${target} {
  ${design}
  parts 9
  reassociate
}`
    const [rows, columns, depth] = [120, 64, 1200]
    const compute = async (smCount: number): Promise<string> => {
      await using own = await openDevice(`virtual-${device}`, { smCount })
      const values = (count: number, step: number) =>
        Float32Array.from({ length: count }, (_, i) => ((i * step) % 1009) / 1009 - 0.5)
      const A = own.tensor('f16', [rows, depth], values(rows * depth, 37))
      const B = own.tensor('f16', [columns, depth], values(columns * depth, 101))
      const D = own.empty('f32', [rows, columns])
      const { family } = loadSource({ name: 'product.ktl', text }).kernels.product!
      const args = new KernelArguments({ family }, { A, B, D })
      const kind = target === 'sm_80' ? 'sm80' : device
      const asked = { ...(kind === 'sm80' && { cc: 80 }), where: { design: { kind } } } as const
      const kernel = getKernels(args, asked)[0] as KtlKernel
      const artifact = await kernel.compile(args)
      expect(artifact.recipe.grid).toMatchObject({ parts: 9, meets: true })
      const results = new Set<string>()
      // Who waits does not hold up the others: of so few instructions.
      for (const order of ['lazy', 'eager', 'random', 'random'] as const) {
        await own.memset(D.pointer, 0xff, D.byteLength)
        const seed = 1 + results.size
        const { findings } = await kernel.run(args, { artifact, order, seed, checks: 'full', instructionBudget: 1e6 })
        expect(findings).toEqual([])
        results.add(Buffer.from(await D.toBytes()).toString('base64'))
      }
      expect(results.size).toBe(1)
      return [...results][0]!
    }
    expect(await compute(18)).toBe(await compute(5))
  },
)

/** Rows of tiles so that a few are left behind a wave. */
const DESIGNS = [
  ...(FULL ? [['sm100', 'mma 1cta\n  tile 64x32\n  cluster 1x1\n  parts 2\n  share 3', 64 * 79, 64] as const] : []),
  ['sm90', 'consumers pingpong\n  tile 64x32\n  cluster 2x1\n  parts 3', 64 * 75, 64],
  ['sm90', 'consumers cooperative\n  tile 64x64\n  cluster 1x1\n  splits 2\n  parts 3', 64 * 70, 64],
  ['sm90', 'consumers cooperative\n  tile 64x32\n  cluster 1x1\n  parts 3\n  share 2', 64 * 69, 64],
  ['sm90', 'consumers cooperative\n  tile 128x32\n  cluster 1x1\n  operands ba\n  parts 4', 32 * 140, 128],
  ['sm100', 'mma 2cta\n  tile 256x32\n  cluster 2x1\n  scheduler clc\n  parts 3', 256 * 76, 32],
] as const

test.each(DESIGNS)('%s: %s, behind a whole wave', { timeout: 120_000 }, async (kind, design, rows, columns) => {
  await using device = await openDevice(`virtual-${kind}`, { smCount: 8 })
  const whole = (count: number, step: number) => Float32Array.from({ length: count }, (_, i) => ((i * step) % 17) - 8)
  const [a, b] = [whole(rows * K, 37), whole(columns * K, 101)]
  const D = device.empty('f32', [rows, columns])
  const text = `kernel product(A: f16[m, k], B: f16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }
schedule product on ${kind === 'sm90' ? 'sm_90' : 'sm_100'} {
  ${design}
  reassociate
}`
  const { family } = loadSource({ name: 'product.ktl', text }).kernels.product!
  const tensors = { A: device.tensor('f16', [rows, K], a), B: device.tensor('f16', [columns, K], b), D }
  const args = new KernelArguments({ family }, tensors)
  const kernel = getKernels(args, { metadataFilter: (one) => one.design.kind === kind })[0] as KtlKernel
  const artifact = await kernel.compile(args)
  for (const { order } of schedulesOf(design)) {
    await device.memset(D.pointer, 0xff, D.byteLength)
    const { findings } = await kernel.run(args, { artifact, order, seed: 3, checks: 'full' })
    expect(findings).toEqual([])
    const bytes = await D.toBytes()
    const got = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
    // One of 31 elements, and all of the last rows.
    for (let i = 0; i < rows * columns; i += i < (rows - 64) * columns ? 31 : 1) {
      const [row, column] = [Math.floor(i / columns), i % columns]
      let sum = 0
      for (let k = 0; k < K; k++) sum += a[row * K + k]! * b[column * K + k]!
      if (got[i] !== sum) expect([row, column, got[i]]).toEqual([row, column, sum])
    }
  }
})
