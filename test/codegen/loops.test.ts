/** Contractions that are no plain matrix product: several in one accumulator, one after the other, and sums over several axes. */
import { expect, test } from 'vitest'
import { openDevice } from '../../runtime/index.ts'
import { runCase } from '../../runtime/selftest/run_case.ts'
import { prepareCase } from '../cases/prepare.ts'
import { FULL, inTurn } from '../cases_of.ts'

const KERNELS = {
  lora: 'kernel lora(X: f16[m, k], W: f16[k, n], P: f16[m, r], U: f16[r, n]) -> D: f32[m, n] { D = sum[k](X * W) + sum[r](P * U) }',
  fused: `kernel fused(X: bf16[l?, m, k], W: bf16[l?, n, k], P: bf16[l?, m, r], U: bf16[l?, n, r], bias: f32[n], C: bf16[l?, m, n], alpha: f32) -> D: bf16[l?, m, n] {
  D = relu((sum[k](X * W) + sum[r](P * U)) * alpha + bias + C)
}`,
  gated: `kernel gated(X: bf16[m, k], G: bf16[n, k], B: bf16[n, k], P: bf16[m, r], H: bf16[n, r], U: bf16[n, r]) -> D: f32[m, n] {
  D = relu(sum[k](X * G) + sum[r](P * H)) * (sum[k](X * B) + sum[r](P * U))
}`,
  three: `kernel three(X: i8[m, k], W: i8[n, k], P: i8[m, r], U: i8[n, r], Q: i8[m, q], V: i8[n, q]) -> D: i32[m, n] {
  D = sum[k](X * W) + sum[r](P * U) + sum[q](V * Q)
}`,
  heads: 'kernel heads(O: bf16[m, k, r], W: bf16[k, r, n]) -> D: f32[m, n] { D = sum[k, r](O * W) }',
  heads_major: 'kernel heads_major(O: bf16[m, k, r], W: bf16[n, k, r]) -> D: f32[m, n] { D = sum[k, r](O * W) }',
  deep: 'kernel deep(O: f16[l, m, q, j, r], W: f16[l, q, n, j, r]) -> D: f32[l, m, n] { D = sum[q, j, r](O * W) }',
  both: `kernel both(O: bf16[m, k, r], W: bf16[k, r, n], P: bf16[m, q], U: bf16[q, n]) -> D: f32[m, n] {
  D = sum[k, r](O * W) + sum[q](P * U)
}`,
} as const
type Kernel = keyof typeof KERNELS

/** The last one is not aligned for TMA. */
const EXTENTS = [
  { m: 200, n: 144, k: 80, r: 16, q: 48, l: 2, j: 3 },
  { m: 130, n: 64, k: 32, r: 0, q: 16, l: 2, j: 2 },
  { m: 64, n: 32, k: 0, r: 0, q: 0, l: 1, j: 5 },
  { m: 67, n: 51, k: 35, r: 7, q: 3, l: 2, j: 4 },
] as const

const TARGETS = [
  {
    device: 'virtual-sm90',
    kind: 'sm90',
    tile: [128, 64],
    on: 'sm_90',
    schedule: 'consumers cooperative\n tile 128x64',
  },
  {
    device: 'virtual-sm90',
    kind: 'sm90',
    tile: [64, 64],
    on: 'sm_90',
    schedule: 'consumers pingpong\n tile 64x64\n cluster 2x1',
  },
  {
    device: 'virtual-sm90',
    kind: 'sm90',
    tile: [128, 32],
    on: 'sm_90',
    schedule: 'tile 128x32\n consumers cooperative\n splits 4\n reassociate',
  },
  {
    device: 'virtual-sm100',
    kind: 'sm100',
    tile: [128, 64],
    on: 'sm_100',
    schedule: 'mma 1cta\n tile 128x64\n scheduler clc',
  },
  {
    device: 'virtual-sm100',
    kind: 'sm100',
    tile: [256, 64],
    on: 'sm_100',
    schedule: 'mma 2cta\n tile 256x64\n cluster 2x1',
  },
] as const

/** Which kernel runs on which targets: each on one of SM90 and one of SM100, so that every pair of forms is met; where not all runs, on one of the two. */
const cases = (Object.keys(KERNELS) as Kernel[]).flatMap((kernel, i) =>
  [
    { kernel, ...TARGETS[i % 3]! },
    { kernel, ...TARGETS[3 + (i % 2)]! },
  ].filter((_, at) => FULL || at === (i >> 1) % 2),
)

test.each(cases)(
  '$kernel on $device, $schedule',
  async ({ kernel, device: name, kind, tile, on, schedule }) => {
    const device = await openDevice(name, { smCount: 8 })
    const text = KERNELS[kernel]
    const source = `${text}\nschedule ${kernel} on ${on} {\n ${schedule}\n}\n`
    const axes = new Set(
      [...text.matchAll(/\[([^\]]*)\]/g)].flatMap(([, list]) => list!.replaceAll('?', '').split(', ')),
    )
    const kinds = new Set<string>()
    for (const all of FULL ? EXTENTS : [...inTurn(kernel + on, EXTENTS.slice(0, 3)), EXTENTS[3]]) {
      const extents = Object.fromEntries(Object.entries(all).filter(([axis]) => axes.has(axis)))
      const prepared = await prepareCase(device, {
        name: kernel, kernel, source, types: {}, operands: {}, inputs: 'integers', extents,
        ...(kernel === 'fused' && { scalars: { alpha: 2 } }), design: { kind, tile },
      }) // prettier-ignore
      const result = await runCase(prepared, { order: 'random', seed: 3, checks: 'full' })
      expect(`${JSON.stringify(extents)}: ${result.text}`).toBe(`${JSON.stringify(extents)}: max error 0`)
      expect(result.pass).toBe(true)
      kinds.add(prepared.kernel!.metadata.design.kind)
    }
    expect(kinds.has('simt')).toBe(false)
    expect(kinds.has(kind)).toBe(true)
    await device.close()
  },
  300_000,
)

test('products of sums over different axes are left to the CUDA cores, which say why', async () => {
  const device = await openDevice('virtual-sm90')
  const source =
    'kernel f(A: f16[m, k], B: f16[k, n], C: f16[m, r], E: f16[r, n]) -> D: f32[m, n] { D = sum[k](A * B) * sum[r](C * E) }'
  const prepared = await prepareCase(device, {
    name: 'f', kernel: 'f', source, types: {}, operands: {}, inputs: 'integers', extents: { m: 40, n: 24, k: 16, r: 8 }, design: { kind: 'simt' },
  }) // prettier-ignore
  expect((await runCase(prepared)).text).toBe('max error 0')
  await device.close()
})
