/**
 * Scales in the tiles that block-scaled instructions of tensor cores read: 128 (outer) x 4 (along k) bytes, in which scale (o, i) lies
 * at (o % 32) * 16 + (o / 32) * 4 + i; tiles follow each other along k first (PTX ISA, tcgen05.mma, scale factor layouts).
 */
import { DTYPES, dtypesThat } from '../../compiler/dtypes.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { formatShape } from './layout.ts'
import { Tensor } from './tensor.ts'
import { codesOf } from './tensor_like.ts'

const SCALES = dtypesThat((dtype) => dtype.class === 'scale').join(' or ')
const [OUTER, INNER] = [128, 4]
const TILE = OUTER * INNER

const tiledAt = (o: number, i: number, inner: number): number =>
  (Math.floor(o / OUTER) * Math.ceil(inner / INNER) + Math.floor(i / INNER)) * TILE +
  (o % 32) * 16 +
  Math.floor((o % OUTER) / 32) * 4 +
  (i % INNER)

/** Which axis of the scales is not k. */
export interface ScaleTilesOptions {
  readonly outer: 0 | 1
}

/**
 * Scales [outer, k] (or [k, outer] with `outer: 1`) as one axis of tiles, the rest of the last ones 0. KTL4024 unless they are a
 * matrix of one-byte scales.
 *
 * @example
 * const scale = device.tensor('ue8m0', [2, 2], [1, 2, 4, 8])
 * const tiles = await swizzleScales(scale, { outer: 0 })
 * console.log(tiles.shape, [...(await unswizzleScales(tiles, [2, 2], { outer: 0 }).then((t) => t.toArray()))]) // [ 512 ] [ 1, 2, 4, 8 ]
 */
export async function swizzleScales(scale: Tensor, { outer }: ScaleTilesOptions): Promise<Tensor> {
  const isMatrix = scale instanceof Tensor && scale.rank === 2 && DTYPES[scale.dtype].class === 'scale'
  if (!isMatrix)
    throw ktlError('KTL4024', {
      operand: 'scale',
      expected: `a matrix of ${SCALES}`,
      got: String(scale instanceof Tensor ? scale : describe(scale)),
    })
  checkOuter(outer)
  const [o, i] = [scale.shape[outer]!, scale.shape[1 - outer]!]
  const codes = new Uint8Array(Math.ceil(o / OUTER) * Math.ceil(i / INNER) * TILE)
  const bytes = (await codesOf(scale)) as Uint8Array
  for (let a = 0; a < o; a++)
    for (let b = 0; b < i; b++) codes[tiledAt(a, b, i)] = bytes[outer === 0 ? a * i + b : b * o + a]!
  return scale.device.tensor(scale.dtype, [codes.length], { bits: codes })
}

/**
 * Back: `shape` is that of the plain scales. KTL4001 when the tiles are not theirs.
 *
 * @example
 * const tiles = device.tensor('ue4m3', [512], 1)
 * console.log((await unswizzleScales(tiles, [128, 4], { outer: 0 })).shape) // [ 128, 4 ]
 */
export async function unswizzleScales(
  tiles: Tensor,
  shape: readonly [number, number],
  { outer }: ScaleTilesOptions,
): Promise<Tensor> {
  if (!(tiles instanceof Tensor))
    throw ktlError('KTL4024', { operand: 'tiles', expected: `a tensor of ${SCALES}`, got: describe(tiles) })
  checkOuter(outer)
  const [o, i] = [shape[outer], shape[1 - outer]!]
  const count = Math.ceil(o / OUTER) * Math.ceil(i / INNER) * TILE
  if (tiles.elementCount !== count || DTYPES[tiles.dtype].class !== 'scale')
    throw ktlError('KTL4001', {
      what: 'unswizzleScales',
      expected: `${count} scales for shape ${formatShape(shape)}`,
      got: String(tiles),
    })
  const bytes = (await codesOf(tiles)) as Uint8Array
  const codes = new Uint8Array(o * i)
  for (let a = 0; a < o; a++)
    for (let b = 0; b < i; b++) codes[outer === 0 ? a * i + b : b * o + a] = bytes[tiledAt(a, b, i)]!
  return tiles.device.tensor(tiles.dtype, shape, { bits: codes })
}

const checkOuter = (outer: unknown): void => {
  if (outer !== 0 && outer !== 1)
    throw ktlError('KTL4015', { what: 'outer', expected: '0 or 1, the axis that is not k', got: describe(outer) })
}
