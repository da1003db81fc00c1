/** A kernel of the language in its SIMT form on a device, with tensors for one problem. */
import { bindKernel } from '../../../compiler/bind.ts'
import { allExtents } from '../../../compiler/evaluate/evaluate.ts'
import { extentIn, type EvaluationInputs } from '../../../compiler/evaluate/inputs.ts'
import type { TargetArch } from '../../../compiler/instance.ts'
import type { TensorOperand, TensorProgram } from '../../../compiler/ir/tensor.ts'
import { planSimt } from '../../../compiler/targets/simt/plan.ts'
import type { GeneratedKernel } from '../../../codegen/cuda/generated.ts'
import { generateSimt } from '../../../codegen/targets/simt/kernel.ts'
import { loadSource, type Device, type DeviceModule, type Tensor } from '../../../runtime/index.ts'
import { planLaunches, workspaceBytes } from '../../../runtime/kernels/plan_launch.ts'
import type { Extents } from './form.ts'

export interface FormKernel {
  readonly program: TensorProgram
  readonly generated: GeneratedKernel
  readonly module: DeviceModule
}

/** The only kernel of a `.ktl` text. */
export function programOf(source: string): TensorProgram {
  const { kernels } = loadSource({ name: 'form.ktl', text: source })
  return bindKernel(Object.values(kernels)[0]!.family)
}

/** `edit`: breaks the CUDA text, for checks of checks. */
export async function compileForm(
  device: Device,
  source: string,
  edit = (cuda: string): string => cuda,
): Promise<FormKernel> {
  const program = programOf(source)
  const plan = planSimt({ program, target: device.arch as TargetArch, design: { kind: 'simt', tile: [16, 16] } })
  const generated = generateSimt(plan, `ktl.${program.kernel}`)
  const flags = ['-fmad=false', '-DKTL_DEVICE_ONLY']
  return {
    program,
    generated,
    module: await device.compileCuda(edit(generated.cuda), { flags, name: `${program.kernel}.cu` }),
  }
}

/** Extents of all axes, and the shape of each operand. */
export function shapesOf(program: TensorProgram, given: Extents, scalars: EvaluationInputs['scalars']) {
  const extents = allExtents(program, { tensors: {}, scalars, extents: given })
  const shapeOf = (operand: TensorOperand): number[] =>
    operand.axes.map((_, i) => extentIn(operand, i, program, extents))
  return { extents, shapes: new Map(program.operands.map((operand) => [operand.name, shapeOf(operand)])) }
}

export interface Subject {
  /** Enqueues all launches of the kernel. */
  readonly launch: () => void
  /** The same, with what a virtual device found. */
  readonly run: () => Promise<string[]>
  readonly free: () => void
}

export function bindForm(
  { program, generated, module }: FormKernel,
  device: Device,
  { tensors, extents, scalars }: { readonly tensors: Readonly<Record<string, Tensor>> } & Omit<EvaluationInputs, 'tensors'>,
): Subject {
  const operands = Object.fromEntries(
    program.operands.map(({ name, axes }) => [name, { tensor: tensors[name]!, axes }]),
  )
  const defaults = Object.fromEntries(program.scalars.map(({ name, defaultValue }) => [name, defaultValue ?? 0]))
  const bindings = { operands, extents, scalars: { ...defaults, ...scalars } }
  const bytes = workspaceBytes(generated.recipe, bindings)
  const workspace = device.malloc(Math.max(bytes, 256))
  const launches = planLaunches(generated.recipe, { ...bindings, workspace }, device).map((planned) => {
    const { entry, grid, block, sharedMemBytes, params } = planned
    return { kernel: module.function(entry), options: { grid, block, sharedMemBytes, params } }
  })
  return {
    launch: () => launches.forEach(({ kernel, options }) => kernel.enqueue(options)),
    run: async () => {
      const findings: string[] = []
      for (const { kernel, options } of launches)
        findings.push(...(await kernel.launch(options)).findings.map(({ code }) => code))
      await device.synchronize()
      return findings
    },
    free: () => device.free(workspace),
  }
} // prettier-ignore
