import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  Artifact, BLASDesignMetadata, CudaProvider, EpilogueArguments, GemmArguments, GemmOperandsMetadata, getKernels, Kernel, KernelMetadata,
  loadSource, OK, openDevice, TensorAttributes, type Device, type DeviceModule, type GenerateOptions, type KernelLaunchOptions,
  type KtlKernel, type RunResult, type Status, type Tensor,
} from '../../runtime/index.ts' // prettier-ignore
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { errorOf } from './errors.ts'

let device: Device
beforeAll(async () => void (device = await openDevice('virtual-sm100')))
afterAll(() => device?.close())

/** Small integers, so that every product and sum is exact. */
const integers = (count: number, seed: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => (((i + seed) * 7919) % 7) - 3)
const tensor = (dtype: DTypeName, shape: number[], seed: number, strides?: number[]): Tensor =>
  device.tensor(dtype, shape, integers(shape.reduce((a, b) => a * b, 1), seed), strides ? { strides } : {}) // prettier-ignore
const poisoned = (dtype: DTypeName, shape: number[], strides?: number[]): Tensor =>
  device.tensor(dtype, shape, NaN, strides ? { strides } : {})

/** A B by plain loops, each element through `epilogue`. */
async function product(
  args: GemmArguments,
  epilogue: (acc: number, l: number, m: number, n: number) => number = (acc) => acc,
): Promise<number[]> {
  const { M, N, K, L } = args.problemSize
  const [a, b] = [await args.A.toArray(), await args.B.toArray()]
  const batch = (t: Tensor, l: number, size: number): number => (t.rank === 3 ? l * size : 0)
  const values: number[] = []
  for (let l = 0; l < L; l++) {
    for (let m = 0; m < M; m++) {
      for (let n = 0; n < N; n++) {
        let acc = 0
        for (let k = 0; k < K; k++)
          acc += a[batch(args.A, l, M * K) + m * K + k]! * b[batch(args.B, l, K * N) + k * N + n]!
        values.push(epilogue(acc, l, m, n))
      }
    }
  }
  return values
}

const best = (args: GemmArguments, kind?: 'sm100' | 'simt'): KtlKernel => {
  const list = getKernels(args, kind ? { metadataFilter: (m) => m.design.kind === kind } : {})
  if (list.length === 0) throw new Error(list.why!)
  return list[0] as KtlKernel
}
const values = async (t: Tensor): Promise<number[]> => [...(await t.toArray())]

