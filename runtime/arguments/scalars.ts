/** Scalars of a kernel: numbers, or floats that lie on the device, where the kernel reads them. */
import { decodeOne } from '../../compiler/codec.ts'
import { resolveType, type KernelFamily } from '../../compiler/family.ts'
import { mayLieOnDevice } from '../../compiler/ir/launch.ts'
import type { Device } from '../devices/device.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { refuse, type StatusRefused } from '../errors/status.ts'
import { hostTensor, type HostArray } from '../tensors/host_array.ts'
import { Tensor } from '../tensors/tensor.ts'
import { resolveOperand } from './operands.ts'

export interface GivenScalars {
  readonly numbers: Readonly<Record<string, number>>
  /** Those that lie on the device. */
  readonly tensors: Readonly<Record<string, Tensor>>
  /** Of a whole number that lies on the device (KTL4048), which stands in the numbers as 1; null: there is none. */
  readonly status: StatusRefused | null
}

/** Values of all scalars by name, defaults for those that are missing. KTL4024 for what is neither a number nor one element. */
export function resolveScalars(
  family: KernelFamily,
  values: Readonly<Record<string, unknown>>,
  device: Device,
): GivenScalars {
  const numbers: Record<string, number> = {}
  const tensors: Record<string, Tensor> = {}
  let status: StatusRefused | null = null
  for (const { name, dtype, defaultValue } of family.scalars) {
    const value = scalarValue(name, values[name] ?? defaultValue?.value, device)
    if (typeof value === 'number') numbers[name] = value
    else if (mayLieOnDevice(resolveType(dtype, family.typeChoices[0]!))) tensors[name] = value
    else {
      status ??= refuse('KTL4048', { operand: name, expected: 'a number', got: describe(value) })
      numbers[name] = 1
    }
  }
  return { numbers, tensors, status }
}

function scalarValue(name: string, value: unknown, device: Device): number | Tensor {
  if (typeof value === 'number') return value
  const refused = (): never => {
    const expected = 'a number, or a tensor with one element'
    throw ktlError('KTL4024', { operand: name, expected, got: describe(value) })
  }
  if (typeof value !== 'object' || value === null) return refused()
  if (!(value instanceof Tensor) && !('pointer' in value)) return oneElement(value as HostArray) ?? refused()
  const tensor = resolveOperand(name, value, device, false)
  return tensor.elementCount === 1 ? tensor : refused()
}

/** null: there are several, or none. */
function oneElement(array: HostArray): number | null {
  const { data, dtype, layout, areBits } = hostTensor(array)
  if (layout.shape.some((extent) => extent !== 1)) return null
  const value = data[layout.offset]!
  return areBits && dtype !== 'f64' ? decodeOne(dtype, value) : value
}
