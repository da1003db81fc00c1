import { describe, expect, test } from 'vitest'
import type { LaunchRecipe, TensorMapRule } from '../../codegen/cuda/generated.ts'
import {
  addressOffsets,
  gridSize,
  packParameters,
  planLaunch,
  type LaunchBindings,
} from '../../runtime/kernels/plan_launch.ts'
import type { Artifact } from '../../runtime/artifacts/artifact.ts'
import type { Call } from '../../runtime/discovery/calls/call.ts'
import { tileGroup } from '../../runtime/kernels/tile_group.ts'
import { createTensorMap } from '../../runtime/tensors/tensor_map.ts'
import { errorOf } from './errors.ts'

const recipe: LaunchRecipe = {
  entry: 'gemm',
  threads: 192,
  cluster: [1, 1, 1],
  sharedMemBytes: 200 * 1024,
  grid: { kind: 'persistent', dynamic: false, tiles: [{ axis: 'l', extent: 1 }, { axis: 'm', extent: 128 }, { axis: 'n', extent: 64 }] },
  params: [
    { kind: 'extent', axis: 'k' },
    { kind: 'tensorMap', name: 'mapA', operand: 'A', dtype: 'f16', axes: ['k', 'm', 'l'], box: [64, 128, 1], swizzle: '128B' },
    { kind: 'carries', operand: 'A', axis: 'l' },
    { kind: 'pointer', operand: 'D', storage: 'float', isConst: false },
    { kind: 'stride', operand: 'D', axis: 'm' },
    { kind: 'scalar', name: 'alpha', type: 'f32' },
    { kind: 'scalar', name: 'beta', type: 'f64' },
    { kind: 'tileGroup' },
  ],
} // prettier-ignore

const bindings = (m: number, n: number, k: number): LaunchBindings => ({
  operands: {
    A: {
      tensor: { pointer: 0x10000n, dtype: 'f16', shape: [m, k], strides: [Math.ceil(k / 8) * 8, 1] },
      axes: ['m', 'k'],
    },
    D: { tensor: { pointer: 0x20000n, dtype: 'f32', shape: [m, n], strides: [n, 1] }, axes: ['m', 'n'] },
  },
  extents: { m, n, k },
  scalars: { alpha: 1.5, beta: -2 },
  tileGroup: 8,
})

/** The map of A in a block of parameters, and what it must be. */
const mapIn = (block: Uint8Array): number[] => [...block.subarray(64, 192)]
const mapOf = (dims: number[], strides: number[]): number[] => [
  ...createTensorMap({
    dtype: 'f16',
    address: 0x10000n,
    dims,
    strides,
    box: [64, 128, 1],
    swizzle: '128B',
    l2Promotion: '64B',
  }).bytes,
]

