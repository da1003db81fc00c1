/** Reductions that are used again, as plain CUDA: row statistics, softmax, attention. */
import { describe, expect, test } from 'vitest'
import type { Node } from '../../compiler/ir/tensor.ts'
import { check, numbers, seesMutation } from './check_simt.ts'
import { ProgramBuilder } from './programs.ts'

/** softmax[n](x) as the checker writes it out. */
function softmax(
  p: ProgramBuilder,
  over: string,
  x: Node,
  kept: readonly string[] = [],
): { value: Node; max: Node; sum: Node } {
  const top = p.reduce('max', [over], x, kept)
  const max = p.apply('select', p.apply('eq', top, p.constant(-Infinity)), p.constant(0), top)
  const e = p.apply('exp', p.apply('sub', x, max))
  const sum = p.reduce('sum', [over], e, kept)
  const value = p.apply('select', p.apply('eq', sum, p.constant(0)), p.constant(0), p.apply('div', e, sum))
  return { value, max, sum }
}

describe('row statistics', { timeout: 120_000 }, () => {
  test('rms_norm: the statistic is its own stage, which several threads of a row share', async () => {
    const p = new ProgramBuilder(
      ['m', 'c'],
      { X: { dtype: 'bf16', axes: ['m', 'c'] }, g: { dtype: 'bf16', axes: ['c'] } },
      { eps: 'f32' },
    )
    const X = p.input('X')
    const mean = p.reduce('mean', ['c'], p.apply('mul', X, X))
    const value = p.apply(
      'mul',
      p.apply('mul', X, p.apply('rsqrt', p.apply('add', mean, p.scalar('eps')))),
      p.input('g'),
    )
    const program = p.program('rms_norm', { Y: { dtype: 'f32', axes: ['m', 'c'], value } })
    const cases = [
      [5, 700],
      [300, 3],
      [1, 1],
      [0, 4],
      [3, 0],
    ].map(([m, c]) => {
      const [x, g] = [numbers(m! * c!), numbers(c!)]
      const Y = x.map((v, i) => {
        const row = x.slice(Math.floor(i / c!) * c!, Math.floor(i / c!) * c! + c!)
        return (v / Math.sqrt(row.reduce((s, y) => s + y * y, 0) / c! + 0.5)) * g[i % c!]!
      })
      return [
        { extents: { m: m!, c: c! }, tensors: { X: x, g }, scalars: { eps: 0.5 } },
        { outputs: { Y }, tolerance: 1e-6 },
      ] as const
    })
    const { plan } = await check(program, cases)
    expect(plan.stages.map(({ form }) => form.kind)).toEqual(['team', 'element'])
  })

  test('column sums: threads beside each other have results beside each other', async () => {
    const p = new ProgramBuilder(['m', 'n'], { X: { dtype: 'f32', axes: ['m', 'n'] } })
    const program = p.program('column_sums', {
      s: { dtype: 'f32', axes: ['n'], value: p.reduce('sum', ['m'], p.input('X')) },
    })
    const cases = [
      [600, 7],
      [40, 130],
      [0, 3],
    ].map(([m, n]) => {
      const X = numbers(m! * n!)
      const s = Array.from({ length: n! }, (_, j) => X.reduce((sum, x, i) => (i % n! === j ? sum + x : sum), 0))
      return [{ extents: { m: m!, n: n! }, tensors: { X } }, { outputs: { s } }] as const
    })
    const { plan } = await check(program, cases)
    expect(plan.stages.map(({ form }) => form)).toEqual([{ kind: 'team', along: 'domain', width: 1 }])
  })

  test('softmax and logsumexp of a row share a stage; rows of -inf give 0, +inf gives NaN', async () => {
    const p = new ProgramBuilder(['m', 'n'], { X: { dtype: 'f32', axes: ['m', 'n'] } })
    const { value, max, sum } = softmax(p, 'n', p.input('X'))
    const lse = p.apply('add', p.apply('log', sum), max)
    const program = p.program('softmax', {
      P: { dtype: 'f32', axes: ['m', 'n'], value },
      L: { dtype: 'f32', axes: ['m'], value: lse },
    })
    const [m, n] = [4, 333]
    const X = numbers(m * n).map((x, i) => (i < n ? -Infinity : i === n + 5 ? Infinity : x))
    const rows = Array.from({ length: m }, (_, i) => X.slice(i * n, i * n + n))
    const total = (row: number[]): number => row.reduce((s, x) => s + Math.exp(x), 0)
    const outputs = {
      P: rows.flatMap((row, i) => row.map((x) => (i === 0 ? 0 : i === 1 ? NaN : Math.exp(x) / total(row)))),
      L: rows.map((row, i) => (i === 1 ? NaN : Math.log(total(row)))),
    }
    const { plan } = await check(program, [
      [
        { extents: { m, n }, tensors: { X } },
        { outputs, tolerance: 1e-6 },
      ],
    ])
    expect(plan.stages.map(({ loops }) => loops.length)).toEqual([2, 0])
  })
})

