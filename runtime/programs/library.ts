import { ktlProvider } from '../discovery/providers/provider.ts'
import { callable, type CallableKernel } from './program.ts'

let kernels: Readonly<Record<string, CallableKernel>> | null = null

/**
 * The kernels that come with ktl, by name: products of plain and scaled operands, of groups, convolutions and their gradients,
 * attention, row statistics, quantisation. `ktl list` shows their operands.
 *
 * @example
 * const { rms_norm } = libraryKernels()
 * const X = device.tensor('f32', [1, 4], [1, 1, 1, 3])
 * const Y = device.empty('f32', [1, 4])
 * await rms_norm!({ X, weight: device.tensor('f32', [4], 1), eps: 0, Y })
 * console.log((await Y.toArray())[3]!.toFixed(3)) // 1.732
 */
export function libraryKernels(): Readonly<Record<string, CallableKernel>> {
  kernels ??= Object.freeze(
    Object.fromEntries(
      ktlProvider.spaces.filter(({ library }) => library).map(({ family }) => [family.name, callable(family)]),
    ),
  )
  return kernels
}
