/** Metadata as users make, check, filter and send them. */
import { describe, expect, expectTypeOf, test } from 'vitest'
import {
  BLASDesignMetadata, deviceSupports, ElementwiseArguments, ElementwiseOperandsMetadata, EpilogueArguments, EpilogueMetadata, GemmArguments,
  GemmOperandsMetadata, getKernels, KernelArguments, KernelMetadata, layoutString, loadSource, OperandsMetadata, PerformanceControls, SimtDesignMetadata,
  Sm100DesignMetadata, Sm80DesignMetadata, Sm90DesignMetadata, Status, TensorAttributes, type DesignMetadata, type Tensor,
} from '../../runtime/index.ts' // prettier-ignore
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'

const device = new MemoryDevice()
const A = device.empty('f16', [2, 64, 64])
const B = device.empty('f16', [2, 64, 48])
const out = device.empty('f32', [2, 64, 48])
const gemm = (fields: object = {}) => new GemmArguments({ A, B, out, ...fields })
const rowMajor = (dtype: 'f16' | 'f32' | 'f64', divisibility = 1) =>
  new TensorAttributes(dtype, [0, 0, 1], divisibility)
const operands = new GemmOperandsMetadata(rowMajor('f16', 8), rowMajor('f16', 8), rowMajor('f32', 4), 'f32')
const design = new Sm100DesignMetadata([256, 128, 64], [2, 1, 1], true, true)
const metadata = new KernelMetadata('mine', 'Mine', 100, operands, design)

describe('positional construction is object construction', () => {
  const pairs: [string, object, object][] = [
    ['TensorAttributes', rowMajor('f16', 8), new TensorAttributes({ dtype: 'f16', stride: [0, 0, 1], divisibility: 8 })],
    ['GemmOperandsMetadata', operands, new GemmOperandsMetadata({ A: operands.A, B: operands.B, out: operands.out, accumulatorType: 'f32' })],
    ['BLASDesignMetadata', new BLASDesignMetadata([1, 2, 3], [1, 1, 1]), new BLASDesignMetadata({ tileShape: [1, 2, 3], clusterShape: [1, 1, 1] })],
    ['Sm100DesignMetadata', design, new Sm100DesignMetadata({ tileShape: [256, 128, 64], clusterShape: [2, 1, 1], use2ctaMma: true, useTmaStore: true,
      tileScheduler: 'static', fallbackClusterShape: null, operands: 'ab', stages: 0, threads: 0, sharedMemBytes: 0, tmemColumns: 0, parts: 1 })],
    ['Sm90DesignMetadata', new Sm90DesignMetadata([128, 256, 64], [2, 1, 1], 'pingpong', false), new Sm90DesignMetadata({ tileShape: [128, 256, 64],
      clusterShape: [2, 1, 1], schedule: 'pingpong', splits: 1, parts: 1, useTmaStore: false, tileScheduler: 'static', operands: 'ab', stages: 0, threads: 0, sharedMemBytes: 0 })],
    ['KernelMetadata', metadata, new KernelMetadata({ kernelName: 'mine', kernelClass: 'Mine', minCc: 100, operands, design })],
    ['GemmArguments', new GemmArguments(A, B, out, 'f32'), gemm({ accumulatorType: 'f32' })],
    ['ElementwiseArguments', new ElementwiseArguments(out, out, out), new ElementwiseArguments({ A: out, B: out, out })],
  ] // prettier-ignore
  test.each(pairs)('%s', (_, positional, object) => {
    expect(positional).toEqual(object)
    expect(Object.isFrozen(positional)).toBe(true)
  })
})

test('a class stands for its name, and the alignment of a pointer for its elements', () => {
  class Mine {}
  expect(new KernelMetadata('mine', Mine, 100, operands, design).kernelClass).toBe(Mine)
  expect([rowMajor('f16', 8).ptrAlignmentBytes, new TensorAttributes('f16', [1], 8, 32).ptrAlignmentBytes]).toEqual([
    16, 32,
  ])
})

test('layoutString', () => {
  expect(layoutString([64, 1], [1, 64], [4096, 64, 1])).toBe('tnt')
  expect(layoutString(A, operands.B, [1, 8, 8])).toBe('ttx')
})

