/**
 * Weights of four bits as checkpoints have them, eight in a 32-bit word, lowest bits first, and as ktl has them: `u4` with zero points
 * and scales for groups of inputs. Layouts: AutoAWQ (`gemm`), AutoGPTQ and GPTQModel, compressed-tensors (`pack-quantized`).
 */
import { ScaledOperand } from '../arguments/scaled_operand.ts'
import type { Device, Tensor } from '../devices/device.ts'
import { describe } from '../errors/describe.ts'
import { textOf } from '../errors/given.ts'
import { formatShape } from '../tensors/layout.ts'
import type { Safetensors } from './safetensors.ts'
import { malformed, type StoredArray } from './stored.ts'

/** Which layout a checkpoint has: `quant_method` of its configuration; for GPTQ also `checkpoint_format`. */
export type Int4Format = 'awq' | 'gptq' | 'gptq_v2' | 'compressed-tensors'

/** Column of the j-th element of a word: what AWQ's fragments of two need. */
const AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7] as const
const IN_ORDER = [0, 1, 2, 3, 4, 5, 6, 7] as const
const PER_WORD = 8

/**
 * The weights called `name` (`model.layers.0.mlp.up_proj`) on the device: [K, N] for AWQ and GPTQ, [N, K] for compressed-tensors, what
 * `A: (u4[k, n] - u4[k/128, n]) * f16[k/128, n]` and `i4[n, k] * bf16[n, k/128]` take; with zero points compressed-tensors are u4 too.
 * GPTQ stores zero points less 1, version 2 as they are. KTL6070 for tensors that are missing, do not fit each other, or lie
 * in an order of activations (`g_idx`).
 *
 * @example
 * const word = { data: Int32Array.of(0x76543210), shape: [1, 1] }
 * const file = readSafetensors(writeSafetensors({
 *   'w.weight_packed': word, 'w.weight_scale': { data: Float32Array.of(2), shape: [1, 1] },
 * }))
 * const w = readInt4(device, file, 'w', 'compressed-tensors')
 * console.log(w.dtype, w.mode, (await (await dequantize(w)).toArray())[7]) // i4 [ 1, 8 ] -2
 */
export function readInt4(device: Device, file: Safetensors, name: string, format: Int4Format): ScaledOperand {
  textOf('name', name)
  const part = (suffix: string): StoredArray => {
    const array = file?.tensors?.get(`${name}.${suffix}`)
    if (array === undefined) throw malformed(`the weights ${JSON.stringify(name)}`, `there is no ${suffix}`)
    return array
  }
  if (format === 'compressed-tensors')
    return compressedTensors(device, name, part, {
      shape: file.tensors.get(`${name}.weight_shape`),
      zero: file.tensors.get(`${name}.weight_zero_point`),
      index: file.tensors.get(`${name}.weight_g_idx`),
    })
  if (format !== 'awq' && format !== 'gptq' && format !== 'gptq_v2')
    throw malformed(
      `the weights ${JSON.stringify(name)}`,
      `${describe(format)} is no format: awq, gptq, gptq_v2, compressed-tensors`,
    )
  const [qweight, qzeros, scales] = [words(part('qweight'), name), words(part('qzeros'), name), part('scales')]
  const order = format === 'awq' ? AWQ_ORDER : IN_ORDER
  const alongN = format === 'awq'
  const [rows, columns] = qweight.shape as [number, number]
  const [k, n] = alongN ? [rows, columns * PER_WORD] : [rows * PER_WORD, columns]
  const groups = scales.shape[0] ?? 0
  const fits =
    scales.shape.join() === `${groups},${n}` &&
    qzeros.shape.join() === `${groups},${n / PER_WORD}` &&
    groups > 0 &&
    k % groups === 0
  if (!fits)
    throw malformed(
      `the weights ${JSON.stringify(name)}`,
      `qweight ${formatShape(qweight.shape)}, qzeros ${formatShape(qzeros.shape)} and scales ${formatShape(scales.shape)} do not fit`,
    )
  const group = k / groups
  if (format !== 'awq') checkOrder(file.tensors.get(`${name}.g_idx`), group, name)
  const zeros = alongColumns(qzeros, order)
  // Version 1 adds 1 as it decodes; 15 + 1 does not fit u4, and no quantiser makes it.
  if (format === 'gptq')
    for (const [i, zero] of zeros.entries()) {
      if (zero === 15)
        throw malformed(`the weights ${JSON.stringify(name)}`, 'a zero point of 16 does not fit: is it gptq_v2?')
      zeros[i] = zero + 1
    }
  const data = alongN ? alongColumns(qweight, order) : alongRows(qweight)
  return new ScaledOperand(device.tensor('u4', [k, n], data), scaleTensor(device, scales), {
    mode: [group, 1],
    zero: device.tensor('u4', [groups, n], zeros),
  })
}

