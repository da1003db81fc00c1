/** Metadata of generated kernels, read off the plan that the code is generated from. */
import { inTiles } from '../../compiler/stored/tiles.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { ScaledOperandConstraints } from './scaled.ts'
import type { TargetArch } from '../../compiler/archs.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { ALIGNED_BYTES, type TensorOperand, type TensorProgram } from '../../compiler/ir/tensor.ts'
import { accumulatorsOf } from '../../compiler/ir/walk.ts'
import { targetOf, type Plan } from '../../compiler/targets/index.ts'
import type { OperationSignature } from '../discovery/space/signature.ts'
import { RUNTIME_TARGETS } from '../targets/index.ts'
import type { DesignMetadata } from './design.ts'
import { EpilogueMetadata, type Transport } from './epilogue.ts'
import { KernelMetadata, type KernelMetadataFields } from './kernel.ts'
import { KtlKernel } from '../kernels/ktl_kernel.ts'
import {
  ElementwiseOperandsMetadata,
  GemmOperandsMetadata,
  GroupedGemmOperandsMetadata,
  OperandsMetadata,
  TensorAttributes,
  type AnyOperandsMetadata,
} from './operands.ts'

export interface KernelDescription {
  readonly kernelName: string
  readonly operation: OperationSignature | null
  /** As the user wrote it. */
  readonly epilogueText: string | null
}

export function deriveMetadata(plan: Plan, { kernelName, operation, epilogueText }: KernelDescription): KernelMetadata {
  const operands = operandsMetadataOf(plan.instance.program, operation)
  const epilogue = epilogueText === null ? null : epilogueOf(plan, epilogueText)
  return new KernelMetadata({ ...kernelFields(plan), kernelName, operands, design: designOf(plan), epilogue })
}

/** What all designs of one choice have in common. */
export function kernelFields(
  plan: Plan,
): Pick<KernelMetadataFields, 'kernelClass' | 'minCc' | 'provider'> & { readonly targets: readonly TargetArch[] } {
  const target = targetOf(plan)
  return {
    kernelClass: KtlKernel,
    minCc: target.minCc(plan),
    targets: Object.freeze([...target.builtFor(plan)]),
    provider: 'ktl',
  }
}

export type DesignFields = Readonly<Record<string, unknown>>

/** All fields of the design metadata: equal ones make equal metadata. */
export function designFields(plan: Plan): DesignFields {
  const fields: Record<string, unknown> = {}
  for (const [name, read] of Object.entries(targetOf(plan).fields)) fields[name] = read(plan)
  return fields
}

/** `fields`: those of the plan, where they are known. */
export function designOf(plan: Plan, fields: DesignFields = designFields(plan)): DesignMetadata {
  return RUNTIME_TARGETS.get(plan.kind).metadata(fields) as DesignMetadata
}

/** One field of the design metadata of a plan; undefined: its class has no such field. */
export function designField(plan: Plan, name: string): unknown {
  const { fields } = targetOf(plan)
  if (name === 'kind') return plan.kind
  return Object.hasOwn(fields, name) ? fields[name]!(plan) : undefined
}

/** Scales and zero points bind with any strides. */
export function attributesOf({ dtype, axes, order, divisibility, partOf }: TensorOperand): TensorAttributes {
  const contiguous = partOf === undefined ? order.at(-1) : null
  // The fewest elements that fill vectors of 128 bits: of 6 bits, three of them.
  const { bits } = DTYPES[dtype]
  const perVector = bits === 6 ? 64 : 128 / bits
  return new TensorAttributes({
    dtype,
    stride: axes.map((axis) => (axis === contiguous ? 1 : 0)),
    divisibility: divisibility === 'vector' ? perVector : divisibility === 'word' ? (8 * ALIGNED_BYTES.word) / bits : 1,
  })
}

function constraintsOf(program: TensorProgram): Record<string, ScaledOperandConstraints> {
  const own = program.operands.filter(({ stored, fromEpilogue }) => stored && !fromEpilogue)
  return Object.fromEntries(
    own.map(({ name, axes, stored }) => {
      const { scale, zero, global } = stored!
      const scales = scale === null ? null : operandNamed(program, scale)
      const mode = axes.map((axis) => {
        const position = scales?.axes.indexOf(axis) ?? -1
        return position < 0 ? 'all' : (scales!.blocks?.[position] ?? 1)
      })
      const parts = Object.entries({ scale, zero, global }).flatMap(([part, given]) => (given === null ? [] : [part]))
      return [
        name,
        new ScaledOperandConstraints({
          mode,
          swizzle: scales && inTiles(scales.order) ? '32x4x4' : 'none',
          parts: parts as ScaledOperandConstraints['parts'],
        }),
      ]
    }),
  )
}

export function operandsMetadataOf(program: TensorProgram, operation: OperationSignature | null): AnyOperandsMetadata {
  const attributes: Record<string, TensorAttributes> = {}
  for (const operand of program.operands) if (!operand.fromEpilogue) attributes[operand.name] = attributesOf(operand)
  const [accumulatorType = null] = accumulatorsOf(program)
  if (operation === null || (operation.offsets !== null && accumulatorType === null))
    return new OperandsMetadata(attributes, accumulatorType, 'kernel', constraintsOf(program)) as AnyOperandsMetadata
  const named = (name: string): TensorAttributes => attributes[name]!
  const [A, B, out] = [named(operation.A), named(operation.B), named(operation.out)]
  if (operation.offsets !== null)
    return new GroupedGemmOperandsMetadata({
      A,
      B,
      out,
      offsets: named(operation.offsets),
      accumulatorType: accumulatorType!,
    })
  return accumulatorType === null
    ? new ElementwiseOperandsMetadata(A, B, out)
    : new GemmOperandsMetadata(A, B, out, accumulatorType)
}

function epilogueOf(plan: Plan, text: string): EpilogueMetadata {
  const { program } = plan.instance
  const operands = program.operands.filter((operand) => operand.fromEpilogue)
  return new EpilogueMetadata({
    text,
    tensors: Object.fromEntries(operands.map((operand) => [operand.name, attributesOf(operand)])),
    outputs: operands.filter((operand) => operand.role === 'output').map((operand) => operand.name),
    scalars: program.scalars.filter((scalar) => scalar.fromEpilogue).map((scalar) => scalar.name),
    transports: transportsOf(plan, [...operands, ...program.operands.filter(({ role }) => role === 'output')]),
  })
}

/** Outputs leave as the plan says; inputs of epilogues are loaded by the threads that use them. */
function transportsOf(plan: Plan, operands: readonly TensorOperand[]): Record<string, Transport> {
  const names = targetOf(plan).tmaOutputs(plan)
  return Object.fromEntries(operands.map(({ name }) => [name, names.includes(name) ? 'tma' : 'direct'] as const))
}
