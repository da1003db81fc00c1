/** Binding: a kernel family, one choice of everything, and perhaps an epilogue, become one tensor program. */
import { KtlError } from '../grammar/diagnostics.ts'
import { sameAxes } from './check/axes.ts'
import { printChoice, typed } from './check/choices.ts'
import { ACCUMULATOR } from './check/typing.ts'
import type { BoundEpilogue } from './epilogue.ts'
import { typeEpilogue, type Slot, type TypedEpilogue } from './epilogue_types.ts'
import { resolveType, type KernelFamily, type OrderChoice, type TypeChoice } from './family.ts'
import { canonicalise } from './pipeline.ts'
import { rewrite } from './passes/graph.ts'
import { axesOfOrder } from './stored/tiles.ts'
import type { Divisibility, Node, Output, ScalarOperand, TensorOperand, TensorProgram } from './ir/tensor.ts'

export interface Binding {
  /** Default: the first legal choice. */
  readonly types?: TypeChoice
  /** By operand; default: the logical order. */
  readonly orders?: OrderChoice
  /** By operand; default: `element`, which is always right. */
  readonly divisibility?: Readonly<Record<string, Divisibility>>
}

/**
 * The tensor program of one choice, after all passes of the tensor IR. Throws a KtlError for what the user wrote:
 * an illegal choice of types, and everything about the epilogue.
 */
export function bindKernel(family: KernelFamily, binding: Binding = {}, epilogue?: BoundEpilogue): TensorProgram {
  const types = binding.types ?? family.typeChoices[0]!
  const program = programOf(family, types, epilogue)
  const operands = program.operands.map((operand): TensorOperand => {
    const order = binding.orders?.[operand.name] ?? operand.order
    const divisibility = binding.divisibility?.[operand.name] ?? operand.divisibility
    if (order === operand.order && divisibility === operand.divisibility) return operand
    if (!sameAxes(axesOfOrder(order), operand.axes))
      throw new Error(`[${order}] is no order of ${operand.name}[${operand.axes}]`)
    const variants = entry(inMemory, operand, () => new Map<string, TensorOperand>())
    return entry(variants, `${order.join()} ${divisibility}`, () => ({ ...operand, order, divisibility }))
  })
  return { ...program, operands }
}

/** Operands as they lie in memory, by how: choices of one program share them, and what planning works out of each. */
const inMemory = new WeakMap<TensorOperand, Map<string, TensorOperand>>()

/** Name that an epilogue's operand has in the program: its own, unless the kernel declares that. */
export function epilogueOperandName(family: KernelFamily, name: string): string {
  const declared = new Set([...family.operands, ...family.scalars].map((operand) => operand.name))
  while (declared.has(name)) name += '_'
  return name
}

/** Programs by choice of types: orders and divisibility do not change them. */
const unfused = new WeakMap<KernelFamily, Map<string, TensorProgram>>()
const fused = new WeakMap<BoundEpilogue, WeakMap<KernelFamily, Map<string, TensorProgram>>>()

function programOf(family: KernelFamily, types: TypeChoice, epilogue: BoundEpilogue | undefined): TensorProgram {
  const families = epilogue
    ? entry(fused, epilogue, () => new WeakMap<KernelFamily, Map<string, TensorProgram>>())
    : unfused
  const programs = entry(families, family, () => new Map<string, TensorProgram>())
  return entry(programs, printChoice(types), () => canonicalise(build(family, types, epilogue)))
}

function entry<K extends object | string, V>(
  map: { get(key: K): V | undefined; set(key: K, value: V): unknown },
  key: K,
  make: () => V,
): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

function build(family: KernelFamily, types: TypeChoice, epilogue: BoundEpilogue | undefined): TensorProgram {
  const operands = family.operands.map((operand): TensorOperand => ({
    name: operand.name,
    role: operand.role,
    dtype: resolveType(operand.dtype, types),
    axes: operand.axes,
    order: operand.axes,
    divisibility: 'element',
    fromEpilogue: false,
    ...(operand.blocks && { blocks: operand.blocks }),
    ...(operand.stored && { stored: operand.stored }),
    ...(operand.partOf !== undefined && { partOf: operand.partOf }),
  }))
  const scalars = family.scalars.map((scalar): ScalarOperand => ({
    name: scalar.name,
    dtype: resolveType(scalar.dtype, types),
    pointer: false,
    defaultValue: scalar.defaultValue?.value ?? null,
    fromEpilogue: false,
    ...(scalar.partOf !== undefined && { partOf: scalar.partOf }),
  }))
  const { outputs, axes, diagnostics } = typed(family, types)
  if (diagnostics.length > 0) throw new KtlError(diagnostics)
  const { name: kernel, accuracy } = family
  const program: TensorProgram = { kernel, accuracy, axes, operands, scalars, outputs }
  if (!epilogue) return program
  const slot = slotOf(family, program)
  return fuse(program, family, slot, typeEpilogue(epilogue, slot))
}

function slotOf(family: KernelFamily, { operands, outputs }: TensorProgram): Slot {
  const filled = family.outputs.find((output) => output.slot)
  if (!filled) throw new Error(`kernel ${family.name} has no epilogue slot`)
  return {
    axes: family.axes.map(({ name, optional, ragged }) => ({ name, optional, ...(ragged && { ragged }) })),
    value: filled.value,
    type: outputs.find((output) => output.operand === filled.operand)!.value.type,
    out: operands.find((operand) => operand.name === filled.operand)!,
    source: family.source,
  }
}

/** The program with the epilogue between the value in its slot and the slot's output. */
function fuse(program: TensorProgram, family: KernelFamily, { out }: Slot, epilogue: TypedEpilogue): TensorProgram {
  const filled = program.outputs.find((output) => output.operand === out.name)!
  const named = <T extends { readonly name: string }>(x: T): T => ({ ...x, name: epilogueOperandName(family, x.name) })
  const inPlace = (node: Node): Node => {
    if (node.kind !== 'input' && node.kind !== 'scalar') return node
    if (node.operand === ACCUMULATOR) return filled.value
    const operand = epilogueOperandName(family, node.operand)
    return operand === node.operand ? node : { ...node, operand }
  }
  const own = epilogue.outputs.map((output): Output => ({
    ...output,
    operand: epilogueOperandName(family, output.operand),
  }))
  const [value, ...outputs] = rewrite(
    { ...program, outputs: [{ ...filled, value: epilogue.value }, ...own] },
    inPlace,
  ).outputs
  const operands = [...program.operands, ...epilogue.operands.map(named)]
  const roleOf = ({ role, partOf }: TensorOperand): string => operands.find(({ name }) => name === partOf)?.role ?? role
  const of = (role: TensorOperand['role']): TensorOperand[] => operands.filter((operand) => roleOf(operand) === role)
  return {
    ...program,
    axes: [...program.axes, ...epilogue.axes],
    operands: [...of('input'), ...of('output')],
    scalars: [...program.scalars, ...epilogue.scalars.map(named)],
    outputs: [...program.outputs.map((output) => (output === filled ? value! : output)), ...outputs],
  }
}
