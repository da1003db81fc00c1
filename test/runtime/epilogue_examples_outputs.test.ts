/** Epilogues with several outputs, operands of every dtype, reductions, scaled fp8 outputs, gated products. */
import { describe, expect, test } from 'vitest'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { EpilogueArguments, GemmArguments, KernelArguments, loadSource, type Tensor } from '../../runtime/index.ts'
import {
  best,
  blank,
  checked,
  device,
  each,
  gemm,
  problem,
  onDevice,
  values,
  whole,
  type Bindings,
} from './epilogue_examples.ts'
import { sampled } from '../cases_of.ts'

onDevice()

describe('several outputs', () => {
  test('the raw accumulator and the result', async () => {
    const [p, accum] = [problem(), blank('f32', [20, 24])]
    await checked(gemm(p, 'def f(accum):\n  D = relu(accum * 2)\n  return D, accum', { accum }))
    expect(await values(accum)).toEqual(await each(p, ({ acc }) => acc))
    expect(await values(p.out)).toEqual(await each(p, ({ acc }) => Math.max(0, acc * 2)))
  })

  test('in any order of return, an output used by another, D bound to out', async () => {
    const [p, F, G] = [problem([2, 20, 24, 16]), blank('f16', [2, 20, 24]), blank('f32', [2, 20, 24], [480, 1, 20])]
    const text = 'F = acc + 1; D = F * 2; G = D - acc; return G, D, F'
    await checked(gemm(p, text, { F, G, D: p.out }))
    expect(await values(F)).toEqual(await each(p, ({ acc }) => acc + 1))
    expect(await values(p.out)).toEqual(await each(p, ({ acc }) => (acc + 1) * 2))
    expect(await values(G)).toEqual(await each(p, ({ acc }) => acc + 2))
  })

  test('a bare expression goes to out', async () => {
    const [p, F] = [problem(), blank('f32', [20, 24])]
    await checked(gemm(p, 'F = acc * 2\nreturn relu(acc), F', { F }))
    expect(await values(F)).toEqual(await each(p, ({ acc }) => acc * 2))
    expect(await values(p.out)).toEqual(await each(p, ({ acc }) => Math.max(0, acc)))
  })

  test('an output per row is one value of the row: a broadcast is stored as such', async () => {
    const [p, bias, F] = [problem(), whole('f32', [24], 3), blank('f32', [20, 24])]
    const b = await bias.toArray()
    await checked(gemm(p, 'F = bias * 2; D = acc; return D, F', { bias, F }))
    expect(await values(F)).toEqual(await each(p, ({ n }) => b[n]! * 2))
  })

  test('eight operands, nine outputs, nine scalars, each with what came before', async () => {
    const p = problem([0, 64, 32, 16], { out: 'bf16' })
    const bindings: Bindings = { s9: 0.5 }
    for (let i = 1; i <= 8; i++) {
      bindings[`C${i}`] = whole('f32', [64, 32], i)
      bindings[`s${i}`] = i - 4
      bindings[`F${i}`] = blank('f32', [64, 32])
    }
    const chain = Array.from({ length: 8 }, (_, i) => `F${i + 1} = ${i === 0 ? 'acc' : `F${i}`} + s${i + 1} * C${i + 1}`)
    await checked(gemm(p, [...chain, 'D = F8 * s9', `return D, ${chain.map((_, i) => `F${i + 1}`).join(', ')}`].join('\n'), bindings))
    const c = await Promise.all(chain.map((_, i) => (bindings[`C${i + 1}`] as Tensor).toArray()))
    const upTo = (last: number) =>
      each(p, ({ acc, m, n }) => c.slice(0, last).reduce((sum, data, i) => sum + (i - 3) * data[m * 32 + n]!, acc))
    for (let i = 1; i <= 8; i++) expect(await values(bindings[`F${i}`] as Tensor)).toEqual(await upTo(i))
  }) // prettier-ignore
})

