/** Ragged axes as plain CUDA: grouped products, gradients per group, sequences of different length, offsets that are wrong. */
import { describe, expect, test } from 'vitest'
import type { Node, RaggedAxis, TensorProgram } from '../../compiler/ir/tensor.ts'
import { check, numbers, seesMutation, untouched } from './check_simt.ts'
import { ProgramBuilder } from './programs.ts'

const PACKED: RaggedAxis = { by: 'off', group: 'g', form: 'packed' }
const OFF = { dtype: 'i32', axes: ['g'] } as const

/** Groups of several sizes, empty ones among them, and rows behind the last. */
const OFFSETS = [
  { off: [17, 17, 20, 53, 53], t: 60 },
  { off: [0, 3], t: 3 },
  { off: [5], t: 5 },
  { off: [], t: 4 },
] as const

const groupOf = (off: readonly number[], t: number): number => off.findIndex((end) => t < end)
const startOf = (off: readonly number[], g: number): number => (g === 0 ? 0 : off[g - 1]!)

function grouped(): TensorProgram {
  const p = new ProgramBuilder(
    ['g', 't', 'n', 'k'],
    {
      A: { dtype: 'bf16', axes: ['t', 'k'] },
      B: { dtype: 'bf16', axes: ['g', 'k', 'n'] },
      bias: { dtype: 'f32', axes: ['g', 'n'] },
      off: OFF,
    },
    {},
    { t: { ragged: PACKED } },
  )
  const value = p.apply('add', p.product(p.input('A'), p.input('B'), ['k']), p.input('bias'))
  return p.program('grouped', { D: { dtype: 'f32', axes: ['t', 'n'], value } })
}

function groupedCase({ off, t }: (typeof OFFSETS)[number]) {
  const [g, n, k] = [off.length, 19, 11]
  const tensors = { A: numbers(t * k), B: numbers(g * k * n), bias: numbers(g * n), off: [...off] }
  const D = Array.from({ length: t * n }, (_, i) => {
    const [row, j] = [Math.floor(i / n), i % n]
    const group = groupOf(off, row)
    if (group < 0) return untouched('f32')
    let sum = tensors.bias[group * n + j]!
    for (let l = 0; l < k; l++) sum += tensors.A[row * k + l]! * tensors.B[(group * k + l) * n + j]!
    return sum
  })
  return [{ extents: { g, t, n, k }, tensors }, { outputs: { D } }] as const
}

