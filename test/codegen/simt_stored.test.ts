/** Stored forms of 4 to 8 bits, read by plain CUDA, on devices with and without cvt for them. */
import { describe, test } from 'vitest'
import { decode, roundToDType } from '../../compiler/codec.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { check, f32, integers, numbers, scalesOf, seesMutation, valuesOf } from './check_simt.ts'
import { ProgramBuilder, type OperandSpec } from './programs.ts'

const TARGETS = ['sm_100a', 'sm_90a'] as const

interface Form {
  readonly dtype: DTypeName
  readonly scale: DTypeName
  readonly block: number
  readonly zero?: DTypeName
  readonly global?: boolean
}

describe('inputs', { timeout: 300_000 }, () => {
  const FORMS: readonly Form[] = [
    { dtype: 'e4m3', scale: 'ue8m0', block: 32 },
    { dtype: 'e5m2', scale: 'f32', block: 128 },
    { dtype: 'e2m1', scale: 'ue4m3', block: 16, global: true },
    { dtype: 'e3m2', scale: 'ue8m0', block: 32 },
    { dtype: 'e2m3', scale: 'bf16', block: 7 },
    { dtype: 'u4', scale: 'f16', block: 8, zero: 'u4' },
    { dtype: 'i4', scale: 'bf16', block: 5 },
    { dtype: 'i8', scale: 'f32', block: 3, zero: 'f32' },
  ]

  test.each(FORMS)('$dtype with scales $scale for $block, contiguous along k and along n', async (form) => {
    const { dtype, scale, block, zero, global } = form
    const stored = { scale: 'W.scale', ...(zero && { zero: 'W.zero' }), ...(global && { global: 'W.global' }) }
    for (const order of [
      ['k', 'n'],
      ['n', 'k'],
    ] as const) {
      const part = (type: DTypeName): OperandSpec => ({
        dtype: type,
        axes: ['k', 'n'],
        blocks: [block, 1],
        order,
        partOf: 'W',
      })
      const p = new ProgramBuilder(
        ['m', 'n', 'k'],
        {
          X: { dtype: 'f32', axes: ['m', 'k'] },
          W: { dtype, axes: ['k', 'n'], order, stored },
          'W.scale': part(scale),
          ...(zero && { 'W.zero': part(zero) }),
        },
        global ? { 'W.global': 'f32' } : {},
      )
      const program = p.program(`decoded_${dtype}`, {
        D: { dtype: 'f32', axes: ['m', 'n'], value: p.product(p.input('X'), p.input('W'), ['k']) },
      })
      const [m, n, k] = [18, 7, 45]
      const blocks = Math.ceil(k / block)
      const tensors: Record<string, number[]> = {
        X: numbers(m * k),
        W: valuesOf(dtype, k * n),
        'W.scale': scalesOf(scale, blocks * n),
      }
      if (zero) tensors['W.zero'] = zero === 'u4' ? integers(blocks * n, 0, 15) : numbers(blocks * n)
      const D = Array.from({ length: m * n }, (_, i) => {
        const [row, column] = [Math.floor(i / n), i % n]
        let sum = 0
        for (let l = 0; l < k; l++) {
          const at = Math.floor(l / block) * n + column
          let w = f32(tensors.W![l * n + column]! - (tensors['W.zero']?.[at] ?? 0))
          w = f32(w * tensors['W.scale']![at]!)
          if (global) w = f32(w * 0.375)
          sum += tensors.X![row * k + l]! * w
        }
        return sum
      })
      const inputs = { extents: { m, n, k }, tensors, scalars: { 'W.global': 0.375 } }
      await check(program, [[inputs, { outputs: { D }, tolerance: 3e-5 }]])
      if (form !== FORMS[5]) continue
      await seesMutation(program, (cuda) => cuda.replaceAll('i_k / 8', '(i_k + 1) / 8'), inputs, {
        outputs: { D },
        tolerance: 3e-5,
      })
    }
  })

  test('every code decodes, with and without cvt', async () => {
    const dtypes = ['e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1', 'ue8m0', 'ue4m3', 'i4', 'u4'] as const
    const p = new ProgramBuilder(
      ['i'],
      Object.fromEntries(dtypes.map((dtype) => [`x_${dtype}`, { dtype, axes: ['i'] }])),
    )
    const program = p.program(
      'codes',
      Object.fromEntries(
        dtypes.map((dtype) => [
          `y_${dtype}`,
          { dtype: 'f32', axes: ['i'], value: p.cast('f32', p.input(`x_${dtype}`)) },
        ]),
      ),
    )
    const all = (dtype: DTypeName): Uint8Array =>
      Uint8Array.from({ length: 256 }, (_, i) => i % 2 ** DTYPES[dtype].bits)
    const codes = Object.fromEntries(dtypes.map((dtype) => [`x_${dtype}`, all(dtype)]))
    const outputs = Object.fromEntries(dtypes.map((dtype) => [`y_${dtype}`, decode(dtype, all(dtype))]))
    for (const target of TARGETS)
      await check(program, [[{ extents: { i: 256 }, tensors: {}, codes }, { outputs }]], { target })
  })

  test('rounding to narrow formats, with and without cvt', async () => {
    const dtypes = ['tf32', 'e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1', 'ue8m0', 'ue4m3'] as const
    const p = new ProgramBuilder(['i'], { x: { dtype: 'f32', axes: ['i'] } })
    const program = p.program(
      'roundings',
      Object.fromEntries(
        dtypes.map((dtype) => [`y_${dtype}`, { dtype: 'f32', axes: ['i'], value: p.cast(dtype, p.input('x')) }]),
      ),
    )
    const x = [
      0,
      -0,
      Infinity,
      -Infinity,
      NaN,
      2 ** -127,
      2 ** -149,
      1.5 * 2 ** -127,
      448,
      464,
      480,
      57344,
      61440,
      7.5,
      7.75,
      6,
      5,
      0.25,
      0.75,
      -0.25,
    ]
    for (let e = -150; e < 128; e++)
      for (const f of [1, 1.0625, 1.125, 1.1875, 1.25, 1.375, 1.5, 1.75, 1.9375, 1.99])
        x.push(f32(f * 2 ** e), f32(-f * 2 ** e))
    const outputs = Object.fromEntries(dtypes.map((dtype) => [`y_${dtype}`, x.map((v) => roundToDType(dtype, v))]))
    for (const target of TARGETS)
      await check(program, [[{ extents: { i: x.length }, tensors: { x } }, { outputs }]], { target })
  })
})
