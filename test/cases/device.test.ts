/**
 * The table of device cases on the virtual devices, one test each (of stored forms in stored.test.ts), in the full test on each device; and
 * the table itself.
 */
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Sm90Plan } from '../../compiler/targets/sm90/plan.ts'
import type { Device } from '../../runtime/devices/device.ts'
import { openDevice, type DeviceSpec } from '../../runtime/devices/open.ts'
import type { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { runCase } from '../../runtime/selftest/run_case.ts'
import { FULL } from '../cases_of.ts'
import { uncovered } from './pairwise.ts'
import { prepareCase } from './prepare.ts'
import { GATED_CASES } from './gated_gemm.ts'
import { GROUPED_CASES } from './grouped_gemm.ts'
import { RESIDUAL_CASES } from './residual_gemm.ts'
import { SPLIT_CASES } from './split_gemm.ts'
import { STORED_CASES } from './stored_gemm.ts'
import { ODD_CASES } from './odd_gemm.ts'
import { UNALIGNED_CASES } from './unaligned_gemm.ts'
import { coveringRows, DEVICE_JSON, FACTORS, sm100GemmCases, toJson } from './sm100_gemm.ts'

const table = JSON.parse(readFileSync(DEVICE_JSON, 'utf8')) as DeviceCase[]
const stored = new Set(STORED_CASES.map(({ name }) => name))
const cases = table.filter(({ name }) => !stored.has(name))

const rows = coveringRows()
/** Of the rows, those that `npm test` runs. */
const FIRST_ROWS = 26
/** Cases of forms that others here have, or that tests of lowerings and epilogues run on both devices. */
const COMBINED = [
  'gelu and silu on the tensor-core path, 130x136x72',
  'tanh and sigmoid on the tensor-core path, 65x40x24',
  'exp and softplus on the tensor-core path, 130x136x72',
  'elu and hardswish on the tensor-core path, 65x40x24',
  'dgemm, batches',
  'sgemm, batches',
  'f32 in parts, both along k',
  'loops: low-rank update of few ranks',
  'loops: sum over heads',
  'loops: gated, both with an update',
  'groups: a bias of each',
  'groups: few rows of each, as columns',
  'groups: none has rows',
  'groups: rows of a group that share scales',
  'groups: gradients of mxfp8',
  'groups: gradients',
  'split: three parts, fewer k tiles',
  'split: clusters that share an operand and k, parts of them, fewer k tiles',
  'split: three parts of groups',
  'split: nine parts that meet',
  'split: two parts, shared by two tiles',
  'split: ten parts of clusters that meet',
  'split: four parts, shared by three tiles',
  'split: three parts, shared by four tiles of clusters',
  'split: three parts by mma.sync, shared by two tiles',
  'split: three parts, shared by two tiles, of tensor memory',
  'split: nine parts that meet, of warpgroups that take turns',
  'split: parts that are too many to meet',
  'split: ten parts that meet by mma.sync, of rows that TMA does not take',
  'split: eight parts by mma.sync, each of which finishes a share, and an operand of each element',
  'split: nine parts that meet in tensor memory',
  'unaligned: of floats',
  'unaligned: of bytes',
  'unaligned: operands by words',
  'unaligned: short sums',
  'unaligned: three warpgroups, operands that lanes load',
  'products: spans of half the swizzle',
  'products: more columns than an MMA has',
  'products: of integers',
  'products: scales of each column, summed one by one',
  'columns: 56, two outputs',
  'columns: 88, rows that begin anywhere',
  'groups: one has nearly all rows',
  'split: three parts by mma.sync, of rows that TMA does not take',
  'split: scales in blocks, parts of clusters',
  'unaligned: operands of the epilogue that lanes load, on one tile',
  'unaligned: overlap of floats, a sliver at the end',
  'unaligned: overlap of bytes',
  'unaligned: overlap of bytes, half of the lanes',
  'unaligned: overlap of floats that the device hands out, a sliver at the end',
  'unaligned: overlap of tiles, rows that end with a sub-tile',
  'unaligned: overlap, from tensor memory, rows that end with a sub-tile',
  'products: scales of each column, three warpgroups',
  'products: scales in blocks, two blocks of rows',
  'columns: 40, parts of k of clusters',
  'columns: 72, transposed, operands across',
  'columns: 24 of tensor memory, two outputs',
  'columns: 56 of tensor memory, transposed',
]
const turnOf = (spec: DeviceSpec): number => (spec === 'virtual-sm90' ? 0 : 1)
/** On one of the devices in turn; parts of k, tiles that overlap or are for one target, elements ahead and copies by other warps, where their schedules are for. */
function casesOf(spec: DeviceSpec): readonly DeviceCase[] {
  return cases.filter(({ name, design }, i) => {
    if (FULL) return true
    if (COMBINED.includes(name)) return false
    if (/^(split|columns|products|residual): |overlap|ahead|other warps/.test(name))
      return (design.kind === 'sm100') === (spec === 'virtual-sm100')
    return i < rows.length ? i < FIRST_ROWS && i % 2 === turnOf(spec) : (i + 1) % 2 === turnOf(spec)
  })
}

describe('the table', () => {
  test('has the cases that are left to the full test', () => {
    const names = cases.map(({ name }) => name)
    expect(COMBINED.filter((name) => !names.includes(name))).toEqual([])
  })
  test('the rows of each device have every value of each factor', () => {
    for (const spec of ['virtual-sm90', 'virtual-sm100'] as const) {
      const run = rows.filter((_, i) => i < FIRST_ROWS && i % 2 === turnOf(spec))
      const valuesOf = (factor: keyof typeof FACTORS) =>
        [...new Set<string | number>(run.map((row) => row[factor]))].sort()
      for (const [factor, values] of Object.entries(FACTORS))
        expect(valuesOf(factor as keyof typeof FACTORS)).toEqual([...values].sort())
    }
  })
  test('is what its program gives: `npx tsx test/cases/sm100_gemm.ts` writes it', () => {
    expect(readFileSync(DEVICE_JSON, 'utf8')).toBe(toJson(sm100GemmCases()))
  })
  test('every pair of values of two factors occurs', () => {
    expect(uncovered(FACTORS, coveringRows())).toEqual([])
  })
  test('has at least 60 cases with names of their own', () => {
    expect(table.length).toBeGreaterThanOrEqual(60)
    expect(new Set(table.map(({ name }) => name)).size).toBe(table.length)
  })
})

/** A test for each case; the kernels that ran, once they have. */
function runTable(spec: DeviceSpec): KtlKernel[] {
  const kernels: KtlKernel[] = []
  let device: Device
  beforeAll(async () => {
    device = await openDevice(spec)
  })
  afterAll(() => device.close())

  test.each(casesOf(spec))('$name', async (testCase) => {
    const prepared = await prepareCase(device, testCase)
    const { kernel } = prepared
    expect(kernel, 'a kernel of the design').not.toBeNull()
    kernels.push(kernel!)
    const { pass, text } = await runCase(prepared)
    expect(pass, `${kernel!.metadata.kernelName}: ${text}`).toBe(true)
  })
  return kernels
}

describe('virtual-sm100', () => {
  const kernels = runTable('virtual-sm100')
  test('in at most 72 nvcc runs, and one for each kernel of groups, of parts, of several products or of unaligned rows', () => {
    const forms = new Set(
      // Operands whose rows are padded may have another alignment.
      [...GROUPED_CASES, ...SPLIT_CASES, ...GATED_CASES, ...UNALIGNED_CASES, ...RESIDUAL_CASES, ...ODD_CASES].map(
        ({ source, design, operands }) => JSON.stringify([source, design.tile, operands]),
      ),
    )
    const names = kernels.map(({ metadata }) => metadata.kernelName)
    expect(new Set(names).size).toBeLessThanOrEqual(72 + forms.size)
  })
})

// Its own kernels for the same problems: what compute-sanitizer sees on a Hopper GPU.
describe('virtual-sm90', () => {
  const kernels = runTable('virtual-sm90')
  test('designs of every kind', () => {
    const kinds90 = casesOf('virtual-sm90').map(({ design: { kind } }) => (kind === 'sm100' ? 'sm90' : kind))
    expect(kernels.map(({ plan }) => plan.kind)).toEqual(kinds90)
    const plans = kernels.map(({ plan }) => plan).filter((plan): plan is Sm90Plan => plan.kind === 'sm90')
    const kinds: readonly ((plan: Sm90Plan) => boolean)[] = [
      ({ design }) => design.consumers === 'pingpong',
      ({ storeWarps }) => storeWarps,
      ({ inPlace }) => inPlace,
      ({ behind }) => behind?.held === 'stages',
      ({ behind }) => behind?.held === 'registers',
      ({ splits }) => splits === 4,
      ({ splits, cluster }) => splits > 1 && cluster.size > splits,
      ({ rowBlocks }) => rowBlocks === 2,
      ({ design }) => design.cluster[0] === 2,
      ({ design }) => design.cluster[1] === 2,
      ({ design }) => design.operands === 'ba',
    ]
    expect(kinds.map((kind) => plans.some(kind))).toEqual(kinds.map(() => true))
  })
})
