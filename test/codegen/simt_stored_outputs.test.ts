/** Stored forms that plain CUDA writes: scales by rows and by columns, elements that share bytes, blocks that begin with groups. */
import { describe, expect, test } from 'vitest'
import { encodeOne, roundToDType } from '../../compiler/codec.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { check, f32, integers, numbers, scalesOf, untouched, valuesOf } from './check_simt.ts'
import { ProgramBuilder } from './programs.ts'

/** Section by section of the definition: largest magnitude, scale, data. */
function quantised(values: readonly number[], data: DTypeName, scale: DTypeName, { norm = 1, down = false } = {}) {
  const { maxFinite, nan, class: kind } = DTYPES[data]
  const amax = values.reduce((a, v) => Math.max(a, Math.abs(v)), 0)
  const scaled = f32(amax * norm)
  const power =
    scaled === 0
      ? -127
      : Math.max(-127, Math.min(127, Math.floor(Math.log2(scaled)) - Math.floor(Math.log2(maxFinite))))
  const sf = down ? (Number.isNaN(scaled) ? NaN : 2 ** power) : roundToDType(scale, f32(scaled * f32(1 / maxFinite)))
  const factor = Math.min(f32(norm * f32(1 / sf)), DTYPES.f32.maxFinite)
  const noNaN = kind === 'int' || nan === null
  const q = values.map((v) => {
    if (Number.isNaN(amax)) return noNaN ? 0 : NaN
    if (amax === 0) return 0
    const x = f32(v * factor)
    if (Number.isNaN(x)) return noNaN ? 0 : NaN
    return roundToDType(data, Math.max(-maxFinite, Math.min(maxFinite, x)))
  })
  return { sf, q }
}

interface Stored {
  readonly dtype: DTypeName
  readonly scale: DTypeName
  readonly blocks: readonly [number, number]
  readonly norm?: boolean
  readonly down?: boolean
}

