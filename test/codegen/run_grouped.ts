/**
 * Compiles one design of a kernel over groups of rows, and runs it on a virtual device, against the reference evaluator: with rows that
 * are in no group, and what lies between rows, marked, so that a store outside shows.
 */
import { pipelineOf, planInstance, printProgram } from '../../codegen/index.ts'
import { decode, type Codes } from '../../compiler/codec.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { compare } from '../../compiler/evaluate/compare.ts'
import { evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import { extentIn } from '../../compiler/evaluate/inputs.ts'
import type { Binding } from '../../compiler/bind.ts'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import type { Design } from '../../compiler/targets/index.ts'
import { openDevice, type ExecutionOptions, type Tensor } from '../../runtime/index.ts'
import { planLaunch, workspaceBytes, zeroedBytes } from '../../runtime/kernels/plan_launch.ts'
import { bound, verified } from '../compiler/support.ts'
import { GENERATED } from '../native/device.ts'

export interface GroupedCase {
  readonly text: string
  readonly design: Design
  /** Default: that of the design. */
  readonly target?: TargetArch
  readonly extents: Readonly<Record<string, number>>
  /** Of integer operands: offsets, rows. */
  readonly integers: Readonly<Record<string, readonly number[]>>
  readonly binding?: Binding
  readonly smCount?: number
  readonly scalars?: Readonly<Record<string, number>>
  /** Changes the pipeline program. */
  readonly edit?: (program: TileProgram) => TileProgram
  /** Edits the CUDA text. */
  readonly editText?: (cuda: string) => string
  /** Axis and first position of rows in no group, which hold NaN. */
  readonly behind?: readonly [string, number]
  /** Results are what they are. */
  readonly unspecified?: boolean
}

export interface GroupedResult {
  readonly findings: readonly string[]
  /** Where the evaluator disagrees; null: nowhere. */
  readonly wrong: string | null
  /** Bytes between rows that were written. */
  readonly touched: number
}

const POISON = 0xcd

/** Small integers, whose products and sums are exact. */
function values(count: number, { dtype, name }: TensorOperand): number[] {
  let state = name.length * 7919 + name.charCodeAt(0)
  const lowest = dtype === 'u8' || dtype === 'u4' ? 0 : -2
  const isScale = name.endsWith('.scale')
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return isScale ? 2 ** (((state >>> 16) % 3) - 1) : ((state >>> 16) % 5) + lowest
  })
}

/** Every element of an operand in logical order: its positions along the axes. */
function* positionsOf(shape: readonly number[]): Generator<number[]> {
  const count = shape.reduce((a, b) => a * b, 1)
  for (let i = 0; i < count; i++) {
    let rest = i
    const at = [...shape].reverse().map((extent) => {
      const x = rest % extent
      rest = Math.floor(rest / extent)
      return x
    })
    yield at.reverse()
  }
}

const targetOf = (c: GroupedCase): TargetArch => c.target ?? (c.design.kind === 'sm100' ? 'sm_100a' : 'sm_90a')

/** Its pipeline program. */
export function lowerGrouped(c: GroupedCase): TileProgram {
  const plan = planInstance({ program: bound(c.text, c.binding), target: targetOf(c), design: c.design })
  if (!('kind' in plan)) throw new Error(`${plan.code} ${plan.reason}`)
  return verified(pipelineOf(plan)!)
}