describe('packed groups', { timeout: 300_000 }, () => {
  test('a product for each group: tiles begin with groups, rows behind the last stay as they are', async () => {
    const cases = OFFSETS.map(groupedCase)
    const { plan } = await check(grouped(), cases)
    expect(plan.stages.map(({ form }) => form.kind)).toEqual(['tile'])
    await seesMutation(
      grouped(),
      (cuda) =>
        cuda
          .replaceAll('(i_g * op_bias_stride_g', '((i_g ^ 1) * op_bias_stride_g')
          .replaceAll('op_bias[i_g', 'op_bias[(i_g ^ 1)'),
      cases[1]![0],
      cases[1]![1],
    )
    await seesMutation(
      grouped(),
      (cuda) =>
        cuda.replaceAll(
          'if (ktl_first_block(ends, stride, middle, extent, block) <= index)',
          'if (ktl_first_block(ends, stride, middle, extent, block) < index)',
        ),
      cases[0]![0],
      cases[0]![1],
    )
  })

  test('offsets that decrease or leave the axis are findings, and nothing is read or written outside', async () => {
    const program = grouped()
    for (const off of [
      [9, 4, 12],
      [5, 3_000_000],
      [-7, 6],
      [12, -2_000_000_000],
      [2_000_000_000, 1],
    ]) {
      const [inputs] = groupedCase({ off: [17, 17, 20, 53, 53], t: 60 })
      const tensors = { ...inputs.tensors, off }
      await check(program, [
        [
          { extents: { ...inputs.extents, g: off.length }, tensors },
          { outputs: {}, findings: ['KTL5025'] },
        ],
      ])
    }
  })

  test('weight gradients: sums over the rows of a group; a group without rows gives 0', async () => {
    const p = new ProgramBuilder(
      ['g', 't', 'k', 'n'],
      { A: { dtype: 'bf16', axes: ['t', 'k'] }, D: { dtype: 'bf16', axes: ['t', 'n'] }, off: OFF },
      {},
      { t: { ragged: PACKED } },
    )
    const dW = p.product(p.input('A'), p.input('D'), ['t'], 'f32', ['g'])
    const [A, D] = [p.input('A'), p.input('D')]
    const total = p.product(A, D, ['t'])
    const program = p.program('weight_gradient', {
      dW: { dtype: 'f32', axes: ['g', 'k', 'n'], value: dW },
      all: { dtype: 'f32', axes: ['k', 'n'], value: total },
      mean: { dtype: 'f32', axes: ['g', 'n'], value: p.reduce('mean', ['t'], D, ['g']) },
      length: { dtype: 'i32', axes: ['g'], value: p.group('length', 't') },
    })
    const cases = OFFSETS.map(({ off, t }) => {
      const [g, k, n] = [off.length, 5, 18]
      const tensors = { A: numbers(t * k), D: numbers(t * n), off: [...off] }
      const rows = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)
      const product = (of: number[], i: number): number => {
        const [row, column] = [Math.floor(i / n) % k, i % n]
        return of.reduce((s, r) => s + tensors.A[r * k + row]! * tensors.D[r * n + column]!, 0)
      }
      const outputs = {
        dW: Array.from({ length: g * k * n }, (_, i) => {
          const j = Math.floor(i / n / k)
          return product(rows(startOf(off, j), off[j]!), i)
        }),
        all: Array.from({ length: k * n }, (_, i) => product(rows(0, off.at(-1) ?? 0), i)),
        mean: Array.from({ length: g * n }, (_, i) => {
          const j = Math.floor(i / n)
          const of = rows(startOf(off, j), off[j]!)
          return of.reduce((s, r) => s + tensors.D[r * n + (i % n)]!, 0) / of.length
        }),
        length: off.map((end, j) => end - startOf(off, j)),
      }
      return [
        { extents: { g, t, k, n }, tensors },
        { outputs, tolerance: 1e-6 },
      ] as const
    })
    await check(program, cases)
  })

  test('a NaN of another group never reaches a result', async () => {
    const [inputs, { outputs }] = groupedCase(OFFSETS[0])
    const A = inputs.tensors.A.map((x, i) => (Math.floor(i / 11) === 18 || Math.floor(i / 11) > 52 ? NaN : x))
    const D = outputs.D.map((x, i) => (Math.floor(i / 19) === 18 ? NaN : x))
    await check(grouped(), [[{ ...inputs, tensors: { ...inputs.tensors, A } }, { outputs: { D } }]])
  })

  test('attention of sequences of different length: queries and keys meet inside a group only', async () => {
    const ragged = {
      m: { ragged: { by: 'offq', group: 'g', form: 'packed' } },
      n: { ragged: { by: 'offk', group: 'g', form: 'packed' } },
    } as const
    const p = new ProgramBuilder(
      ['g', 'h', 'm', 'n', 'd', 'e'],
      {
        Q: { dtype: 'bf16', axes: ['m', 'h', 'd'] },
        K: { dtype: 'bf16', axes: ['n', 'h', 'd'] },
        V: { dtype: 'bf16', axes: ['n', 'h', 'e'] },
        offq: OFF,
        offk: OFF,
      },
      {},
      ragged,
    )
    const op = (name: string, a: Node, b: Node): Node => p.apply(name, a, b)
    const S = p.product(p.input('Q'), p.input('K'), ['d'])
    const visible = op(
      'le',
      op('sub', p.axis('n'), p.group('start', 'n')),
      op(
        'add',
        op('sub', p.axis('m'), p.group('start', 'm')),
        op('sub', p.group('length', 'n'), p.group('length', 'm')),
      ),
    )
    const x = p.apply('select', visible, S, p.constant(-Infinity))
    const top = p.reduce('max', ['n'], x)
    const max = p.apply('select', op('eq', top, p.constant(-Infinity)), p.constant(0), top)
    const e = p.apply('exp', op('sub', x, max))
    const sum = p.reduce('sum', ['n'], e)
    const P = p.apply('select', op('eq', sum, p.constant(0)), p.constant(0), op('div', e, sum))
    const program = p.program('documents', {
      O: { dtype: 'f32', axes: ['m', 'h', 'e'], value: p.product(P, p.input('V'), ['n']) },
    })
    const [h, d, ev, m, n] = [2, 5, 3, 30, 50]
    const [offq, offk] = [
      [4, 4, 25, 28],
      [9, 20, 41, 41],
    ]
    const tensors = { Q: numbers(m * h * d), K: numbers(n * h * d), V: numbers(n * h * ev), offq, offk }
    const O: number[] = []
    for (let i = 0; i < m; i++)
      for (let ih = 0; ih < h; ih++) {
        const group = groupOf(offq, i)
        const [sq, sk] = [startOf(offq, Math.max(group, 0)), startOf(offk, Math.max(group, 0))]
        const [lq, lk] = group < 0 ? [0, 0] : [offq[group]! - sq, offk[group]! - sk]
        const scores = Array.from({ length: lk }, (_, j) => {
          let s = 0
          for (let l = 0; l < d; l++) s += tensors.Q[(i * h + ih) * d + l]! * tensors.K[((sk + j) * h + ih) * d + l]!
          return j <= i - sq + lk - lq ? s : -Infinity
        })
        const total = scores.reduce((s, y) => s + Math.exp(y), 0)
        for (let l = 0; l < ev; l++)
          O.push(
            group < 0
              ? untouched('f32')
              : scores.reduce(
                  (s, y, j) => s + (total === 0 ? 0 : Math.exp(y) / total) * tensors.V[((sk + j) * h + ih) * ev + l]!,
                  0,
                ),
          )
      }
    const inputs = { extents: { g: 4, h, m, n, d, e: ev }, tensors }
    await check(program, [[inputs, { outputs: { O }, tolerance: 2e-5 }]])
    await seesMutation(
      program,
      (cuda) => cuda.replaceAll('ktl_sub_i32(i_n, ktl_start', 'ktl_sub_i32(i_n + 1, ktl_start'),
      inputs,
      { outputs: { O }, tolerance: 2e-5 },
    )
  })
})

