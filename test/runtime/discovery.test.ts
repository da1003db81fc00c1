import { afterEach, describe, expect, test } from 'vitest'
import {
  BLASDesignMetadata, CudaProvider, EpilogueArguments, explainKernels, GemmArguments,
  GemmOperandsMetadata, getKernels, Kernel, KernelMetadata, loadSource, OK, Provider, register, Sm100DesignMetadata,
  TensorAttributes, type GenerateOptions, type Status, type Tensor,
} from '../../runtime/index.ts' // prettier-ignore
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'

const device = new MemoryDevice()
const empty = (dtype: DTypeName, shape: number[], strides?: number[]): Tensor =>
  device.empty(dtype, shape, strides ? { strides } : {})
const gemm = (
  a: DTypeName,
  b: DTypeName,
  o: DTypeName,
  [m, n, k]: readonly [number, number, number],
  extra: object = {},
) => new GemmArguments({ A: empty(a, [m, k]), B: empty(b, [k, n]), out: empty(o, [m, n]), ...extra })
const names = (list: readonly Kernel[]): string[] => list.map((kernel) => kernel.metadata.kernelName)

describe('getKernels', () => {
  test('the name spells every choice', () => {
    const design = { tileShape: [128, 256, 64], clusterShape: [1, 1, 1], tileScheduler: 'static', parts: 1 } as const
    const args = new GemmArguments({
      A: empty('f16', [128, 64]),
      B: empty('f16', [64, 256], [1, 64]),
      out: empty('f32', [128, 256]),
    })
    expect(names(getKernels(args, { where: { design } }))).toEqual([
      'ktl.gemm_sm100_tnt_Af16_Bf16_outf32_accf32_1cta_cluster1x1x1_tile128x256x64_static_tma',
      'ktl.gemm_sm100_tnt_Af16_Bf16_outf32_accf32_1cta_cluster1x1x1_tile128x256x64_overlap_static_direct',
      'ktl.gemm_sm100_tnt_Af16_Bf16_outf32_accf32_1cta_cluster1x1x1_tile128x256x64_static_direct',
    ])
    const other = (wanted: object) => names(getKernels(args, { where: { design: { ...design, ...wanted } } }))[0]
    expect(other({ clusterShape: [4, 2, 1], fallbackClusterShape: [2, 1, 1], tileShape: [256, 256, 64] })).toContain(
      '_2cta_cluster4x2x1_fallback2x1x1_tile256x256x64_static_tma',
    )
    expect(other({ operands: 'ba', tileShape: [128, 32, 64] })).toContain(
      '_1cta_cluster1x1x1_ba_tile128x32x64_static_tma',
    )
  })

  test('best first: tensor cores before CUDA cores, large tiles for large problems, small tiles for small ones', () => {
    const best = (m: number, n: number, k: number) =>
      getKernels(gemm('bf16', 'bf16', 'bf16', [m, n, k]))[0]!.metadata.design
    expect(best(4096, 4096, 4096)).toMatchObject({ use2ctaMma: true, tileScheduler: 'clc' })
    expect(best(4096, 4096, 4096).tileShape[0]).toBe(256)
    expect(best(256, 256, 256).tileShape[1]).toBeLessThan(128)
    // Kernels for few rows use tensor cores, too.
    const kernels = getKernels(gemm('bf16', 'bf16', 'bf16', [512, 512, 512]))
    const kinds = kernels
      .filter(({ metadata }) => !/_(rows|columns)\d+$/.test(metadata.kernelName))
      .map(({ metadata }) => metadata.design.kind)
    expect(kinds.indexOf('simt')).toBe(kinds.lastIndexOf('sm100') + 1)
  })

  test('says why it ranks as it does', () => {
    const [first, second] = getKernels(gemm('f16', 'f16', 'f32', [512, 512, 256]))
    expect(first!.rankReason).toMatch(/µs modelled: \d+ tiles on 148 SMs in \d+ waves?, .*; bound by \w+; the next one/)
    expect(second!.rankReason).toMatch(/times the best$/)
  })

  test('never empty for a valid GEMM: odd sizes, single rows, every legal pair', () => {
    const shapes = [[1, 1, 1], [7, 13, 5], [1000003, 1, 3], [1, 129, 64]] as const // prettier-ignore
    for (const shape of shapes) expect(getKernels(gemm('f16', 'f16', 'f32', shape)).length).toBeGreaterThan(0)
    const pairs: [DTypeName, DTypeName, DTypeName][] = [
      ['f64', 'f64', 'f64'], ['tf32', 'tf32', 'f32'], ['e4m3', 'e5m2', 'bf16'], ['i8', 'u8', 'i32'], ['f32', 'f32', 'f16'],
    ] // prettier-ignore
    for (const [a, b, o] of pairs) expect(getKernels(gemm(a, b, o, [16, 16, 16])).length).toBeGreaterThan(0)
    expect(getKernels(gemm('f16', 'f16', 'f16', [16, 16, 16], { accumulatorType: 'f16' })).length).toBeGreaterThan(0)
  })

  test('K = 1: the order in which the other axis is contiguous reaches the tensor cores', () => {
    const args = new GemmArguments({
      A: empty('f16', [128, 1]),
      B: empty('f16', [1, 64]),
      out: empty('f32', [128, 64]),
    })
    const layouts = getKernels(args).map((kernel) => kernel.metadata.kernelName.split('_').slice(1, 3).join(' '))
    expect(layouts[0]).toBe('sm100 ntt')
  })

  test('an epilogue narrows the list to kernels with a slot', () => {
    const epilogue = new EpilogueArguments('relu(acc * alpha)', { alpha: 2 })
    const list = getKernels(gemm('f16', 'f16', 'f32', [128, 128, 64], { epilogue }))
    expect(list[0]!.metadata.epilogue).toMatchObject({ text: 'relu(acc * alpha)', scalars: ['alpha'] })
    expect(names(list).every((name) => /_e[0-9a-f]{12}$/.test(name))).toBe(true)
  })

  test('limit, filter, providers, targets', async () => {
    const args = gemm('f16', 'f16', 'f32', [128, 128, 64])
    expect(getKernels(args, { limit: 3 })).toHaveLength(3)
    const simt = getKernels(args, { metadataFilter: (m) => m.design.kind === 'simt' })
    expect(new Set(simt.map((kernel) => kernel.metadata.design.kind))).toEqual(new Set(['simt']))
    expect(getKernels(args, { providers: ['cuda'] })).toHaveLength(0)
    const kinds = (cc: number) => new Set(getKernels(args, { cc }).map((kernel) => kernel.metadata.design.kind))
    expect([90, 80].map(kinds)).toEqual([new Set(['sm90', 'simt']), new Set(['sm80', 'simt'])])
    expect(names(getKernels(args, { cc: 'sm_100a' }))).toEqual(names(getKernels(args, { cc: 100 })))
    expect((await errorOf(() => getKernels(args, { providers: ['cutlass'] }))).code).toBe('KTL4028')
    expect((await errorOf(() => getKernels(args, { cc: 'blackwell' }))).code).toBe('KTL4015')
    expect((await errorOf(() => getKernels(args, { limit: -1 }))).code).toBe('KTL4015')
    expect((await errorOf(() => getKernels({ A: 1 } as never))).code).toBe('KTL4024')
  })

  test('the same question has the same answer', () => {
    const args = gemm('f16', 'f16', 'f32', [300, 200, 100])
    expect(names(getKernels(args))).toEqual(names(getKernels(args)))
  })
})

