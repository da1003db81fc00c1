/** Shapes and strides: checks, views and element offsets. Everything counts elements; nothing here touches memory. */
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'

export const MAX_RANK = 8

export interface Layout {
  readonly shape: readonly number[]
  readonly strides: readonly number[]
  /** Of element [0, 0, …], from the start of the storage. */
  readonly offset: number
}

export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1)
}

/**
 * Row-major strides: the last axis is contiguous, and rows begin at multiples of `unit` elements (`rowUnit` of the dtype). KTL4002
 * for what is no shape.
 */
export function denseStrides(shape: readonly number[], unit = 1): number[] {
  if (!Array.isArray(shape)) checkShape(shape)
  const strides = new Array<number>(shape.length)
  let step = 1
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = step
    step *= Math.max(1, shape[axis]!)
    if (axis === shape.length - 1) step = Math.ceil(step / unit) * unit
  }
  return strides
}

/** Elements from the first to one past the last; 0 for a tensor without elements. */
export function spanOf(shape: readonly number[], strides: readonly number[]): number {
  if (shape.includes(0)) return 0
  return shape.reduce((last, extent, axis) => last + (extent - 1) * strides[axis]!, 1)
}

export function isDense({ shape, strides }: Layout): boolean {
  const dense = denseStrides(shape)
  return shape.includes(0) || shape.every((extent, axis) => extent === 1 || strides[axis] === dense[axis])
}

/** May two index tuples name the same element? Exact for nested layouts, true when in doubt. */
export function mayOverlap({ shape, strides }: Layout): boolean {
  const axes = shape.map((extent, axis) => ({ extent, stride: strides[axis]! })).filter((axis) => axis.extent > 1)
  axes.sort((a, b) => a.stride - b.stride)
  let reach = 0
  for (const { extent, stride } of axes) {
    if (stride <= reach) return true
    reach += (extent - 1) * stride
  }
  return false
}

export function formatShape(shape: readonly number[]): string {
  return `[${Array.from(shape, (extent) => (typeof extent === 'number' ? extent : describe(extent))).join(', ')}]`
}

/** Throws KTL4002 unless `shape` has at most 8 extents, each an integer in 0…2³¹−1. */
export function checkShape(shape: unknown): asserts shape is readonly number[] {
  if (!Array.isArray(shape)) throw ktlError('KTL4002', { expected: 'an array of extents', got: describe(shape) })
  if (shape.length > MAX_RANK) {
    throw ktlError('KTL4002', { expected: `at most ${MAX_RANK} axes`, got: `${shape.length}: ${formatShape(shape)}` })
  }
  // Not `some`, which passes over the holes of a list.
  if (shape.findIndex((extent) => !Number.isInteger(extent) || extent < 0 || extent > 0x7fffffff) >= 0) {
    throw ktlError('KTL4002', { expected: 'extents that are integers from 0 to 2147483647', got: formatShape(shape) })
  }
  if (!Number.isSafeInteger(elementCount(shape))) {
    throw ktlError('KTL4002', { expected: 'fewer than 2^53 elements', got: formatShape(shape) })
  }
}

/** Throws KTL4003 unless there is one non-negative integer stride for each axis. */
export function checkStrides(strides: unknown, shape: readonly number[]): asserts strides is readonly number[] {
  if (!Array.isArray(strides) || strides.length !== shape.length) {
    throw ktlError('KTL4003', {
      expected: `${shape.length} strides, one for each axis of ${formatShape(shape)}`,
      got: Array.isArray(strides) ? `${strides.length}: ${formatShape(strides)}` : describe(strides),
    })
  }
  if (strides.findIndex((stride) => !Number.isSafeInteger(stride) || stride < 0) >= 0) {
    throw ktlError('KTL4003', { expected: 'strides in elements, integers of 0 or more', got: formatShape(strides) })
  }
  if (!Number.isSafeInteger(spanOf(shape, strides))) {
    throw ktlError('KTL4003', { expected: 'a span under 2^53 elements', got: formatShape(strides) })
  }
}

/** Copies of a list with the elements picked by `order`; KTL4005 unless `order` is a permutation of the axes. */
export function permuteLayout(layout: Layout, order: readonly number[]): Layout {
  const rank = layout.shape.length
  const axes = new Set(Array.isArray(order) ? order : [])
  if (
    !Array.isArray(order) ||
    order.length !== rank ||
    axes.size !== rank ||
    !order.every((axis) => Number.isInteger(axis) && axis >= 0 && axis < rank)
  ) {
    throw ktlError('KTL4005', {
      what: 'permute',
      expected: `each of the axes 0 to ${rank - 1} once`,
      got: Array.isArray(order) ? formatShape(order) : describe(order),
    })
  }
  return {
    shape: order.map((axis) => layout.shape[axis]!),
    strides: order.map((axis) => layout.strides[axis]!),
    offset: layout.offset,
  }
}

