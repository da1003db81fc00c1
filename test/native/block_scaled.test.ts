import { describe, expect, test } from 'vitest'
import { FULL } from '../cases_of.ts'
import { TestDevice, compileToPtx, differences } from './device.ts'
import {
  depthOf,
  expectedTile,
  type Form,
  gemmKernel,
  mapsOf,
  multiplyOf,
  nameOf,
  randomOperand,
  scaledPrelude,
  sharedBytes,
} from './block_scaled.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'

// GEMM tiles of every block-scaled kind, written by hand: TMA of operands and atoms of scales, tcgen05.cp, tcgen05.mma.

const mx = (a: Form['a'], b: Form['b'], change: Partial<Form> = {}): Form => ({
  kind: 'mxf8f6f4', scaleVector: '.scale_vec::1X', a, b, scale: 'ue8m0', block: 32, group: 1, n: 128, ...change,
}) // prettier-ignore
const four = (kind: Form['kind'], scaleVector: string, scale: Form['scale'], block: 16 | 32, change: Partial<Form> = {}): Form => ({
  kind, scaleVector, a: 'e2m1', b: 'e2m1', scale, block, group: 1, n: 128, ...change,
}) // prettier-ignore

const FORMS: Form[] = [
  mx('e4m3', 'e4m3'),
  mx('e5m2', 'e4m3', { scaleVector: '', n: 256 }),
  mx('e4m3', 'e2m1', { scaleVector: '.block32' }),
  mx('e3m2', 'e2m3', { n: 64 }),
  mx('e4m3', 'e4m3', { group: 2 }),
  mx('e4m3', 'e2m1', { group: 2, n: 256 }),
  four('mxf4', '', 'ue8m0', 32),
  four('mxf4', '.scale_vec::2X', 'ue8m0', 32, { group: 2 }),
  four('mxf4nvf4', '.scale_vec::2X', 'ue8m0', 32, { n: 64 }),
  four('mxf4nvf4', '.scale_vec::4X', 'ue4m3', 16),
  four('mxf4nvf4', '.block16', 'ue8m0', 16, { n: 192 }),
  four('mxf4nvf4', '.block16', 'ue4m3', 16, { group: 2, n: 256 }),
]
const STAGES = 5
const gpu = new TestDevice(
  compileToPtx([prelude, scaledPrelude, ...FORMS.flatMap((f) => [multiplyOf(f), gemmKernel(f)])].join('')),
)

async function run(f: Form, stages: number, bug: number, launch: Parameters<TestDevice['run']>[2]) {
  const depth = depthOf(f, stages)
  const a = randomOperand(f, f.a, 128 * f.group, depth)
  const b = randomOperand(f, f.b, f.n, depth)
  const out = gpu.allocate(128 * f.group * f.n * 4)
  const { findings } = await gpu.run(nameOf(f), [...mapsOf(gpu, f, a, b, depth), out, stages, bug], {
    grid: [f.group, 1, 1],
    block: [192, 1, 1],
    cluster: [f.group, 1, 1],
    sharedMemBytes: sharedBytes(f),
    checks: 'full',
    ...launch,
  })
  return { findings, got: gpu.read(out, 128 * f.group * f.n, Float32Array), expected: expectedTile(f, a, b, depth) }
}

describe.each(ORDERS.map((o) => [describeOrder(o), o] as const))('%s', (_, order) => {
  // Each form in one of them, in turn.
  const isMet = (i: number): boolean => FULL || i % ORDERS.length === ORDERS.indexOf(order)
  test.each(FORMS.map((f) => [nameOf(f), f] as const).filter((_, i) => isMet(i)))('%s', async (_, f) => {
    const { findings, got, expected } = await run(f, STAGES, 0, order)
    expect(findings).toEqual([])
    expect(differences(got, expected)).toEqual([])
  })
})

const BUGS: [number, string, string, RegExp][] = [
  [1, 'the scales of A are never copied', 'KTL5004', /uninitialised/],
  [2, 'no wait for the loads', 'KTL5004', /uninitialised/],
  [3, 'scales from columns that nobody wrote', 'KTL5004', /uninitialised/],
  [4, 'a scale factor id that the size does not have', 'KTL5010', /the scale factor id of A is 1/],
  [5, 'no wait for the products', 'KTL5019', /nothing orders the two|without a wait for a tcgen05.commit/],
  [6, 'scales behind the allocation', 'KTL5009', /the scales of A of tcgen05.mma touches columns 767-770/],
]
describe('a step left out or done otherwise', () => {
  test.each(BUGS)('%i: %s', async (bug, _, code, message) => {
    for (const f of [FORMS[7]!, FORMS[9]!]) {
      const { findings } = await run(f, 2, bug, {})
      expect(findings.map((x) => x.code)).toContain(code)
      expect(findings.find((x) => x.code === code)!.message).toMatch(message)
    }
  })
})
