/** Groups of a ragged axis from the group of each row: rows are sorted by the digits of their groups, the last digit first. */
import { KernelArguments } from '../arguments/kernel.ts'
import type { Device } from '../devices/device.ts'
import { getKernels } from '../discovery/query.ts'
import { ktlProvider } from '../discovery/providers/provider.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import type { KtlKernel } from '../kernels/ktl_kernel.ts'
import type { PreparedLaunch } from '../kernels/prepared.ts'
import type { KtlProgram } from '../programs/program.ts'
import type { Stream } from '../streams/stream.ts'
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

kernel clear(zero: i32[g]) -> (begin: i32[g], length: i32[g]) {
  begin = zero
  length = zero
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
  const { steps, scratch, result } = sortOf(ids, groups)
  try {
    for (const { kernel, bindings } of steps) await kernel(bindings)
    return result
  } finally {
    scratch.forEach((tensor) => tensor.free())
  }
}

/**
 * `offsetsOf` with everything worked out beforehand: each launch sorts what `ids` holds then, into the same tensors, and may be part of a
 * graph. Throws as `offsetsOf` does.
 *
 * @example
 * const ids = device.tensor('i32', [4], [1, 0, 1, 1])
 * const sort = await prepareOffsets(ids, 2)
 * const graph = device.capture((stream) => sort.launch(stream))
 * await ids.copyFrom([0, 0, 1, 0])
 * graph.launch()
 * console.log([...(await sort.offsets.toArray())], [...(await sort.rows.toArray())]) // [ 3, 4 ] [ 0, 1, 3, 2 ]
 */
export async function prepareOffsets(ids: Tensor, groups: number): Promise<PreparedOffsets> {
  const { steps, scratch, result } = sortOf(ids, groups)
  const launches: PreparedLaunch[] = []
  for (const { kernel, bindings } of steps) {
    const args = new KernelArguments(kernel, bindings)
    const [found] = getKernels(args, { providers: [ktlProvider], limit: 1 })
    launches.push((found as KtlKernel).prepare(args, await (found as KtlKernel).compile(args)))
  }
  return new PreparedOffsets(result, launches, scratch)
}

/**
 * A sort of rows by their group that can be launched again and again, on any stream.
 *
 * @example
 * const sort: PreparedOffsets = await prepareOffsets(device.tensor('i32', [3], [1, 0, 1]), 2)
 * sort.launch()
 * console.log([...(await sort.offsets.toArray())]) // [ 1, 3 ]
 */
export class PreparedOffsets implements GroupOffsets {
  readonly offsets: Tensor
  readonly rows: Tensor
  readonly #launches: readonly PreparedLaunch[]
  readonly #scratch: readonly Tensor[]

  /** Use `prepareOffsets`. */
  constructor({ offsets, rows }: GroupOffsets, launches: readonly PreparedLaunch[], scratch: readonly Tensor[]) {
    this.offsets = offsets
    this.rows = rows
    this.#launches = launches
    this.#scratch = scratch
  }

