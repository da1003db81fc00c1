/** Compiles a tensor program for SIMT and runs it on the virtual device, with padded strides and poisoned outputs. */
import { decode, encode, type Codes } from '../../compiler/codec.ts'
import { DTYPES, rowUnit } from '../../compiler/dtypes.ts'
import type { TensorOperand, TensorProgram } from '../../compiler/ir/tensor.ts'
import type { GeneratedKernel } from '../../codegen/cuda/generated.ts'
import { generateSimt } from '../../codegen/targets/simt/kernel.ts'
import type { SimtDesign } from '../../compiler/targets/simt/design.ts'
import { planSimt, type SimtPlan } from '../../compiler/targets/simt/plan.ts'
import {
  planLaunches,
  workspaceBytes,
  zeroedBytes,
  type BoundOperand,
  type LaunchBindings,
} from '../../runtime/kernels/plan_launch.ts'
import { compileToPtx, GENERATED, TestDevice } from '../native/device.ts'

export interface SimtRun {
  /** Decoded outputs in logical order. */
  readonly outputs: Record<string, Float64Array>
  /** Bytes of outputs that the kernel must not touch, and did. */
  readonly touchedPadding: number
  readonly findings: readonly { readonly code: string; readonly message: string; readonly count: number }[]
  readonly launches: number
}

export interface SimtInputs {
  readonly extents: Readonly<Record<string, number>>
  /** Logical order. An axis an operand should broadcast along has stride 0: name it in `broadcast`. */
  readonly tensors: Readonly<Record<string, ArrayLike<number>>>
  /** Bit patterns, in place of values. */
  readonly codes?: Readonly<Record<string, Codes>>
  readonly scalars?: Readonly<Record<string, number>>
  readonly broadcast?: Readonly<Record<string, readonly string[]>>
  /** Elements before the first one of an input: it need not be aligned. */
  readonly lead?: Readonly<Record<string, number>>
  /** Elements behind each row. */
  readonly padding?: number
  /** Outputs that are the very tensor of an input. */
  readonly inPlace?: Readonly<Record<string, string>>
}

export interface SimtOptions {
  readonly target?: 'sm_90a' | 'sm_100a'
  readonly tile?: readonly [number, number]
  readonly patch?: SimtDesign['patch']
  readonly vector?: SimtDesign['vector']
  /** Edits the CUDA text: mutations that a comparison has to see. */
  readonly edit?: (cuda: string) => string
}

export type Order = 'lazy' | 'eager' | 'random'

/** What outputs hold before, and what lies between rows: the same in elements of 4 and of 6 bits wherever they lie in their bytes. */
export const POISON = 0xaa
const PADDING = 4

interface Buffer extends BoundOperand {
  readonly address: bigint
  readonly bytes: number
}

/** Extents of an operand's axes: those of scales in blocks; blocks along a packed axis begin with its groups. */
export function shapeOf(program: TensorProgram, operand: TensorOperand, inputs: SimtInputs): number[] {
  return operand.axes.map((axis, i) => {
    const per = operand.blocks?.[i] ?? 1
    const ragged = program.axes.find(({ name }) => name === axis)!.ragged
    const groups = per > 1 && ragged?.form === 'packed' ? inputs.extents[ragged.group]! : 0
    return inputs.broadcast?.[operand.name]?.includes(axis) ? 1 : Math.ceil(inputs.extents[axis]! / per) + groups
  })
}

export class SimtKernel {
  readonly program: TensorProgram
  readonly plan: SimtPlan
  readonly generated: GeneratedKernel
  readonly #device: TestDevice

  constructor(program: TensorProgram, { target = 'sm_100a', tile = [16, 16], patch, vector, edit }: SimtOptions = {}) {
    const design = { kind: 'simt', tile, ...(patch && { patch }), ...(vector && { vector }) } as const
    const plan = planSimt({ program, target, design })
    this.program = program
    this.plan = plan
    this.generated = generateSimt(plan, `ktl.${program.kernel}`)
    const cuda = edit?.(this.generated.cuda) ?? this.generated.cuda
    if (edit && cuda === this.generated.cuda) throw new Error('the edit changes nothing')
    this.#device = new TestDevice(compileToPtx(cuda, target, GENERATED), target)
  }

