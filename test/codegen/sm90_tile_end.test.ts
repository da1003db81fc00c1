/** The end of a tile of SM90 kernels: operands along n and m are loaded ahead of the epilogue, and the last stage stops at k. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { planSm90, type Sm90Plan } from '../../compiler/targets/sm90/plan.ts'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import {
  getKernels,
  KernelArguments,
  KtlKernel,
  loadSource,
  openDevice,
  type Device,
  type DTypeName,
  type Tensor,
} from '../../runtime/index.ts'
import { schedulesOf } from '../cases_of.ts'
import { bound, graphOf } from '../compiler/support.ts'

const KERNEL = `kernel rows(A: f16[m, k], B: f16[n, k], a: bf16[n], b: f32[n], c: i8[n], s: f32) -> D: f32[m, n] {
  D = sum[k](A * B) + a + skip0(s) * b + c
}`
const schedule = (text: string): string => `${KERNEL}\nschedule rows on sm_90 {\n ${text}\n}\n`
const SCHEDULES = {
  cooperative: 'consumers cooperative\n tile 128x64',
  '256 rows': 'consumers cooperative\n tile 256x32',
  'ping-pong': 'consumers pingpong\n tile 64x64',
  'k split in 2': 'consumers cooperative\n tile 128x64\n splits 2\n reassociate',
} as const

let device: Device
beforeAll(async () => void (device = await openDevice('virtual-sm90')))
afterAll(() => device.close())

/** A row of small whole numbers from element `offset` of its storage on; NaN or 99 before and behind it. */
function row(dtype: DTypeName, n: number, { offset = 0 } = {}): { tensor: Tensor; values: number[] } {
  const values = Array.from({ length: n }, (_, i) => ((i * 7) % 23) - 11)
  const stored = new Array<number>(n + offset + 1).fill(dtype === 'i8' ? 99 : NaN)
  values.forEach((value, i) => (stored[i + offset] = value))
  const tensor = device.tensor(dtype, [stored.length], stored).view([n], { offset })
  return { tensor, values }
}

describe.each(Object.entries(SCHEDULES))('%s', (_, text) => {
  test.each([
    ['dense', 144, {}, 3],
    ['an odd extent', 77, {}, 3],
    ['not at a multiple of a pair', 144, { offset: 1 }, 3],
    ['left out by a scalar of 0', 144, {}, 0],
  ])('%s', async (_, n, layout, s) => {
    const [m, k] = [136, 40]
    const whole = (count: number): number[] => Array.from({ length: count }, (_, i) => ((i * 5) % 7) - 3)
    const [left, right] = [whole(m * k), whole(n * k)]
    const [a, b, c] = [row('bf16', n, layout), row('f32', n, layout), row('i8', n, layout)]
    // Nothing of an operand that a scalar leaves out is read.
    if (s === 0) b.tensor = device.tensor('f32', [n], new Array<number>(n).fill(NaN))
    const A = device.tensor('f16', [m, k], left)
    const B = device.tensor('f16', [n, k], right)
    const D = device.tensor('f32', [m, n], new Array<number>(m * n).fill(NaN))
    const { rows } = loadSource({ name: 'rows.ktl', text: schedule(text) }).kernels
    const args = new KernelArguments(rows!, { A, B, a: a.tensor, b: b.tensor, c: c.tensor, s, D })
    const kernel = Array.from(getKernels(args)).find(({ metadata }) =>
      metadata.kernelName.includes('sm90'),
    ) as KtlKernel
    const artifact = await kernel.compile(args)
    for (const { order } of schedulesOf(text)) {
      await kernel.run(args, { artifact, order, seed: 3, checks: 'full' })
      const actual = await D.toArray()
      const expected = Array.from({ length: m * n }, (_, at) => {
        const [i, j] = [Math.floor(at / n), at % n]
        let sum = 0
        for (let x = 0; x < k; x++) sum += left[i * k + x]! * right[j * k + x]!
        return sum + a.values[j]! + (s === 0 ? 0 : b.values[j]! * s) + c.values[j]!
      })
      expect(Array.from(actual as ArrayLike<number>)).toEqual(expected)
    }
  })
})

describe('the last stage of a tile', () => {
  // Of 64 elements of k; k = 40 has three steps of 16.
  test.each([
    ['consumers cooperative\n tile 128x64', 128 * 64 * 48],
    ['consumers cooperative\n tile 64x64', 64 * 64 * 48],
    ['consumers pingpong\n tile 64x64', 64 * 64 * 64],
  ])('%s: multiplies %i pairs', async (text, macs) => {
    const [m, n, k] = [60, 50, 40]
    const ones = (count: number): number[] => new Array<number>(count).fill(1)
    const source = `kernel plain(A: f16[m, k], B: f16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule plain on sm_90 {\n ${text}\n}\n`
    const { plain } = loadSource({ name: 'plain.ktl', text: source }).kernels
    const D = device.tensor('f32', [m, n], new Array<number>(m * n).fill(NaN))
    const args = new KernelArguments(plain!, {
      A: device.tensor('f16', [m, k], ones(m * k)),
      B: device.tensor('f16', [n, k], ones(n * k)),
      D,
    })
    const kernel = Array.from(getKernels(args)).find(({ metadata }) =>
      metadata.kernelName.includes('sm90'),
    ) as KtlKernel
    const { stats } = await kernel.run(args, { artifact: await kernel.compile(args) })
    expect(stats.tensorMacs).toBe(macs)
    expect(new Set(await D.toArray())).toEqual(new Set([k]))
  })
})

describe('planning', () => {
  const planned = (tile: readonly [number, number], consumers: Sm90Design['consumers'], splits = 1): Sm90Plan => {
    const design: Sm90Design = { kind: 'sm90', consumers, tile: [...tile, 64], cluster: [1, 1, splits], parts: 1, operands: 'ab', stages: 'auto' }
    const program = bound(schedule('reassociate'))
    const plan = planSm90({ program, target: 'sm_90a', design }, graphOf(program))
    if (!('kind' in plan)) throw new Error(`${plan.code} ${plan.reason}`)
    return plan
  }

  test('what registers have room for is loaded ahead', () => {
    expect(planned([128, 64], 'cooperative').ahead).toEqual(['a', 'b', 'c'])
    expect(planned([64, 64], 'pingpong').ahead).toEqual(['a', 'b', 'c'])
    expect(planned([128, 256], 'cooperative').ahead).toEqual(['a', 'b', 'c'])
    expect(planned([128, 64], 'cooperative', 2).ahead).toEqual([])
  })
}) // prettier-ignore