test('more full operands than shared memory holds', async () => {
  const p = problem([0, 64, 32, 16])
  const names = Array.from({ length: 24 }, (_, i) => `C${i}`)
  const bindings = Object.fromEntries(names.map((name, i) => [name, whole('f32', [64, 32], i)]))
  await checked(gemm(p, `acc + ${names.join(' + ')}`, bindings))
  const data = await Promise.all(names.map((name) => bindings[name]!.toArray()))
  const sum = (i: number) => data.reduce((total, c) => total + c[i]!, 0)
  expect(await values(p.out)).toEqual(await each(p, ({ acc, m, n }) => acc + sum(m * 32 + n)))
})

test('what is too large for an output', async () => {
  const [p, F, G, I] = [problem(), blank('e4m3', [20, 24]), blank('e5m2', [20, 24]), blank('i8', [20, 24])]
  const H = blank('f16', [20, 24])
  const text = 'x = acc * 100000; F = x; G = x; H = x; I = i8(x); D = acc / 0; return D, F, G, H, I'
  await checked(gemm(p, text, { F, G, H, I }))
  const sign = (limit: number) => each(p, ({ acc }) => Math.sign(acc) * (acc === 0 ? 0 : limit))
  expect(await values(F)).toEqual(await sign(448))
  expect(await values(G)).toEqual(await sign(57344))
  expect(await values(H)).toEqual(await sign(Infinity))
  expect(await values(I)).toEqual(await each(p, ({ acc }) => Math.max(-128, Math.min(127, acc * 100000))))
  expect(await values(p.out)).toEqual(await each(p, ({ acc }) => acc / 0))
})

describe('dtypes of operands and outputs', () => {
  const dtypes: DTypeName[] = ['f32', 'f16', 'bf16', 'e4m3', 'e5m2', 'i8', 'u8', 'i32', 'f64']
  test.each(sampled(dtypes))('%s', async (dtype) => {
    const [p, C, F] = [problem(), whole(dtype, [20, 24], 3), blank(dtype, [20, 24])]
    const c = await C.toArray()
    await checked(gemm(p, `F = ${dtype}(clamp(acc, -8, 8)); D = acc + C * 2; return D, F`, { C, F }))
    expect(await values(p.out)).toEqual(await each(p, ({ acc, m, n }) => acc + 2 * c[m * 24 + n]!))
    const low = dtype === 'u8' ? 0 : -8
    const stored = (x: number): number => Math.min(8, Math.max(low, x))
    expect(await values(F)).toEqual(await each(p, ({ acc }) => stored(acc)))
  })

  test.each(sampled(['i8', 'u8', 'f32', 'f16', 'i32'] as const))('integer products into %s', async (out) => {
    const p = problem([0, 20, 24, 16], { A: 'i8', out })
    await checked(gemm(p, `${out}(acc * 2 + 1)`))
    const [low, high] = out === 'i8' ? [-128, 127] : out === 'u8' ? [0, 255] : [-Infinity, Infinity]
    expect(await values(p.out)).toEqual(await each(p, ({ acc }) => Math.min(high, Math.max(low, acc * 2 + 1))))
  })

  test('f64 throughout', async () => {
    const p = problem([0, 20, 24, 16], { A: 'f64', out: 'f64' })
    await checked(gemm(p, 'acc * alpha / 3', { alpha: 0.1 }))
    expect(await values(p.out)).toEqual(await each(p, ({ acc }) => (acc * 0.1) / 3))
  })

  test.each(sampled(['e4m3', 'bf16', 'f32', 'i8'] as const))('%s operands of the product', async (A) => {
    const p = problem([0, 32, 32, 32], { A, out: 'f32' })
    const bias = whole('f32', [32], 3)
    const b = await bias.toArray()
    await checked(gemm(p, 'relu(acc + bias) * 0.5', { bias }))
    expect(await values(p.out)).toEqual(await each(p, ({ acc, n }) => Math.max(0, acc + b[n]!) * 0.5))
  })
})