/** `[start, end)` or `[start, end)` by `step`; null: the whole axis. */
export type Range = readonly [start: number, end: number, step?: number] | null

/** One range per axis from the first; axes without one stay whole. */
export function sliceLayout(layout: Layout, ranges: readonly Range[]): Layout {
  if (ranges.length > layout.shape.length) {
    throw ktlError('KTL4005', {
      what: 'slice',
      expected: `at most ${layout.shape.length} ranges`,
      got: `${ranges.length}`,
    })
  }
  const shape = [...layout.shape]
  const strides = [...layout.strides]
  let offset = layout.offset
  ranges.forEach((range, axis) => {
    if (range === null) return
    const [start, end, step = 1] = Array.isArray(range) ? range : [NaN, NaN]
    const extent = shape[axis]!
    if (![start, end, step].every(Number.isInteger) || start < 0 || end < start || end > extent || step < 1) {
      throw ktlError('KTL4005', {
        what: 'slice',
        expected: `a range within 0…${extent} for axis ${axis}`,
        got: Array.isArray(range) ? formatShape(range as readonly number[]) : describe(range),
      })
    }
    shape[axis] = Math.ceil((end - start) / step)
    offset += shape[axis] === 0 ? 0 : start * strides[axis]!
    strides[axis] = strides[axis]! * step
  })
  return { shape, strides, offset }
}

/**
 * The same elements in the same logical order with another shape; one extent may be -1. KTL4005 when the counts
 * differ or the strides admit no view.
 */
export function reshapeLayout(layout: Layout, wanted: readonly number[]): Layout {
  const count = elementCount(layout.shape)
  if (!Array.isArray(wanted) || wanted.findIndex((extent) => typeof extent !== 'number') >= 0) checkShape(wanted)
  const shape = inferExtent(wanted, count)
  checkShape(shape)
  if (elementCount(shape) !== count) {
    throw ktlError('KTL4005', {
      what: 'reshape',
      expected: `${count} elements, as in ${formatShape(layout.shape)}`,
      got: formatShape(wanted),
    })
  }
  if (count === 0) return { shape, strides: denseStrides(shape), offset: layout.offset }

  // Walk both shapes from the right, matching groups of axes with equal element counts. Within a group of old
  // axes the strides must nest; the new axes then share the innermost stride of the group.
  const old = layout.shape
    .map((extent, axis) => ({ extent, stride: layout.strides[axis]! }))
    .filter((axis) => axis.extent !== 1)
  const strides = new Array<number>(shape.length).fill(1)
  let next = old.length - 1
  let available = 1
  let stride = 1
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const needed = shape[axis]!
    if (needed === 1) continue
    if (available === 1) {
      available = old[next]!.extent
      stride = old[next]!.stride
      next--
    }
    strides[axis] = stride
    while (available % needed !== 0) {
      const outer = old[next]
      const nests = outer !== undefined && outer.stride === stride * available
      if (!nests) {
        throw ktlError('KTL4005', {
          what: 'reshape',
          expected: 'axes that are adjacent in memory (copy to a dense tensor first)',
          got: `shape ${formatShape(layout.shape)} with strides ${formatShape(layout.strides)} as ${formatShape(shape)}`,
        })
      }
      available *= outer.extent
      next--
    }
    stride *= needed
    available /= needed
  }
  for (let axis = shape.length - 1, step = 1; axis >= 0; axis--) {
    if (shape[axis] === 1) strides[axis] = step
    step = strides[axis]! * shape[axis]!
  }
  return { shape, strides, offset: layout.offset }
}

function inferExtent(wanted: readonly number[], count: number): number[] {
  const open = wanted.indexOf(-1)
  if (open < 0) return [...wanted]
  const known = wanted.reduce((product, extent, axis) => (axis === open ? product : product * extent), 1)
  return wanted.map((extent, axis) => (axis === open && known > 0 ? Math.floor(count / known) : extent))
}

/** Calls `row` for every innermost row in logical order, with the element offset of its first element. */
export function forEachRow({ shape, strides }: Layout, row: (offset: number, index: number) => void): void {
  if (shape.includes(0)) return
  const outer = shape.length - 1
  const index = new Array<number>(Math.max(0, outer)).fill(0)
  const length = shape[outer] ?? 1
  let offset = 0
  for (let first = 0; ; first += length) {
    row(offset, first)
    let axis = outer - 1
    for (; axis >= 0; axis--) {
      offset += strides[axis]!
      if (++index[axis]! < shape[axis]!) break
      offset -= index[axis]! * strides[axis]!
      index[axis] = 0
    }
    if (axis < 0) return
  }
}