test('a Status is made, chosen, thrown', async () => {
  expect(Status.success()).toEqual({ ok: true })
  expect(Status.fail('no', { operand: 'A' })).toEqual({ ok: false, code: 'KTL4170', error: 'no', operand: 'A' })
  const refused = Status.of(() => new TensorAttributes('f99' as never, [1], 1))
  expect(refused).toMatchObject({ ok: false, code: 'KTL4175', error: expect.stringContaining('`dtype` must be') })
  expect(Status.first(Status.success(), refused, Status.fail('later'))).toBe(refused)
  expect(Status.first()).toEqual({ ok: true })
  expect((await errorOf(() => Status.raiseOnError(refused))).code).toBe('KTL4175')
})

test('deviceSupports', () => {
  expect(deviceSupports(device, ['sm_100a', 'sm_103a'])).toEqual({ ok: true })
  expect([['sm_100f'], ['sm_80'], [90, 100]].map((targets) => deviceSupports(device, targets).ok)).toEqual([
    true,
    true,
    true,
  ])
  expect(
    [['sm_103a'], ['sm_103f'], ['sm_90a'], [90], ['sm_120']].map((targets) => deviceSupports(device, targets).ok),
  ).toEqual(Array(5).fill(false))
  expect(deviceSupports(device, [90])).toMatchObject({ code: 'KTL4038', got: 'sm_100a' })
})

test('deviceSupports of what names no target', async () => {
  expect((await errorOf(() => deviceSupports(device, ['blackwell']))).code).toBe('KTL4015')
})

describe('illegal metadata', () => {
  const makers: [string, () => unknown][] = [
    ['dtype', () => new TensorAttributes('f17' as never, [1], 1)],
    ['stride', () => new TensorAttributes('f16', [64, 1], 1)],
    ['stride', () => new TensorAttributes('f16', [1, 1], 1)],
    ['divisibility', () => new TensorAttributes('f16', [1], 0)],
    ['ptrAlignmentBytes', () => new TensorAttributes('f16', [1], 1, 1.5)],
    ['tileShape', () => new BLASDesignMetadata([32, 32] as never, [1, 1, 1])],
    ['clusterShape', () => new BLASDesignMetadata([32, 32, 1], [0, 1, 1])],
    ['fallbackClusterShape', () => new Sm100DesignMetadata([256, 128, 64], [4, 1, 1], true, true, 'static', [4, 1, 1])],
    ['fallbackClusterShape', () => new Sm100DesignMetadata([256, 128, 64], [4, 1, 1], true, true, 'static', [3, 1, 1])],
    ['fallbackClusterShape', () => new Sm100DesignMetadata([256, 128, 64], [4, 1, 2], true, true, 'static', [2, 1, 1])],
    ['X', () => new OperandsMetadata({ X: {} as never })],
    ['accumulatorType', () => new GemmOperandsMetadata(operands.A, operands.B, operands.out, undefined as never)],
    ['kernelName', () => new KernelMetadata('', 'Mine', 100, operands, design)],
    ['kernelClass', () => new KernelMetadata('mine', undefined as never, 100, operands, design)],
    ['minCc', () => new KernelMetadata('mine', 'Mine', '100' as never, operands, design)],
    ['operands', () => new KernelMetadata('mine', 'Mine', 100, {} as never, design)],
    ['design', () => new KernelMetadata('mine', 'Mine', 100, operands, null as never)],
    ['epilogue', () => new KernelMetadata('mine', 'Mine', 100, operands, design, 'relu' as never)],
    ['targets', () => new KernelMetadata({ kernelName: 'a', kernelClass: 'A', minCc: 80, operands, design, targets: ['sm_1' as never] })],
    ['kernel metadata', () => KernelMetadata.fromJSON(3)],
    ['operands', () => KernelMetadata.fromJSON({ kernelName: 'a', kernelClass: 'A', minCc: 80 })],
    ['operands.kind', () => OperandsMetadata.fromJSON({ kind: 'gemm', tensors: {}, accumulatorType: 'f32' })],
    ['design.kind', () => BLASDesignMetadata.fromJSON({ kind: 'sm120' })],
    ['design.stages', () => BLASDesignMetadata.fromJSON({ ...design, stages: undefined })],
  ] // prettier-ignore
  test.each(makers)('%s', async (what, make) => {
    const error = await errorOf(make)
    expect([error.code, error.message]).toEqual(['KTL4175', expect.stringContaining(`\`${what}\``)])
  })
})

