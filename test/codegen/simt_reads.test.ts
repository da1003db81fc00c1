/** Reads and stores at computed positions, as plain CUDA: convolution, gathered and scattered rows, positions that are outside. */
import { describe, expect, test } from 'vitest'
import { roundToDType } from '../../compiler/codec.ts'
import type { Node, TensorProgram } from '../../compiler/ir/tensor.ts'
import { check, numbers, seesMutation, untouched } from './check_simt.ts'
import { ProgramBuilder } from './programs.ts'

describe('convolution', { timeout: 300_000 }, () => {
  /** Channels of a group: c / groups; stride and dilation are scalars. */
  function conv2d(): TensorProgram {
    const p = new ProgramBuilder(
      ['b', 'p', 'q', 'f', 'h', 'w', 'c', 'r', 's', 'cg'],
      {
        X: { dtype: 'bf16', axes: ['b', 'h', 'w', 'c'] },
        W: { dtype: 'bf16', axes: ['f', 'r', 's', 'cg'] },
        bias: { dtype: 'f32', axes: ['f'] },
      },
      { stride: 'i32', pad: 'i32', groups: 'i32' },
    )
    const op = (name: string, a: Node, b: Node): Node => p.apply(name, a, b)
    const place = (out: string, filter: string): Node =>
      op('sub', op('add', op('mul', p.axis(out), p.scalar('stride')), p.axis(filter)), p.scalar('pad'))
    // The group of f: f / (size(f) / groups).
    const group = op('floordiv', p.axis('f'), op('floordiv', p.size('f'), p.scalar('groups')))
    const channel = op('add', op('mul', group, p.size('cg')), p.axis('cg'))
    const X = p.read('X', [p.axis('b'), place('p', 'r'), place('q', 's'), channel], 0)
    const sum = p.product(X, p.input('W'), ['r', 's', 'cg'])
    const value = p.apply('relu', op('add', sum, p.input('bias')))
    return p.program('conv2d', { Y: { dtype: 'f32', axes: ['b', 'p', 'q', 'f'], value } })
  }

  /** Without groups, the filter's free axis is its own, so that tiles share what they load. */
  function dense(): TensorProgram {
    const p = new ProgramBuilder(
      ['b', 'p', 'q', 'f', 'h', 'w', 'c', 'r', 's'],
      {
        X: { dtype: 'bf16', axes: ['b', 'h', 'w', 'c'] },
        W: { dtype: 'bf16', axes: ['f', 'r', 's', 'c'] },
      },
      { stride: 'i32', pad: 'i32' },
    )
    const place = (out: string, filter: string): Node =>
      p.apply('sub', p.apply('add', p.apply('mul', p.axis(out), p.scalar('stride')), p.axis(filter)), p.scalar('pad'))
    const X = p.read('X', [p.axis('b'), place('p', 'r'), place('q', 's'), p.axis('c')], 0)
    const value = p.product(X, p.input('W'), ['r', 's', 'c'])
    return p.program('conv2d_dense', { Y: { dtype: 'f32', axes: ['b', 'p', 'q', 'f'], value } })
  }

  interface Shape {
    b: number
    h: number
    w: number
    c: number
    f: number
    r: number
    s: number
    stride: number
    pad: number
    groups: number
  }

  function reference(
    { b, h, w, c, f, r, s, stride, pad, groups }: Shape,
    X: number[],
    W: number[],
    bias: number[] | null,
  ) {
    const [p, q, cg] = [
      Math.floor((h + 2 * pad - r) / stride) + 1,
      Math.floor((w + 2 * pad - s) / stride) + 1,
      c / groups,
    ]
    const Y: number[] = []
    for (let ib = 0; ib < b; ib++)
      for (let ip = 0; ip < p; ip++)
        for (let iq = 0; iq < q; iq++)
          for (let jf = 0; jf < f; jf++) {
            let sum = 0
            for (let ir = 0; ir < r; ir++)
              for (let is = 0; is < s; is++)
                for (let k = 0; k < cg; k++) {
                  const [y, x] = [ip * stride + ir - pad, iq * stride + is - pad]
                  if (y < 0 || y >= h || x < 0 || x >= w) continue
                  sum +=
                    X[((ib * h + y) * w + x) * c + Math.floor(jf / (f / groups)) * cg + k]! *
                    W[((jf * r + ir) * s + is) * cg + k]!
                }
            Y.push(bias ? Math.max(0, sum + bias[jf]!) : sum)
          }
    return { Y, p, q, cg }
  }

  const SHAPES: readonly Shape[] = [
    { b: 2, h: 7, w: 6, c: 4, f: 6, r: 3, s: 3, stride: 1, pad: 1, groups: 1 },
    { b: 1, h: 9, w: 11, c: 6, f: 4, r: 3, s: 2, stride: 2, pad: 2, groups: 2 },
    { b: 1, h: 5, w: 5, c: 3, f: 20, r: 1, s: 1, stride: 2, pad: 0, groups: 1 },
  ]

  test('groups, padding, stride and an epilogue', async () => {
    const cases = SHAPES.map((shape) => {
      const { b, h, w, c, f, r, s, stride, pad, groups } = shape
      const tensors = { X: numbers(b * h * w * c), W: numbers((f * r * s * c) / groups), bias: numbers(f) }
      const { Y, p, q, cg } = reference(shape, tensors.X, tensors.W, tensors.bias)
      return [
        { extents: { b, h, w, c, f, r, s, p, q, cg }, tensors, scalars: { stride, pad, groups } },
        { outputs: { Y } },
      ] as const
    })
    await check(conv2d(), cases)
  })

  test('without groups: an image-to-column tile, whose rows are b p q and whose k is r s c', async () => {
    const cases = SHAPES.filter(({ groups }) => groups === 1).map((shape) => {
      const { b, h, w, c, f, r, s, stride, pad } = shape
      const tensors = { X: numbers(b * h * w * c), W: numbers(f * r * s * c) }
      const { Y, p, q } = reference(shape, tensors.X, tensors.W, null)
      return [
        { extents: { b, h, w, c, f, r, s, p, q }, tensors, scalars: { stride, pad } },
        { outputs: { Y } },
      ] as const
    })
    const { plan } = await check(dense(), cases)
    const [{ form }] = plan.stages as [(typeof plan.stages)[number]]
    expect(form).toMatchObject({
      kind: 'tile',
      split: { rows: ['b', 'p', 'q'], columns: ['f'] },
      loops: [{ over: ['r', 's', 'c'] }],
    })
    await seesMutation(
      dense(),
      (cuda) => cuda.replaceAll('(unsigned int)x_w', '(unsigned int)(x_w - 1)'),
      cases[0]![0],
      cases[0]![1],
    )
  })
})