describe('packParameters', () => {
  test('lays parameters out as C does', () => {
    const block = packParameters(recipe, bindings(300, 100, 72))
    const view = new DataView(block.buffer)
    expect(view.getInt32(0, true)).toBe(72)
    expect(mapIn(block)).toEqual(mapOf([72, 300, 1], [144, 16]))
    expect(view.getInt32(192, true)).toBe(0)
    expect(view.getBigUint64(200, true)).toBe(0x20000n)
    expect(view.getBigInt64(208, true)).toBe(100n)
    expect(view.getFloat32(216, true)).toBe(1.5)
    expect(view.getFloat64(224, true)).toBe(-2)
    expect(view.getInt32(232, true)).toBe(8)
    expect(block.length).toBe(236)
  })

  test('a scalar on the device is passed by its address, a number by its value', () => {
    const place = { kind: 'scalarAt', name: 'alpha', storage: 'float' } as const
    const both: LaunchRecipe = { ...recipe, params: [{ kind: 'scalar', name: 'alpha', type: 'f32' }, place] }
    const read = (given: LaunchBindings): [number, bigint] => {
      const view = new DataView(packParameters(both, given).buffer)
      return [view.getFloat32(0, true), view.getBigUint64(8, true)]
    }
    const alpha = { tensor: { pointer: 0x30000n, dtype: 'f32', shape: [], strides: [] }, axes: [] } as const
    expect(read({ operands: {}, extents: {}, scalars: { alpha: 1.5 } })).toEqual([1.5, 0n])
    expect(read({ operands: { alpha }, extents: {}, scalars: {} })).toEqual([0, 0x30000n])
    expect(addressOffsets(both).get('alpha')).toEqual([8])
  })

  test('maps that begin elsewhere than their tensor do not take another address for theirs', () => {
    const [, map] = recipe.params as [unknown, TensorMapRule]
    const clipped = { ...map, box: [64, 8, 8, 1], clipped: { rows: 8, cut: 'behind' } } as const
    const params: LaunchRecipe['params'] = [
      clipped,
      { kind: 'pointer', operand: 'A', storage: 'short', isConst: false },
    ]
    const other = { ...recipe, params: [...params, ...recipe.params.filter((rule) => rule !== map)] }
    expect(addressOffsets(other).get('A')).toBe(null)
    expect(addressOffsets(other).get('D')).toHaveLength(1)
    expect(addressOffsets(recipe).get('A')).toEqual([64])
    // It begins as many rows before.
    const at = new DataView(packParameters(other, bindings(300, 100, 72)).buffer).getBigUint64(0, true)
    expect(at).toBe(0x10000n - 8n * 72n * 2n)
  })

  test('an empty reduction keeps the map legal', () => {
    const block = packParameters(recipe, bindings(4, 4, 0))
    expect(new DataView(block.buffer).getInt32(0, true)).toBe(0)
    expect(mapIn(block)).toEqual(mapOf([1, 4, 1], [0, 16]))
  })

  test('an extent of 1 ignores its stride, which no map could have', () => {
    const one = bindings(1, 4, 8)
    const odd = { ...one.operands.A!.tensor, strides: [7, 1] }
    const operands = { ...one.operands, A: { tensor: odd, axes: ['m', 'k'] } }
    expect(mapIn(packParameters(recipe, { ...one, operands }))).toEqual(mapOf([8, 1, 1], [16, 16]))
  })

  test('strides are 0 where an operand broadcasts', () => {
    const rule = (axis: string): LaunchRecipe => ({ ...recipe, params: [{ kind: 'stride', operand: 'C', axis }] })
    const C = { tensor: { pointer: 0n, dtype: 'f32', shape: [1, 9], strides: [9, 1] }, axes: ['m', 'n'] } as const
    const stride = (axis: string) => {
      const block = packParameters(rule(axis), { operands: { C }, extents: { m: 5, n: 9, l: 2 }, scalars: {} })
      return new DataView(block.buffer).getBigInt64(0, true)
    }
    expect([stride('m'), stride('n'), stride('l')]).toEqual([0n, 1n, 0n])
  })

  test('says what is missing or in another order', async () => {
    const whole = bindings(8, 8, 8)
    const cases: [LaunchBindings, string][] = [
      [{ ...whole, scalars: { alpha: 1 } }, 'scalar beta'],
      [{ ...whole, operands: { A: whole.operands.A! } }, 'operand D'],
      [
        { ...whole, operands: { ...whole.operands, A: { ...whole.operands.A!, axes: ['k', 'm'] } } },
        'axis k contiguous',
      ],
    ]
    for (const [wrong, text] of cases) {
      const error = await errorOf(() => packParameters(recipe, wrong))
      expect(error.code).toBe('KTL4016')
      expect(error.message).toContain(text)
    }
  })
})