describe('JSON there and back', () => {
  const F = device.empty('f32', [2, 64, 48])
  const epilogue = new EpilogueArguments('F = acc * alpha; D = relu(F); return D, F', { alpha: 2, F })
  const fused = getKernels(gemm({ epilogue }), { limit: 1 })[0]!.metadata
  const { kernels } = loadSource({ name: 'a.ktl', text: 'kernel twice(X: f32[n]) -> Y: f32[n] { Y = X + X }' })
  const twice = new KernelArguments(kernels['twice']!, { X: device.empty('f32', [8]), Y: device.empty('f32', [8]) })
  const all: [string, KernelMetadata][] = [
    ['of ours, with an epilogue', fused],
    ['plain CUDA', getKernels(gemm(), { metadataFilter: (m) => m.design.kind === 'simt' })[0]!.metadata],
    ['elementwise', getKernels(new ElementwiseArguments(out, out, out), { limit: 1 })[0]!.metadata],
    ['by name', getKernels(twice, { limit: 1 })[0]!.metadata],
    ['of users', metadata],
    ['for Hopper', new KernelMetadata('h', 'H', 90, operands, new Sm90DesignMetadata([128, 128, 64], [1, 1, 1], 'cooperative', true))],
    ['for Ampere', new KernelMetadata('m', 'M', 80, operands, new Sm80DesignMetadata([128, 128, 32], [2, 2]))],
    ['plain design', new KernelMetadata('p', 'P', 80, operands, new BLASDesignMetadata([32, 32, 1], [1, 1, 1]))],
  ] // prettier-ignore
  test.each(all)('%s', (_, before) => {
    const after = KernelMetadata.fromJSON(JSON.parse(JSON.stringify(before)))
    // Data has no classes of kernels: their names.
    expect({ ...after }).toEqual({ ...before, kernelClass: { name: before.kernelClass.name } })
    expect([after.provider, after.design.constructor, after.operands.constructor]).toEqual([
      before.provider,
      before.design.constructor,
      before.operands.constructor,
    ])
  })
  test('providers are known', () => expect([fused.provider, metadata.provider]).toEqual(['ktl', null]))
  test('the epilogue says how its operands travel', () => {
    expect(fused.epilogue!.transports).toEqual({ F: 'tma', D: 'tma' })
  })
})

