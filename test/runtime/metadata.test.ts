import { describe, expect, test } from 'vitest'
import {
  BLASDesignMetadata, EpilogueArguments, GemmArguments, GemmOperandsMetadata, getKernels, KernelArguments, KernelMetadata, loadSource,
  OperandsMetadata, SimtDesignMetadata, Sm100DesignMetadata, TensorAttributes, KtlKernel,
} from '../../runtime/index.ts' // prettier-ignore
import { MemoryDevice } from './memory_device.ts'

const device = new MemoryDevice()
const A = device.empty('f16', [64, 64])
const B = device.empty('f16', [64, 48])
const out = device.empty('f32', [64, 48])
const kernelFor = (args: GemmArguments, kind: 'sm100' | 'simt' = 'sm100'): KtlKernel =>
  getKernels(args, { metadataFilter: (m) => m.design.kind === kind })[0] as KtlKernel

const kernel = kernelFor(new GemmArguments({ A, B, out }))

test('operands: dtype, stride pattern of full rank, divisibility in elements', () => {
  const { operands } = kernel.metadata
  expect(operands).toBeInstanceOf(GemmOperandsMetadata)
  const { A, B, out, accumulatorType } = operands as GemmOperandsMetadata
  expect(accumulatorType).toBe('f32')
  expect([A, B, out].map((t) => [t.dtype, t.stride, t.divisibility, t.ptrAlignmentBytes])).toEqual([
    ['f16', [0, 0, 1], 8, 16],
    ['f16', [0, 0, 1], 8, 16],
    ['f32', [0, 0, 1], 4, 16],
  ])
})

test('a column-major operand and element stores show', () => {
  const args = new GemmArguments({
    A,
    B: device.empty('f16', [64, 48], { strides: [1, 64] }),
    out: device.empty('f32', [64, 48], { strides: [49, 1] }),
  })
  const { operands, design } = kernelFor(args).metadata
  const { B, out } = operands as GemmOperandsMetadata
  expect([B.stride, out.divisibility]).toEqual([[0, 1, 0], 1])
  expect((design as Sm100DesignMetadata).useTmaStore).toBe(false)
})

test('the design is read off the plan that the code comes from', () => {
  const { design, targets, minCc, kernelClass } = kernel.metadata
  const { plan } = kernel
  if (design.kind !== 'sm100' || plan.kind !== 'sm100') throw new Error('not an SM100 kernel')
  expect(design).toMatchObject({
    tileShape: plan.tile,
    clusterShape: plan.design.cluster,
    fallbackClusterShape: null,
    operands: plan.design.operands,
    parts: plan.design.parts,
    use2ctaMma: plan.cluster.pair === 2,
    useTmaStore: true,
    tileScheduler: plan.design.scheduler,
    stages: plan.stages,
    sharedMemBytes: kernel.generated.recipe.sharedMemBytes,
    threads: kernel.generated.recipe.threads,
    tmemColumns: plan.tmemColumns,
  })
  expect([targets, minCc, kernelClass]).toEqual([['sm_100a', 'sm_103a'], 100, KtlKernel])
})

test('plain kernels run everywhere', () => {
  const { metadata } = kernelFor(new GemmArguments({ A, B, out }), 'simt')
  expect(metadata.design).toBeInstanceOf(SimtDesignMetadata)
  expect(metadata.design).toBeInstanceOf(BLASDesignMetadata)
  expect(metadata.targets).toEqual(['sm_80', 'sm_90a', 'sm_100a', 'sm_103a'])
  expect((metadata.operands as GemmOperandsMetadata).A.divisibility).toBe(1)
})

test('the epilogue: text, operands, outputs, scalars', () => {
  const C = device.empty('f16', [64, 48])
  const F = device.empty('bf16', [64, 48])
  const epilogue = new EpilogueArguments('F = acc * alpha + C; D = relu(F); return D, F', { alpha: 2, C, F })
  const { metadata } = kernelFor(new GemmArguments({ A, B, out, epilogue }))
  expect(metadata.epilogue).toMatchObject({
    scalars: ['alpha'],
    outputs: ['F'],
    tensors: { C: { dtype: 'f16' }, F: { dtype: 'bf16' } },
  })
  expect(kernel.metadata.epilogue).toBeNull()
})

test('kernels that are no GEMM have their operands by name', () => {
  const { kernels } = loadSource({
    name: 'a.ktl',
    text: 'kernel axpby(X: f32[i, j], Y: f32[i, j], a: f32, b: f32) -> Z: f32[i, j] { Z = a * X + b * Y }',
  })
  const x = device.empty('f32', [4, 8])
  const [kernel] = getKernels(
    new KernelArguments(kernels['axpby']!, { X: x, Y: x, Z: device.empty('f32', [4, 8]), a: 1, b: 2 }),
  )
  const { operands } = kernel!.metadata
  expect(operands).toBeInstanceOf(OperandsMetadata)
  expect(operands).not.toBeInstanceOf(GemmOperandsMetadata)
  expect([Object.keys(operands.tensors), operands.accumulatorType]).toEqual([['X', 'Y', 'Z'], null])
})

describe('metadata is frozen', () => {
  const { metadata } = kernel
  const objects: [string, object][] = [
    ['KernelMetadata', metadata],
    ['operands', metadata.operands],
    ['attributes', (metadata.operands as GemmOperandsMetadata).A],
    ['stride', (metadata.operands as GemmOperandsMetadata).A.stride],
    ['design', metadata.design],
    ['tileShape', metadata.design.tileShape],
    ['targets', metadata.targets],
    ['a design of users', new BLASDesignMetadata([1, 2, 3], [1, 1, 1])],
  ]
  test.each(objects)('%s', (_, object) => expect(Object.isFrozen(object)).toBe(true))
})

test('metadata of users: targets default to every known one from minCc on', () => {
  const f64 = new TensorAttributes({ dtype: 'f64', stride: [0, 0, 1], divisibility: 1 })
  const operands = new GemmOperandsMetadata({ A: f64, B: f64, out: f64, accumulatorType: 'f64' })
  const metadata = new KernelMetadata({
    kernelName: 'mine',
    kernelClass: 'Mine',
    minCc: 90,
    operands,
    design: new BLASDesignMetadata([32, 32, 1], [1, 1, 1]),
  })
  expect([metadata.targets, metadata.epilogue]).toEqual([['sm_90a', 'sm_100a', 'sm_103a'], null])
})