describe('looked-up positions', { timeout: 120_000 }, () => {
  /** Rows of D that `place` names, summed with and without weights; what is looked up is the same for all columns. */
  test('sums of rows: a thread has several columns, and looks each row up once for them', async () => {
    const p = new ProgramBuilder(['s', 'j', 't', 'n'], {
      D: { dtype: 'f32', axes: ['t', 'n'] },
      place: { dtype: 'i32', axes: ['s', 'j'] },
      w: { dtype: 'f32', axes: ['s', 'j'] },
    })
    const D = p.read('D', [p.input('place'), p.axis('n')])
    const axes = ['s', 'n']
    const program = p.program('sums_of_rows', {
      Y: { dtype: 'f32', axes, value: p.reduce('sum', ['j'], p.apply('add', D, p.input('w'))) },
      M: { dtype: 'f32', axes, value: p.reduce('mean', ['j'], D) },
      X: { dtype: 'f32', axes, value: p.reduce('max', ['j'], D) },
      W: { dtype: 'f32', axes, value: p.product(p.input('w'), D, ['j']) },
    })
    const cases = [
      [5, 3, 7, 34],
      [3, 20, 4, 1],
      [1, 1, 1, 3],
      [2, 2, 9, 517],
      [2, 2, 3, 0],
    ].map(([s, j, t, n]) => {
      const [D, w] = [numbers(t! * n!), numbers(s! * j!)]
      const place = Array.from({ length: s! * j! }, (_, i) => (i * 5 + 2) % t!)
      const each = (reduce: (values: number[], weights: number[]) => number): number[] =>
        Array.from({ length: s! * n! }, (_, i) => {
          const own = Array.from({ length: j! }, (_, c) => Math.floor(i / n!) * j! + c)
          return reduce(
            own.map((at) => D[place[at]! * n! + (i % n!)]!),
            own.map((at) => w[at]!),
          )
        })
      const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0)
      const outputs = {
        Y: each((d, w) => sum(d) + sum(w)),
        M: each((d) => Math.fround(sum(d) / d.length)),
        X: each((d) => Math.max(...d)),
        W: each((d, w) => sum(d.map((x, i) => x * w[i]!))),
      }
      return [{ extents: { s: s!, j: j!, t: t!, n: n! }, tensors: { D, place, w } }, { outputs }] as const
    })
    const { plan } = await check(program, cases)
    const forms = plan.stages.map(({ form }) => form)
    expect(forms.every((form) => form.kind === 'team' && form.along === 'domain' && form.width === 4)).toBe(true)
    const [inputs, expectation] = cases[0]!
    await seesMutation(program, (cuda) => cuda.replaceAll('v * lanes', 'v'), inputs, expectation)
  })

  const gather = (): TensorProgram => {
    const p = new ProgramBuilder(['t', 'n', 'k', 'r'], {
      A: { dtype: 'f16', axes: ['r', 'k'] },
      B: { dtype: 'f16', axes: ['k', 'n'] },
      from: { dtype: 'i32', axes: ['t'] },
      to: { dtype: 'i32', axes: ['t'] },
    })
    const A = p.read('A', [p.input('from'), p.axis('k')])
    const value = p.product(A, p.input('B'), ['k'])
    return p.program('gather_scatter', {
      D: { dtype: 'f32', axes: ['r', 'n'], value, at: [p.input('to'), p.axis('n')] },
    })
  }

  test('rows are gathered and scattered; rows not named keep what they had', async () => {
    const [t, n, k, r] = [9, 18, 7, 12]
    const extents = { t, n, k, r }
    const tensors = {
      A: numbers(r * k),
      B: numbers(k * n),
      from: [3, 3, 0, 11, 5, 6, 1, -1, 2],
      to: [4, 0, 11, 9, -1, 7, 2, 5, 3],
    }
    const result = (from: number[], to: number[]): number[] => {
      const D = new Array<number>(r * n).fill(untouched('f32'))
      to.forEach((row, i) => {
        if (row < 0 || row >= r) return
        for (let j = 0; j < n; j++) {
          let sum = 0
          for (let l = 0; l < k; l++) sum += (tensors.A[from[i]! * k + l] ?? 0) * tensors.B[l * n + j]!
          D[row * n + j] = sum
        }
      })
      return D
    }
    const outside = { ...tensors, from: [3, 3, 0, 12, 5, 6, 1, -1, 2], to: [4, 0, 11, 9, -2, 7, 2, 5, 3] }
    const cases = [
      [{ extents, tensors }, { outputs: { D: result(tensors.from, tensors.to) } }],
      [
        { extents, tensors: outside },
        { outputs: { D: result(outside.from, outside.to) }, findings: ['KTL5025'] },
      ],
    ] as const
    await check(gather(), cases)
    await seesMutation(
      gather(),
      (cuda) => cuda.replace('op_from[i_t * ', 'op_from[(i_t ^ 1) * '),
      { extents: { ...extents, t: 8 }, tensors },
      cases[0]![1],
    )
  })

  test('elements that share bytes are scattered one by one; those not named keep what they had', async () => {
    const dtypes = ['e2m1', 'u4', 'e3m2'] as const
    const p = new ProgramBuilder(['m', 'n', 'v'], {
      X: { dtype: 'f32', axes: ['m', 'n'] },
      U: { dtype: 'i32', axes: ['m', 'n'] },
      to: { dtype: 'i32', axes: ['n'] },
      each: { dtype: 'i32', axes: ['m', 'n'] },
    })
    const outputs = dtypes.flatMap((dtype) =>
      ['to', 'each'].flatMap((by) => {
        const value = p.input(dtype === 'u4' ? 'U' : 'X')
        const [m, place] = [p.axis('m'), p.input(by)]
        return [
          [`${dtype}_${by}`, { dtype, axes: ['m', 'v'], value, at: [m, place] }],
          [`${dtype}_${by}_first`, { dtype, axes: ['v', 'm'], order: ['m', 'v'], value, at: [place, m] }],
        ] as const
      }),
    )
    const program = p.program('scatter_narrow', Object.fromEntries(outputs))
    const [m, n, v] = [3, 7, 13]
    const to = [4, 0, 12, 9, -1, 7, 5]
    const tensors = {
      X: numbers(m * n),
      U: Array.from({ length: m * n }, (_, i) => i % 16),
      to,
      each: Array.from({ length: m }, (_, i) => to.map((place) => (place < 0 ? place : (place + i * 3) % v))).flat(),
    }
    const expected = (dtype: (typeof dtypes)[number], by: 'to' | 'each', isFirst: boolean): number[] => {
      const D = new Array<number>(m * v).fill(untouched(dtype))
      for (let i = 0; i < m; i++)
        for (let j = 0; j < n; j++) {
          const place = by === 'to' ? to[j]! : tensors.each[i * n + j]!
          const value = roundToDType(dtype, (dtype === 'u4' ? tensors.U : tensors.X)[i * n + j]!)
          if (place >= 0) D[isFirst ? place * m + i : i * v + place] = value
        }
      return D
    }
    const results = dtypes.flatMap((dtype) =>
      (['to', 'each'] as const).flatMap((by) => [
        [`${dtype}_${by}`, expected(dtype, by, false)] as const,
        [`${dtype}_${by}_first`, expected(dtype, by, true)] as const,
      ]),
    )
    const inputs = { extents: { m, n, v }, tensors }
    const { plan } = await check(program, [[inputs, { outputs: Object.fromEntries(results) }]])
    expect(plan.stages.map(({ form }) => form)).toEqual(outputs.map(() => ({ kind: 'row', over: ['n'] })))
    const last = p.program('last', {
      Y: { dtype: 'u4', axes: ['m', 'v'], value: p.input('U'), at: [p.axis('m'), p.input('to')] },
    })
    const twice = { extents: { m, n, v }, tensors: { ...tensors, to: [4, 0, 12, 4, -1, 13, 5] } }
    const Y = new Array<number>(m * v).fill(untouched('u4'))
    for (let i = 0; i < m; i++)
      for (const [j, place] of twice.tensors.to.entries())
        if (place >= 0 && place < v) Y[i * v + place] = tensors.U[i * n + j]!
    await check(last, [[twice, { outputs: { Y }, findings: ['KTL5025'] }]])
  })

  test('what a read gives outside, in the order of the written expression', async () => {
    const p = new ProgramBuilder(['i', 'j'], { X: { dtype: 'f32', axes: ['i'] } })
    const at = (d: number, outside: number): Node =>
      p.read('X', [p.apply('add', p.axis('j'), p.constant(d, 'i32'))], outside)
    const value = p.apply('max', at(-1, -Infinity), at(2, 7))
    const program = p.program('window', { y: { dtype: 'f32', axes: ['j'], value } })
    const X = [1, 9, 3, 4, 2]
    const y = Array.from({ length: 6 }, (_, j) => Math.max(X[j - 1] ?? -Infinity, X[j + 2] ?? 7))
    await check(program, [[{ extents: { i: 5, j: 6 }, tensors: { X } }, { outputs: { y } }]])
  })

  test('small windows: a thread for each result', async () => {
    const p = new ProgramBuilder(['c', 'p', 'h', 'r'], { X: { dtype: 'f32', axes: ['c', 'h'] } })
    const X = p.read(
      'X',
      [p.axis('c'), p.apply('add', p.apply('mul', p.axis('p'), p.constant(2, 'i32')), p.axis('r'))],
      -Infinity,
    )
    const program = p.program('pool', { y: { dtype: 'f32', axes: ['c', 'p'], value: p.reduce('max', ['r'], X) } })
    const [c, h] = [3, 9]
    const x = numbers(c * h)
    const y = Array.from({ length: c * 5 }, (_, i) =>
      Math.max(
        ...[0, 1, 2].map((r) => {
          const at = (i % 5) * 2 + r
          return at < h ? x[Math.floor(i / 5) * h + at]! : -Infinity
        }),
      ),
    )
    await check(program, [[{ extents: { c, p: 5, h, r: 3 }, tensors: { X: x } }, { outputs: { y } }]])
  })
})
