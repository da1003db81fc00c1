/** Which machines have devices, and which of them there is a built addon for. */
import { GLIBC, MUSL, familySync, versionSync } from 'detect-libc'
import { KTL_VERSION } from '../../codegen/cuda/version.ts'

export interface Machine {
  readonly platform: string
  readonly arch: string
  /** `glibc`, `musl`; null where the C library is no part of the choice. */
  readonly libc: string | null
  /** `2.36` */
  readonly libcVersion: string | null
}

/** Releases have a package with the addon for these: `@ktl/linux-x64-gnu`. */
export const PREBUILT: readonly string[] = ['linux-x64-gnu']

/** The first in which `exp2` and `log2` round as they do today, and the oldest that Node.js 20 itself runs on. */
export const MINIMUM_GLIBC = [2, 28] as const

export const thisMachine = ({ platform, arch } = process): Machine => ({
  platform,
  arch,
  libc: platform === 'linux' ? familySync() : null,
  libcVersion: platform === 'linux' ? versionSync() : null,
})

const LIBCS: Readonly<Record<string, string>> = { [GLIBC]: '-gnu', [MUSL]: '-musl' }

/** `linux-x64-gnu`, `linux-x64-musl`, `darwin-x64` */
export const platformName = ({ platform, arch, libc }: Machine): string =>
  `${platform}-${arch}${libc === null ? '' : (LIBCS[libc] ?? '')}`

/** Why there can be no addon on a machine: `devices need …, this is win32 x64`; null: there can be one. */
export function noAddonFor({ platform, arch }: Pick<Machine, 'platform' | 'arch'> = process): string | null {
  if (['linux', 'darwin'].includes(platform) && ['x64', 'arm64'].includes(arch)) return null
  return `devices need Linux or macOS on x86-64 or arm64, this is ${platform} ${arch}`
}

/** The package with the addon of this version of ktl for a machine; null: none is made. */
export function addonPackage(machine: Machine): { readonly name: string; readonly version: string } | null {
  const platform = platformName(machine)
  return PREBUILT.includes(platform) ? { name: `@ktl/${platform}`, version: KTL_VERSION } : null
}

/** `needs glibc 2.28 or later, this is 2.17`; null: new enough, or no glibc. */
export function glibcTooOld({ libc, libcVersion }: Machine): string | null {
  if (libc !== GLIBC || libcVersion === null) return null
  const [major = 0, minor = 0] = libcVersion.split('.').map(Number)
  if (major > MINIMUM_GLIBC[0] || (major === MINIMUM_GLIBC[0] && minor >= MINIMUM_GLIBC[1])) return null
  return `needs glibc ${MINIMUM_GLIBC.join('.')} or later, this is ${libcVersion}`
}
