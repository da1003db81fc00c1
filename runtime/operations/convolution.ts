import { ClassArguments } from '../arguments/kernel.ts'
import type { EpilogueArguments } from '../arguments/epilogue.ts'
import { resolveParts, type FormOperand } from '../arguments/operands.ts'
import type { PerformanceControls } from '../arguments/performance.ts'
import type { Device } from '../devices/device.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf } from '../errors/given.ts'
import { formatShape } from '../tensors/layout.ts'
import { familyOf, typeText } from './template.ts'

/** Operands and options of `ConvolutionArguments`: a number, or one for each spatial axis. */
export interface ConvolutionFields {
  /** [N, …spatial, C], 1 to 3 spatial axes. */
  readonly input: FormOperand
  /** [F, …spatial, C / groups] */
  readonly filter: FormOperand
  /** [N, …spatial, F] */
  readonly out: FormOperand
  /** Default: 1. */
  readonly stride?: number | readonly number[]
  /** Zeros on either side. Default: 0. */
  readonly padding?: number | readonly number[]
  /** Default: 1. */
  readonly dilation?: number | readonly number[]
  /** Default: 1. */
  readonly groups?: number
  readonly epilogue?: EpilogueArguments | null
  readonly performance?: PerformanceControls | null
  /** Where arrays in host memory are copied to; needed when no operand is a tensor of a device. */
  readonly device?: Device
}

/**
 * out = epilogue(convolution of `input` with `filter`), as neural networks have it: without mirroring. Throws KTL4020 for ranks and
 * extents that do not fit, KTL4015 for steps that are none, and what `KernelArguments` throw.
 *
 * @example
 * const input = device.tensor('f16', [1, 5, 5, 8], 1)
 * const filter = device.tensor('f16', [4, 3, 3, 8], 1)
 * const out = device.empty('f32', [1, 3, 3, 4])
 * const args = new ConvolutionArguments({ input, filter, out, stride: 2, padding: 1 })
 * await getKernels(args)[0]!.run(args)
 * console.log((await out.toArray())[0], (await out.toArray())[16]) // 32 72
 */
export class ConvolutionArguments extends ClassArguments {
  readonly stride: readonly number[]
  readonly padding: readonly number[]
  readonly dilation: readonly number[]
  readonly groups: number

  constructor(fields: ConvolutionFields) {
    const { epilogue = null, groups = 1, performance, device } = optionsOf('fields', fields ?? (null as never))
    const given = { input: fields.input, filter: fields.filter, out: fields.out }
    const { input, filter, out } = resolveParts(given, ['out'], device) as Record<
      'input' | 'filter' | 'out',
      FormOperand & Shaped
    >
    const rank = input.shape.length - 2
    if (rank < 1 || rank > 3)
      throw ktlError('KTL4020', {
        operand: 'input',
        expected: 'of rank 3 to 5 ([N, …spatial, C])',
        got: formatShape(input.shape),
      })
    const stride = stepsOf('stride', fields.stride ?? 1, rank, 1)
    const padding = stepsOf('padding', fields.padding ?? 0, rank, 0)
    const dilation = stepsOf('dilation', fields.dilation ?? 1, rank, 1)
    if (!Number.isInteger(groups) || groups < 1)
      throw ktlError('KTL4015', { what: 'groups', expected: 'an integer of at least 1', got: describe(groups) })
    checkExtents(input.shape, filter.shape, out.shape, { stride, padding, dilation, groups })
    const axes = (name: string): string[] => stride.map((_, i) => `${name}${i}`)
    const [y, r, p] = [axes('y'), axes('r'), axes('p')]
    // Channels of a group of filters: those behind the groups before it.
    const [own, channel] = groups === 1 ? ['c', 'c'] : ['k', 'f / (size(f) / groups) * size(k) + k']
    const places = p.map((axis, i) => `${axis} * stride${i} + ${r[i]} * dilation${i} - padding${i}`)
    const scalars = stride.flatMap((_, i) => [`stride${i}: i32`, `padding${i}: i32`, `dilation${i}: i32`])
    const text = `kernel convolution(
  input: ${typeText(input as never, ['b', ...y, 'c'])}, filter: ${typeText(filter as never, ['f', ...r, own])},
  ${[...scalars, ...(groups === 1 ? [] : ['groups: i32'])].join(', ')}
) -> out: ${typeText(out as never, ['b', ...p, 'f'])} {
  acc = sum[${[...r, own].join(', ')}]((input[${['b', ...places, channel].join(', ')}] else 0) * filter)
  out = epilogue(acc)
}
`
    const numbers = Object.fromEntries(
      stride.flatMap((_, i) => [
        [`stride${i}`, stride[i]!],
        [`padding${i}`, padding[i]!],
        [`dilation${i}`, dilation[i]!],
      ]),
    )
    const bindings = { input, filter, out, epilogue, ...numbers, ...(groups === 1 ? {} : { groups }) }
    super(familyOf('convolution', text), bindings, { performance: performance ?? null })
    this.stride = stride
    this.padding = padding
    this.dilation = dilation
    this.groups = groups
    if (new.target === ConvolutionArguments) Object.freeze(this)
  }
}

interface Shaped {
  readonly shape: readonly number[]
}

function stepsOf(what: string, given: number | readonly number[], rank: number, least: number): readonly number[] {
  const list = typeof given === 'number' ? Array.from({ length: rank }, () => given) : given
  const fits =
    Array.isArray(list) && list.length === rank && list.every((step) => Number.isInteger(step) && step >= least)
  if (fits) return Object.freeze([...list])
  throw ktlError('KTL4015', {
    what,
    expected: `an integer of at least ${least}, or ${rank} of them`,
    got: describe(given),
  })
}

interface Steps {
  readonly stride: readonly number[]
  readonly padding: readonly number[]
  readonly dilation: readonly number[]
  readonly groups: number
}

/** KTL4020 unless filter and out are as the input and the steps have it. */
function checkExtents(
  input: readonly number[],
  filter: readonly number[],
  out: readonly number[],
  { stride, padding, dilation, groups }: Steps,
): void {
  const rank = stride.length
  const wrong = (operand: string, expected: readonly (number | string)[], got: readonly number[]): never => {
    throw ktlError('KTL4020', { operand, expected: `of shape [${expected.join(', ')}]`, got: formatShape(got) })
  }
  const [n, c] = [input[0]!, input.at(-1)!]
  const spatial = Array.from({ length: rank }, (_, i) => `r${i}`)
  const f = filter[0]!
  if (filter.length !== rank + 2 || c % groups !== 0 || filter.at(-1) !== c / groups || f % groups !== 0)
    wrong('filter', [groups === 1 ? 'F' : `F, a multiple of ${groups}`, ...spatial, c / groups], filter)
  const expected = stride.map((step, i) => {
    const reach = dilation[i]! * (filter[i + 1]! - 1) + 1
    return Math.max(0, Math.floor((input[i + 1]! + 2 * padding[i]! - reach) / step) + 1)
  })
  const shape = [n, ...expected, f]
  if (shape.join() !== out.join()) wrong('out', shape, out)
}