describe('reductions are outputs', () => {
  const [L, M, N] = [2, 40, 24]
  const place = { row: [L, M, 1], column: [L, 1, N], batch: [L, 1, 1], all: [1] } as const
  const reductions: [string, string, string, number[]][] = [
    ['per row', 'amax = max[n](abs(D))', 'row', [...place.row]],
    ['per row, named', 'amax[l, m] = max[n](abs(D))', 'row', [L, M]],
    ['per column', 'amax = max[m](abs(D))', 'column', [...place.column]],
    ['per batch', 'amax = max[m, n](abs(D))', 'batch', [...place.batch]],
    ['everything', 'amax = max[l, m, n](abs(D))', 'all', [...place.all]],
    ['everything, without a dimension', 'amax = max[l, m, n](abs(D))', 'all', []],
  ]
  const index: Record<string, (l: number, m: number, n: number) => number> = {
    row: (l, m) => l * M + m,
    column: (l, _m, n) => l * N + n,
    batch: (l) => l,
    all: () => 0,
  }
  test.each(sampled(reductions))('%s', async (_, equation, kind, shape) => {
    const [p, amax] = [problem([L, M, N, 16]), blank('f32', shape)]
    await checked(gemm(p, `D = acc * 0.5; ${equation}; return D, amax`, { amax }))
    const expected = new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(0)
    await each(p, ({ acc, l, m, n }) => {
      const at = index[kind]!(l, m, n)
      return (expected[at] = Math.max(expected[at]!, Math.abs(acc * 0.5)))
    })
    expect(await values(amax)).toEqual(expected)
  })

  test.each(
    sampled([
      ['one row', [0, 1, 24, 16], 'max[m, n]'],
      ['no batch, reduced over it', [0, 20, 24, 16], 'max[l, m, n]'],
      ['one row of many batches, claimed', [3, 1, 24, 16], 'amax: f32 = max[l, m, n]'],
    ] as const),
  )('%s: reduced axes of extent 1 are no axes, and the tensor cores compute it', async (_, shape, what) => {
    const [p, amax] = [problem([...shape]), blank('f32', [1])]
    const equation = what.includes('=') ? what : `amax = ${what}`
    const args = gemm(p, `D = acc * 0.5; ${equation}(abs(D)); return D, amax`, { amax })
    expect(best(args).metadata.design.kind).toBe('sm100')
    await checked(args)
    expect(await values(amax)).toEqual([Math.max(...(await each(p, ({ acc }) => Math.abs(acc * 0.5))))])
  })

  test('without a batch: amax[m], sum, min and mean together, an initial value that does not count', async () => {
    const p = problem([0, M, N, 16])
    const [amax, total, least, average] = [[M], [1, N], [M, 1], [1]].map((shape) => blank('f32', shape))
    const text = 'D = acc; amax[m] = max[n](abs(D)); total = sum[m](D); least = min[n](D); average = mean[m, n](D)\nreturn D, amax, total, least, average'
    await checked(gemm(p, text, { amax: amax!, total: total!, least: least!, average: average! }))
    const acc = await each(p, (at) => at.acc)
    const row = (m: number): number[] => acc.slice(m * N, m * N + N)
    expect(await values(amax!)).toEqual(Array.from({ length: M }, (_, m) => Math.max(...row(m).map(Math.abs))))
    expect(await values(least!)).toEqual(Array.from({ length: M }, (_, m) => Math.min(...row(m))))
    expect(await values(total!)).toEqual(Array.from({ length: N }, (_, n) => acc.reduce((sum, x, i) => (i % N === n ? sum + x : sum), 0)))
  }) // prettier-ignore

  test('the same bits at every run', async () => {
    const p = problem([0, 100, 56, 16])
    const total = blank('f32', [1])
    const args = gemm(p, 's = sum[m, n](acc * 0.1); D = acc; return D, s', { s: total })
    const kernel = best(args)
    const found = new Set<number>()
    for (const seed of [1, 2, 3]) {
      await total.copyFrom(NaN)
      await kernel.run(args, { order: 'random', seed })
      found.add((await values(total))[0]!)
    }
    expect(found.size).toBe(1)
  })

  test('a whole row of one value', async () => {
    const p = problem()
    await checked(gemm(p, 'sum[n](acc)'))
    const sums = new Array<number>(20).fill(0)
    await each(p, ({ acc, m }) => (sums[m]! += acc))
    expect(await values(p.out)).toEqual(await each(p, ({ m }) => sums[m]!))
  })
})

