/** Metadata of generated kernels, read off the plan that the code is generated from. */
import type { Plan } from '../../codegen/index.ts'
import { DTYPES, type Accumulator } from '../../compiler/dtypes.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import type { Sm100Plan } from '../../compiler/targets/sm100/plan.ts'
import type { Sm80Plan } from '../../compiler/targets/sm80/plan.ts'
import type { Sm90Plan } from '../../compiler/targets/sm90/plan.ts'
import type { TensorOperand, TensorProgram } from '../../compiler/ir/tensor.ts'
import { topological } from '../../compiler/ir/walk.ts'
import type { OperationSignature } from '../discovery/signature.ts'
import {
  Sm100DesignMetadata,
  Sm80DesignMetadata,
  Sm90DesignMetadata,
  SimtDesignMetadata,
  type DesignMetadata,
  type Sm100DesignFields,
  type Sm80DesignFields,
  type Sm90DesignFields,
} from './design.ts'
import { EpilogueMetadata, type Transport } from './epilogue.ts'
import { KernelMetadata, TARGET_CC } from './kernel.ts'
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
  const { program } = plan
  const targets = targetsOf(plan)
  return new KernelMetadata({
    kernelName,
    kernelClass: 'KtlKernel',
    minCc: plan.kind === 'sm80' ? plan.mma.minCc : { sm100: 100, sm90: 90, simt: 80 }[plan.kind],
    targets,
    operands: operandsMetadataOf(program, operation),
    design: designOf(plan),
    epilogue: epilogueText === null ? null : epilogueOf(plan, epilogueText),
    provider: 'ktl',
  })
}

/** kind::i8 exists on sm_100a alone; mma.sync and plain kernels are built for whatever runs them. */
function targetsOf(plan: Plan): readonly TargetArch[] {
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

const fieldsOf = <P, F>(fields: { readonly [K in keyof F]: (plan: P) => F[K] }, plan: P): F =>
  Object.fromEntries(Object.entries(fields).map(([name, read]) => [name, (read as (plan: P) => unknown)(plan)])) as F

function designOf(plan: Plan): DesignMetadata {
  switch (plan.kind) {
    case 'simt':
      return new SimtDesignMetadata([...plan.design.tile, 1], plan.threads)
    case 'sm90':
      return new Sm90DesignMetadata(fieldsOf<Sm90Plan, Sm90Fields>(SM90_FIELDS, plan))
    case 'sm80':
      return new Sm80DesignMetadata(fieldsOf<Sm80Plan, Sm80Fields>(SM80_FIELDS, plan))
    case 'sm100':
      return new Sm100DesignMetadata(fieldsOf<Sm100Plan, Sm100Fields>(SM100_FIELDS, plan))
  }
}

/** One field of the design metadata of a plan; undefined: its class has no such field. */
export function designField(plan: Plan, name: string): unknown {
  if (name === 'kind') return plan.kind
  switch (plan.kind) {
    case 'simt':
      return designOf(plan)[name as keyof DesignMetadata]
    case 'sm90':
      return Object.hasOwn(SM90_FIELDS, name) ? SM90_FIELDS[name as keyof Sm90Fields](plan) : undefined
    case 'sm80':
      return Object.hasOwn(SM80_FIELDS, name) ? SM80_FIELDS[name as keyof Sm80Fields](plan) : undefined
    case 'sm100':
      return Object.hasOwn(SM100_FIELDS, name) ? SM100_FIELDS[name as keyof Sm100Fields](plan) : undefined
  }
}

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
