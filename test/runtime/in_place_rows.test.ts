/**
 * A tensor that is updated in place, whose rows begin anywhere: pieces of 16 bytes of what is read may have elements of a neighbour that another
 * CTA writes, which must not be read.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  EpilogueArguments,
  GemmArguments,
  getKernels,
  KtlKernel,
  openDevice,
  type Device,
} from '../../runtime/index.ts'

let device: Device
beforeAll(async () => void (device = await openDevice('virtual-sm90')))
afterAll(() => device?.close())

const integers = (count: number, seed: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => (((i + seed) * 7919) % 7) - 3)

test.each([
  ['sm90', 261, 'f16', 'f16'],
  ['sm90', 262, 'f16', 'f16'],
  ['sm90', 131, 'f16', 'f32'],
  ['sm80', 261, 'f16', 'f16'],
] as const)('%s, %i columns, %s to %s', { timeout: 60_000 }, async (kind, n, from, to) => {
  const [m, k] = [150, 40]
  const A = device.tensor(from, [m, k], integers(m * k, 1))
  const B = device.tensor(from, [k, n], integers(k * n, 2))
  const out = device.tensor(to, [m, n], integers(m * n, 3))
  const [a, b, before] = [await A.toArray(), await B.toArray(), await out.toArray()]
  const args = new GemmArguments({ A, B, out, epilogue: new EpilogueArguments('D = acc + C', { C: out, D: out }) })
  const goesByRows = ({ plan }: KtlKernel): boolean =>
    plan.kind === kind && plan.tile[0] >= 64 && plan.tile[1] === 128 && plan.epilogue.aux.some(({ rows }) => rows)
  const kernel = [...getKernels(args)].find((one): one is KtlKernel => one instanceof KtlKernel && goesByRows(one))!
  const { findings } = await kernel.run(args, { checks: 'full', order: 'random', seed: 5 })
  expect(findings).toEqual([])
  const sums = Array.from({ length: m * n }, (_, i) => {
    const [row, column] = [Math.floor(i / n), i % n]
    let sum = before[i]!
    for (let j = 0; j < k; j++) sum += a[row * k + j]! * b[j * n + column]!
    return sum
  })
  expect([...(await out.toArray())]).toEqual(sums)
})