describe('the grid', () => {
  test('is persistent: as many CTAs as tiles, at most one for each SM', () => {
    expect(gridSize(recipe, bindings(300, 100, 8), { smCount: 148 })).toBe(6)
    expect(gridSize(recipe, bindings(300, 100, 8), { smCount: 4 })).toBe(4)
    const batched = bindings(300, 100, 8)
    expect(gridSize(recipe, { ...batched, extents: { ...batched.extents, l: 5 } }, { smCount: 148 })).toBe(30)
  })

  test('is several CTAs of an SM, as far as its shared memory goes', () => {
    const four: LaunchRecipe = {
      ...recipe,
      sharedMemBytes: 32 * 1024,
      grid: { ...recipe.grid, perSm: 4 } as LaunchRecipe['grid'],
    }
    const many = bindings(128 * 1000, 64, 8)
    expect(gridSize(four, many, { smCount: 10 })).toBe(40)
    expect(gridSize(four, many, { smCount: 10, sharedBytesPerSm: 228 * 1024 })).toBe(40)
    expect(gridSize(four, many, { smCount: 10, sharedBytesPerSm: 100 * 1024 })).toBe(30)
    expect(gridSize(four, many, { smCount: 10, sharedBytesPerSm: 16 * 1024 })).toBe(10)
  })

  test('leaves to L1 what its CTAs do not take of shared memory, where SMs have fewer of them than fit', () => {
    const grid = { ...recipe.grid, perSm: 4 } as LaunchRecipe['grid']
    const four: LaunchRecipe = { ...recipe, sharedMemBytes: 31 * 1024, grid }
    const sharedOf = (recipe: LaunchRecipe, tiles: number) =>
      planLaunch(recipe, bindings(128 * tiles, 64, 8), { smCount: 10, sharedBytesPerSm: 228 * 1024 })!.sharedPerSm
    expect(sharedOf(four, 3)).toBe(32 * 1024)
    expect(sharedOf(four, 11)).toBe(64 * 1024)
    expect(sharedOf(four, 31)).toBeUndefined()
    expect(sharedOf(four, 1000)).toBeUndefined()
    expect(sharedOf({ ...four, cluster: [2, 1, 1] }, 2)).toBeUndefined()
    expect(sharedOf(recipe, 3)).toBeUndefined()
  })

  test('is whole clusters', () => {
    const pairs: LaunchRecipe = { ...recipe, cluster: [2, 1, 1] }
    expect(gridSize(pairs, bindings(384, 64, 8), { smCount: 148 })).toBe(6)
    expect(gridSize(pairs, bindings(3840, 64, 8), { smCount: 7 })).toBe(6)
  })

  test('is clusters that run at once: GPCs have SMs left over', () => {
    const fours: LaunchRecipe = { ...recipe, cluster: [4, 1, 1] }
    const room = { smCount: 132, clusters: [66, 30, 15] }
    expect(gridSize(fours, bindings(128 * 1000, 64, 8), { smCount: 132 })).toBe(132)
    expect(gridSize(fours, bindings(128 * 1000, 64, 8), room)).toBe(120)
    expect(gridSize(fours, bindings(128 * 1000, 64, 8), { ...room, smCount: 44 })).toBe(44)
    const mixed: LaunchRecipe = { ...fours, fallbackCluster: [2, 1, 1] }
    expect(gridSize(mixed, bindings(128 * 1000, 64, 8), room)).toBe(132)
  })

  test('strides over elements up to a limit', () => {
    const simt: LaunchRecipe = { ...recipe, grid: { kind: 'elements', outputs: ['D'], perCta: 256, limit: 16 } }
    expect(gridSize(simt, bindings(10, 100, 8), { smCount: 148 })).toBe(4)
    expect(gridSize(simt, bindings(1000, 1000, 8), { smCount: 2 })).toBe(16)
  })

  test('has threads for the rows of all operands that are copied, however short they are', () => {
    const copied = [
      { operand: 'A', inner: 'k', piece: 8 },
      { operand: 'D', inner: 'n', piece: 4 },
    ]
    const copies: LaunchRecipe = { ...recipe, grid: { kind: 'rows', copied, perCta: 256, limit: 1056 } }
    const ctas = (m: number, n: number, k: number): number => gridSize(copies, bindings(m, n, k), { smCount: 132 })
    // A lane for each row of one piece, 8 for 5 pieces, a warp for up to 128 and two for 129.
    expect(ctas(4480, 1, 1)).toBe(35)
    expect(ctas(512, 4, 37)).toBe(18)
    expect(ctas(8, 4, 1024)).toBe(2)
    expect(ctas(8, 512, 1032)).toBe(3)
    expect(ctas(1e6, 8, 1)).toBe(1056)
    expect(ctas(0, 300, 5)).toBe(0)
    expect(ctas(512, 4, 0)).toBe(2)
  })

  test('is nothing when the output has no elements', () => {
    expect(planLaunch(recipe, bindings(0, 100, 8), { smCount: 148 })).toBeNull()
    expect(planLaunch(recipe, bindings(8, 8, 8), { smCount: 148 })).toMatchObject({
      grid: [1, 1, 1],
      block: [192, 1, 1],
    })
  })
})

