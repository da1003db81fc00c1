/** Scales between plain tensors and the tiles that block-scaled instructions of tensor cores read. */
import { DTYPES, dtypesThat } from '../../compiler/dtypes.ts'
import { tileLayout, tilePlaces, type TileLayout } from '../../compiler/stored/tiles.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { formatShape } from './layout.ts'
import { Tensor } from './tensor.ts'
import { codesOf } from './tensor_like.ts'

const SCALES = dtypesThat((dtype) => dtype.class === 'scale').join(' or ')

/** Which axes of the scales are the sides of the tiles. */
export interface ScaleTilesOptions {
  /** The one that is not in blocks: 128 to a tile. */
  readonly outer: number
  /** The one in blocks: 4 to a tile. Default: the last one that is not `outer`. */
  readonly inner?: number
  /** Of an outer axis in groups: i32, where each of them ends. Each begins a row of tiles. */
  readonly offsets?: Tensor
}

interface Placed extends TileLayout {
  readonly places: Float64Array
}

async function layoutOf(shape: readonly number[], { outer, inner, offsets }: ScaleTilesOptions): Promise<Placed> {
  const axes = shape.map((_, axis) => axis)
  if (!axes.includes(outer))
    throw ktlError('KTL4015', {
      what: 'outer',
      expected: `0 to ${shape.length - 1}, an axis without blocks`,
      got: describe(outer),
    })
  const along = inner ?? axes.findLast((axis) => axis !== outer)!
  if (!axes.includes(along) || along === outer)
    throw ktlError('KTL4015', { what: 'inner', expected: 'another axis, the one in blocks', got: describe(inner) })
  if (offsets !== undefined && !(offsets instanceof Tensor && offsets.dtype === 'i32'))
    throw ktlError('KTL4024', { operand: 'offsets', expected: 'a tensor of i32', got: describe(offsets) })
  const ends = offsets ? await offsets.toArray() : null
  const layout = tileLayout(shape, { outer, inner: along }, ends?.length ?? 0)
  return { ...layout, places: tilePlaces(layout, ends) }
}

/**
 * Scales as one axis of tiles, the rest of the last ones 0; a block of tiles for each index of axes beside `outer` and `inner`. KTL4024
 * unless they are one-byte scales of rank 2 or more.
 *
 * @example
 * const scale = device.tensor('ue8m0', [2, 2], [1, 2, 4, 8])
 * const tiles = await swizzleScales(scale, { outer: 0 })
 * console.log(tiles.shape, [...(await unswizzleScales(tiles, [2, 2], { outer: 0 }).then((t) => t.toArray()))]) // [ 512 ] [ 1, 2, 4, 8 ]
 */
export async function swizzleScales(scale: Tensor, options: ScaleTilesOptions): Promise<Tensor> {
  const isScale = scale instanceof Tensor && scale.rank >= 2 && DTYPES[scale.dtype].class === 'scale'
  if (!isScale)
    throw ktlError('KTL4024', {
      operand: 'scale',
      expected: `a tensor of ${SCALES} with rank 2 or more`,
      got: String(scale instanceof Tensor ? scale : describe(scale)),
    })
  const { bytes, places } = await layoutOf(scale.shape, options)
  const codes = new Uint8Array(bytes)
  const plain = (await codesOf(scale)) as Uint8Array
  places.forEach((place, i) => {
    if (place >= 0) codes[place] = plain[i]!
  })
  return scale.device.tensor(scale.dtype, [bytes], { bits: codes })
}

/**
 * Back: `shape` is that of the plain scales; rows in no group become 0. KTL4001 when the tiles are not theirs.
 *
 * @example
 * const tiles = device.tensor('ue4m3', [512], 1)
 * console.log((await unswizzleScales(tiles, [128, 4], { outer: 0 })).shape) // [ 128, 4 ]
 */
export async function unswizzleScales(
  tiles: Tensor,
  shape: readonly number[],
  options: ScaleTilesOptions,
): Promise<Tensor> {
  if (!(tiles instanceof Tensor))
    throw ktlError('KTL4024', { operand: 'tiles', expected: `a tensor of ${SCALES}`, got: describe(tiles) })
  const { bytes, places } = await layoutOf(shape, options)
  if (tiles.elementCount !== bytes || DTYPES[tiles.dtype].class !== 'scale')
    throw ktlError('KTL4001', {
      what: 'unswizzleScales',
      expected: `${bytes} scales for shape ${formatShape(shape)}`,
      got: String(tiles),
    })
  const codes = (await codesOf(tiles)) as Uint8Array
  const plain = Uint8Array.from(places, (place) => (place < 0 ? 0 : codes[place]!))
  return tiles.device.tensor(tiles.dtype, shape, { bits: plain })
}
