/** Does a call fit an instance? First failing reason, in the order a user would fix them. */
import { resolveType, type KernelFamily, type TypeChoice } from '../../../compiler/family.ts'
import { ALIGNED_BYTES, type TensorOperand, type TensorProgram } from '../../../compiler/ir/tensor.ts'
import { topological } from '../../../compiler/ir/walk.ts'
import { DTYPES } from '../../../compiler/dtypes.ts'
import { divisibilityOf, isContiguousAlong, isSameTensor, sharesMemory } from '../../arguments/operands.ts'
import { inTiles, TILES } from '../../../compiler/stored/tiles.ts'
import { OK, refuse, type Status, type StatusRefused } from '../../errors/status.ts'
import type { Tensor } from '../../tensors/tensor.ts'
import { formatShape, mayOverlap } from '../../tensors/layout.ts'
import { callTensors, type Call } from './call.ts'
import { dtypeMatches } from '../../metadata/supports.ts'
import { accumulatorOf } from '../space/signature.ts'

const shown = (call: Call, name: string): string => call.shownAs[name] ?? name

/** Dtypes of the operands, then the accumulator. */
export function typesFit(family: KernelFamily, types: TypeChoice, call: Call): Status {
  for (const { name, dtype } of family.operands) {
    const expected = resolveType(dtype, types)
    const got = call.tensors[name]!.dtype
    if (dtypeMatches(expected, got, call.allowTf32)) continue
    const fix = expected === 'tf32' && got === 'f32' ? 'pass `allowTf32: true`' : undefined
    return refuse('KTL4031', { operand: shown(call, name), expected, got }, fix)
  }
  for (const { name, dtype } of family.scalars) {
    const [expected, got] = [resolveType(dtype, types), call.tensors[name]?.dtype]
    if (got !== undefined && got !== expected) return refuse('KTL4031', { operand: name, expected, got })
  }
  const accumulator = accumulatorOf(family, types)
  if (call.accumulatorType !== null && accumulator !== call.accumulatorType) {
    return refuse('KTL4034', { expected: accumulator ?? 'none', got: call.accumulatorType })
  }
  return OK
}

/** Is the axis written last in `order` contiguous in the tensor of the call? */
export function orderFits(operand: Pick<TensorOperand, 'name' | 'order' | 'partOf'>, call: Call): Status {
  const tensor = call.tensors[operand.name]!
  const tiled = inTiles(operand.order)
  if (tiled !== Object.hasOwn(call.tiles, operand.name)) {
    const [plain, tiles] = ['a plain tensor', `tiles ${TILES}`]
    return refuse('KTL4032', {
      operand: shown(call, operand.name),
      expected: tiled ? tiles : plain,
      got: tiled ? plain : tiles,
    })
  }
  // Other scales and zero points bind with any strides.
  if (operand.partOf !== undefined && !tiled) return OK
  const dimension = innerDimension(operand, call)
  if (isContiguousAlong(tensor, dimension)) return OK
  return refuse('KTL4032', {
    operand: shown(call, operand.name),
    expected: `strides[${dimension}] to be 1 (order [${operand.order.join(', ')}])`,
    got: `${tensor.strides[dimension]} (strides ${formatShape(tensor.strides)})`,
  })
}

/** Elements of outputs that share bytes are written together along the last axis: that one is not left out. */
export function packingFits({ name, role, order, dtype }: TensorOperand, call: Call): Status {
  const axis = order.at(-1)
  const isPacked = role === 'output' && DTYPES[dtype].bits < 8 && axis !== undefined
  if (!isPacked || call.axes[name]!.includes(axis) || call.axes[name]!.length === 0) return OK
  return refuse('KTL4032', {
    operand: shown(call, name),
    expected: `axis ${axis}, along which elements of ${dtype} share bytes`,
    got: 'a tensor without it',
  })
}

/** Accesses of 16 bytes or of words, where the instance makes them. */
export function alignmentFits(operand: TensorOperand, call: Call): Status {
  const { divisibility } = operand
  if (divisibility !== 'vector' && divisibility !== 'word') return OK
  const admitted = divisibilityOf(call.tensors[operand.name]!, innerDimension(operand, call), operand.role)
  return admitted === 'vector' || admitted === divisibility
    ? OK
    : misaligned(operand, call, ALIGNED_BYTES[divisibility])
}

/** What TMA needs of elements that it pads (cuTensorMapEncodeTiled, 16U4_ALIGN16B and 16U6_ALIGN16B). */
export function paddingFits(operand: TensorOperand, call: Call): Status {
  const tensor = call.tensors[operand.name]!
  const inner = innerDimension(operand, call)
  const bytes = (elements: number): number => (elements * DTYPES[operand.dtype].bits) / 8
  const refused = (got: string, fix: string): Status =>
    refuse(
      'KTL4033',
      { operand: shown(call, operand.name), expected: 'rows of whole 128 elements at multiples of 32 B', got },
      fix,
    )
  const extent = tensor.shape[inner]!
  if (extent % 128 !== 0)
    return refused(`rows of ${extent} elements`, `pad shape[${inner}] to ${Math.ceil(extent / 128) * 128}`)
  const past = Number(tensor.pointer % 32n)
  if (past !== 0) return refused(`the pointer is ${past} B past a multiple of 32`, `move it by ${32 - past} B`)
  const odd = tensor.strides.findIndex((stride, i) => i !== inner && tensor.shape[i]! > 1 && bytes(stride) % 32 !== 0)
  return odd < 0
    ? OK
    : refused(`strides[${odd}] is ${bytes(tensor.strides[odd]!)} B`, 'use a stride that is a multiple of 32 B')
}

