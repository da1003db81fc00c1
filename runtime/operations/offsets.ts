/** Groups of a ragged axis from the group of each row: rows are sorted by the digits of their groups, the last digit first. */
import type { Device } from '../devices/device.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { Tensor } from '../tensors/tensor.ts'
import { programOf } from './quantize.ts'

/** Elements that are counted, or summed, together. */
const BLOCK = 128
/** Most values of a digit. */
const MAX_DIGITS = 64

/**
 * Rows of no group have the one behind the last. A sorting pass is stable: a row's place is the number of rows with lower digits, of
 * equal digits in blocks ahead of its own, and of equal digits ahead of it in its block.
 */
const SOURCE = `kernel digits(id: i32[t], row: i32[r], groups: i32, unit: i32, base: i32) -> digit: i32[r] {
  group = id[row[r]]
  digit = select(group >= 0 && group < groups, group, groups) / unit % base
}

kernel counts(digit: i32[t]) -> count: i32[d, c] {
  axis j = ${BLOCK}
  count = sum[j](select((digit[c * ${BLOCK} + j] else -1) == d, 1, 0))
}

kernel block_sums(x: i32[n]) -> s: i32[c] {
  axis j = ${BLOCK}
  s = sum[j](x[c * ${BLOCK} + j] else 0)
}

kernel sums_before(x: i32[n], base: i32[c]) -> y: i32[n] {
  axis j = ${BLOCK}
  y = base[n / ${BLOCK}] + sum[j](select(j < n % ${BLOCK}, x[n / ${BLOCK} * ${BLOCK} + j] else 0, 0))
}

kernel places(digit: i32[t], base: i32[d, c]) -> place: i32[t] {
  axis j = ${BLOCK}
  same = (digit[t / ${BLOCK} * ${BLOCK} + j] else -1) == digit
  place = base[digit[t], t / ${BLOCK}] + sum[j](select(j < t % ${BLOCK} && same, 1, 0))
}

kernel move(row: i32[t], place: i32[t]) -> to: i32[t] {
  to[place[t]] = row
}

kernel ranges(id: i32[t], row: i32[r], groups: i32) -> (kept: i32[r], first: i32[r], last: i32[r]) {
  group = id[row]
  valid = group >= 0 && group < groups
  before = id[row[r - 1] else -1]
  after = id[row[r + 1] else -1]
  kept = select(valid, row, -1)
  first = select(valid && (r == 0 || before != group), group, -1)
  last = select(valid && (r + 1 == size(r) || after != group), group, -1)
}

kernel begins(group: i32[r]) -> begin: i32[g] {
  begin[group[r]] = r
}

kernel lengths(last: i32[r], begin: i32[g]) -> length: i32[g] {
  length[last[r]] = r + 1 - begin[last[r]]
}

kernel ends(start: i32[g], length: i32[g]) -> end: i32[g] {
  end = start + length
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
 * none. KTL4024 and KTL4020 for other ids, KTL4015 for groups that are no count.
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
  const sort = new Sort(ids, groups)
  try {
    return await sort.run()
  } finally {
    sort.free()
  }
}

/** The smallest base in which so many digits tell `values` apart. */
function digitBase(values: number, digits: number): number {
  let base = 2
  while (base ** digits < values) base++
  return base
}

class Sort {
  readonly #ids: Tensor
  readonly #groups: number
  readonly #device: Device
  readonly #kernels = programOf(SOURCE).kernels
  readonly #scratch: Tensor[] = []

  constructor(ids: Tensor, groups: number) {
    this.#ids = ids
    this.#groups = groups
    this.#device = ids.device
  }

  async run(): Promise<GroupOffsets> {
    const [id, groups] = [this.#ids, this.#groups]
    const count = id.elementCount
    let row = this.#new(Int32Array.from({ length: count }, (_, i) => i))
    const passes = Math.ceil(Math.log(groups + 1) / Math.log(MAX_DIGITS))
    const base = digitBase(groups + 1, passes)
    for (let pass = 0; pass < passes; pass++) row = await this.#pass(row, base ** pass, base)
    const kept = this.#device.empty('i32', [count])
    const [first, last] = [this.#new(count), this.#new(count)]
    await this.#kernels['ranges']!({ id, row, groups, kept, first, last })
    const [begin, length] = [this.#new(new Int32Array(groups)), this.#new(new Int32Array(groups))]
    await this.#kernels['begins']!({ group: first, begin })
    await this.#kernels['lengths']!({ last, begin, length })
    const end = this.#device.empty('i32', [groups])
    await this.#kernels['ends']!({ start: await this.#sumsBefore(length), length, end })
    return { offsets: end, rows: kept }
  }

  free(): void {
    this.#scratch.forEach((tensor) => tensor.free())
  }

  /** Rows in the order of one digit. */
  async #pass(row: Tensor, unit: number, base: number): Promise<Tensor> {
    const count = row.elementCount
    const blocks = Math.ceil(count / BLOCK)
    const [digit, place, to] = [this.#new(count), this.#new(count), this.#new(count)]
    const counts = this.#new(base * blocks)
    const byDigit = (tensor: Tensor): Tensor => tensor.view([base, blocks])
    await this.#kernels['digits']!({ id: this.#ids, row, groups: this.#groups, unit, base, digit })
    await this.#kernels['counts']!({ digit, count: byDigit(counts) })
    await this.#kernels['places']!({ digit, base: byDigit(await this.#sumsBefore(counts)), place })
    await this.#kernels['move']!({ row, place, to })
    return to
  }

  /** For each element the sum of those before it. */
  async #sumsBefore(x: Tensor): Promise<Tensor> {
    const count = x.elementCount
    const blocks = Math.ceil(count / BLOCK)
    const y = this.#new(count)
    let base = this.#new(new Int32Array(blocks))
    if (blocks > 1) {
      await this.#kernels['block_sums']!({ x, s: base })
      base = await this.#sumsBefore(base)
    }
    await this.#kernels['sums_before']!({ x, base, y })
    return y
  }

  #new(values: number | Int32Array): Tensor {
    const tensor =
      typeof values === 'number'
        ? this.#device.empty('i32', [values])
        : this.#device.tensor('i32', [values.length], values)
    this.#scratch.push(tensor)
    return tensor
  }
}