describe('what metadata alone say about a call', () => {
  const codes: [string, () => Status, string | null][] = [
    ['fits', () => metadata.supports(gemm()), null],
    ['another target', () => metadata.supports(gemm(), 'sm_90a'), 'KTL4038'],
    ['another kind of arguments', () => metadata.supports(new ElementwiseArguments(out, out, out)), 'KTL4030'],
    ['another dtype', () => metadata.supports(gemm({ A: device.empty('bf16', [2, 64, 64]) })), 'KTL4031'],
    ['another order', () => metadata.supports(gemm({ A: device.empty('f16', [2, 64, 64], { strides: [4096, 1, 64] }) })), 'KTL4032'],
    ['rows that are not aligned', () => metadata.supports(gemm({ A: device.empty('f16', [2, 64, 64], { strides: [6000, 66, 1] }) })), 'KTL4033'],
    ['rows that are more aligned than needed', () => metadata.supports(gemm({ A: device.empty('f16', [2, 64, 64], { strides: [8192, 128, 1] }) })), null],
    ['a pointer that is not aligned', () => metadata.supports(gemm({ A: device.empty('f16', [2, 64, 72]).slice(null, null, [1, 65]) })), 'KTL4033'],
    ['another accumulator', () => metadata.supports(gemm({ accumulatorType: 'f16' })), 'KTL4034'],
    ['an epilogue', () => metadata.supports(gemm({ epilogue: new EpilogueArguments('relu(acc)') })), 'KTL4035'],
    ['a control that the design has', () => metadata.supports(gemm({ performance: new PerformanceControls({ maxSms: 8 }) })), null],
    ['a control that it has not', () => new BLASDesignMetadata([1, 1, 1], [1, 1, 1]).supports(new PerformanceControls({ tileOrder: 'm' })), 'KTL4176'],
    ['no controls', () => new BLASDesignMetadata([1, 1, 1], [1, 1, 1]).supports(new PerformanceControls()), null],
  ] // prettier-ignore
  test.each(codes)('%s', (_, status, code) => {
    const got = status()
    expect(got.ok ? null : got.code).toBe(code)
  })

  test('kernels made with an epilogue are for that epilogue', () => {
    const relu = new EpilogueArguments('relu(acc * alpha)', { alpha: 2 })
    const fused = new KernelMetadata('fused', 'Mine', 100, operands, design, new EpilogueMetadata(relu))
    expect(fused.epilogue).toMatchObject({ text: 'relu(acc * alpha)', scalars: ['alpha'], outputs: [], tensors: {} })
    expect(fused.supports(gemm({ epilogue: new EpilogueArguments('relu(acc * alpha)', { alpha: 3 }) })).ok).toBe(true)
    expect(fused.supports(gemm())).toMatchObject({ code: 'KTL4036' })
    const plus = (C: Tensor) => new EpilogueArguments('acc + C', { C })
    const added = new KernelMetadata(
      'added',
      'Mine',
      100,
      operands,
      design,
      new EpilogueMetadata(plus(device.empty('f16', [64, 48]))),
    )
    expect(added.supports(gemm({ epilogue: plus(device.empty('f16', [64, 48])) })).ok).toBe(true)
    expect(added.supports(gemm({ epilogue: plus(device.empty('f32', [64, 48])) }))).toMatchObject({
      code: 'KTL4031',
      operand: 'C',
    })
    expect(added.supports(gemm({ epilogue: plus(device.empty('f16', [64, 48], { strides: [49, 1] })) }))).toMatchObject(
      { code: 'KTL4033' },
    )
  })

  test('an epilogue of tensors says what they promise', () => {
    const C = device.empty('f16', [64, 48], { strides: [52, 1] })
    expect(new EpilogueMetadata(new EpilogueArguments('acc + C', { C })).tensors['C']).toEqual(
      new TensorAttributes('f16', [0, 1], 4),
    )
  })
})

describe('performance controls', () => {
  test('are kept by what they ask of designs', () => {
    const kinds = (performance: PerformanceControls) =>
      new Set(getKernels(gemm({ performance })).map(({ metadata: { design } }) => `${design.kind} ${'tileScheduler' in design ? design.tileScheduler : ''}`)) // prettier-ignore
    expect(kinds(new PerformanceControls({ tileOrder: 'm' }))).toEqual(new Set(['sm100 static', 'sm100 clc']))
    expect(kinds(new PerformanceControls({ maxSms: 4 }))).toEqual(new Set(['sm100 static']))
    expect(kinds(new PerformanceControls())).toContain('simt ')
  })
  const wrong: [object, string][] = [
    [{ tileOrder: 'k' }, 'KTL4015'],
    [{ maxSms: 0 }, 'KTL4015'],
    [{ maxSMs: 4 }, 'KTL4023'],
  ]
  test.each(wrong)('%j', async (fields, code) => {
    expect((await errorOf(() => new PerformanceControls(fields))).code).toBe(code)
  })
  test('are PerformanceControls', async () => {
    expect((await errorOf(() => gemm({ performance: { tileOrder: 'm' } }))).code).toBe('KTL4024')
  })
})

test('kinds narrow', () => {
  getKernels(gemm(), {
    limit: 1,
    metadataFilter: ({ design, operands }) => {
      expectTypeOf(design).toEqualTypeOf<DesignMetadata>()
      if (operands.kind !== 'gemm' || operands.A.dtype !== 'f16') return false
      expectTypeOf(operands).toEqualTypeOf<GemmOperandsMetadata>()
      if (design.kind === 'sm90') expectTypeOf(design.schedule).toEqualTypeOf<'cooperative' | 'pingpong'>()
      if (design.kind === 'simt') expectTypeOf(design).toEqualTypeOf<SimtDesignMetadata>()
      return design.kind === 'sm100' && design.use2ctaMma && design instanceof BLASDesignMetadata
    },
  })
  const elementwise = new ElementwiseOperandsMetadata(operands.out, operands.out, operands.out)
  expect(elementwise.supports(new ElementwiseArguments(out, out, out))).toEqual({ ok: true })
})
