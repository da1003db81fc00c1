/** One call of one family: arguments in the family's own names. Everything that checks or launches works on this. */
import type { KernelFamily } from '../../../compiler/family.ts'
import type { RuntimeArguments } from '../../arguments/base.ts'
import { unifyAxes, type UnifiedAxes } from '../../arguments/axes.ts'
import { ElementwiseArguments } from '../../arguments/elementwise.ts'
import type { ResolvedEpilogue } from '../../arguments/epilogue.ts'
import { GemmArguments, shapesOf } from '../../arguments/gemm.ts'
import { ClassArguments, declaredAxes, KernelArguments } from '../../arguments/kernel.ts'
import type { PerformanceControls } from '../../arguments/performance.ts'
import { KtlError } from '../../../grammar/diagnostics.ts'
import type { BoundOperand, LaunchBindings } from '../../kernels/plan_launch.ts'
import { scaledGemm } from '../../operations/scaled_gemm.ts'
import { refuse, type StatusRefused } from '../../errors/status.ts'
import type { Tensor } from '../../tensors/tensor.ts'
import type { OperationSignature } from '../space/signature.ts'
import { correspondence, type Correspondence } from '../space/structure.ts'
import { describe } from '../../errors/describe.ts'

export interface Call {
  /** Declared operands. */
  readonly tensors: Readonly<Record<string, Tensor>>
  /** Axes of each tensor's dimensions. */
  readonly axes: Readonly<Record<string, readonly string[]>>
  /** Scales that lie in tiles. */
  readonly tiles: UnifiedAxes['tiles']
  readonly extents: Readonly<Record<string, number>>
  /** What the cost model takes for them: groups may fill less than their operands have room for. */
  readonly expected: Readonly<Record<string, number>>
  /** Of the kernel; `fusion` has those of the epilogue. */
  readonly scalars: Readonly<Record<string, number>>
  readonly fusion: ResolvedEpilogue | null
  readonly allowTf32: boolean
  /** Asked for; null: whatever the kernel has. */
  readonly accumulatorType: string | null
  readonly performance: PerformanceControls | null
  /** What the caller calls each operand: for messages. */
  readonly shownAs: Readonly<Record<string, string>>
}

/** The call that `args` make of a family, or why they describe something else. */
export function callOf(
  family: KernelFamily,
  operation: OperationSignature | null,
  args: RuntimeArguments,
): Call | StatusRefused {
  const call = describeCall(family, operation, args)
  if (call === null)
    return refuse('KTL4030', { expected: expectedArguments(family, operation), got: describeArguments(args) })
  if ('ok' in call) return call
  if (call.fusion !== null && family.slot === null) return refuse('KTL4035', { kernel: family.name })
  return call
}

function describeCall(
  family: KernelFamily,
  operation: OperationSignature | null,
  args: RuntimeArguments,
): Call | StatusRefused | null {
  if (args instanceof KernelArguments) {
    if (!args.status.ok) return args.status
    if (args.family === family) return kernelCall(args)
    const names = args instanceof ClassArguments ? correspondence(args.family, family) : null
    return names && correspondingCall(family, args, names)
  }
  if (args instanceof GemmArguments && args.isScaled) return describeCall(family, operation, scaledGemm(args))
  if (args instanceof GemmArguments && operation?.operation === 'gemm') return gemmCall(operation, args)
  if (args instanceof ElementwiseArguments && operation?.operation === 'elementwise')
    return elementwiseCall(family, operation, args)
  return null
}

function kernelCall(args: KernelArguments): Call {
  return {
    tensors: args.tensors,
    axes: args.axes.carried,
    tiles: args.axes.tiles,
    extents: args.axes.extents,
    expected: args.expected,
    scalars: args.scalars,
    fusion: args.fusion,
    allowTf32: false,
    accumulatorType: null,
    performance: args.performance,
    shownAs: {},
  }
}

/** A call of a family that computes the same. */
function correspondingCall(
  family: KernelFamily,
  args: KernelArguments,
  { operands, axes, scalars, fixed }: Correspondence,
): Call | StatusRefused {
  const call = kernelCall(args)
  // Numbers, and those that lie on the device: what the family has one scalar for is one and the same.
  const values: Record<string, number | Tensor> = {}
  for (const { name } of args.family.scalars) {
    const [own, value] = [scalars.get(name), args.scalars[name] ?? call.tensors[name]!]
    const expected = fixed.get(name) ?? (own === undefined ? undefined : values[own])
    if (expected !== undefined && expected !== value)
      return refuse('KTL4030', { expected: `${name} = ${expected}`, got: String(value) })
    if (own !== undefined) values[own] = value
  }
  const numbers = Object.entries(values).filter((entry): entry is [string, number] => typeof entry[1] === 'number')
  const onDevice = Object.entries(values).filter((entry): entry is [string, Tensor] => typeof entry[1] !== 'number')
  const whole = Object.fromEntries(Object.entries(call.tensors).filter(([name]) => operands.has(name)))
  const named = Object.fromEntries(axes)
  const extentsOf = (extents: Call['extents']): Call['extents'] => ({
    ...Object.fromEntries(family.axes.map(({ name }) => [name, 1])),
    ...Object.fromEntries([...axes].map(([axis, own]) => [own, extents[axis]!])),
  })
  const renamed = <V>(record: Readonly<Record<string, V>>): Record<string, V> =>
    Object.fromEntries(Object.entries(record).map(([name, value]) => [operands.get(name)!, value]))
  const carried = Object.entries(call.axes).map(([name, list]) => [name, list.map((axis) => named[axis]!)] as const)
  return {
    ...call,
    tensors: { ...renamed(whole), ...Object.fromEntries(onDevice) },
    axes: renamed(Object.fromEntries(carried)),
    tiles: renamed(call.tiles),
    extents: extentsOf(call.extents),
    expected: extentsOf(call.expected),
    scalars: Object.fromEntries(numbers),
    fusion: call.fusion && renameFusion(call.fusion, named),
    shownAs: Object.fromEntries([...operands].map(([name, own]) => [own, name])),
  }
}

