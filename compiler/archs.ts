/** Architectures that code is generated for, a line each, by compute capability. Code of one without `a` runs on all later ones too. */
export interface Arch {
  /** Compute capability: 100 is 10.0. */
  readonly cc: number
}

export const ARCHS = {
  sm_80: { cc: 80 },
  sm_90a: { cc: 90 },
  sm_100a: { cc: 100 },
  sm_103a: { cc: 103 },
} as const satisfies Record<string, Arch>

/** What kernels are compiled for. */
export type TargetArch = keyof typeof ARCHS

export const ARCH_NAMES = Object.keys(ARCHS) as readonly TargetArch[]

/** Those with at least this compute capability. */
export const archsFrom = (cc: number): readonly TargetArch[] => ARCH_NAMES.filter((arch) => ARCHS[arch].cc >= cc)