describe('tileGroup', () => {
  const L2 = 60 << 20
  const call = (m: number, bytes: Readonly<Record<string, number>> = { A: 4096, D: 4096 }, l = 1): Call =>
    ({
      extents: { l, m, n: 512, k: 64 },
      axes: { A: ['l', 'm', 'k'], B: ['l', 'k', 'n'], D: ['l', 'm', 'n'] },
      performance: null,
      fusion: null,
      tensors: Object.fromEntries(Object.entries(bytes).map(([name, byteLength]) => [name, { byteLength }])),
    }) as unknown as Call
  const grid = {
    kind: 'persistent',
    dynamic: false,
    tiles: [
      { axis: 'm', extent: 128 },
      { axis: 'n', extent: 64 },
    ],
  } as const
  const artifact = { recipe: { ...recipe, grid } } as unknown as Artifact

  test.each([
    [1, 1],
    [2, 2],
    [3, 2],
    [6, 4],
    [7, 4],
    [8, 8],
    [100, 8],
  ])('of %i rows of tiles %i are walked together: every eighth cluster has the same ones', (rows, group) => {
    expect(tileGroup(artifact, call(128 * rows - 5), L2)).toBe(group)
  })

  const MB = 2 ** 20
  test.each([
    ['larger than L2: in one walk, where there are few', 6, { A: MB, B: 172 * MB, D: 79 * MB }, 1, 6],
    ['larger than L2: in equal walks', 33, { A: MB, B: 172 * MB, D: 79 * MB }, 1, 17],
    ['that stays in L2: by eight', 17, { A: MB, B: 20 * MB, D: 79 * MB }, 1, 8],
    ['of which each batch stays in L2: by eight', 17, { A: MB, B: 172 * MB, D: 79 * MB }, 8, 8],
    ['larger than L2, of rows that are, too: by eight', 17, { A: 90 * MB, B: 172 * MB, D: 79 * MB }, 1, 8],
  ])('a B %s', (_, rows, bytes, batches, group) => {
    const tiles = [...grid.tiles, { axis: 'l', extent: 1 }]
    const batched = { recipe: { ...recipe, grid: { ...grid, tiles } } } as unknown as Artifact
    expect(tileGroup(batched, call(128 * rows, bytes, batches), L2)).toBe(group)
  })

  test('an order that is asked for holds, and outputs larger than all they are made of go row by row', () => {
    expect(tileGroup(artifact, call(128 * 6), L2, 6)).toBe(6)
    expect(tileGroup(artifact, call(128 * 6), L2, 'm')).toBe(6)
    expect(tileGroup(artifact, call(128 * 6), L2, 'n')).toBe(1)
    expect(tileGroup(artifact, call(128 * 6, { A: 64, D: 4096 }), L2)).toBe(1)
  })
})
