/** Architectures that code is generated for, a line each, by compute capability. Code of one without `a` runs on all later ones too. */
import type { DTypeName } from '../grammar/vocabulary.ts'

export interface Arch {
  /** Compute capability: 100 is 10.0. */
  readonly cc: number
  /** Formats that its cvt does not know (PTX ISA 9.7.9.22). */
  readonly unconverted: readonly DTypeName[]
}

export const ARCHS = {
  sm_80: { cc: 80, unconverted: ['tf32', 'e4m3', 'e5m2', 'ue4m3', 'ue8m0', 'e3m2', 'e2m3', 'e2m1'] },
  sm_90a: { cc: 90, unconverted: ['ue8m0', 'e3m2', 'e2m3', 'e2m1'] },
  sm_100a: { cc: 100, unconverted: [] },
  sm_103a: { cc: 103, unconverted: [] },
} as const satisfies Record<string, Arch>

/** What kernels are compiled for. */
export type TargetArch = keyof typeof ARCHS

export const ARCH_NAMES = Object.keys(ARCHS) as readonly TargetArch[]

/** Those with at least this compute capability. */
export const archsFrom = (cc: number): readonly TargetArch[] => ARCH_NAMES.filter((arch) => ARCHS[arch].cc >= cc)