describe('run', () => {
  for (const kind of ['sm100', 'simt'] as const) {
    test(`${kind}: batched, full operand, scalar; several alphas with one artifact`, async () => {
      const [A, B, C] = [tensor('f16', [2, 70, 40], 1), tensor('f16', [2, 40, 48], 2), tensor('f16', [2, 70, 48], 3)]
      const out = poisoned('f32', [2, 70, 48])
      const c = await C.toArray()
      const make = (alpha: number) =>
        new GemmArguments({ A, B, out, epilogue: new EpilogueArguments('relu(acc*alpha+C)', { alpha, C }) })
      const kernel = best(make(1), kind)
      const artifact = await kernel.compile(make(1))
      for (const alpha of [2, -0.5]) {
        const result = await kernel.run(make(alpha), { artifact })
        expect(result.findings).toEqual([])
        const expected = await product(make(alpha), (acc, l, m, n) =>
          Math.max(0, acc * alpha + c[(l * 70 + m) * 48 + n]!),
        )
        expect(await values(out)).toEqual(expected)
      }
    })

    test(`${kind}: K = 0 runs the epilogue on zeros`, async () => {
      const args = new GemmArguments({
        A: device.empty('f16', [16, 0]),
        B: device.empty('f16', [0, 24]),
        out: poisoned('f32', [16, 24]),
        epilogue: new EpilogueArguments('acc + 3'),
      })
      await best(args, kind).run(args)
      expect(await values(args.out)).toEqual(new Array(16 * 24).fill(3))
    })

    test(`${kind}: an input that broadcasts along the batch, operands per row, column and batch`, async () => {
      const [A, B] = [tensor('bf16', [3, 9, 24], 1), tensor('bf16', [24, 16], 2)]
      const [row, column, batch] = [tensor('f32', [9, 1], 3), tensor('bf16', [16], 4), tensor('f16', [3, 1, 1], 5)]
      const out = poisoned('bf16', [3, 9, 16])
      const args = new GemmArguments({
        A,
        B,
        out,
        epilogue: new EpilogueArguments('acc + row + column * batch', { row, column, batch }),
      })
      await best(args, kind).run(args)
      const [r, c, s] = [await row.toArray(), await column.toArray(), await batch.toArray()]
      expect(await values(out)).toEqual(await product(args, (acc, l, m, n) => acc + r[m]! + c[n]! * s[l]!))
    })
  }

  test('unaligned operands and odd extents', async () => {
    const args = new GemmArguments({
      A: tensor('f16', [17, 13], 1),
      B: tensor('f16', [13, 19], 2),
      out: poisoned('f16', [17, 19]),
    })
    await best(args).run(args)
    expect(await values(args.out)).toEqual(await product(args))
  })

  test('rows of whole words come by words or by elements', async () => {
    const args = (k: number, row = k) =>
      new GemmArguments({
        A: tensor('bf16', [17, k], 1, [row, 1]),
        B: tensor('bf16', [k, 18], 2),
        out: poisoned('bf16', [17, 18]),
      })
    const given = args(14)
    const list = getKernels(given, { metadataFilter: (m) => m.design.kind === 'sm80' })
    const [words, elements] = ['words', 'elements'].map(
      (how) => list.find(({ metadata }) => metadata.kernelName.includes(`_${how}AB`)) as KtlKernel,
    )
    for (const kernel of [words!, elements!]) {
      await kernel.run(given)
      expect(await values(given.out)).toEqual(await product(given))
    }
    const divisibilities = [words!, elements!].map(
      ({ metadata: { operands } }) => 'A' in operands && operands.A.divisibility,
    )
    expect(divisibilities).toEqual([2, 1])
    // Rows of 13 elements end inside a word, and those that are 15 apart begin there.
    for (const [k, row, fix] of [
      [13, 14, 'pad to 28 B'],
      [14, 15, 'pad strides[0] to 16 elements (32 bytes)'],
    ] as const)
      // prettier-ignore
      expect(words!.supports(args(k, row))).toMatchObject({ ok: false, code: 'KTL4033', fix })
    expect(elements!.supports(args(13, 15)).ok).toBe(true)
  })

  test('memory orders and padding; the padding stays as it was', async () => {
    const A = tensor('f16', [40, 24], 1, [1, 48])
    const B = tensor('f16', [24, 32], 2, [1, 32])
    const out = poisoned('f32', [40, 32], [36, 1])
    const before = await out.toBytes()
    const args = new GemmArguments({ A, B, out })
    await best(args, 'sm100').run(args)
    expect(await values(out)).toEqual(await product(args))
    const after = await out.toBytes()
    for (let row = 0; row < 39; row++) expect(after.slice((row * 36 + 32) * 4, (row + 1) * 36 * 4)).toEqual(before.slice((row * 36 + 32) * 4, (row + 1) * 36 * 4)) // prettier-ignore
  })

  test('C and out may be the very same tensor, and D may be bound to out', async () => {
    const [A, B] = [tensor('f16', [64, 32], 1), tensor('f16', [32, 64], 2)]
    const out = tensor('f32', [64, 64], 3)
    const before = await out.toArray()
    const args = new GemmArguments({
      A,
      B,
      out,
      epilogue: new EpilogueArguments('D = acc + beta * C', { beta: 2, C: out, D: out }),
    })
    await best(args, 'sm100').run(args)
    expect(await values(out)).toEqual(await product(args, (acc, _, m, n) => acc + 2 * before[m * 64 + n]!))
  })

  test('two outputs of different dtypes', async () => {
    const [A, B] = [tensor('f16', [64, 32], 1), tensor('f16', [32, 64], 2)]
    const [out, F] = [poisoned('f16', [64, 64]), poisoned('f32', [64, 64])]
    const epilogue = new EpilogueArguments(
      'def f(acc, F):\n  F = acc * 2\n  D = relu(F)\n  return D, F'.replace(', F)', ')'),
      { F },
    )
    const args = new GemmArguments({ A, B, out, epilogue })
    await best(args, 'sm100').run(args)
    expect(await values(F)).toEqual(await product(args, (acc) => acc * 2))
    expect(await values(out)).toEqual(await product(args, (acc) => Math.max(0, acc * 2)))
  })

  test('M, N or L = 0: success without a launch', async () => {
    for (const [m, n, l] of [[0, 8, 1], [8, 0, 1], [8, 8, 0]] as const) {
      const args = new GemmArguments({ A: device.empty('f16', [l, m, 8]), B: device.empty('f16', [l, 8, n]), out: device.empty('f32', [l, m, n]) })
      const { findings, stats } = await best(args).run(args)
      expect([findings, stats.ctas]).toEqual([[], 0])
    }
  }) // prettier-ignore

  test('orders of asynchronous effects and seeds do not change the result', async () => {
    const args = new GemmArguments({
      A: tensor('f16', [130, 96], 1),
      B: tensor('f16', [96, 72], 2),
      out: poisoned('f32', [130, 72]),
    })
    const kernel = best(args, 'sm100')
    const expected = await product(args)
    for (const options of [{ order: 'eager' }, { order: 'random', seed: 7 }, { checks: 'full' }] as const) {
      await kernel.run(args, options)
      expect(await values(args.out)).toEqual(expected)
    }
  })
})

