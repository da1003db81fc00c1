import { describe, expect, test } from 'vitest'
import {
  GemmArguments,
  getKernels,
  Kernel,
  Sm100DesignMetadata,
  type KernelMetadata,
  type Where,
} from '../../runtime/index.ts'
import { ascending } from '../../runtime/discovery/ranking/order.ts'
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'

const device = new MemoryDevice()
const gemm = ([m, n, k]: readonly [number, number, number]) =>
  new GemmArguments({
    A: device.empty('f16', [m, k]),
    B: device.empty('f16', [k, n]),
    out: device.empty('f16', [m, n]),
  })
const args = gemm([256, 256, 64])
const names = (list: readonly Kernel[]): string[] => list.map((kernel) => kernel.metadata.kernelName)

describe('where', () => {
  const sm100 = (test: (design: Sm100DesignMetadata) => boolean) => (metadata: KernelMetadata) =>
    metadata.design instanceof Sm100DesignMetadata && test(metadata.design)
  const cases: [Where, (metadata: KernelMetadata) => boolean][] = [
    [{ design: { use2ctaMma: true, tileShape: [256, null, null] } }, sm100((d) => d.use2ctaMma && d.tileShape[0] === 256)],
    [{ design: { clusterShape: { in: [[1, 1, 1], [2, 2, 1]] }, tileScheduler: 'clc' } },
      sm100((d) => ['1,1,1', '2,2,1'].includes(d.clusterShape.join()) && d.tileScheduler === 'clc')],
    [{ design: { fallbackClusterShape: null, operands: 'ba' } }, sm100((d) => d.operands === 'ba')],
    [{ design: { kind: 'simt' } }, (m) => m.design.kind === 'simt'],
    [{ design: { useTmaStore: false, stages: { in: [11, 12] } } }, sm100((d) => !d.useTmaStore && [11, 12].includes(d.stages))],
    [{ operands: { out: { dtype: { in: ['f16', 'f32'] }, stride: [null, null, 1] } } }, () => true],
    [{ operands: { A: { dtype: 'bf16' } } }, () => false],
    [{ operands: { accumulatorType: 'f32', tensors: { A: { divisibility: 8 } } } }, (m) => m.operands.tensors['A']!.divisibility === 8],
  ] // prettier-ignore
  test.each(cases)('%j says what a predicate says', (where, metadataFilter) => {
    expect(names(getKernels(args, { where }))).toEqual(names(getKernels(args, { metadataFilter })))
  })

  test('names that nothing has, and values that are none', async () => {
    const of = (where: object) => errorOf(() => getKernels(args, { where: where as Where }))
    expect(await of({ design: { tileshape: [128] } })).toMatchObject({ code: 'KTL4023', message: expect.stringContaining('did you mean `tileShape`?') })
    expect((await of({ desing: {} })).message).toContain('did you mean `design`?')
    expect((await of({ operands: { out: { dtpye: 'f16' } } })).message).toContain('did you mean `dtype`?')
    expect((await of({ operands: { out: { dtype: 'f17' } } })).code).toBe('KTL4015')
    expect((await of({ design: { tileShape: { in: 128 } } })).code).toBe('KTL4015')
    expect((await of({ design: { tileShape: { any: [] } } })).code).toBe('KTL4023')
    expect((await of({ design: 3 })).code).toBe('KTL4015')
    // What no kernel has would give an empty list, and no reason.
    const short = await of({ design: { tileShape: [128] } })
    expect([short.code, short.message]).toEqual(['KTL4015', expect.stringContaining('3 extents, null for any, as in [128, null, null]')])
    for (const design of [
      { tileShape: 128 }, { tileShape: [128, 'x', 1] }, { clusterShape: [1, 1, 1, 1] }, { clusterShape: { in: [[1, 1, 1], [2, 1]] } },
      { fallbackClusterShape: [2] }, { warps: [2] }, { kind: 'hopper' }, { use2ctaMma: 'yes' }, { stages: '4' }, { stages: null },
      { tileScheduler: 'dynamic' }, { mmaInstructionType: 5 }, { threads: { in: [undefined] } }, { splits: { in: 2 } },
    ]) expect((await of({ design })).code, JSON.stringify(design)).toBe('KTL4015')
    for (const A of [{ stride: 1 }, { divisibility: 'vector' }, { dtype: null }]) expect((await of({ operands: { A } })).code).toBe('KTL4015')
    expect((await of({ operands: { accumulatorType: 'f8' } })).code).toBe('KTL4015')
    expect(getKernels(args, { where: { design: { fallbackClusterShape: null, mmaInstructionType: null } } }).why).toContain('where')
  }) // prettier-ignore
})

