/** Groups of a ragged axis from the group of each row. */
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'
import { Tensor } from '../tensors/tensor.ts'
import { programOf } from './quantize.ts'

/** Each row's place is the number of rows before it: of lower groups, and of its own. */
const SOURCE = `kernel ends(id: i32[t]) -> ends: i32[g] {
  ends = sum[t](select(id >= 0 && id <= g, 1, 0))
}

kernel places(id: i32[t], groups: i32) -> place: i32[t] {
  axis u = size(t)
  before = id[u] >= 0 && (id[u] < id[t] || id[u] == id[t] && u < t)
  place = select(id >= 0 && id < groups, sum[u](select(before, 1, 0)), -1)
}

kernel rows(place: i32[t]) -> rows: i32[r] {
  rows[place[t]] = t
}
`

/** What a kernel with `ragged t by ends as g` takes. */
export interface GroupOffsets {
  /** i32[groups]: where each group ends. */
  readonly offsets: Tensor
  /** i32[T]: the rows of each group in their order, one group after another; -1 behind the last. */
  readonly rows: Tensor
}

/**
 * Sorts rows by their group, on the device: `ids` is i32[T] with the group of each row; rows with ids below 0 or from `groups` on are in
 * none. Every pair of rows is compared. KTL4024 and KTL4020 for other ids, KTL4015 for groups that are no count.
 *
 * @example
 * const { offsets, rows } = await offsetsOf(device.tensor('i32', [5], [2, 0, 2, 0, -1]), 3)
 * console.log([...(await offsets.toArray())], [...(await rows.toArray())]) // [ 2, 2, 4 ] [ 1, 3, 0, 2, -1 ]
 */
export async function offsetsOf(ids: Tensor, groups: number): Promise<GroupOffsets> {
  if (!(ids instanceof Tensor) || ids.dtype !== 'i32')
    throw ktlError('KTL4024', {
      operand: 'ids',
      expected: 'a tensor of i32',
      got: ids instanceof Tensor ? String(ids) : describe(ids),
    })
  if (ids.rank !== 1) throw ktlError('KTL4020', { operand: 'ids', expected: 'of rank 1', got: `rank ${ids.rank}` })
  if (!Number.isInteger(groups) || groups < 0 || groups > 0x7fffffff)
    throw ktlError('KTL4015', { what: 'groups', expected: 'a number of groups', got: describe(groups) })
  const { device, elementCount } = ids
  const { kernels } = programOf(SOURCE)
  const offsets = device.empty('i32', [groups])
  const rows = device.tensor('i32', [elementCount], -1)
  const place = device.empty('i32', [elementCount])
  await kernels['ends']!({ id: ids, ends: offsets })
  await kernels['places']!({ id: ids, groups, place })
  await kernels['rows']!({ place, rows })
  place.free()
  return { offsets, rows }
}
