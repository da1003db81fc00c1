/** Binds an epilogue as soon as its operands are known, so that mistakes in it are reported where it is passed. */
import { bindKernel, epilogueOperandName } from '../../compiler/bind.ts'
import { checkProgram } from '../../compiler/check/program.ts'
import type { Accumulator } from '../../compiler/dtypes.ts'
import type { BoundEpilogue } from '../../compiler/epilogue.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { resolveType, type KernelFamily, type TypeChoice } from '../../compiler/family.ts'
import { diagnose } from '../../grammar/catalogue/index.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import { parseProgram } from '../../grammar/parse.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { boundEpilogue, type ResolvedEpilogue } from './epilogue.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'

const REMEMBERED = 256
const bound = new Map<string, BoundEpilogue>()

/** One object for equal epilogues: the compiler keeps the programs it made with each. */
export function sharedEpilogue(fusion: ResolvedEpilogue, compute: 'f32' | 'f64'): BoundEpilogue {
  const key = `${compute}\n${fusion.key}`
  const known = bound.get(key)
  if (known) return known
  const made = boundEpilogue(fusion, compute)
  if (bound.size >= REMEMBERED) bound.delete(bound.keys().next().value!)
  bound.set(key, made)
  return made
}

/** Type of run-time numbers in the epilogue of a kernel. */
export function computeTypeOf(family: KernelFamily, types: TypeChoice): 'f32' | 'f64' {
  const slot = family.operands.find((operand) => operand.name === family.slot)
  return slot && resolveType(slot.dtype, types) === 'f64' ? 'f64' : 'f32'
}

/** Throws what the compiler has to say about the epilogue in a GEMM of these types. */
export function checkGemmEpilogue(
  fusion: ResolvedEpilogue,
  a: DTypeName,
  b: DTypeName,
  out: DTypeName,
  accumulator: Accumulator,
): void {
  const family = plainGemm(a, b, out, accumulator)
  if (family) checkEpilogueIn(family, [{}], fusion)
}

/** Throws when the epilogue is wrong under every one of `choices`; forms that are merely not lowered yet pass. */
export function checkEpilogueIn(family: KernelFamily, choices: readonly TypeChoice[], fusion: ResolvedEpilogue): void {
  if (family.slot === null || family.notLowered.length > 0) return
  let first: KtlError | null = null
  for (const types of choices) {
    try {
      checkOutputs(family, bindKernel(family, { types }, sharedEpilogue(fusion, computeTypeOf(family, types))), fusion)
      return
    } catch (error) {
      if (!(error instanceof KtlError) || error.code.startsWith('KTL29')) return
      first ??= error
    }
  }
  if (first) throw first
}

/** Outputs are stored once for each element: none may lack an axis of its value, unless its extent is 1. */
function checkOutputs(family: KernelFamily, program: TensorProgram, { epilogue, tensors, extents }: ResolvedEpilogue): void {
  for (const { name, role, axes, tensor } of tensors) {
    if (role === 'input') continue
    const inKernel = epilogueOperandName(family, name)
    const needed = operandNamed(program, inKernel).axes
    if (needed.every((axis) => axes.includes(axis) || extents[axis] === 1)) continue
    const expected = `[${needed.map((axis) => `${axis} = ${extents[axis]}`).join(', ')}], the axes of its value`
    const { span } = epilogue.signature.outputs.find((output) => output.name === name)!
    const diagnostic = diagnose('KTL2033', { source: epilogue.source, span, name, shape: tensor.shape, expected })
    throw new KtlError(diagnostic, { operand: name, expected, got: `[${tensor.shape.join(', ')}]` })
  }
} // prettier-ignore

const gemms = new Map<string, KernelFamily | null>()

/** null: the language has no such contraction, which discovery will say. */
function plainGemm(a: DTypeName, b: DTypeName, out: DTypeName, accumulator: Accumulator): KernelFamily | null {
  const key = [a, b, out, accumulator].join()
  let family = gemms.get(key)
  if (family === undefined) {
    const text = `kernel gemm(A: ${a}[l?, m, k], B: ${b}[l?, k, n]) -> out: ${out}[l?, m, n] {
  acc: ${accumulator} = sum[k](A * B)
  out = epilogue(acc)
}`
    const source = { name: '<gemm>', text }
    family = checkProgram(parseProgram(source).program, source).program.kernels[0] ?? null
    gemms.set(key, family)
  }
  return family
}
