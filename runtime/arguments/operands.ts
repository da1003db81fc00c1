/** From what callers pass to tensors, and what kernels ask of a tensor: order, alignment, overlap. */
import { DTYPES } from '../../compiler/dtypes.ts'
import { ALIGNED_BYTES, type Divisibility } from '../../compiler/ir/tensor.ts'
import { ktlError } from '../errors/fail.ts'
import type { Device } from '../devices/device.ts'
import { Tensor } from '../tensors/tensor.ts'
import { describe } from '../errors/describe.ts'
import { ScaledOperand } from './scaled_operand.ts'
import { fromTensorLike, outputFromTensorLike, type TensorLike } from '../tensors/tensor_like.ts'

/** What is passed for an operand: a tensor, or what becomes one. */
export type Operand = Tensor | TensorLike
/** Bytes of a TMA or vector access. */

/**
 * All operands as tensors of one device: `device`, or that of the first tensor among them. Host data is copied to it.
 * KTL4024 for what is no tensor, KTL4043 for several devices, KTL4006 for freed tensors.
 */
export function resolveOperands(
  operands: Readonly<Record<string, unknown>>,
  outputs: readonly string[],
  given?: Device,
): Record<string, Tensor> {
  if (given !== undefined && typeof given?.loadModule !== 'function')
    throw ktlError('KTL4015', { what: 'device', expected: 'a device', got: describe(given) })
  const device = given ?? Object.values(operands).find((value) => value instanceof Tensor)?.device
  const tensors: Record<string, Tensor> = {}
  for (const [name, value] of Object.entries(operands))
    tensors[name] = resolveOperand(name, value, device, outputs.includes(name))
  checkOneDevice(tensors)
  return tensors
}

/** What is passed for an operand that may be in a stored form. */
export type FormOperand = Operand | ScaledOperand

/** The same for operands that may be in parts, which are tensors already. */
export function resolveParts(
  operands: Readonly<Record<string, unknown>>,
  outputs: readonly string[],
  given?: Device,
): Record<string, Tensor | ScaledOperand> {
  const scaled = Object.entries(operands).filter(
    (entry): entry is [string, ScaledOperand] => entry[1] instanceof ScaledOperand,
  )
  const plain = Object.fromEntries(Object.entries(operands).filter(([, value]) => !(value instanceof ScaledOperand)))
  return { ...resolveOperands(plain, outputs, given ?? scaled[0]?.[1].device), ...Object.fromEntries(scaled) }
}

export function resolveOperand(name: string, value: unknown, device: Device | undefined, isOutput: boolean): Tensor {
  if (value instanceof Tensor) {
    if (value.freed) throw ktlError('KTL4006', { what: `${name} (${value})`, state: 'has been freed' })
    return value
  }
  if (typeof value !== 'object' || value === null || device === undefined) {
    const expected = device ? 'a tensor' : 'a tensor of a device (at least one operand is one, or name a `device`)'
    throw ktlError('KTL4024', { operand: name, expected, got: describe(value) })
  }
  return isOutput
    ? outputFromTensorLike(device, name, value as TensorLike)
    : fromTensorLike(device, value as TensorLike)
}

export function checkOneDevice(tensors: Readonly<Record<string, Tensor>>): void {
  const names = Object.keys(tensors)
  const [first] = names
  if (first === undefined || names.every((name) => tensors[name]!.device === tensors[first]!.device)) return
  throw ktlError('KTL4043', { names: names.map((name) => `${name} on ${tensors[name]!.device.name}`) })
}

/** Is `axis` contiguous: stride 1, or an extent for which the stride never counts? */
export function isContiguousAlong(tensor: Pick<Tensor, 'shape' | 'strides'>, axis: number): boolean {
  return axis < 0 || tensor.strides[axis] === 1 || tensor.shape[axis]! <= 1
}

/**
 * Which accesses a tensor admits when `contiguous` (an axis number) runs innermost. Of 16 bytes: aligned pointer and rows; for outputs also
 * whole rows, because a TMA store clips to 16 bytes only. Of words of 4, that are several elements of an input: the same, and whole rows.
 */
export function divisibilityOf(tensor: Tensor, contiguous: number, role: 'input' | 'output'): Divisibility {
  const { bits } = DTYPES[tensor.dtype]
  const whole = contiguous < 0 ? 0 : tensor.shape[contiguous]!
  const admits = (bytes: number, ...extents: number[]): boolean =>
    tensor.pointer % BigInt(bytes) === 0n &&
    [...tensor.strides.filter((_, axis) => axis !== contiguous && tensor.shape[axis]! > 1), ...extents].every(
      (elements) => (elements * bits) % (8 * bytes) === 0,
    )
  if (role === 'output') return admits(ALIGNED_BYTES.vector, whole) ? 'vector' : 'element'
  if (admits(ALIGNED_BYTES.vector)) return 'vector'
  return (bits === 8 || bits === 16) && admits(ALIGNED_BYTES.word, whole) ? 'word' : 'element'
}

/** The very same elements at the same places. */
export function isSameTensor(a: Tensor, b: Tensor): boolean {
  return (
    a.pointer === b.pointer &&
    a.dtype === b.dtype &&
    a.rank === b.rank &&
    a.shape.every((extent, i) => extent === b.shape[i] && (extent === 1 || a.strides[i] === b.strides[i]))
  )
}

/**
 * Do two tensors share a byte? Exact for disjoint ranges and for blocks of columns of one buffer (equal pitch), `true`
 * when in doubt.
 */
export function sharesMemory(a: Tensor, b: Tensor): boolean {
  if (a.elementCount === 0 || b.elementCount === 0 || !a.overlaps(b)) return false
  const [runA, runB] = [runOf(a), runOf(b)]
  const pitch = [...runA.pitches, ...runB.pitches].reduce(gcd, 0)
  if (pitch === 0 || runA.bytes > pitch || runB.bytes > pitch) return true
  // Both live in windows of one period: [start, start + bytes) modulo the pitch.
  const start = Number((b.pointer - a.pointer) % BigInt(pitch))
  const distance = start < 0 ? start + pitch : start
  return distance < runA.bytes || distance + runB.bytes > pitch
}

/** The contiguous run of a tensor and the byte strides of everything around it. */
function runOf(tensor: Tensor): { bytes: number; pitches: number[] } {
  const { bits } = DTYPES[tensor.dtype]
  const axes = tensor.shape
    .map((extent, i) => ({ extent, stride: tensor.strides[i]! }))
    .filter(({ extent, stride }) => extent > 1 && stride > 0)
    .sort((x, y) => x.stride - y.stride)
  let elements = 1
  while (axes.length > 0 && axes[0]!.stride === elements) elements *= axes.shift()!.extent
  return { bytes: Math.ceil((elements * bits) / 8), pitches: axes.map(({ stride }) => (stride * bits) / 8) }
}

function gcd(a: number, b: number): number {
  while (b !== 0) [a, b] = [b, a % b]
  return a
}
