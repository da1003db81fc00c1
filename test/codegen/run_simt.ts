/** Compiles a tensor program for SIMT and runs it on the virtual device, with padded strides and poisoned outputs. */
import { decode, encode, type Codes } from '../../compiler/codec.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import type { TensorOperand, TensorProgram } from '../../compiler/ir/tensor.ts'
import type { ParamRule } from '../../codegen/cuda/generated.ts'
import { generateSimt } from '../../codegen/targets/simt/kernel.ts'
import { planSimt } from '../../compiler/targets/simt/plan.ts'
import { compileToPtx, TestDevice, type Parameter } from '../native/device.ts'

export interface SimtRun {
  /** Decoded outputs in logical order. */
  readonly outputs: Record<string, Float64Array>
  readonly findings: readonly { readonly code: string; readonly message: string }[]
  /** Elements between rows that the kernel must not touch, and did. */
  readonly touchedPadding: number
}

export interface SimtInputs {
  readonly extents: Readonly<Record<string, number>>
  /** Logical order. An axis an operand should broadcast along has stride 0: name it in `broadcast`. */
  readonly tensors: Readonly<Record<string, ArrayLike<number>>>
  readonly scalars?: Readonly<Record<string, number>>
  readonly broadcast?: Readonly<Record<string, readonly string[]>>
  /** Outputs that are the very tensor of an input. */
  readonly inPlace?: Readonly<Record<string, string>>
}

const POISON = 0xcd
const PADDING = 3

interface Buffer {
  readonly address: bigint
  readonly strides: Readonly<Record<string, number>>
  readonly elements: number
}

/** Strides in memory order, every outer one padded. */
function layout(operand: TensorOperand, inputs: SimtInputs): { strides: Record<string, number>; elements: number } {
  const strides: Record<string, number> = {}
  let elements = 1
  for (const [i, axis] of [...operand.order].reverse().entries()) {
    if (inputs.broadcast?.[operand.name]?.includes(axis)) strides[axis] = 0
    else {
      strides[axis] = elements
      elements *= Math.max(1, inputs.extents[axis]!)
      if (i === 0 && operand.order.length > 1) elements += PADDING
    }
  }
  return { strides, elements }
}

/** Memory position of every element in logical order. */
function positions(operand: TensorOperand, strides: Readonly<Record<string, number>>, inputs: SimtInputs): number[] {
  let offsets = [0]
  for (const axis of operand.axes) {
    const steps = Array.from({ length: inputs.extents[axis]! }, (_, i) => i * strides[axis]!)
    offsets = offsets.flatMap((offset) => steps.map((step) => offset + step))
  }
  return offsets
}

export class SimtKernel {
  readonly program: TensorProgram
  readonly #device: TestDevice
  readonly #generated: ReturnType<typeof generateSimt>

  constructor(program: TensorProgram, tile: readonly [number, number] = [16, 16]) {
    const plan = planSimt({ program, target: 'sm_100a', design: { kind: 'simt', tile } })
    if ('code' in plan) throw new Error(plan.reason)
    this.program = program
    this.#generated = generateSimt(plan, `ktl.${program.kernel}`)
    this.#device = new TestDevice(compileToPtx(this.#generated.cuda, 'sm_100a', ['-fmad=false', '-DKTL_DEVICE_ONLY']))
  }

  async run(inputs: SimtInputs): Promise<SimtRun> {
    const buffers = new Map<string, Buffer>()
    for (const operand of this.program.operands) {
      const source = inputs.inPlace?.[operand.name]
      const { strides, elements } = layout(operand, inputs)
      buffers.set(
        operand.name,
        source ? buffers.get(source)! : { ...this.#upload(operand, elements, strides, inputs), strides, elements },
      )
    }
    const recipe = this.#generated.recipe
    if (recipe.grid.kind !== 'elements') throw new Error('SIMT kernels have a grid of elements')
    const counts = recipe.grid.outputs.map(
      (name) => positions(this.#operand(name), buffers.get(name)!.strides, inputs).length,
    )
    const ctas = Math.min(3, Math.ceil(Math.max(...counts) / recipe.grid.perCta))
    const params = recipe.params.map((rule) => this.#param(rule, buffers, inputs))
    const { findings } = await this.#device.run(recipe.entry, params, {
      grid: [ctas, 1, 1],
      block: [recipe.threads, 1, 1],
    })
    const outputs: Record<string, Float64Array> = {}
    let touchedPadding = 0
    for (const { operand: name } of this.program.outputs) {
      const operand = this.#operand(name)
      const { address, strides, elements } = buffers.get(name)!
      const codes = this.#read(operand, address, elements)
      const where = positions(operand, strides, inputs)
      const values = decode(operand.dtype, codes)
      outputs[name] = Float64Array.from(where, (position) => values[position]!)
      const owned = new Set(where)
      const bytes = new Uint8Array(codes.buffer)
      const size = DTYPES[operand.dtype].storageBytes
      for (let i = 0; i < bytes.length; i++)
        if (!owned.has(Math.floor(i / size)) && bytes[i] !== POISON) touchedPadding++
    }
    return { outputs, findings, touchedPadding }
  }

  #operand(name: string): TensorOperand {
    return this.program.operands.find((o) => o.name === name)!
  }

  #upload(
    operand: TensorOperand,
    elements: number,
    strides: Readonly<Record<string, number>>,
    inputs: SimtInputs,
  ): { address: bigint } {
    const size = DTYPES[operand.dtype].storageBytes
    const bytes = new Uint8Array(elements * size).fill(POISON)
    const values = inputs.tensors[operand.name]
    if (values) {
      const codes = encode(operand.dtype, values)
      const stored = new Uint8Array(codes.buffer)
      for (const [i, position] of positions(operand, strides, inputs).entries())
        bytes.set(stored.subarray(i * size, (i + 1) * size), position * size)
    }
    return { address: this.#device.upload(bytes) }
  }

  #read(operand: TensorOperand, address: bigint, elements: number): Codes {
    const size = DTYPES[operand.dtype].storageBytes
    const type = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array }[size as 1 | 2 | 4 | 8]
    return this.#device.read(address, elements, type as typeof Uint32Array)
  }

  #param(rule: ParamRule, buffers: ReadonlyMap<string, Buffer>, inputs: SimtInputs): Parameter {
    if (rule.kind === 'pointer') {
      const known = buffers.get(rule.operand)
      if (known) return known.address
      const { dtype } = this.program.scalars.find((s) => s.name === rule.operand)!
      return this.#device.upload(encode(dtype, [inputs.scalars![rule.operand]!]))
    }
    if (rule.kind === 'stride') return BigInt(buffers.get(rule.operand)!.strides[rule.axis]!)
    if (rule.kind === 'extent') return inputs.extents[rule.axis]!
    if (rule.kind === 'scalar') return new Uint8Array(encode(rule.type, [inputs.scalars![rule.name]!]).buffer)
    throw new Error(`SIMT kernels have no ${rule.kind}`)
  }
}