describe('an empty list says why', () => {
  test('no device', () => {
    const list = getKernels(gemm('f16', 'f16', 'f32', [16, 16, 16]), { cc: 70 })
    expect([list.length, list.why]).toEqual([0, expect.stringContaining('KTL4038')])
  })
  test('dtypes that do not mix', () => {
    const list = getKernels(gemm('f16', 'bf16', 'f32', [16, 16, 16]))
    expect(list.why).toMatch(/^0 of \d+ kernels for sm_100a support the arguments\n/)
    expect(list.why).toContain('operand `B` is unsupported: expected f16, got bf16')
  })
  test('f32 through tf32 kernels only when allowed', () => {
    const why = (allowTf32: boolean) => {
      const args = gemm('f32', 'f32', 'f32', [16, 16, 16], { allowTf32 })
      return [
        names(getKernels(args)).some((name) => name.includes('Atf32')),
        explainKernels(args).reasons.some((r) => r.fix === 'pass `allowTf32: true`'),
      ]
    }
    expect([why(false), why(true)]).toEqual([[false, true], [true, false]]) // prettier-ignore
  })
  test('the filter', () => {
    const list = getKernels(gemm('f16', 'f16', 'f32', [16, 16, 16]), { metadataFilter: () => false })
    expect(list.why).toMatch(/^metadataFilter \(or limit\) refuses all \d+ kernels/)
  })
  test('overlap with the output', () => {
    const A = empty('f16', [64, 64])
    const list = getKernels(new GemmArguments({ A, B: empty('f16', [64, 64]), out: A }))
    expect(list.why).toContain('KTL4037')
    expect(list.why).toContain('it is an operand of a contraction')
  })
  test('a repeated output', () => {
    const out = empty('f32', [64, 64], [0, 1])
    expect(getKernels(new GemmArguments({ A: empty('f16', [64, 64]), B: empty('f16', [64, 64]), out })).why).toContain(
      'KTL4039',
    )
  })
  test('none for a row statistic, which runs on the CUDA cores', () => {
    const { kernels } = loadSource({
      name: 'n.ktl',
      text: 'kernel norm(X: f32[r, c], g: f32[c], eps: f32) -> Y: f32[r, c] {\n  ss = sum[c](X * X)\n  Y = X * rsqrt(ss / size(c) + eps) * g\n}',
    })
    const list = kernels['norm']!.getKernels(
      { X: empty('f32', [4, 8]), g: empty('f32', [8]), Y: empty('f32', [4, 8]), eps: 1e-5 },
      { cc: 100 },
    )
    expect([list.why, list.length > 0]).toEqual([null, true])
  })
})