export async function runGrouped(c: GroupedCase, schedules: readonly ExecutionOptions[]): Promise<GroupedResult[]> {
  const program = bound(c.text, c.binding)
  const target = targetOf(c)
  const lowered = lowerGrouped(c)
  const kernel = printProgram(c.edit ? c.edit(lowered) : lowered, 'ktl.grouped')
  const device = await openDevice(target === 'sm_90a' ? 'virtual-sm90' : 'virtual-sm100', { smCount: c.smCount ?? 4 })
  try {
    const module = await device.compileCuda(c.editText ? c.editText(kernel.cuda) : kernel.cuda, {
      arch: target,
      flags: GENERATED,
    })
    const made = new Map<string, { tensor: Tensor; data: readonly number[]; shape: number[] }>()
    for (const operand of program.operands) {
      const { name, dtype, role, axes, order, divisibility } = operand
      const shape = axes.map((_, i) => extentIn(operand, i, program, c.extents))
      const strides: number[] = []
      let next = 1
      for (const axis of [...order].reverse()) {
        strides[axes.indexOf(axis)] = next
        next *= Math.max(1, shape[axes.indexOf(axis)]!)
        if (divisibility === 'vector') next = Math.ceil(next / 16) * 16
      }
      const count = shape.reduce((a, b) => a * b, 1)
      const data = c.integers[name] ?? (role === 'input' ? values(count, operand) : untouched(dtype, count))
      const [axis, first] = c.behind ?? ['', 0]
      const at = axes.indexOf(axis)
      const isFloat = !['int', 'bool'].includes(DTYPES[dtype].class)
      const held =
        role === 'input' && at >= 0 && isFloat
          ? [...positionsOf(shape)].map((position, i) => (position[at]! >= first ? NaN : data[i]!))
          : [...data]
      const tensor =
        role === 'input'
          ? device.tensor(dtype, shape, Float64Array.from(held), { strides })
          : device.empty(dtype, shape, { strides })
      made.set(name, { tensor, data: held, shape })
    }
    const operands = Object.fromEntries(
      program.operands.map(({ name, axes }) => [name, { tensor: made.get(name)!.tensor, axes }]),
    )
    const scalars = c.scalars ?? {}
    const bindings = { operands, extents: c.extents, scalars, tileGroup: 2 }
    const scratch = device.empty('u8', [Math.max(1, workspaceBytes(kernel.recipe, bindings))])
    // Never cleared again: launches leave zeros.
    const zeros = device.tensor('u8', [Math.max(1, zeroedBytes(kernel.recipe, bindings))], 0)
    const memory = { workspace: scratch.pointer, zeroed: zeros.pointer }
    const launch = planLaunch(kernel.recipe, { ...bindings, ...memory }, device)
    const tensors = Object.fromEntries([...made].map(([name, { data, shape }]) => [name, { data, shape }]))
    const expected = c.unspecified ? null : evaluateWithBounds(program, { tensors, scalars, extents: c.extents })
    const outputs = program.operands.filter(({ role }) => role === 'output')
    const results: GroupedResult[] = []
    for (const schedule of schedules) {
      for (const { name } of outputs) {
        const { tensor } = made.get(name)!
        await device.write(tensor.pointer, new Uint8Array(spanBytes(tensor)).fill(POISON))
      }
      await device.write(scratch.pointer, new Uint8Array(scratch.byteLength).fill(POISON))
      const uses = [...outputs.map(({ name }) => made.get(name)!.tensor), scratch, zeros]
      const findings = launch
        ? (await module.function(kernel.recipe.entry).launch({ ...launch, ...schedule, uses })).findings
        : []
      const got: Record<string, Float64Array> = {}
      let touched = 0
      for (const { name, dtype } of outputs) {
        const { tensor, shape } = made.get(name)!
        got[name] = Float64Array.from((await tensor.toArray()) as ArrayLike<number>)
        const bytes = new Uint8Array(await device.read(tensor.pointer, spanBytes(tensor)))
        const { storageBytes } = DTYPES[dtype]
        const owned = new Set<number>()
        for (const at of positionsOf(shape)) owned.add(at.reduce((sum, x, d) => sum + x * tensor.strides[d]!, 0))
        bytes.forEach((byte, i) => (touched += +(byte !== POISON && !owned.has(Math.floor(i / storageBytes)))))
      }
      const result = expected && compare(expected, got)
      results.push({
        findings: [...new Set(findings.map((f) => f.code))],
        wrong: !result || result.pass ? null : JSON.stringify(result.worst),
        touched,
      })
    }
    return results
  } finally {
    await device.close()
  }
}

const spanBytes = ({ shape, strides, dtype }: Tensor): number =>
  shape.includes(0)
    ? 0
    : (shape.reduce((end, extent, i) => end + (extent - 1) * strides[i]!, 0) + 1) * DTYPES[dtype].storageBytes

/** What an output holds before. */
function untouched(dtype: TensorOperand['dtype'], count: number): number[] {
  const { storageBytes } = DTYPES[dtype]
  const type = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array }[storageBytes as 1 | 2 | 4 | 8]
  const [value] = decode(dtype, new type(new Uint8Array(storageBytes).fill(POISON).buffer) as Codes)
  return new Array<number>(count).fill(value!)
}
