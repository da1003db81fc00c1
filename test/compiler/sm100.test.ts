import type { DTypeName } from '../../grammar/vocabulary.ts'
import { describe, expect, test } from 'vitest'
import { lowerSm100 } from '../../compiler/targets/sm100/lower.ts'
import { SMEM_LIMIT } from '../../compiler/targets/tensor_core/plan.ts'
import { printTileProgram } from '../../compiler/ir/print_pipe.ts'
import { walkTileOps, type TileProgram } from '../../compiler/ir/pipe.ts'
import { verifyTileProgram } from '../../compiler/verify/index.ts'
import { bound, design, planned, tryPlan } from './support.ts'

const GEMM = `kernel gemm<T: f16 | bf16, O: f16 | f32>(A: T[l?, m, k] | T[l?, k, m], B: T[l?, k, n] | T[l?, n, k])
  -> D: O[l?, m, n] | O[l?, n, m] { D = sum[k](A * B) }`
const TILES = [64, 128].flatMap((m) => [32, 64, 96, 128, 160, 192, 224, 256].map((n) => [m, n] as const))
const ORDERS: readonly Record<string, readonly string[]>[] = [{}, { A: ['l', 'k', 'm'] }, { B: ['l', 'n', 'k'] }, { D: ['l', 'n', 'm'] }, { A: ['l', 'k', 'm'], B: ['l', 'n', 'k'], D: ['l', 'n', 'm'] }] // prettier-ignore

describe('plans', () => {
  test('every tile, order and store class fits the SM and lowers to a valid tile program', () => {
    for (const tile of TILES)
      for (const orders of ORDERS)
        for (const O of ['f16', 'f32'] as const)
          for (const D of ['vector', 'element'] as const) {
            const plan = planned(bound(GEMM, { orders, types: { T: 'bf16', O }, divisibility: { D } }), design(tile))
            expect(plan.smemBytes).toBeLessThanOrEqual(SMEM_LIMIT)
            expect(plan.stages).toBeGreaterThanOrEqual(3)
            expect(plan.tmemColumns).toBeLessThanOrEqual(512)
            const program = lowerSm100(plan)
            expect(verifyTileProgram(program)).toEqual([])
            expect(program.tmem!.slotOffset + 4 + 1024).toBeLessThanOrEqual(plan.smemBytes)
          }
  })

  // Words worked out by hand from the tables of PTX ISA 9.7.16.4.
  test.each([
    ['f16', {}, [128, 256], 0x08410010, 'B N-major'],
    ['bf16', { B: ['l', 'n', 'k'] }, [128, 256], 0x08400490, 'both K-major'],
    ['bf16', { B: ['l', 'n', 'k'] }, [128, 128], 0x08200490, 'both K-major'],
    ['f16', { A: ['l', 'k', 'm'], B: ['l', 'n', 'k'] }, [64, 32], 0x04088010, 'A M-major'],
  ] as [DTypeName, Record<string, string[]>, [number, number], number, string][])(
    'instruction descriptor: %s %o %o',
    (T, orders, tile, word) => {
      const plan = planned(bound(GEMM, { orders, types: { T, O: 'f32' } }), design(tile))
      expect(plan.instruction.descriptor.toString(16)).toBe(word.toString(16))
    },
  )

  test('operand boxes and descriptors follow the memory order', () => {
    const { a, b } = planned(bound(GEMM, { types: { T: 'f16', O: 'f16' } }), design([128, 96]))
    expect(a).toMatchObject({ major: 'k', boxes: 1, boxExtents: [64, 128, 1], tileBytes: 16384, descriptor: { strideBytes: 1024, stepBytes: 32 } })
    expect(b[0]).toMatchObject({ major: 'mn', boxes: 3, boxExtents: [32, 64, 1], tileBytes: 12288, descriptor: { leadingBytes: 4096, strideBytes: 512, swizzle: '64B', stepBytes: 1024 } })
  }) // prettier-ignore

  test('stages fill shared memory: one more would not fit', () => {
    const plan = planned(bound(GEMM, { types: { T: 'f16', O: 'f32' } }), design([128, 256]))
    expect(plan.stages).toBe(4)
    expect(plan.smemBytes + plan.stageBytes).toBeGreaterThan(SMEM_LIMIT)
    expect(tryPlan(plan.program, design([128, 256], { stages: 5 }))).toMatchObject({ code: 'KTL4510' })
  })

  test('metadata of an epilogue: operands by how they vary, pointer scalars, guarded loads', () => {
    const program =
      bound(`kernel f(A: f16[l, m, k], B: f16[l, n, k], C: bf16[m, n], r: f32[n], c: f16[m], b: f32[l], beta: f32)
      -> D: f16[l, m, n] { D = relu(sum[k](A * B) * b + r) * c + skip0(beta) * C }`)
    const plan = planned(program, design([128, 64]))
    expect(plan.epilogue.aux.map((x) => [x.operand.name, x.shape, x.vector])).toEqual([
      ['b', 'uniform', false], ['r', 'row', false], ['c', 'column', false], ['C', 'full', true],
    ]) // prettier-ignore
    const loads = opsOf(lowerSm100(plan)).filter((op) => op.op === 'aux_load')
    expect(loads.filter((op) => op.guard !== null).map((op) => op.operand)).toEqual(['C'])
  })
})

const opsOf = (program: TileProgram) => program.roles.flatMap((role) => [...walkTileOps(role.body)].map(([op]) => op))

test('operands that TMA cannot address are gathered by a CTA of its own', () => {
  const program = bound(GEMM, { divisibility: { B: 'element' } })
  expect(planned(program, design([128, 64])).b[0]!.source).toBe('gather')
  expect(tryPlan(program, design([128, 64], { cluster: [2, 1, 1] }))).toMatchObject({ code: 'KTL4513', operand: 'B' })
})

describe('tile IR', () => {
  const lowered = lowerSm100(planned(bound(GEMM, { types: { T: 'f16', O: 'f16' } }), design([128, 128])))
  test('prints', () => expect(printTileProgram(lowered)).toMatchFileSnapshot('../golden/gemm_128x128.tile'))
})