describe('explainKernels', () => {
  test('counts every candidate once', () => {
    const args = gemm('f16', 'f16', 'f16', [64, 30, 60])
    const explanation = explainKernels(args, { cc: 100 })
    expect(explanation.supported).toBe(getKernels(args).length)
    expect(explanation.considered).toBe(
      explanation.supported + explanation.reasons.reduce((sum, r) => sum + r.count, 0),
    )
    // Nearest misses first: what fails on alignment stands above what has other dtypes.
    const codes = explanation.reasons.map((r) => r.code)
    expect(codes.indexOf('KTL4513')).toBeGreaterThanOrEqual(0)
    expect(codes.indexOf('KTL4513')).toBeLessThan(codes.indexOf('KTL4031'))
  })
  test('names the nearest fix', () => {
    const { reasons } = explainKernels(gemm('f16', 'f16', 'f16', [64, 30, 60]))
    expect(reasons.find((r) => r.code === 'KTL4513' && r.operand === 'A')?.fix).toBe(
      'pad to 128 B (strides[0] 64 elements)',
    )
    const { reason } = explainKernels(
      new GemmArguments({ A: empty('f16', [64, 127]), B: empty('f16', [127, 64]), out: empty('f16', [64, 64]) }),
    ).reasons.find((r) => r.code === 'KTL4513')!
    expect(reason).toBe(
      'TMA needs 16-byte aligned rows of `A`: row stride 254 B (strides[0] 127) is not a multiple of 16',
    )
  })
})

describe('registered programs', () => {
  const mine =
    'kernel mine<O: f16 | f32>(X: f16[b?, i, j], Y: f16[b?, j, c]) -> Z: O[b?, i, c] { Z = epilogue(sum[j](X * Y)) }\nschedule mine on sm_100 { tile 128x64 }'
  const withRelu = 'kernel rectified(X: f16[i, j], Y: f16[j, c]) -> Z: f32[i, c] { Z = relu(sum[j](X * Y)) }'
  const args = (extra: object = {}) => gemm('f16', 'f16', 'f32', [128, 64, 64], extra)

  test('join discovery under their own axes, and leave it', () => {
    const before = names(getKernels(args()))
    const unregister = register(loadSource({ name: 'mine.ktl', text: mine }))
    const epilogue = new EpilogueArguments('acc + bias[m]', { bias: empty('f32', [128]) })
    const found = names(getKernels(args())).filter((name) => name.startsWith('ktl.mine'))
    const fused = getKernels(args({ epilogue })).filter((kernel) => kernel.metadata.kernelName.startsWith('ktl.mine'))
    unregister()
    expect(found[0]).toMatch(
      /^ktl\.mine_sm100_ttt_Af16_Bf16_outf32_accf32_1cta_cluster1x1x1_tile128x64x64_static_tma_u[0-9a-f]{12}$/,
    )
    expect(fused.length).toBeGreaterThan(0)
    expect(names(getKernels(args()))).toEqual(before)
  })

  test('GemmArguments ask for the product alone: a kernel that does more is not one', () => {
    const unregister = register(loadSource({ name: 'r.ktl', text: withRelu }))
    const found = names(getKernels(args())).filter((name) => name.startsWith('ktl.rectified'))
    unregister()
    expect(found).toEqual([])
  })
})