  async run(inputs: SimtInputs, order: Order = 'lazy'): Promise<SimtRun> {
    const buffers = new Map<string, Buffer>()
    for (const operand of this.program.operands) {
      const source = inputs.inPlace?.[operand.name]
      buffers.set(operand.name, source ? buffers.get(source)! : this.#upload(operand, inputs))
    }
    const scalars = { ...inputs.scalars }
    const operands: Record<string, BoundOperand> = Object.fromEntries(buffers)
    for (const { name, dtype, pointer } of this.program.scalars) {
      if (!pointer) continue
      const address = this.#device.upload(encode(dtype, [scalars[name]!]))
      operands[name] = { tensor: { pointer: address, dtype, shape: [], strides: [] }, axes: [] }
    }
    const { recipe } = this.generated
    const bindings: LaunchBindings = { operands, extents: inputs.extents, scalars }
    const scratch = workspaceBytes(recipe, bindings)
    // Poisoned: no stage may read what none has written. Exactly as long as it has to be.
    const workspace = this.#device.upload(new Uint8Array(scratch).fill(0xff))
    const counts = new Uint8Array(zeroedBytes(recipe, bindings))
    const zeroed = this.#device.upload(counts)
    const plans = planLaunches(recipe, { ...bindings, workspace, zeroed }, { smCount: 2 })
    const findings: SimtRun['findings'][number][] = []
    for (const { entry, grid, block, sharedMemBytes, params } of plans) {
      const ctas = [Math.min(grid[0], 5), 1, 1] as [number, number, number]
      const result = await this.#device.module.launch(entry, {
        grid: ctas, block: [...block], cluster: [1, 1, 1], sharedMemBytes, params, order, seed: 7, checks: 'full',
        instructionBudget: 200_000_000, threads: 2, trace: false,
      }) // prettier-ignore
      findings.push(...result.findings.map(({ code, message, count }) => ({ code, message, count: Number(count) })))
    }
    if (this.#device.read(zeroed, counts.length, Uint8Array).some((byte) => byte !== 0))
      findings.push({ code: 'counts', message: 'not zeros any more', count: 1 })
    const outputs: Record<string, Float64Array> = {}
    let touchedPadding = 0
    for (const operand of this.program.operands.filter(({ role }) => role === 'output')) {
      const buffer = buffers.get(operand.name)!
      const stored = this.#device.read(buffer.address, buffer.bytes, Uint8Array)
      const where = positions(buffer)
      const { bits } = DTYPES[operand.dtype]
      outputs[operand.name] = Float64Array.from(decode(operand.dtype, codesAt(stored, where, bits)))
      const owned = new Set(where.flatMap((p) => bytesOf(p, bits)))
      for (const [i, byte] of stored.entries()) if (!owned.has(i) && byte !== POISON) touchedPadding++
    }
    return { outputs, findings, touchedPadding, launches: plans.length }
  }

  #upload(operand: TensorOperand, inputs: SimtInputs): Buffer {
    const shape = shapeOf(this.program, operand, inputs)
    const unit = rowUnit(operand.dtype)
    const strides = new Array<number>(shape.length)
    let elements = 1
    // In memory order, every outer stride padded.
    for (const [i, axis] of [...operand.order].reverse().entries()) {
      const dimension = operand.axes.indexOf(axis)
      strides[dimension] = elements
      elements *= Math.max(1, shape[dimension]!)
      if (i === 0 && operand.order.length > 1)
        elements = Math.ceil(elements / unit) * unit + (inputs.padding ?? PADDING)
    }
    const { dtype, name, axes } = operand
    const { bits } = DTYPES[dtype]
    const bytes = new Uint8Array(Math.ceil((elements * bits) / 8)).fill(POISON)
    const layout = { tensor: { pointer: 0n, dtype, shape, strides }, axes }
    const values = inputs.tensors[name]
    const codes = inputs.codes?.[name] ?? (values && encode(dtype, values))
    if (codes) {
      for (const [i, position] of positions(layout).entries()) putCode(bytes, position, codes[i]!, bits)
    }
    const lead = ((inputs.lead?.[name] ?? 0) * bits) / 8
    const address = this.#device.upload(new Uint8Array([...new Uint8Array(lead).fill(POISON), ...bytes])) + BigInt(lead)
    return { tensor: { ...layout.tensor, pointer: address }, axes, address, bytes: bytes.length }
  }
}

/** Memory position of every element in logical order. */
function positions({ tensor: { shape, strides } }: BoundOperand): number[] {
  let offsets = [0]
  for (const [d, extent] of shape.entries()) {
    const steps = Array.from({ length: extent }, (_, i) => i * strides[d]!)
    offsets = offsets.flatMap((offset) => steps.map((step) => offset + step))
  }
  return offsets
}

function bytesOf(position: number, bits: number): number[] {
  const [first, last] = [Math.floor((position * bits) / 8), Math.floor(((position + 1) * bits - 1) / 8)]
  return Array.from({ length: last - first + 1 }, (_, i) => first + i)
}

function putCode(bytes: Uint8Array, position: number, code: number | bigint, bits: number): void {
  for (let b = 0; b < bits; b++) {
    const [byte, bit] = [(position * bits + b) >> 3, (position * bits + b) & 7]
    const set = Number((BigInt(code) >> BigInt(b)) & 1n)
    bytes[byte] = (bytes[byte]! & ~(1 << bit)) | (set << bit)
  }
}

function codesAt(bytes: Uint8Array, where: readonly number[], bits: number): Codes {
  const codes = where.map((position) => {
    let code = 0n
    for (let b = 0; b < bits; b++) {
      const at = position * bits + b
      code |= BigInt((bytes[at >> 3]! >> (at & 7)) & 1) << BigInt(b)
    }
    return code
  })
  if (bits === 64) return BigUint64Array.from(codes)
  const numbers = codes.map(Number)
  return bits > 16 ? Uint32Array.from(numbers) : bits > 8 ? Uint16Array.from(numbers) : Uint8Array.from(numbers)
}
