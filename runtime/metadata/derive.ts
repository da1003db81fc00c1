/** Metadata of generated kernels, read off the plan that the code is generated from. */
import type { Plan } from '../../codegen/index.ts'
import { DTYPES, type Accumulator } from '../../compiler/dtypes.ts'
import type { TargetArch } from '../../compiler/instance.ts'
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
    operands: operandsOf(program, operation),
    design: designOf(plan),
    epilogue: epilogueText === null ? null : epilogueOf(program, epilogueText),
  })
}

/** tcgen05 kind::f16 is in the family of sm_100; plain kernels are built for whatever runs them. */
function targetsOf(plan: Plan): readonly TargetArch[] {
  return plan.kind === 'sm100' ? ['sm_100a', 'sm_103a'] : ['sm_80', 'sm_90a', 'sm_100a', 'sm_103a']
}

function designOf(plan: Plan): DesignMetadata {
  if (plan.kind === 'simt') return new SimtDesignMetadata([...plan.design.tile, 1], plan.threads)
  return new Sm100DesignMetadata({
    tileShape: plan.tile,
    clusterShape: plan.design.cluster,
    use2ctaMma: plan.design.use2ctaMma,
    useTmaStore: plan.outputs.every((output) => output.store === 'tma'),
    tileScheduler: plan.design.scheduler,
    stages: plan.stages,
    threads: plan.threads,
    sharedMemBytes: plan.smemBytes,
    tmemColumns: plan.tmemColumns,
  })
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

function operandsOf(program: TensorProgram, operation: OperationSignature | null): OperandsMetadata {
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
