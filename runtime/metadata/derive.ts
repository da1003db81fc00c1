/** Metadata of generated kernels, read off the plan that the code is generated from. */
import type { Plan } from '../../codegen/index.ts'
import type { SimtPlan } from '../../codegen/simt/plan.ts'
import { DTYPES, type Accumulator } from '../../compiler/dtypes.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import type { Sm100Plan } from '../../compiler/sm100/plan.ts'
import type { Sm80Plan } from '../../compiler/sm80/plan.ts'
import type { Sm90Plan } from '../../compiler/sm90/plan.ts'
import type { TensorOperand, TensorProgram } from '../../compiler/tensor_ir.ts'
import { topological } from '../../compiler/walk.ts'
import type { OperationSignature } from '../discovery/signature.ts'
import { KtlKernel } from '../kernel_ktl.ts'
import {
  Sm100DesignMetadata,
  Sm80DesignMetadata,
  Sm90DesignMetadata,
  SimtDesignMetadata,
  type DesignMetadata,
  type Shape3,
  type Sm100DesignFields,
  type Sm80DesignFields,
  type Sm90DesignFields,
} from './design.ts'
import { EpilogueMetadata, type Transport } from './epilogue.ts'
import { KernelMetadata, TARGET_CC, type KernelMetadataFields } from './kernel.ts'
import {
  ElementwiseOperandsMetadata,
  GemmOperandsMetadata,
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
  const operands = operandsMetadataOf(plan.program, operation)
  const epilogue = epilogueText === null ? null : epilogueOf(plan, epilogueText)
  return new KernelMetadata({ ...kernelFields(plan), kernelName, operands, design: designOf(plan), epilogue })
}

/** What all designs of one choice have in common. */
export function kernelFields(plan: Plan): Pick<KernelMetadataFields, 'kernelClass' | 'minCc' | 'provider'> & { readonly targets: readonly TargetArch[] } {
  const minCc = plan.kind === 'sm80' ? plan.mma.minCc : { sm100: 100, sm90: 90, simt: 80 }[plan.kind]
  return { kernelClass: KtlKernel, minCc, targets: Object.freeze(targetsOf(plan)), provider: 'ktl' }
} // prettier-ignore

/** kind::i8 exists on sm_100a alone; mma.sync and plain kernels are built for whatever runs them. */
function targetsOf(plan: Plan): TargetArch[] {
  if (plan.kind === 'simt') return ['sm_80', 'sm_90a', 'sm_100a', 'sm_103a']
  if (plan.kind === 'sm90') return ['sm_90a']
  if (plan.kind === 'sm80')
    return (Object.keys(TARGET_CC) as TargetArch[]).filter((target) => TARGET_CC[target] >= plan.mma.minCc)
  return plan.mma === 'i8' ? ['sm_100a'] : ['sm_100a', 'sm_103a']
}

type Sm100Fields = Required<Sm100DesignFields> & Pick<Sm100DesignMetadata, 'numSmemStages'>

/** Fields of the design metadata, each read off the plan: filters look at them one by one, without making the rest. */
export const SM100_FIELDS: { readonly [K in keyof Sm100Fields]: (plan: Sm100Plan) => Sm100Fields[K] } = {
  tileShape: (plan) => plan.tile,
  clusterShape: (plan) => plan.design.cluster,
  mmaInstructionType: (plan) => `tcgen05.mma.kind::${plan.mma}`,
  numSmemStages: (plan) => plan.stages,
  fallbackClusterShape: (plan) => plan.design.fallbackCluster,
  operands: (plan) => plan.design.operands,
  use2ctaMma: (plan) => plan.design.use2ctaMma,
  useTmaStore: (plan) => plan.epilogue.outputs.every((output) => output.store === 'tma'),
  tileScheduler: (plan) => plan.design.scheduler,
  stages: (plan) => plan.stages,
  threads: (plan) => plan.threads,
  sharedMemBytes: (plan) => plan.smemBytes,
  tmemColumns: (plan) => plan.tmemColumns,
}

type Sm90Fields = Required<Sm90DesignFields> & Pick<Sm90DesignMetadata, 'numSmemStages'>

export const SM90_FIELDS: { readonly [K in keyof Sm90Fields]: (plan: Sm90Plan) => Sm90Fields[K] } = {
  tileShape: (plan) => plan.tile,
  clusterShape: (plan) => plan.design.cluster,
  mmaInstructionType: ({ mma }) => `wgmma.k${mma.k}.${mma.d}.${mma.a}.${mma.b}`,
  numSmemStages: (plan) => plan.stages,
  schedule: (plan) => plan.design.consumers,
  splits: (plan) => plan.splits,
  operands: (plan) => plan.design.operands,
  useTmaStore: (plan) => plan.epilogue.outputs.every((output) => output.store === 'tma'),
  tileScheduler: () => 'static',
  stages: (plan) => plan.stages,
  threads: (plan) => plan.threads,
  sharedMemBytes: (plan) => plan.smemBytes,
}