/**
 * Stored with 8 added, zero points too, which are packed along the rows: u4 less u4 is the same. Without `weight_shape` rows fill their
 * words.
 */
function compressedTensors(
  device: Device,
  name: string,
  part: (suffix: string) => StoredArray,
  { shape, zero, index }: Readonly<Record<'shape' | 'zero' | 'index', StoredArray | undefined>>,
): ScaledOperand {
  const [packed, scale] = [words(part('weight_packed'), name), part('weight_scale')]
  const [n, k] = (shape ? Array.from(shape.data) : [packed.shape[0], packed.shape[1]! * PER_WORD]) as [number, number]
  const groups = scale.shape[1] ?? 0
  const fits =
    packed.shape.join() === `${n},${Math.ceil(k / PER_WORD)}` &&
    scale.shape.join() === `${n},${groups}` &&
    groups > 0 &&
    k % groups === 0
  if (!fits)
    throw malformed(
      `the weights ${JSON.stringify(name)}`,
      `weight_packed ${formatShape(packed.shape)}, weight_scale ${formatShape(scale.shape)} and shape [${n}, ${k}] do not fit`,
    )
  checkOrder(index, k / groups, name)
  const all = alongColumns(packed, IN_ORDER)
  const width = packed.shape[1]! * PER_WORD
  const nibbles = Uint8Array.from({ length: n * k }, (_, i) => all[Math.floor(i / k) * width + (i % k)]!)
  const mode = [1, k / groups] as const
  if (!zero) {
    const data = Int8Array.from(nibbles, (x) => x - 8)
    return new ScaledOperand(device.tensor('i4', [n, k], data), scaleTensor(device, scale), { mode })
  }
  const zeros = words(zero, name)
  if (zeros.shape.join() !== `${Math.ceil(n / PER_WORD)},${groups}`)
    throw malformed(
      `the weights ${JSON.stringify(name)}`,
      `weight_zero_point ${formatShape(zeros.shape)} does not fit weight_scale ${formatShape(scale.shape)}`,
    )
  return new ScaledOperand(device.tensor('u4', [n, k], nibbles), scaleTensor(device, scale), {
    mode,
    zero: device.tensor('u4', [n, groups], alongRows(zeros).slice(0, n * groups)),
  })
}

interface Words {
  readonly shape: readonly number[]
  readonly data: ArrayLike<number>
}

function words({ dtype, shape, data }: StoredArray, name: string): Words {
  if ((dtype === 'i32' || dtype === 'u32') && shape.length === 2) return { shape, data }
  throw malformed(
    `the weights ${JSON.stringify(name)}`,
    `words are a matrix of i32, got ${dtype} ${formatShape(shape)}`,
  )
}

const nibble = (word: number, j: number): number => (word >>> (4 * j)) & 15

/** [rows, columns / 8] → [rows, columns]. */
function alongColumns({ shape, data }: Words, order: readonly number[]): Uint8Array {
  const values = new Uint8Array(shape[0]! * shape[1]! * PER_WORD)
  for (let i = 0; i < data.length; i++)
    for (let j = 0; j < PER_WORD; j++) values[i * PER_WORD + order[j]!] = nibble(data[i]!, j)
  return values
}

/** [rows / 8, columns] → [rows, columns]. */
function alongRows({ shape, data }: Words): Uint8Array {
  const columns = shape[1]!
  const values = new Uint8Array(data.length * PER_WORD)
  for (let i = 0; i < data.length; i++)
    for (let j = 0; j < PER_WORD; j++)
      values[(Math.floor(i / columns) * PER_WORD + j) * columns + (i % columns)] = nibble(data[i]!, j)
  return values
}

/** Groups of neighbours: an order of activations would need the rows of the other operand gathered. */
function checkOrder(index: StoredArray | undefined, group: number, name: string): void {
  if (
    index === undefined ||
    // compressed-tensors: there is no order.
    Array.prototype.every.call(index.data, (g: number) => g === -1) ||
    Array.prototype.every.call(index.data, (g: number, i: number) => g === Math.floor(i / group))
  )
    return
  throw malformed(`the weights ${JSON.stringify(name)}`, 'g_idx reorders its rows (desc_act), which no form says')
}

const scaleTensor = (device: Device, scale: StoredArray): Tensor =>
  scale.dtype === 'f16' || scale.dtype === 'bf16'
    ? device.tensor(scale.dtype, scale.shape, { bits: scale.data })
    : device.tensor(scale.dtype, scale.shape, scale.data)