/** What keeps accesses of so many bytes from a tensor whose rows run along dimension `inner`, and the nearest way to allow them. */
export function misalignment(
  tensor: Tensor,
  inner: number,
  role: 'input' | 'output',
  to: number = ALIGNED_BYTES.vector,
): { readonly got: string; readonly fix: string } {
  const { bits } = DTYPES[tensor.dtype]
  const bytes = (elements: number): number => (elements * bits) / 8
  const padded = (elements: number): number => Math.ceil(bytes(elements) / to) * to
  const elements = (count: number): string => `${(count * 8) / bits} elements`
  const past = Number(tensor.pointer % BigInt(to))
  if (past !== 0) return { got: `the pointer is ${past} B past a multiple of ${to}`, fix: `move it by ${to - past} B` }
  const odd = tensor.strides.findIndex((stride, i) => i !== inner && tensor.shape[i]! > 1 && bytes(stride) % to !== 0)
  if (odd >= 0) {
    const enough = padded(Math.abs(tensor.strides[odd]!))
    const what = odd >= tensor.rank - 2 ? 'row stride' : 'batch stride'
    return {
      got: `${what} ${bytes(tensor.strides[odd]!)} B (strides[${odd}] ${tensor.strides[odd]}) is not a multiple of ${to}`,
      fix: `pad to ${enough} B (strides[${odd}] ${elements(enough)})`,
    }
  }
  const extent = tensor.shape[inner]!
  const enough = padded(extent)
  const got = `rows of ${bytes(extent)} B are no multiple of ${to}`
  return {
    got,
    fix:
      role === 'output'
        ? `make shape[${inner}] ${elements(enough)} (${enough} B): TMA stores clip to 16 B`
        : `pad to ${enough} B`,
  }
}

/** The same as a refusal of a call, by the operand's name in the family. */
export function misaligned(
  operand: Pick<TensorOperand, 'name' | 'order' | 'role'>,
  call: Call,
  to: number = ALIGNED_BYTES.vector,
): StatusRefused {
  const tensor = call.tensors[operand.name]!
  const { got, fix } = misalignment(tensor, innerDimension(operand, call), operand.role, to)
  const expected = to === ALIGNED_BYTES.vector ? '16-byte accesses' : `rows of whole words of ${to} bytes`
  return refuse('KTL4033', { operand: shown(call, operand.name), expected, got }, fix)
}

/** The dimension of the call's tensor along which it is contiguous; -1: none. Tiles are one axis of bytes. */
export function innerDimension({ name, order }: Pick<TensorOperand, 'name' | 'order'>, call: Call): number {
  if (inTiles(order)) return 0
  const inner = order.at(-1)
  return inner === undefined ? -1 : call.axes[name]!.indexOf(inner)
}

/**
 * Outputs share no memory, except with an input that is the very same tensor, read where it is written. `inPlace`: inputs
 * for which the plan allows that; null: all that are read elementwise.
 */
export function overlapFits(program: TensorProgram, call: Call, inPlace: readonly string[] | null): Status {
  const tensors = callTensors(call)
  const operandOf = (name: string) => program.operands.find((operand) => operand.name === name)
  for (const output of tensors) {
    if (operandOf(output.name)?.role !== 'output') continue
    if (mayOverlap({ shape: output.tensor.shape, strides: output.tensor.strides, offset: 0 })) {
      const got = `strides ${formatShape(output.tensor.strides)} for shape ${formatShape(output.tensor.shape)}`
      return refuse('KTL4039', { operand: shown(call, output.name), expected: 'one place for every element', got })
    }
    for (const other of tensors) {
      if (other === output || !sharesMemory(other.tensor, output.tensor)) continue
      const operand = operandOf(other.name)
      if (!operand)
        return refuse('KTL4037', { operand: shown(call, other.name), other: shown(call, output.name), reason: SCALAR })
      const same = isSameTensor(other.tensor, output.tensor)
      const refused = inPlace !== null && operand.role === 'input' && !inPlace.includes(operand.name)
      const reason =
        overlapReason(program, operand, operandOf(output.name)!, same, call.extents) ?? (refused ? ELSEWHERE : null)
      if (reason)
        return refuse('KTL4037', { operand: shown(call, other.name), other: shown(call, output.name), reason })
    }
  }
  return OK
}

const SCALAR = 'it is a scalar, read while parts of it are overwritten'
const ELSEWHERE = 'it is read at other places than it is written'

function overlapReason(
  program: TensorProgram,
  other: TensorOperand,
  output: TensorOperand,
  same: boolean,
  extents: Call['extents'],
): string | null {
  if (other.role === 'output') return 'both are written'
  if (!same) return 'they are not the very same tensor'
  for (const node of topological(program.outputs.map(({ value }) => value))) {
    const reads =
      node.kind === 'contract' && [...topological([node])].some((n) => n.kind === 'input' && n.operand === other.name)
    if (reads) return 'it is an operand of a contraction, read after parts of it are overwritten'
    if (
      node.kind === 'reduce' &&
      [...topological([node.value])].some((n) => n.kind === 'input' && n.operand === other.name)
    ) {
      return 'it is reduced, read after parts of it are overwritten'
    }
  }
  const counting = (axes: readonly string[]): string => axes.filter((axis) => extents[axis] !== 1).join()
  return counting(other.axes) === counting(output.axes) ? null : ELSEWHERE
}
