/** One device test case: tensors as the case describes them, the instance it asks for, a run, and all comparisons. */
import type { KernelFamily } from '../../compiler/family.ts'
import { resolveType } from '../../compiler/family.ts'
import { TARGETS } from '../../compiler/targets/index.ts'
import type { Scope } from '../../compiler/targets/target.ts'
import type { CheckResult } from '../../compiler/evaluate/compare.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { EpilogueArguments } from '../arguments/epilogue.ts'
import { KernelArguments } from '../arguments/kernel.ts'
import type { ScaledOperand } from '../arguments/scaled_operand.ts'
import { storedOperand } from '../arguments/stored.ts'
import type { Device } from '../devices/device.ts'
import { ktlProvider } from '../discovery/providers/provider.ts'
import { getKernels } from '../discovery/query.ts'
import type { Kernel } from '../kernels/kernel.ts'
import { KtlKernel, type KernelRunOptions } from '../kernels/ktl_kernel.ts'
import type { KernelMetadata } from '../metadata/kernel.ts'
import { loadSource } from '../programs/program.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { elementCount } from '../tensors/layout.ts'
import { formatError, verify } from './verify.ts'
import type { CaseAux, CaseOperand, DeviceCase } from './case.ts'
import { GuardedTensor } from './guarded.ts'
import { randomValues, seedOf } from './values.ts'

export interface CaseResult {
  readonly name: string
  readonly pass: boolean
  readonly kernelName: string
  /** One line: the error, or what is wrong. */
  readonly text: string
  readonly check: CheckResult
  /** Bytes beside the tensors' elements that the kernel has changed. */
  readonly changedBytes: number
  /** Further launches whose outputs were not the same bytes. */
  readonly otherBytes: number
  readonly compileMs: number
  readonly runMs: number
}

/** A case with its tensors on a device and the kernel that it asks for. */
export interface PreparedCase {
  readonly case: DeviceCase
  readonly args: KernelArguments
  /** null: the device has no kernel of the design. */
  readonly kernel: KtlKernel | null
  readonly guards: readonly GuardedTensor[]
  /** Those of `guards` that the kernel writes. */
  readonly outputs: readonly GuardedTensor[]
}

export interface CaseOptions extends KernelRunOptions {
  /** Launches, of which all have to give the same bytes. Default: 1. */
  readonly launches?: number
}

const SEED = 7
/** Of designs: with it the table has all kinds of kernels of SM90 (test/cases/device.test.ts). */
const DESIGN_SEED = 1

/** Positions, or blocks of them, which each group of a packed axis has of its own. */
function extentOf({ axes }: KernelFamily, { extents }: DeviceCase, axis: string, block: number): number {
  if (block === 1) return extents[axis]!
  const ragged = axes.find(({ name }) => name === axis)?.ragged
  return Math.ceil(extents[axis]! / block) + (ragged?.form === 'packed' ? extents[ragged.group]! : 0)
}

export async function prepareCase(device: Device, testCase: DeviceCase): Promise<PreparedCase> {
  const family = familyOf(testCase)
  const guards: GuardedTensor[] = []
  const outputs: GuardedTensor[] = []
  const make = async (
    name: string,
    role: 'input' | 'output',
    dtype: DTypeName,
    axes: readonly string[],
    layout: CaseOperand,
    blocks?: readonly number[],
  ): Promise<Tensor> => {
    const shape = axes.map((axis, i) => (axis === '1' ? 1 : extentOf(family, testCase, axis, blocks?.[i] ?? 1)))
    const { order, padding = 0, offset = 0 } = layout
    const guard = new GuardedTensor(device, dtype, shape, {
      padding,
      offset,
      ...(order && { order: order.map((axis) => axes.indexOf(axis)) }),
    })
    guards.push(guard)
    if (role === 'output') outputs.push(guard)
    if (role === 'input')
      await guard.tensor.copyFrom(
        layout.values ?? randomValues(dtype, elementCount(shape), seedOf(SEED, name), testCase.inputs),
      )
    return guard.tensor
  }
  const tensors: Record<string, Tensor> = {}
  for (const { name, role, dtype, axes: declared, partOf, blocks } of family.operands) {
    const layout = testCase.operands[name] ?? {}
    // Parts lack the axes that their operand leaves out.
    const { without } = testCase.operands[partOf ?? name] ?? {}
    const axes = axesOf(declared, testCase, without)
    const ownBlocks = blocks && axes.map((axis) => blocks[declared.indexOf(axis)]!)
    tensors[name] = await make(name, role, resolveType(dtype, testCase.types), axes, layout, ownBlocks)
  }
  const { scalars = {} } = testCase
  const numbers = family.scalars.filter(({ name, partOf }) => partOf === undefined && Object.hasOwn(scalars, name))
  const whole = family.operands.filter(({ partOf }) => partOf === undefined)
  const bindings: Record<string, Tensor | ScaledOperand | number> = Object.fromEntries([
    ...numbers.map(({ name }) => [name, scalars[name]!]),
    ...whole.map((operand) => [
      operand.name,
      operand.stored ? storedOperand(family, operand, tensors, scalars) : tensors[operand.name]!,
    ]),
  ])
  const auxiliary = async (
    role: 'input' | 'output',
    operands: Readonly<Record<string, CaseAux>> = {},
  ): Promise<Record<string, Tensor>> => {
    const made: Record<string, Tensor> = {}
    for (const [name, aux] of Object.entries(operands)) made[name] = await make(name, role, aux.dtype, aux.axes, aux)
    return made
  }
  const { epilogue: text } = testCase
  const epilogue = text
    ? new EpilogueArguments(text.text, {
        ...text.scalars,
        ...(await auxiliary('input', text.tensors)),
        ...(await auxiliary('output', text.outputs)),
      })
    : null
  const args = new KernelArguments({ family }, { ...bindings, epilogue })
  const [designed] = getKernels(args, { limit: 1, metadataFilter: designFilter(testCase) })
  const kernel = designed ?? substitute(testCase, Array.from(getKernels(args)))
  return { case: testCase, args, kernel: kernel instanceof KtlKernel ? kernel : null, guards, outputs }
}

