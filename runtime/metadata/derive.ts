/** Metadata of generated kernels, read off the plan that the code is generated from. */
import type { Plan } from '../../codegen/index.ts'
import { DTYPES, type Accumulator } from '../../compiler/dtypes.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import type { Sm100Plan } from '../../compiler/sm100/plan.ts'
import type { TensorOperand, TensorProgram } from '../../compiler/tensor_ir.ts'
import { topological } from '../../compiler/walk.ts'
import type { OperationSignature } from '../discovery/signature.ts'
import { Sm100DesignMetadata, SimtDesignMetadata, type DesignMetadata } from './design.ts'
import { EpilogueMetadata, KernelMetadata } from './kernel.ts'
import { GemmOperandsMetadata, OperandsMetadata, TensorAttributes } from './operands.ts'

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
    minCc: plan.kind === 'sm100' ? 100 : 80,
    targets,
    operands: operandsMetadataOf(program, operation),
    design: designOf(plan),
    epilogue: epilogueText === null ? null : epilogueOf(program, epilogueText),
  })
}

/** kind::i8 exists on sm_100a alone; plain kernels are built for whatever runs them. */
function targetsOf(plan: Plan): readonly TargetArch[] {
  if (plan.kind === 'simt') return ['sm_80', 'sm_90a', 'sm_100a', 'sm_103a']
  return plan.mma === 'i8' ? ['sm_100a'] : ['sm_100a', 'sm_103a']
}

type Sm100Fields = ConstructorParameters<typeof Sm100DesignMetadata>[0]

/** Fields of the design metadata, each read off the plan: filters look at them one by one, without making the rest. */
export const SM100_FIELDS: { readonly [K in keyof Sm100Fields]: (plan: Sm100Plan) => Sm100Fields[K] } = {
  tileShape: (plan) => plan.tile,
  clusterShape: (plan) => plan.design.cluster,
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

function designOf(plan: Plan): DesignMetadata {
  if (plan.kind === 'simt') return new SimtDesignMetadata([...plan.design.tile, 1], plan.threads)
  const fields = Object.entries(SM100_FIELDS).map(([name, read]) => [name, read(plan)] as const)
  return new Sm100DesignMetadata(Object.fromEntries(fields) as unknown as Sm100Fields)
}

/** One field of the design metadata of a plan; undefined: its class has no such field. */
export function designField(plan: Plan, name: string): unknown {
  if (name === 'kind') return plan.kind
  if (plan.kind === 'simt') return designOf(plan)[name as keyof DesignMetadata]
  return Object.hasOwn(SM100_FIELDS, name) ? SM100_FIELDS[name as keyof Sm100Fields](plan) : undefined
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

export function operandsMetadataOf(program: TensorProgram, operation: OperationSignature | null): OperandsMetadata {
  const attributes: Record<string, TensorAttributes> = {}
  for (const operand of program.operands) if (!operand.fromEpilogue) attributes[operand.name] = attributesOf(operand)
  const accumulatorType = accumulatorOf(program)
  if (operation?.operation !== 'gemm' || accumulatorType === null)
    return new OperandsMetadata(attributes, accumulatorType)
  const { A, B, out } = operation
  return new GemmOperandsMetadata({ A: attributes[A]!, B: attributes[B]!, out: attributes[out]!, accumulatorType })
}

function accumulatorOf(program: TensorProgram): Accumulator | null {
  for (const node of topological(program.outputs.map((output) => output.value))) {
    if (node.kind === 'contract') return node.accumulator
  }
  return null
}

function epilogueOf(program: TensorProgram, text: string): EpilogueMetadata {
  const operands = program.operands.filter((operand) => operand.fromEpilogue)
  return new EpilogueMetadata({
    text,
    tensors: Object.fromEntries(operands.map((operand) => [operand.name, attributesOf(operand)])),
    outputs: operands.filter((operand) => operand.role === 'output').map((operand) => operand.name),
    scalars: program.scalars.filter((scalar) => scalar.fromEpilogue).map((scalar) => scalar.name),
  })
}