describe('outputs', { timeout: 300_000 }, () => {
  const FORMS: Readonly<Record<string, Stored>> = {
    rows: { dtype: 'e4m3', scale: 'ue8m0', blocks: [1, 32] },
    columns: { dtype: 'e4m3', scale: 'ue8m0', blocks: [32, 1] },
    nvfp4: { dtype: 'e2m1', scale: 'ue4m3', blocks: [1, 16], norm: true },
    nvfp4_columns: { dtype: 'e2m1', scale: 'ue4m3', blocks: [16, 1], norm: true },
    mxfp6: { dtype: 'e2m3', scale: 'ue8m0', blocks: [1, 32], down: true },
    mxfp6_columns: { dtype: 'e3m2', scale: 'ue8m0', blocks: [8, 1] },
    int8: { dtype: 'i8', scale: 'f32', blocks: [1, 10] },
    int4: { dtype: 'i4', scale: 'f16', blocks: [1, 3] },
    wide: { dtype: 'e5m2', scale: 'f32', blocks: [4, 6] },
  }

  test.each(Object.keys(FORMS))('%s', async (name) => {
    const { dtype, scale, blocks, norm, down } = FORMS[name]!
    const p = new ProgramBuilder(
      ['m', 'n'],
      { X: { dtype: 'f32', axes: ['m', 'n'] } },
      norm ? { 'D.global': 'f32', 'D.norm': 'f32' } : {},
    )
    const value = p.apply('mul', p.input('X'), p.constant(1.5))
    const stored = {
      scale: 'D.scale',
      ...(norm && { global: 'D.global', norm: 'D.norm' }),
      ...(down && { rounding: 'down' as const }),
    }
    const program = p.program(`stored_${name}`, {
      D: { dtype, axes: ['m', 'n'], stored, value },
      'D.scale': { dtype: scale, axes: ['m', 'n'], blocks, partOf: 'D' },
      plain: { dtype: 'f32', axes: ['m', 'n'], value },
    })
    const cases = [
      [9, 45, 0],
      [35, 33, 7],
      [1, 1, 0],
      [0, 5, 0],
    ].map(([m, n, constant]) => {
      const special: Record<number, number> = { 3: NaN, 40: Infinity, 41: 1e-42 }
      const X = numbers(m! * n!).map((x, i) =>
        f32(m! > 20 && i > n! * 2 && i < n! * 34 ? 0 : (special[i - 200] ?? x * 2 ** ((i % 5) * 9 - 18))),
      )
      const v = X.map((x) => f32(x * 1.5))
      const [bm, bn] = blocks
      const [gm, gn] = [Math.ceil(m! / bm), Math.ceil(n! / bn)]
      const D = new Array<number>(m! * n!)
      const scales = new Array<number>(gm * gn)
      for (let i = 0; i < gm; i++)
        for (let j = 0; j < gn; j++) {
          const at: number[] = []
          for (let a = i * bm; a < Math.min(m!, i * bm + bm); a++)
            for (let b = j * bn; b < Math.min(n!, j * bn + bn); b++) at.push(a * n! + b)
          const factor = norm ? (constant === 0 ? f32(1 / f32(0.3)) : constant!) : 1
          const { sf, q } = quantised(
            at.map((x) => v[x]!),
            dtype,
            scale,
            { norm: factor, ...(down && { down }) },
          )
          scales[i * gn + j] = sf
          at.forEach((x, l) => (D[x] = q[l]!))
        }
      return [
        { extents: { m: m!, n: n! }, tensors: { X }, scalars: { 'D.global': f32(0.3), 'D.norm': constant! } },
        { outputs: { D, 'D.scale': scales, plain: v } },
      ] as const
    })
    await check(program, cases)
  })

  test('of a product, by rows and by columns at once: the product is computed once', async () => {
    const p = new ProgramBuilder(['m', 'n', 'k'], {
      A: { dtype: 'bf16', axes: ['m', 'k'] },
      B: { dtype: 'bf16', axes: ['k', 'n'] },
    })
    const value = p.contract('A', 'B', ['k'])
    const copy = (name: string, blocks: readonly number[]) =>
      ({
        [name]: { dtype: 'e4m3', axes: ['m', 'n'], stored: { scale: `${name}.scale` }, value },
        [`${name}.scale`]: { dtype: 'f32', axes: ['m', 'n'], blocks, partOf: name },
      }) as const
    const program = p.program('two_copies', {
      ...copy('R', [1, 8]),
      ...copy('C', [8, 1]),
      F: { dtype: 'f32', axes: ['m', 'n'], value },
    })
    const [m, n, k] = [19, 21, 9]
    const tensors = { A: numbers(m * k), B: numbers(k * n) }
    const F = Array.from({ length: m * n }, (_, i) => {
      let sum = 0
      for (let l = 0; l < k; l++) sum += tensors.A[Math.floor(i / n) * k + l]! * tensors.B[l * n + (i % n)]!
      return sum
    })
    const R = F.map((_, i) => {
      const from = i - ((i % n) % 8)
      const row = F.slice(from, Math.min(from + 8, Math.floor(i / n) * n + n))
      return quantised(row, 'e4m3', 'f32').q[i - from]!
    })
    const C = F.map((_, i) => {
      const [row, first] = [Math.floor(i / n), Math.floor(i / n / 8) * 8]
      const column = Array.from({ length: Math.min(8, m - first) }, (_, j) => F[(first + j) * n + (i % n)]!)
      return quantised(column, 'e4m3', 'f32').q[row - first]!
    })
    const { plan } = await check(program, [[{ extents: { m, n, k }, tensors }, { outputs: { F, R, C } }]])
    expect(plan.stages.filter(({ form }) => form.kind === 'tile')).toHaveLength(1)
  })

  test('narrow elements without scales: no two threads share a byte, rows end on one', async () => {
    const dtypes = ['e2m1', 'i4', 'u4', 'e3m2', 'e2m3'] as const
    const p = new ProgramBuilder(['m', 'n'], {
      X: { dtype: 'f32', axes: ['m', 'n'] },
      I: { dtype: 'i32', axes: ['m', 'n'] },
    })
    const program = p.program(
      'narrow',
      Object.fromEntries(
        dtypes.flatMap((dtype) =>
          [
            ['m', 'n'],
            ['n', 'm'],
          ].map((order) => [
            `y_${dtype}_${order[0]}`,
            { dtype, axes: ['m', 'n'], order, value: DTYPES[dtype].class === 'int' ? p.input('I') : p.input('X') },
          ]),
        ),
      ),
    )
    const cases = [
      [5, 13],
      [6, 4],
      [1, 1],
    ].map(([m, n]) => {
      const tensors = { X: numbers(m! * n!).map((x) => x * 2), I: integers(m! * n!, -12, 20) }
      const rounded = (dtype: DTypeName): number[] =>
        (DTYPES[dtype].class === 'int' ? tensors.I : tensors.X).map((x) => roundToDType(dtype, x))
      return [
        { extents: { m: m!, n: n! }, tensors },
        {
          outputs: Object.fromEntries(
            dtypes.flatMap((dtype) => ['m', 'n'].map((o) => [`y_${dtype}_${o}`, rounded(dtype)])),
          ),
        },
      ] as const
    })
    await check(program, cases)
    expect(encodeOne('e2m1', 6)).toBe(7)
  })

  test('blocks along a packed axis begin with its groups, in and out; narrow rows behind the last stay', async () => {
    const off = [5, 5, 14, 23]
    const p = new ProgramBuilder(
      ['g', 't', 'n'],
      {
        A: { dtype: 'e4m3', axes: ['t', 'n'], stored: { scale: 'A.scale', global: 'A.global' } },
        'A.scale': { dtype: 'f32', axes: ['t', 'n'], blocks: [4, 1], partOf: 'A' },
        'A.global': { dtype: 'f32', axes: ['g'], partOf: 'A' },
        off: { dtype: 'i32', axes: ['g'] },
      },
      {},
      { t: { ragged: { by: 'off', group: 'g', form: 'packed' } } },
    )
    const program = p.program('ragged_blocks', {
      D: { dtype: 'e2m1', axes: ['t', 'n'], order: ['n', 't'], stored: { scale: 'D.scale' }, value: p.input('A') },
      'D.scale': { dtype: 'ue4m3', axes: ['t', 'n'], blocks: [3, 1], partOf: 'D' },
    })
    const [g, t, n] = [off.length, 26, 5]
    const starts = off.map((_, i) => off[i - 1] ?? 0)
    const block = (row: number, per: number): number => {
      const group = off.findIndex((end) => row < end)
      return Math.floor(starts[group]! / per) + group + Math.floor((row - starts[group]!) / per)
    }
    const tensors = {
      A: valuesOf('e4m3', t * n),
      'A.scale': scalesOf('f32', (Math.ceil(t / 4) + g) * n).map(f32),
      'A.global': [0.5, 2, 1.25, 3],
      off,
    }
    const value = (row: number, j: number): number =>
      f32(
        f32(tensors.A[row * n + j]! * tensors['A.scale'][block(row, 4) * n + j]!) *
          tensors['A.global'][off.findIndex((end) => row < end)]!,
      )
    const D = new Array<number>(t * n)
    const scales = new Array<number>((Math.ceil(t / 3) + g) * n).fill(untouched('ue4m3'))
    for (let row = 0; row < t; row++)
      for (let j = 0; j < n; j++) {
        if (row >= off.at(-1)!) {
          D[row * n + j] = untouched('e2m1')
          continue
        }
        const rows = Array.from({ length: off.at(-1)! }, (_, i) => i).filter((i) => block(i, 3) === block(row, 3))
        const { sf, q } = quantised(
          rows.map((i) => value(i, j)),
          'e2m1',
          'ue4m3',
        )
        scales[block(row, 3) * n + j] = sf
        D[row * n + j] = q[rows.indexOf(row)]!
      }
    await check(program, [[{ extents: { g, t, n }, tensors }, { outputs: { D, 'D.scale': scales } }]])
  })
})
