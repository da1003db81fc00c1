/** The kernels of a call that the options of `run` and `bench` choose, best first. */
import { ARCHS } from '../../compiler/archs.ts'
import { TARGETS, type Backend } from '../../compiler/targets/index.ts'
import type { RuntimeArguments } from '../arguments/base.ts'
import { virtualDeviceFor } from '../devices/virtual.ts'
import { getKernels } from '../discovery/query.ts'
import { ktlError } from '../errors/fail.ts'
import { KtlKernel } from '../kernels/ktl_kernel.ts'
import { noIndex } from './instances.ts'

export interface KernelChoice {
  readonly design?: Backend
  readonly instance?: string
  readonly index?: number
}

/**
 * The one of `instance` or `index`, or the first `most`.
 *
 * @throws KTL4042 (none supports the arguments), KTL4105 (no such instance), KTL4107 (no such index)
 */
export function chooseKernels(
  args: RuntimeArguments,
  name: string,
  { design, instance, index = 0 }: KernelChoice,
  most: number | null,
): readonly KtlKernel[] {
  const chosen = design === undefined ? null : TARGETS.get(design)
  const found = getKernels(args, {
    limit: instance !== undefined ? Infinity : (most ?? index + 1),
    // Kernels of a fallback run on every later device, which has others for most arguments.
    ...(chosen?.scope === 'fallback' && { cc: ARCHS[chosen.archs[0]!].cc }),
    ...(design !== undefined && { metadataFilter: (metadata) => metadata.design.kind === design }),
  })
  const kernels = Array.from(found).filter((kernel): kernel is KtlKernel => kernel instanceof KtlKernel)
  if (kernels.length === 0) {
    const others = design === undefined ? [] : Array.from(getKernels(args))
    if (others.length > 0) {
      const kinds = [...new Set(others.map(({ metadata }) => metadata.design.kind))]
      const reason = `${others.length} of other designs do: ${kinds.join(', ')}`
      const { isVirtual, name: deviceName } = args.device
      const other = isVirtual ? virtualDeviceFor(chosen?.archs ?? []) : undefined
      const elsewhere = other && other !== deviceName ? `; \`--device ${other}\` has that design` : ''
      const help = `leave out \`--design\`, or choose one of these${elsewhere}`
      throw ktlError('KTL4042', {
        what: `these arguments of \`${name}\` with \`--design ${design}\``,
        reasons: [reason],
        help,
      })
    }
    // The first line is a headline, when there are others.
    const why = found.why?.split('\n') ?? []
    const reasons = why.length > 1 ? why.slice(1, 7).map((line) => line.trim()) : why
    throw ktlError('KTL4042', { what: `these arguments of \`${name}\``, reasons })
  }
  if (instance !== undefined) {
    const names = kernels.map(({ metadata }) => metadata.kernelName)
    const named = kernels.filter((_, i) => names[i] === instance)
    if (named.length > 0) return named
    throw ktlError('KTL4105', { what: 'instance for these arguments', name: instance, known: names.slice(0, 3) })
  }
  if (most !== null) return kernels
  if (index < kernels.length) return [kernels[index]!]
  throw noIndex(name, index, kernels.length)
}
