/** ktl's side of a problem: operands and arguments. */
import { EpilogueArguments } from '../../arguments/epilogue.ts'
import { GemmArguments } from '../../arguments/gemm.ts'
import type { RuntimeArguments } from '../../arguments/base.ts'
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import type { Device, Tensor } from '../../devices/device.ts'
import { seedOf } from '../../selftest/values.ts'
import { tensorAt } from '../../tensors/create.ts'
import { denseStrides } from '../../tensors/layout.ts'
import { fillNormal, poison } from '../fill.ts'
import type { Problem } from './problem.ts'

/** Makes a tensor; inputs are those of the name and seed, or whole numbers as given. */
export type Allocate = (
  dtype: DTypeName,
  shape: readonly number[],
  strides: readonly number[],
  input: string | Int32Array | null,
) => Promise<Tensor>

export interface Opened {
  readonly args: RuntimeArguments
  readonly out: Tensor
  /** Our own kernel without the epilogue, for fused problems; gated: of the two products side by side. */
  readonly plain: RuntimeArguments | null
  /** Of an output that is stored with scales: its values, which are compared in its stead. */
  decoded?(): Promise<Tensor>
  close(): void
}

/** Filled on the device. */
export function onDevice(device: Device, seed: number): Allocate {
  return async (dtype, shape, strides, input) => {
    const tensor = device.empty(dtype, shape, { strides })
    if (input === null) await poison(tensor)
    else if (typeof input !== 'string') await device.write(tensor.pointer, new Uint8Array(input.buffer))
    else await fillNormal(tensor, seedOf(seed, input))
    return tensor
  }
}

/** Addresses without memory behind them: for choosing and compiling kernels, never for running them. */
export function onPaper(device: Device): Allocate {
  let next = 1n << 30n
  return async (dtype, shape, strides) => {
    const tensor = tensorAt(device, next, dtype, shape, strides)
    next += (BigInt(tensor.byteLength) | 0xfffffn) + 1n
    return tensor
  }
}

/** Tensors of a problem, freed together. */
export class Tensors {
  readonly #allocate: Allocate
  readonly #made: Tensor[] = []

  constructor(allocate: Allocate) {
    this.#allocate = allocate
  }

  async make(dtype: DTypeName, extents: readonly number[], input: string | Int32Array | null): Promise<Tensor> {
    const tensor = await this.#allocate(dtype, extents, denseStrides(extents), input)
    this.#made.push(tensor)
    return tensor
  }

  /** [..., rows, columns], in memory the other way round where `transposed`. */
  async matrix(dtype: DTypeName, lead: readonly number[], [rows, columns]: readonly [number, number], transposed: boolean, input: string): Promise<Tensor> {
    if (!transposed) return this.make(dtype, [...lead, rows, columns], input)
    const stored = await this.make(dtype, [...lead, columns, rows], input)
    return stored.permute(lead.length === 0 ? [1, 0] : [0, 2, 1])
  } // prettier-ignore

  close(): void {
    for (const tensor of this.#made.splice(0)) tensor.free()
  }
}

/** A product, with an epilogue or without one. What has been made is freed when it throws: memory may be too small. */
export async function openProduct(problem: Problem, allocate: Allocate): Promise<Opened> {
  const tensors = new Tensors(allocate)
  try {
    return await productOf(problem, tensors)
  } catch (error) {
    tensors.close()
    throw error
  }
}

async function productOf(problem: Problem, tensors: Tensors): Promise<Opened> {
  const { shape, fusion, a, b, out: outType, orderA = 'mk', orderB, exact } = problem
  const { m, n, k, l } = shape
  const batch = l === undefined ? [] : [l]
  const A = await tensors.matrix(a, batch, [m, k], orderA === 'km', 'A')
  const B = await tensors.matrix(b, batch, [k, n], orderB === 'nk', 'B')
  const allowTf32 = a === 'f32' && !exact
  const result = (): Promise<Tensor> => tensors.make(outType, [...batch, m, n], null)
  const close = (): void => tensors.close()
  const out = await result()
  if (fusion === null) return { args: new GemmArguments({ A, B, out, allowTf32 }), out, plain: null, close }
  const bindings: Record<string, Tensor | number> = { ...fusion.scalars }
  for (const [name, axes] of Object.entries(fusion.operands))
    bindings[name] = await tensors.make(outType, axes === 'n' ? [n] : [...batch, m, n], name)
  const epilogue = new EpilogueArguments(fusion.text!, bindings)
  const args = new GemmArguments({ A, B, out, allowTf32, epilogue })
  // One output for both: they are timed, and only the fused one is looked at.
  return { args, out, plain: new GemmArguments({ A, B, out, allowTf32 }), close }
}
