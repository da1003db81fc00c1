/** Types an epilogue as soon as its operands are known, so that mistakes in it are reported where it is passed. */
import { bindKernel, epilogueOperandName } from '../../compiler/bind.ts'
import { legalContraction, type Accumulator } from '../../compiler/dtypes.ts'
import type { BoundEpilogue } from '../../compiler/epilogue.ts'
import { gemmSlot, typeEpilogue, type Slot, type TypedEpilogue } from '../../compiler/epilogue_types.ts'
import { resolveType, type KernelFamily, type TypeChoice } from '../../compiler/family.ts'
import type { TensorOperand, TensorProgram } from '../../compiler/ir/tensor.ts'
import { diagnose } from '../../grammar/catalogue/index.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { raise } from '../errors/status.ts'
import { boundEpilogue, ownExtents, type ResolvedEpilogue } from './epilogue.ts'
import { checkIndices } from './indices.ts'

const REMEMBERED = 256
const bound = new Map<string, BoundEpilogue>()

/** One object for equal epilogues: the compiler keeps the programs it made with each. */
export function sharedEpilogue(fusion: ResolvedEpilogue, compute: 'f32' | 'f64'): BoundEpilogue {
  const key = `${compute}\n${fusion.key}`
  const known = bound.get(key)
  if (known) return known
  const made = boundEpilogue(fusion.asked ?? fusion, compute)
  if (bound.size >= REMEMBERED) bound.delete(bound.keys().next().value!)
  bound.set(key, made)
  return made
}

/** Type of run-time numbers in the epilogue of a kernel. */
export function computeTypeOf(family: KernelFamily, types: TypeChoice): 'f32' | 'f64' {
  const slot = family.operands.find((operand) => operand.name === family.slot)
  return computeTypeFor(slot && resolveType(slot.dtype, types))
}

const computeTypeFor = (out: DTypeName | undefined): 'f32' | 'f64' => (out === 'f64' ? 'f64' : 'f32')

/**
 * Throws what the compiler has to say about the epilogue in a GEMM of these types, and what `checkIndices` says of its reads; of
 * products that are none, discovery tells.
 */
export function checkGemmEpilogue(
  fusion: ResolvedEpilogue,
  a: DTypeName,
  b: DTypeName,
  out: DTypeName,
  accumulator: Accumulator,
): void {
  if (!legalContraction(a, b)?.includes(accumulator)) return
  const bound = sharedEpilogue(fusion, computeTypeFor(out))
  const slot = gemmSlot(accumulator, out)
  const typed = typeEpilogue(bound, slot)
  checkOutputs(typed.operands, fusion, (name) => name)
  if (fusion.tensors.every(({ indexed }) => !indexed)) return
  const extents = { ...fusion.extents, ...ownExtents(fusion.tensors) }
  const status = checkIndices(programOf(typed, slot), { extents, scalars: fusion.scalars })
  if (status !== null) raise(status)
}

const programs = new WeakMap<TypedEpilogue, TensorProgram>()

/** The epilogue by itself, in the axes of its slot. */
function programOf(typed: TypedEpilogue, { axes, out }: Slot): TensorProgram {
  const known = programs.get(typed)
  if (known) return known
  const { value, outputs, operands, scalars } = typed
  const made: TensorProgram = {
    kernel: '<epilogue>',
    accuracy: 'default',
    axes: [...axes, ...typed.axes],
    operands: [...operands, { ...out, role: 'output', order: out.axes, divisibility: 'element', fromEpilogue: false }],
    scalars,
    outputs: [{ operand: out.name, value, span: null }, ...outputs],
  }
  programs.set(typed, made)
  return made
}

/** The kernel with the epilogue, for the first of `choices` under which it is right; throws when there is none. null: the kernel has no slot. */
export function checkEpilogueIn(
  family: KernelFamily,
  choices: readonly TypeChoice[],
  fusion: ResolvedEpilogue,
): TensorProgram | null {
  if (family.slot === null) return null
  let first: KtlError | null = null
  for (const types of choices) {
    try {
      const program = bindKernel(family, { types }, sharedEpilogue(fusion, computeTypeOf(family, types)))
      checkOutputs(program.operands, fusion, (name) => epilogueOperandName(family, name))
      return program
    } catch (error) {
      if (!(error instanceof KtlError)) throw error
      first ??= error
    }
  }
  if (first) throw first
  return null
}

/** Outputs are stored once for each element: none may lack an axis of its value, unless its extent is 1. */
function checkOutputs(
  operands: readonly TensorOperand[],
  { epilogue, tensors, extents }: ResolvedEpilogue,
  inKernel: (name: string) => string,
): void {
  for (const { name, role, axes, tensor } of tensors) {
    if (role === 'input') continue
    const needed = operands.find((operand) => operand.name === inKernel(name))!.axes
    if (needed.every((axis) => axes.includes(axis) || extents[axis] === 1)) continue
    const expected = `[${needed.map((axis) => `${axis} = ${extents[axis]}`).join(', ')}], the axes of its value`
    const { span } = epilogue.signature.outputs.find((output) => output.name === name)!
    const diagnostic = diagnose('KTL2033', { source: epilogue.source, span, name, shape: tensor.shape, expected })
    throw new KtlError(diagnostic, { operand: name, expected, got: `[${tensor.shape.join(', ')}]` })
  }
}