describe('kernels of users', () => {
  const attributes = (stride: number[]) => new TensorAttributes({ dtype: 'f64', stride, divisibility: 1 })

  class F64Gemm extends Kernel<GemmArguments, null> {
    supportsArguments(args: GemmArguments): Status {
      return args.epilogue ? { ok: false, code: 'KTL4035', error: 'no epilogues' } : OK
    }
    async compile(): Promise<null> {
      return null
    }
    launch(): void {}
    getWorkspaceSize(): number {
      return 0
    }
    static *generateKernels({ metadataFilter, epilogueArguments, cc }: GenerateOptions): Generator<F64Gemm> {
      if (epilogueArguments !== null || cc < 70) return
      for (const tile of [32, 16]) {
        const metadata = new KernelMetadata({
          kernelName: `F64Gemm_tile${tile}x${tile}_ttt`,
          kernelClass: 'F64Gemm',
          minCc: 80,
          operands: new GemmOperandsMetadata({
            A: attributes([0, 0, 1]),
            B: attributes([0, 0, 1]),
            out: attributes([0, 0, 1]),
            accumulatorType: 'f64',
          }),
          design: new BLASDesignMetadata([tile, tile, 1], [1, 1, 1]),
        })
        if (metadataFilter(metadata)) yield new F64Gemm(metadata)
      }
    }
  }

  let unregister = (): void => {}
  afterEach(() => unregister())

  test('are found by plain getKernels, behind those with an estimate, in their own order', () => {
    unregister = CudaProvider.register(F64Gemm)
    const list = getKernels(gemm('f64', 'f64', 'f64', [32, 32, 32]))
    expect(names(list).slice(-2)).toEqual(['F64Gemm_tile32x32_ttt', 'F64Gemm_tile16x16_ttt'])
    expect(list.at(-1)!.rankReason).toContain('no estimate')
    const column = new GemmArguments({
      A: empty('f64', [32, 32], [1, 32]),
      B: empty('f64', [32, 32]),
      out: empty('f64', [32, 32]),
    })
    expect(names(getKernels(column)).some((name) => name.startsWith('F64Gemm'))).toBe(false)
    const epilogue = new EpilogueArguments('relu(acc)')
    expect(
      names(getKernels(gemm('f64', 'f64', 'f64', [32, 32, 32], { epilogue }))).some((name) =>
        name.startsWith('F64Gemm'),
      ),
    ).toBe(false)
    expect(
      names(getKernels(undefined, { providers: ['cuda'], metadataFilter: (m) => m.design.tileShape[0] === 16 })),
    ).toEqual(['F64Gemm_tile16x16_ttt'])
  })

  test('providers are apart from each other', () => {
    const provider = new Provider('mine')
    provider.register(F64Gemm)
    expect(names(getKernels(undefined, { providers: [provider] }))).toHaveLength(2)
    expect(getKernels(undefined, { providers: [CudaProvider] })).toHaveLength(0)
  })

  test('only kernel classes', async () => {
    expect((await errorOf(() => CudaProvider.register(Object as never))).message).toContain(
      '`Object` cannot be registered: it does not extend Kernel',
    )
  })

  test('a design of theirs is a BLASDesignMetadata, ours narrows further', () => {
    unregister = CudaProvider.register(F64Gemm)
    const [theirs] = getKernels(undefined, { providers: ['cuda'] })
    const [ours] = getKernels(gemm('f16', 'f16', 'f32', [128, 128, 64]))
    expect([theirs!.metadata.design.kind, theirs!.metadata.design instanceof Sm100DesignMetadata]).toEqual([
      'blas',
      false,
    ])
    expect(ours!.metadata.design).toBeInstanceOf(Sm100DesignMetadata)
    expect(ours!.metadata.design).toBeInstanceOf(BLASDesignMetadata)
  })
})
