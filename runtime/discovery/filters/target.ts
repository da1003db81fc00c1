import { ARCH_NAMES, ARCHS, type TargetArch } from '../../../compiler/archs.ts'
import { ktlError } from '../../errors/fail.ts'
import { describe } from '../../errors/describe.ts'

/** A compute capability (100) or a target (`sm_100a`, also `sm_100`). */
export type TargetSpec = number | string

/** null: a device that no kernel is made for. KTL4015 for what names no device at all. */
export function parseTarget(spec: TargetSpec): TargetArch | null {
  const text = typeof spec === 'number' ? String(spec) : typeof spec === 'string' ? spec.replace(/^sm_?/, '') : ''
  const match = /^(\d{1,4})[af]?$/.exec(text)
  if (!match)
    throw ktlError('KTL4015', {
      what: 'cc',
      expected: 'a compute capability (100) or a target (sm_100a)',
      got: describe(spec),
    })
  const cc = Number(match[1])
  const known = ARCH_NAMES.find((arch) => ARCHS[arch].cc === cc)
  // Code for sm_80 runs on whatever came later.
  return known ?? (cc >= 80 ? 'sm_80' : null)
}