type Sm80Fields = Required<Sm80DesignFields> & Pick<Sm80DesignMetadata, 'numSmemStages'>

export const SM80_FIELDS: { readonly [K in keyof Sm80Fields]: (plan: Sm80Plan) => Sm80Fields[K] } = {
  tileShape: (plan) => plan.design.tile,
  clusterShape: () => [1, 1, 1],
  mmaInstructionType: ({ mma }) => `mma.sync.m16n8k${mma.k}.${mma.d}.${mma.a}.${mma.b}`,
  numSmemStages: (plan) => plan.stages,
  warps: (plan) => plan.warps,
  operands: (plan) => plan.design.operands,
  useTmaStore: () => false,
  tileScheduler: () => 'static',
  stages: (plan) => plan.stages,
  threads: (plan) => plan.threads,
  sharedMemBytes: (plan) => plan.smemBytes,
}

const SIMT_FIELDS = {
  tileShape: (plan: SimtPlan): Shape3 => [...plan.design.tile, 1],
  threads: (plan: SimtPlan) => plan.threads,
}

type Readers = readonly (readonly [name: string, read: (plan: never) => unknown])[]
const READERS: Readonly<Record<Plan['kind'], Readers>> = {
  sm100: Object.entries(SM100_FIELDS),
  sm90: Object.entries(SM90_FIELDS),
  sm80: Object.entries(SM80_FIELDS),
  simt: Object.entries(SIMT_FIELDS),
}

export type DesignFields = Readonly<Record<string, unknown>>

/** All fields of the design metadata: equal ones make equal metadata. */
export function designFields(plan: Plan): DesignFields {
  const fields: Record<string, unknown> = {}
  for (const [name, read] of READERS[plan.kind]) fields[name] = read(plan as never)
  return fields
}

/** `fields`: those of the plan, where they are known. */
export function designOf(plan: Plan, fields: DesignFields = designFields(plan)): DesignMetadata {
  switch (plan.kind) {
    case 'simt':
      return new SimtDesignMetadata(fields.tileShape as Shape3, plan.threads)
    case 'sm90':
      return new Sm90DesignMetadata(fields as unknown as Sm90Fields)
    case 'sm80':
      return new Sm80DesignMetadata(fields as unknown as Sm80Fields)
    case 'sm100':
      return new Sm100DesignMetadata(fields as unknown as Sm100Fields)
  }
}

/** One field of the design metadata of a plan; undefined: its class has no such field. */
export function designField(plan: Plan, name: string): unknown {
  if (name === 'kind') return plan.kind
  if (plan.kind === 'simt') return designOf(plan)[name as keyof DesignMetadata]
  const fields: Readonly<Record<string, (plan: never) => unknown>> = { sm90: SM90_FIELDS, sm80: SM80_FIELDS, sm100: SM100_FIELDS }[plan.kind]
  return Object.hasOwn(fields, name) ? fields[name]!(plan as never) : undefined
} // prettier-ignore

export function attributesOf({ dtype, axes, order, divisibility }: TensorOperand): TensorAttributes {
  const contiguous = order.at(-1)
  const perVector = 128 / DTYPES[dtype].bits
  return new TensorAttributes({
    dtype,
    stride: axes.map((axis) => (axis === contiguous ? 1 : 0)),
    divisibility: divisibility === 'vector' ? perVector : 1,
  })
}

export function operandsMetadataOf(program: TensorProgram, operation: OperationSignature | null): AnyOperandsMetadata {
  const attributes: Record<string, TensorAttributes> = {}
  for (const operand of program.operands) if (!operand.fromEpilogue) attributes[operand.name] = attributesOf(operand)
  const accumulatorType = accumulatorOf(program)
  if (operation === null) return new OperandsMetadata(attributes, accumulatorType) as AnyOperandsMetadata
  const [A, B, out] = [operation.A, operation.B, operation.out].map((name) => attributes[name]!) as [TensorAttributes, TensorAttributes, TensorAttributes] // prettier-ignore
  return accumulatorType === null
    ? new ElementwiseOperandsMetadata(A, B, out)
    : new GemmOperandsMetadata(A, B, out, accumulatorType)
}

function accumulatorOf(program: TensorProgram): Accumulator | null {
  for (const node of topological(program.outputs.map((output) => output.value))) {
    if (node.kind === 'contract') return node.accumulator
  }
  return null
}

function epilogueOf(plan: Plan, text: string): EpilogueMetadata {
  const { program } = plan
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
  const byTma = plan.kind === 'simt' ? [] : plan.epilogue.outputs.filter(({ store }) => store === 'tma')
  const names = byTma.map(({ operand }) => operand.name)
  return Object.fromEntries(operands.map(({ name }) => [name, names.includes(name) ? 'tma' : 'direct'] as const))
}