describe('padded groups', { timeout: 300_000 }, () => {
  test('rows that do not count are neither read nor written', async () => {
    const p = new ProgramBuilder(
      ['g', 'm', 'n', 'k'],
      { A: { dtype: 'bf16', axes: ['g', 'm', 'k'] }, B: { dtype: 'bf16', axes: ['g', 'k', 'n'] }, len: OFF },
      {},
      { m: { ragged: { by: 'len', group: 'g', form: 'padded' } } },
    )
    const value = p.product(p.input('A'), p.input('B'), ['k'])
    const program = p.program('padded', {
      D: { dtype: 'f32', axes: ['g', 'm', 'n'], value },
      E: { dtype: 'f32', axes: ['g', 'm', 'k'], value: p.apply('mul', p.input('A'), p.constant(2)) },
      s: { dtype: 'f32', axes: ['g', 'k'], value: p.reduce('sum', ['m'], p.input('A')) },
      all: { dtype: 'f32', axes: ['k'], value: p.reduce('mean', ['g', 'm'], p.input('A')) },
    })
    const cases = [
      [20, 0, 7],
      [21, 21, 21],
    ].map((len) => {
      const [g, m, n, k] = [3, 21, 17, 6]
      const counts = (i: number): boolean => i % m < len[Math.floor(i / m)]!
      const A = numbers(g * m * k).map((x, i) => (counts(Math.floor(i / k)) ? x : NaN))
      const B = numbers(g * k * n)
      const of = (row: number, j: number): number =>
        Array.from({ length: k }, (_, l) => A[row * k + l]! * B[(Math.floor(row / m) * k + l) * n + j]!).reduce(
          (a, b) => a + b,
          0,
        )
      const live = A.map((x, i) => (counts(Math.floor(i / k)) ? x : 0))
      const outputs = {
        D: Array.from({ length: g * m * n }, (_, i) =>
          counts(Math.floor(i / n)) ? of(Math.floor(i / n), i % n) : untouched('f32'),
        ),
        E: A.map((x, i) => (counts(Math.floor(i / k)) ? 2 * x : untouched('f32'))),
        s: Array.from({ length: g * k }, (_, i) =>
          live.reduce((s, x, j) => (Math.floor(j / m / k) === Math.floor(i / k) && j % k === i % k ? s + x : s), 0),
        ),
        all: Array.from(
          { length: k },
          (_, i) => live.reduce((s, x, j) => (j % k === i ? s + x : s), 0) / len.reduce((a, b) => a + b, 0),
        ),
      }
      return [
        { extents: { g, m, n, k }, tensors: { A, B, len } },
        { outputs, tolerance: 1e-6 },
      ] as const
    })
    await check(program, cases)
    const [inputs] = cases[0]!
    const tensors = { ...inputs.tensors, len: [22, -1, 1_000_000] }
    await check(program, [
      [
        { ...inputs, tensors },
        { outputs: {}, findings: ['KTL5025'] },
      ],
    ])
  })

  test('whole tiles of patches have rows that do not count', async () => {
    const p = new ProgramBuilder(
      ['g', 'm', 'n', 'k'],
      { A: { dtype: 'f32', axes: ['g', 'm', 'k'] }, B: { dtype: 'f32', axes: ['g', 'k', 'n'] }, len: OFF },
      {},
      { m: { ragged: { by: 'len', group: 'g', form: 'padded' } } },
    )
    const value = p.product(p.input('A'), p.input('B'), ['k'])
    const program = p.program('padded', { D: { dtype: 'f32', axes: ['g', 'm', 'n'], value } })
    const [g, m, n, k, len] = [3, 16, 32, 1, [16, 3, 0]]
    const [A, B] = [numbers(g * m * k), numbers(g * k * n)]
    const D = Array.from({ length: g * m * n }, (_, i) => {
      const [group, row] = [Math.floor(i / n / m), Math.floor(i / n) % m]
      return row < len[group]! ? A[group * m + row]! * B[group * n + (i % n)]! : untouched('f32')
    })
    const inputs = { extents: { g, m, n, k }, tensors: { A, B, len } }
    await check(program, [[inputs, { outputs: { D }, tolerance: 1e-6 }]], { tile: [4, 16], patch: [2, 2] })
  })
})