test('fp8 output with a scale and the largest value before it', async () => {
  const [scale, amax] = [device.tensor('f32', [1], [0.25]), blank('f32', [1])]
  const p = problem([0, 32, 48, 32], { A: 'e4m3', out: 'e4m3' })
  const text = 'F = acc * alpha; amax = max[l, m, n](abs(F)); D = F * scale; return D, amax'
  await checked(gemm(p, text, { alpha: 2, scale, amax }))
  const largest = Math.max(...(await each(p, ({ acc }) => Math.abs(acc * 2))))
  expect(await values(amax)).toEqual([largest])
})

test('a gated product: two accumulators of one A', async () => {
  const { kernels } = loadSource({
    name: 'gated.ktl',
    text: `kernel gated(A: bf16[m, k], Bg: bf16[k, f], Bu: bf16[k, f], alpha: f32 = 1) -> H: bf16[m, f] {
  H = silu(sum[k](A * Bg)) * sum[k](A * Bu) * alpha
}
kernel reglu(A: bf16[m, k], Bg: bf16[k, f], Bu: bf16[k, f]) -> H: f32[m, f] {
  H = relu(sum[k](A * Bg)) * sum[k](A * Bu)
}`,
  })
  const [m, f, k] = [24, 40, 32]
  const [A, Bg, Bu] = [whole('bf16', [m, k], 1), whole('bf16', [k, f], 2), whole('bf16', [k, f], 3)]
  await checked(new KernelArguments(kernels['gated']!, { A, Bg, Bu, H: blank('bf16', [m, f]), alpha: 0.5 }))
  const H = blank('f32', [m, f])
  await checked(new KernelArguments(kernels['reglu']!, { A, Bg, Bu, H }))
  const of = (B: Tensor) => each({ shape: [0, m, f, k], A, B, out: H }, ({ acc }) => acc)
  const [gate, up] = [await of(Bg), await of(Bu)]
  expect(await values(H)).toEqual(gate.map((g, i) => Math.max(0, g) * up[i]! + 0))
})

test('a named epilogue in a GEMM and in a kernel with a slot', async () => {
  const { epilogues, kernels } = loadSource({
    name: 'named.ktl',
    text: `epilogue scale(acc, C, alpha: f32 = 2) -> (D, F) { F = acc * alpha; D = F + C }
kernel slot(A: f16[m, k], B: f16[k, n]) -> D: f32[m, n] { D = epilogue(sum[k](A * B)) }`,
  })
  const [p, C, F] = [problem(), whole('f32', [24], 3), blank('f32', [20, 24])]
  const { A, B, out } = p
  const c = await C.toArray()
  const epilogue = new EpilogueArguments(epilogues['scale']!, { C, F })
  for (const args of [new GemmArguments({ A, B, out, epilogue }), new KernelArguments(kernels['slot']!, { A, B, D: out, epilogue })]) {
    await out.copyFrom(NaN)
    await checked(args)
    expect(await values(F)).toEqual(await each(p, ({ acc }) => acc * 2))
    expect(await values(out)).toEqual(await each(p, ({ acc, n }) => acc * 2 + c[n]!))
  }
}) // prettier-ignore