describe('refusals', () => {
  const plain = (extra: object = {}) =>
    new GemmArguments({
      A: tensor('f16', [64, 64], 1),
      B: tensor('f16', [64, 64], 2),
      out: poisoned('f32', [64, 64]),
      ...extra,
    })

  const statuses: [string, () => GemmArguments, string, object][] = [
    ['dtype', () => plain({ A: tensor('bf16', [64, 64], 1), B: tensor('bf16', [64, 64], 1) }), 'KTL4031', { operand: 'A', expected: 'f16', got: 'bf16' }],
    ['order', () => plain({ B: tensor('f16', [64, 64], 1, [1, 64]) }), 'KTL4032', { operand: 'B' }],
    ['alignment', () => plain({ A: tensor('f16', [64, 64], 1, [65, 1]) }), 'KTL4033', { operand: 'A', fix: 'pad strides[0] to 72 elements (144 bytes)' }],
    ['accumulator', () => plain({ accumulatorType: 'f16' }), 'KTL4034', { expected: 'f32', got: 'f16' }],
    ['epilogue', () => plain({ epilogue: new EpilogueArguments('relu(acc)') }), 'KTL4036', {}],
  ] // prettier-ignore
  test.each(statuses)('%s', async (_, args, code, fields) => {
    const kernel = best(plain(), 'sm100')
    const status = kernel.supports(args())
    expect(status).toMatchObject({ ok: false, code, ...fields })
    expect((await errorOf(() => kernel.run(args()))).code).toBe(code)
  })

  test('an epilogue kernel serves other extents, but not another structure', () => {
    const make = (m: number, C: Tensor, text = 'acc + C') =>
      new GemmArguments({ A: tensor('f16', [m, 64], 1), B: tensor('f16', [64, 64], 2), out: poisoned('f32', [m, 64]), epilogue: new EpilogueArguments(text, { C }) })
    const kernel = best(make(64, tensor('f32', [64, 64], 3)), 'sm100')
    expect(kernel.supports(make(8, tensor('f32', [8, 64], 3)))).toEqual({ ok: true })
    // One row: a row is as good as the full operand.
    expect(kernel.supports(make(1, tensor('f32', [1, 64], 3)))).toEqual({ ok: true })
    expect(kernel.supports(make(64, tensor('f32', [1, 64], 3)))).toMatchObject({ ok: false, code: 'KTL4036' })
    expect(kernel.supports(make(64, tensor('f16', [64, 64], 3)))).toMatchObject({ ok: false, code: 'KTL4031', operand: 'C' })
    expect(kernel.supports(make(64, tensor('f32', [64, 64], 3), 'acc - C'))).toMatchObject({ ok: false, code: 'KTL4036' })
  }) // prettier-ignore

  test('overlaps', () => {
    const buffer = poisoned('f32', [64, 128])
    const [left, middle] = [buffer.slice(null, [0, 64]), buffer.slice(null, [32, 96])]
    const make = (C: Tensor, text = 'acc + C') => plain({ out: left, epilogue: new EpilogueArguments(text, { C }) })
    const kernel = best(make(buffer.slice(null, [64, 128])), 'sm100')
    expect(kernel.supports(make(buffer.slice(null, [64, 128])))).toEqual({ ok: true })
    expect(kernel.supports(make(left))).toEqual({ ok: true })
    expect(kernel.supports(make(middle))).toMatchObject({ ok: false, code: 'KTL4037', operand: 'C' })
    // Read as a row for every row that is written.
    const row = left.slice([0, 1])
    expect(getKernels(make(row)).why).toContain('KTL4037')
  })

  test('another kernel’s artifact', async () => {
    const [first, second] = getKernels(plain()) as unknown as [KtlKernel, KtlKernel]
    const artifact = await first.compile(plain())
    expect((await errorOf(() => second.run(plain(), { artifact }))).code).toBe('KTL4040')
    expect((await errorOf(() => second.launch(plain(), { artifact }))).code).toBe('KTL4040')
  })

  test('another device', async () => {
    const other = await openDevice('virtual-sm90')
    const empty = (dtype: DTypeName) => other.empty(dtype, [64, 64])
    const args = new GemmArguments({ A: empty('f16'), B: empty('f16'), out: empty('f32') })
    expect(best(plain(), 'sm100').supports(args)).toMatchObject({ ok: false, code: 'KTL4038', got: 'sm_90a' })
    await other.close()
  })
})