/**
 * Devices of other generations have other designs, the problem is the same: a kernel of their own, of the same tile if there is one, else any on
 * tensor cores if they have one. Which, the name of the case decides, so that the table spreads over their designs.
 */
function substitute({ name, design: { kind, tile } }: DeviceCase, kernels: readonly Kernel[]): Kernel | undefined {
  if (kernels.some(({ metadata }) => metadata.design.kind === kind)) return undefined
  const of = (...scopes: readonly Scope[]): readonly Kernel[] => {
    const kinds: readonly string[] = TARGETS.kinds.filter((one) => scopes.includes(TARGETS.get(one).scope))
    return kernels.filter(({ metadata }) => kinds.includes(metadata.design.kind))
  }
  const sameTile = (list: readonly Kernel[]): readonly Kernel[] =>
    list.filter(({ metadata: { design } }) => tile?.every((extent, i) => extent === design.tileShape[i]))
  const [own, onTensorCores] = [of('own'), of('own', 'fallback')]
  const among = [sameTile(own), own, sameTile(onTensorCores), onTensorCores, kernels].find((list) => list.length > 0)
  return among?.[seedOf(DESIGN_SEED, name) % among.length]
}

function designFilter({ design: { kind, tile } }: DeviceCase): (metadata: KernelMetadata) => boolean {
  return ({ design }) =>
    design.kind === kind && (tile === undefined || (design.tileShape[0] === tile[0] && design.tileShape[1] === tile[1]))
}

function familyOf({ kernel, source }: DeviceCase): KernelFamily {
  const family = source
    ? loadSource({ name: `${kernel}.ktl`, text: source }).kernels[kernel]?.family
    : ktlProvider.spaces.find((space) => space.library && space.family.name === kernel)?.family
  if (!family) throw new Error(`no kernel ${kernel} in ${source ? 'the source of the case' : 'the library'}`)
  return family
}

/** Axes that the case gives an extent and the operand does not leave out. */
function axesOf(axes: readonly string[], { extents }: DeviceCase, without: readonly string[] = []): readonly string[] {
  return axes.filter((axis) => Object.hasOwn(extents, axis) && !without.includes(axis))
}

/**
 * Runs a case whose kernel is there and frees its tensors. Differences are results; what does not compile and findings
 * reject, as from `kernel.run`.
 */
export async function runCase(
  { case: testCase, args, kernel, guards, outputs }: PreparedCase,
  { launches = 1, ...options }: CaseOptions = {},
): Promise<CaseResult> {
  try {
    const { artifact, check, compileMs, runMs } = await verify(kernel!, args, options)
    const again = () => kernel!.run(args, { ...options, artifact })
    const otherBytes = await otherLaunches(outputs, launches - 1, again)
    let changedBytes = 0
    for (const guard of guards) changedBytes += await guard.changedBytes()
    const equal = testCase.inputs !== 'integers' || check.maxError === 0
    const pass = check.pass && equal && changedBytes === 0 && otherBytes === 0
    const parts = [describe(check, changedBytes)]
    if (launches > 1)
      parts.push(
        otherBytes === 0
          ? `${launches} launches alike`
          : `${otherBytes} of ${launches} launches gave other bytes than the first`,
      )
    return {
      name: testCase.name,
      pass,
      kernelName: kernel!.metadata.kernelName,
      text: parts.join('; '),
      check,
      changedBytes,
      otherBytes,
      compileMs,
      runMs,
    }
  } finally {
    guards.forEach((guard) => guard.free())
  }
}

/** How many of `count` launches, each into memory as it was at first, leave other bytes than those that are there. */
async function otherLaunches(
  outputs: readonly GuardedTensor[],
  count: number,
  launch: () => Promise<unknown>,
): Promise<number> {
  const images = (): Promise<Uint8Array[]> => Promise.all(outputs.map((output) => output.image()))
  const first = count > 0 ? await images() : []
  let others = 0
  for (let i = 0; i < count; i++) {
    for (const output of outputs) await output.reset()
    await launch()
    const bytes = await images()
    if (!bytes.every((image, j) => Buffer.compare(image, first[j]!) === 0)) others++
  }
  return others
}

function describe({ maxError, worst, failures, compared }: CheckResult, changedBytes: number): string {
  const parts = [`max error ${formatError(maxError)}`]
  if (failures > 0 && worst)
    parts.push(`${worst.output}[${worst.index.join(', ')}]: expected ${worst.expected}, got ${worst.actual}`)
  if (failures > 0) parts.push(`${failures} of ${compared} elements out of bounds`)
  if (changedBytes > 0) parts.push(`${changedBytes} bytes beside the tensors changed`)
  return parts.join('; ')
}