  /** Enqueues the sort; default: on the device's stream. */
  launch(stream?: Stream): void {
    for (const launch of this.#launches) launch.launch(stream)
  }

  /** Gives its memory back, the results' too. */
  free(): void {
    for (const tensor of [...this.#scratch, this.offsets, this.rows]) tensor.free()
  }

  [Symbol.dispose](): void {
    this.free()
  }
}

/** The smallest base in which so many digits tell `values` apart. */
function digitBase(values: number, digits: number): number {
  let base = 2
  while (base ** digits < values) base++
  return base
}

/** A launch to be. */
interface Step {
  readonly kernel: KtlProgram['kernels'][string]
  readonly bindings: ConstructorParameters<typeof KernelArguments>[1]
}

interface Sort {
  readonly steps: readonly Step[]
  readonly scratch: readonly Tensor[]
  readonly result: GroupOffsets
}

function sortOf(ids: Tensor, groups: number): Sort {
  if (!(ids instanceof Tensor) || ids.dtype !== 'i32')
    throw ktlError('KTL4024', {
      operand: 'ids',
      expected: 'a tensor of i32',
      got: ids instanceof Tensor ? String(ids) : describe(ids),
    })
  if (ids.rank !== 1) throw ktlError('KTL4020', { operand: 'ids', expected: 'of rank 1', got: `rank ${ids.rank}` })
  if (!Number.isInteger(groups) || groups < 0 || groups > 0x7fffffff)
    throw ktlError('KTL4015', { what: 'groups', expected: 'a number of groups', got: describe(groups) })
  const sort = new SortPlan(ids, groups)
  try {
    return { steps: sort.steps, scratch: sort.scratch, result: sort.plan() }
  } catch (error) {
    sort.scratch.forEach((tensor) => tensor.free())
    throw error
  }
}

/** The steps of a sort, in the order in which they are planned. */
class SortPlan {
  readonly steps: Step[] = []
  readonly scratch: Tensor[] = []
  readonly #ids: Tensor
  readonly #groups: number
  readonly #device: Device
  readonly #kernels = programOf(SOURCE).kernels

  constructor(ids: Tensor, groups: number) {
    this.#ids = ids
    this.#groups = groups
    this.#device = ids.device
  }

  plan(): GroupOffsets {
    const [id, groups] = [this.#ids, this.#groups]
    const count = id.elementCount
    let row = this.#new(Int32Array.from({ length: count }, (_, i) => i))
    const passes = Math.ceil(Math.log(groups + 1) / Math.log(MAX_DIGITS))
    const base = digitBase(groups + 1, passes)
    for (let pass = 0; pass < passes; pass++) row = this.#pass(row, base ** pass, base)
    const [kept, end] = [this.#device.empty('i32', [count]), this.#device.empty('i32', [groups])]
    const [first, last] = [this.#new(count), this.#new(count)]
    this.#add('ranges', { id, row, groups, kept, first, last })
    const [begin, length] = [this.#new(groups), this.#new(groups)]
    this.#add('clear', { zero: this.#new(new Int32Array(groups)), begin, length })
    this.#add('begins', { group: first, begin })
    this.#add('lengths', { last, begin, length })
    this.#add('ends', { start: this.#sumsBefore(length), length, end })
    return { offsets: end, rows: kept }
  }

  #add(name: string, bindings: Step['bindings']): void {
    this.steps.push({ kernel: this.#kernels[name]!, bindings })
  }

  /** Rows in the order of one digit. */
  #pass(row: Tensor, unit: number, base: number): Tensor {
    const count = row.elementCount
    const blocks = Math.ceil(count / BLOCK)
    const [digit, place, to] = [this.#new(count), this.#new(count), this.#new(count)]
    const counts = this.#new(base * blocks)
    const byDigit = (tensor: Tensor): Tensor => tensor.view([base, blocks])
    this.#add('digits', { id: this.#ids, row, groups: this.#groups, unit, base, digit })
    this.#add('counts', { digit, count: byDigit(counts) })
    this.#add('places', { digit, base: byDigit(this.#sumsBefore(counts)), place })
    this.#add('move', { row, place, to })
    return to
  }

  /** For each element the sum of those before it. */
  #sumsBefore(x: Tensor): Tensor {
    const count = x.elementCount
    const blocks = Math.ceil(count / BLOCK)
    const y = this.#new(count)
    let base = this.#new(new Int32Array(blocks))
    if (blocks > 1) {
      this.#add('block_sums', { x, s: base })
      base = this.#sumsBefore(base)
    }
    this.#add('sums_before', { x, base, y })
    return y
  }

  #new(values: number | Int32Array): Tensor {
    const tensor =
      typeof values === 'number'
        ? this.#device.empty('i32', [values])
        : this.#device.tensor('i32', [values.length], values)
    this.scratch.push(tensor)
    return tensor
  }
}