describe('artifacts, streams, prepared launches', () => {
  const setup = async () => {
    const args = new GemmArguments({
      A: tensor('f16', [64, 64], 1),
      B: tensor('f16', [64, 64], 2),
      out: poisoned('f32', [64, 64]),
    })
    const kernel = best(args, 'sm100')
    return { args, kernel, artifact: await kernel.compile(args), expected: await product(args) }
  }

  test('compile gives one artifact for one kernel, and it survives serialisation', async () => {
    const { args, kernel, artifact, expected } = await setup()
    expect(await best(args, 'sm100').compile(args)).toBe(artifact)
    expect(artifact.info).toMatchObject({ kernelName: kernel.metadata.kernelName, targets: ['sm_100a', 'sm_103a'] })
    const copy = Artifact.deserialize(artifact.serialize())
    await kernel.run(args, { artifact: copy })
    expect(await values(args.out)).toEqual(expected)
  })

  test('launch enqueues; copies wait for it', async () => {
    const { args, kernel, artifact, expected } = await setup()
    const fresh = Artifact.deserialize(artifact.serialize())
    expect(kernel.launch(args, { artifact: fresh })).toBeUndefined()
    expect(await values(args.out)).toEqual(expected)
    await args.out.copyFrom(NaN)
    const stream = device.createStream()
    kernel.launch(args, { artifact, stream })
    await stream.synchronize()
    expect(await values(args.out)).toEqual(expected)
  })

  test('two launches on one stream run in order, whether or not the module is loaded yet', async () => {
    const { args, kernel, artifact } = await setup()
    const A2 = device.tensor('f32', [64, 64], 0)
    const chained = new GemmArguments({ A: args.out, B: args.out, out: A2 })
    const second = best(chained, 'simt')
    kernel.launch(args, { artifact: Artifact.deserialize(artifact.serialize()) })
    second.launch(chained, { artifact: await second.compile(chained) })
    const out = await values(args.out)
    const square = Array.from({ length: 64 }, (_, m) => Array.from({ length: 64 }, (_, n) => out.slice(0, 64).reduce((s, _x, k) => s + out[m * 64 + k]! * out[k * 64 + n]!, 0))).flat() // prettier-ignore
    expect(await values(A2)).toEqual(square)
  })

  test('prepare and rebind', async () => {
    const { args, kernel, artifact, expected } = await setup()
    const prepared = kernel.prepare(args, artifact)
    prepared.launch()
    expect(await values(args.out)).toEqual(expected)
    const [A, out] = [tensor('f16', [64, 64], 5), poisoned('f32', [64, 64])]
    prepared.rebind({ A, out }).launch()
    expect(await values(out)).toEqual(await product(new GemmArguments({ A, B: args.B, out })))
    expect((await errorOf(() => prepared.rebind({ Q: A }))).code).toBe('KTL4023')
    expect((await errorOf(() => prepared.rebind({ A: tensor('f16', [32, 64], 1) }))).code).toBe('KTL4024')
  })

  test('workspace: none needed', async () => {
    const { args, kernel } = await setup()
    expect(kernel.getWorkspaceSize(args)).toBe(0)
  })

  test('abort', async () => {
    const { args, kernel, artifact } = await setup()
    const reason = new Error('enough')
    await expect(kernel.run(args, { artifact, signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })
})

test('tile orders change who computes what when, and nothing else', async () => {
  const out = poisoned('f32', [300, 200])
  const args = new GemmArguments({ A: tensor('f16', [300, 64], 1), B: tensor('f16', [64, 200], 2), out })
  const kernel = getKernels(args, { limit: 1, where: { design: { kind: 'sm100', tileShape: [128, 64, null] } } })[0]!
  const expected = await product(args)
  for (const tileOrder of ['m', 'n', 1, 2, 100] as const) {
    await device.write(out.pointer, new Uint8Array(300 * 200 * 4).fill(0xff))
    await kernel.run(args, { tileOrder })
    expect(await values(out)).toEqual(expected)
  }
  for (const tileOrder of [0, 1.5, 'k' as never])
    expect((await errorOf(() => kernel.run(args, { tileOrder }))).code).toBe('KTL4015')
})

test('an extent of 1 along the contiguous axis, stride 0 along others', async () => {
  const A = tensor('f16', [1, 64], 1).view([32, 64], { strides: [0, 1] })
  const args = new GemmArguments({ A, B: tensor('f16', [64, 1], 2), out: poisoned('f32', [32, 1]) })
  await best(args).run(args)
  expect(await values(args.out)).toEqual(await product(args))
})

test('reductions of the epilogue are outputs of their own', async () => {
  const { kernels } = loadSource({
    name: 'amax.ktl',
    text: 'kernel amax(A: f16[m, k], B: f16[k, n]) -> (D: f32[m, n], top: f32[m]) {\n  D = sum[k](A * B)\n  top[m] = max[n](abs(sum[k](A * B)))\n}',
  })
  const [A, B] = [tensor('f16', [20, 24], 1), tensor('f16', [24, 16], 2)]
  const [D, top] = [poisoned('f32', [20, 16]), poisoned('f32', [20])]
  await kernels['amax']!({ A, B, D, top })
  const d = await values(D)
  expect(await values(top)).toEqual(
    Array.from({ length: 20 }, (_, m) => Math.max(...d.slice(m * 16, m * 16 + 16).map(Math.abs))),
  )
})

describe('kernels of users run like ours', () => {
  const CUDA = `extern "C" __global__ void gemm(const double* a, const double* b, double* d, int m, int n, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m * n) return;
  double sum = 0;
  for (int x = 0; x < k; x++) sum += a[i / n * k + x] * b[x * n + i % n];
  d[i] = sum;
}`
  const f64 = new TensorAttributes({ dtype: 'f64', stride: [0, 0, 1], divisibility: 1 })

  class F64Gemm extends Kernel<GemmArguments, DeviceModule> {
    supportsArguments({ epilogue, A }: GemmArguments): Status {
      return epilogue === null && A.rank === 2 ? OK : { ok: false, code: 'KTL4035', error: 'one product, no epilogue' }
    }
    compile(args: GemmArguments): Promise<DeviceModule> {
      return args.device.compileCuda(CUDA)
    }
    launch(
      { A, B, out, problemSize: { M, N, K } }: GemmArguments,
      { artifact, stream }: KernelLaunchOptions<DeviceModule>,
    ): Promise<RunResult> {
      const params = [A, B, out, M, N, K]
      return artifact!
        .function('gemm')
        .launch({ grid: Math.ceil((M * N) / 64), block: 64, params, ...(stream && { stream }) })
    }
    getWorkspaceSize(): number {
      return 64
    }
    static *generateKernels({ metadataFilter }: GenerateOptions): Generator<F64Gemm> {
      const operands = new GemmOperandsMetadata({ A: f64, B: f64, out: f64, accumulatorType: 'f64' })
      const design = new BLASDesignMetadata([1, 1, 1], [1, 1, 1])
      const metadata = new KernelMetadata({
        kernelName: 'F64Gemm',
        kernelClass: F64Gemm,
        minCc: 80,
        operands,
        design,
      })
      if (metadataFilter(metadata)) yield new F64Gemm(metadata)
    }
  }

  test('found, compiled and run; a workspace that is too small is refused', async () => {
    const args = new GemmArguments({
      A: tensor('f64', [5, 7], 1),
      B: tensor('f64', [7, 3], 2),
      out: poisoned('f64', [5, 3]),
    })
    const unregister = CudaProvider.register(F64Gemm)
    const [kernel] = getKernels(args, { metadataFilter: (m) => m.kernelClass === F64Gemm })
    unregister()
    expect(await kernel!.run(args)).toMatchObject({ findings: [] })
    expect(await values(args.out)).toEqual(await product(args))
    const error = await errorOf(() => kernel!.run(args, { workspace: device.empty('u8', [63]) }))
    expect([error.code, error.message]).toEqual(['KTL4041', expect.stringContaining('must have 64 bytes, got 63')])
  })
})
