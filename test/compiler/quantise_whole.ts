/** Whole tensors quantised by the steps of the compiler: what kernels are held against. */
import { amaxOf, multiplierOf, quantiseOne, scaleOf, type QuantisedForm } from '../../compiler/stored/quantise.ts'

export interface Quantised {
  /** Values of the data's format, as many as were given. */
  readonly data: Float32Array
  /** Values of the scale's format, one for each block. */
  readonly scale: Float32Array
}

/** Quantises f32 `values`, of which number i is in block `blockOf[i]` of `blocks`; `norm`: one for all, or one for each block. */
export function quantise(
  form: QuantisedForm,
  values: Float32Array,
  blockOf: ArrayLike<number>,
  blocks: number,
  norm: number | ArrayLike<number> = 1,
): Quantised {
  const amax = new Float32Array(blocks)
  for (let i = 0; i < values.length; i++) amax[blockOf[i]!] = amaxOf(amax[blockOf[i]!]!, values[i]!)
  const normOf = (block: number): number => (typeof norm === 'number' ? norm : norm[block]!)
  const scale = amax.map((x, block) => scaleOf(form, x, normOf(block)))
  const multipliers = scale.map((x, block) => multiplierOf(x, normOf(block)))
  const data = values.map((value, i) => {
    const block = blockOf[i]!
    return amax[block] === 0 ? 0 : quantiseOne(form.data, value, multipliers[block]!)
  })
  return { data, scale }
}

/** Blocks along each axis: the extents of a scale. */
export const blockShape = (shape: readonly number[], blocks: readonly number[]): number[] =>
  shape.map((extent, axis) => Math.ceil(extent / blocks[axis]!))

/** The block of each element of a dense row-major tensor, row-major over `blockShape`. The last blocks may be short. */
export function blockIndices(shape: readonly number[], blocks: readonly number[]): Int32Array {
  const counts = blockShape(shape, blocks)
  let indices = new Int32Array(1)
  shape.forEach((extent, axis) => {
    const next = new Int32Array(indices.length * extent)
    for (let i = 0, at = 0; i < indices.length; i++)
      for (let j = 0; j < extent; j++) next[at++] = indices[i]! * counts[axis]! + Math.floor(j / blocks[axis]!)
    indices = next
  })
  return indices
}