function gemmCall({ A, B, out, axes }: OperationSignature, args: GemmArguments): Call | StatusRefused {
  const { l, m, n, k } = axes!
  if (l === null && args.out.rank === 3) {
    return refuse('KTL4030', {
      expected: 'GemmArguments without a batch axis',
      got: `batches of ${args.problemSize.L}`,
    })
  }
  const named: Readonly<Record<string, string>> = { m, n, k, ...(l !== null && { l }) }
  const rename = (list: readonly string[]): string[] => list.map((axis) => named[axis]!)
  const { carried } = args.axes
  const extents = Object.fromEntries(
    Object.entries(named).map(([generic, axis]) => [axis, args.axes.extents[generic]!]),
  )
  return {
    tensors: { [A]: args.A, [B]: args.B, [out]: args.out },
    axes: { [A]: rename(carried['A']!), [B]: rename(carried['B']!), [out]: rename(carried['out']!) },
    tiles: {},
    extents,
    expected: extents,
    scalars: {},
    fusion: args.fusion && renameFusion(args.fusion, named),
    allowTf32: args.allowTf32,
    accumulatorType: args.accumulatorType,
    performance: args.performance,
    shownAs: { [A]: 'A', [B]: 'B', [out]: 'out' },
  }
}

/** A family without a batch axis never sees epilogue operands with one: their extent would be 1. */
function renameFusion(fusion: ResolvedEpilogue, named: Readonly<Record<string, string>>): ResolvedEpilogue {
  if (Object.entries(named).every(([generic, axis]) => generic === axis)) return fusion
  const tensors = fusion.tensors.map((tensor) => {
    if (tensor.indexed) return tensor
    const kept = tensor.axes
      .map((axis, i) => ({ axis: named[axis], dimension: tensor.dimensions[i]! }))
      .filter(({ axis }) => axis !== undefined)
    return {
      ...tensor,
      axes: kept.map(({ axis }) => axis!),
      dimensions: kept.map(({ dimension }) => dimension),
      order: tensor.order.flatMap((axis) => named[axis] ?? []),
    }
  })
  return { ...fusion, tensors, asked: fusion }
}

function elementwiseCall(
  family: KernelFamily,
  { A, B, out }: OperationSignature,
  args: ElementwiseArguments,
): Call | StatusRefused {
  const tensors = { [A]: args.A, [B]: args.B, [out]: args.out }
  try {
    const { carried, extents, tiles } = unifyAxes(declaredAxes(family), shapesOf(tensors))
    const shownAs = { [A]: 'A', [B]: 'B', [out]: 'out' }
    return {
      tensors,
      axes: carried,
      tiles,
      extents,
      expected: extents,
      scalars: {},
      fusion: null,
      allowTf32: false,
      accumulatorType: null,
      performance: args.performance,
      shownAs,
    }
  } catch (error) {
    // Valid arguments of a rank that this family does not have.
    if (!(error instanceof KtlError)) throw error
    return refuse('KTL4020', {
      operand: error.operand ?? 'A',
      expected: error.expected ?? 'another rank',
      got: error.got ?? '',
    })
  }
}

const CLASSES = {
  gemm: 'GemmArguments',
  groupedGemm: 'GroupedGemmArguments',
  elementwise: 'ElementwiseArguments',
} as const

function expectedArguments(family: KernelFamily, operation: OperationSignature | null): string {
  const own = `KernelArguments of ${family.name}`
  if (operation === null) return own
  return `${CLASSES[operation.operation]} or ${own}`
}

export function describeArguments(args: RuntimeArguments): string {
  return args instanceof KernelArguments ? `KernelArguments of ${args.family.name}` : describe(args)
}

/** What a launch recipe is packed from. */
export function launchBindings({ tensors, axes, tiles, extents, scalars, fusion }: Call): LaunchBindings {
  const operands: Record<string, BoundOperand> = {}
  for (const [name, tensor] of Object.entries(tensors)) {
    const { pointer, dtype } = tensor
    operands[name] = { tensor: tiles[name] ? { pointer, dtype, ...tiles[name] } : tensor, axes: axes[name]! }
  }
  for (const { name, tensor, axes: own, dimensions } of fusion?.tensors ?? []) {
    const present = dimensions.filter((d) => d >= 0)
    operands[name] = {
      tensor: {
        pointer: tensor.pointer,
        dtype: tensor.dtype,
        shape: present.map((d) => tensor.shape[d]!),
        strides: present.map((d) => tensor.strides[d]!),
      },
      axes: own.filter((_, i) => dimensions[i]! >= 0),
    }
  }
  return { operands, extents, scalars }
}

/** Every tensor of the call with its name, inputs and outputs, declared and fused. */
export function callTensors({ tensors, fusion }: Call): { readonly name: string; readonly tensor: Tensor }[] {
  const declared = Object.entries(tensors).map(([name, tensor]) => ({ name, tensor }))
  return [...declared, ...(fusion?.tensors ?? [])]
}