describe('attention', { timeout: 300_000 }, () => {
  test('grouped heads, causal, over a paged cache', async () => {
    const p = new ProgramBuilder(
      ['b', 'h', 'hk', 'm', 'n', 'd', 'e', 'page', 'slot', 'pages'],
      {
        Q: { dtype: 'bf16', axes: ['b', 'h', 'm', 'd'] },
        K: { dtype: 'bf16', axes: ['page', 'slot', 'hk', 'd'] },
        V: { dtype: 'bf16', axes: ['page', 'slot', 'hk', 'e'] },
        table: { dtype: 'i32', axes: ['b', 'pages'] },
      },
      { scale: 'f32' },
    )
    const op = (name: string, a: Node, b: Node): Node => p.apply(name, a, b)
    const head = op('floordiv', p.axis('h'), op('floordiv', p.size('h'), p.size('hk')))
    const page = p.read('table', [p.axis('b'), op('floordiv', p.axis('n'), p.size('slot'))])
    const cached = (name: string, last: string): Node =>
      p.read(name, [page, op('floormod', p.axis('n'), p.size('slot')), head, p.axis(last)])
    const S = op('mul', p.product(p.input('Q'), cached('K', 'd'), ['d']), p.scalar('scale'))
    const visible = op('le', p.axis('n'), op('sub', op('add', p.axis('m'), p.size('n')), p.size('m')))
    const masked = p.apply('select', visible, S, p.constant(-Infinity))
    const { value, max, sum } = softmax(p, 'n', masked)
    const O = p.product(value, cached('V', 'e'), ['n'])
    const program = p.program('attention', {
      O: { dtype: 'f32', axes: ['b', 'h', 'm', 'e'], value: O },
      L: { dtype: 'f32', axes: ['b', 'h', 'm'], value: op('add', p.apply('log', sum), max) },
    })
    const [b, h, hk, m, n, d, e, pages, slot] = [2, 4, 2, 7, 21, 5, 6, 3, 8]
    const extents = { b, h, hk, m, n, d, e, page: 7, slot, pages }
    const tensors = {
      Q: numbers(b * h * m * d),
      K: numbers(7 * slot * hk * d),
      V: numbers(7 * slot * hk * e),
      table: [5, 0, 3, 6, 2, 1],
    }
    const attend = (table: readonly number[]): { O: number[]; L: number[] } => {
      const outputs = { O: [] as number[], L: [] as number[] }
      for (let ib = 0; ib < b; ib++)
        for (let ih = 0; ih < h; ih++)
          for (let im = 0; im < m; im++) {
            const kv = Math.floor(ih / (h / hk))
            const row = (i: number): number => (table[ib * pages + Math.floor(i / slot)]! * slot + (i % slot)) * hk + kv
            const at = (data: readonly number[], i: number): number => data[i] ?? 0
            const scores = Array.from({ length: n }, (_, i) => {
              if (i > im + n - m) return -Infinity
              let s = 0
              for (let j = 0; j < d; j++)
                s += tensors.Q[((ib * h + ih) * m + im) * d + j]! * at(tensors.K, row(i) * d + j)
              return s * 0.25
            })
            const total = scores.reduce((s, x) => s + Math.exp(x), 0)
            for (let j = 0; j < e; j++)
              outputs.O.push(scores.reduce((s, x, i) => s + (Math.exp(x) / total) * at(tensors.V, row(i) * e + j), 0))
            outputs.L.push(Math.log(total))
          }
      return outputs
    }
    const inputs = { extents, tensors, scalars: { scale: 0.25 } }
    const expectation = { outputs: attend(tensors.table), tolerance: 2e-5 }
    // A page outside the cache reads 0 and is reported; -1 is not.
    const [none, lost] = [
      [5, 0, -1, 6, 2, 1],
      [5, 0, -1, 6, 1_000_000, 1],
    ]
    const { plan } = await check(program, [
      [inputs, expectation],
      [
        { ...inputs, tensors: { ...tensors, table: none } },
        { outputs: attend(none), tolerance: 2e-5 },
      ],
      [
        { ...inputs, tensors: { ...tensors, table: lost } },
        { outputs: attend(lost), tolerance: 2e-5, findings: ['KTL5025'] },
      ],
    ])
    expect(plan.stages.map(({ form }) => form.kind)).toEqual(['tile', 'team', 'tile'])
    await seesMutation(program, (cuda) => cuda.replaceAll('i_n <= ', 'i_n < '), inputs, expectation)
    await seesMutation(
      program,
      (cuda) => cuda.replaceAll('ktl_mod_i32(i_n, x_slot)', 'ktl_mod_i32(i_n + 1, x_slot)'),
      inputs,
      expectation,
    )
  })
})