describe('the list', () => {
  test('is an array to all that look at it', () => {
    const list = getKernels(args, { limit: 5 })
    expect(Array.isArray(list)).toBe(true)
    expect([list.length, Object.keys(list).length, [...list].length, list.slice(1, 3).length]).toEqual([5, 5, 5, 2])
    expect(list[0]).toBe(list.at(0))
    expect([4 in list, 5 in list, list[5]]).toEqual([true, false, undefined])
    expect(list.map(String)).toEqual(Array.from(list, String))
    expect(JSON.parse(JSON.stringify(list))).toHaveLength(5)
    expect([list.why, getKernels(args, { limit: 0 }).why]).toEqual([null, expect.stringContaining('limit')])
    expect(list.toReversed().at(-1)).toBe(list[0])
    list.reverse()
    expect(list[4]!.rankReason).toContain('the next one')
    expect([list.pop(), list.length]).toEqual([expect.any(Kernel), 4])
  })

  test('is in the order of the estimates, equal ones by name', () => {
    const list = getKernels(args)
    const times = list.map((kernel) => kernel.estimate!(args).microseconds)
    expect(times.every((time, i) => i === 0 || times[i - 1]! <= time * (1 + 1e-9))).toBe(true)
  })
})

test('ascending: by time, then by index', () => {
  const times = [3, 1, 2, 1, 1e9, 1e-9, 0]
  expect([...ascending(Float64Array.from(times))]).toEqual([6, 5, 1, 3, 2, 0, 4])
  expect([...ascending(new Float64Array(0))]).toEqual([])
})

describe('the cost model', () => {
  const time = (query: GemmArguments, design: Where['design']) => {
    const [kernel] = getKernels(query, { where: { design: { kind: 'sm100', useTmaStore: true, ...design } } })
    return kernel!.estimate!(query).microseconds
  }
  // Made once: its memory is written.
  const big = gemm([8192, 8192, 8192])
  const small = gemm([256, 256, 256])

  test('multicast divides what is read from L2', () => {
    const tile = { tileShape: [128, 64, 64], tileScheduler: 'clc' } as const
    expect(time(big, { ...tile, clusterShape: [4, 1, 1] })).toBeLessThan(
      time(big, { ...tile, clusterShape: [1, 1, 1] }),
    )
  })
  test('clc gains where there are many waves, and costs a start where there is one', () => {
    const at = (query: GemmArguments, tileScheduler: 'static' | 'clc') =>
      time(query, { tileShape: [256, 256, 64], clusterShape: [2, 1, 1], tileScheduler })
    expect(at(big, 'clc')).toBeLessThan(at(big, 'static'))
    expect(at(small, 'static')).toBeLessThan(at(small, 'clc'))
  })
  test('a fallback cluster uses the SMs that whole clusters leave', () => {
    const at = (fallbackClusterShape: readonly [number, number, number] | null) =>
      time(big, { tileShape: [256, 256, 64], clusterShape: [4, 4, 1], tileScheduler: 'clc', fallbackClusterShape })
    expect(at([2, 1, 1])).toBeLessThan(at(null))
  })
  test('few rows are best as few columns', () => {
    expect(getKernels(gemm([8, 8192, 8192]))[0]!.metadata.design).toMatchObject({ operands: 'ba' })
  })
})
