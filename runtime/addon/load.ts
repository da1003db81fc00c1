import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { ktlError } from '../errors/fail.ts'
import type { NativeAddon } from './virtual.ts'

/** The folder of ktl's package.json: the same from the sources and from the bundles in dist/. */
export function packageRoot(): string {
  let folder = path.dirname(fileURLToPath(import.meta.url))
  while (!fs.existsSync(path.join(folder, 'package.json')) && folder !== path.dirname(folder))
    folder = path.dirname(folder)
  return folder
}

/** Why there can be no addon on a machine: `devices need Linux on x86-64, this is darwin arm64`; null: there can be one. */
export function noAddonFor({ platform, arch }: Pick<NodeJS.Process, 'platform' | 'arch'> = process): string | null {
  if (platform === 'linux' && arch === 'x64') return null
  return `devices need Linux on x86-64, this is ${platform} ${arch}`
}

/** Where the addon may be, best first. KTL_NATIVE, when set, is the only place. */
export function addonPaths(env: NodeJS.ProcessEnv = process.env): string[] {
  if (env.KTL_NATIVE) return [path.resolve(env.KTL_NATIVE)]
  const root = packageRoot()
  return [
    path.join(root, 'prebuilds', `${process.platform}-${process.arch}.node`),
    path.join(root, 'native/build/Release/ktl.node'),
  ]
}

export interface AddonStatus {
  readonly addon: NativeAddon | null
  /** The file that was loaded. */
  readonly path: string | null
  readonly tried: readonly { readonly path: string; readonly reason: string }[]
}

const require = createRequire(import.meta.url)

/** Tries the places in order and says what happened; never throws. */
export function probeAddon(env: NodeJS.ProcessEnv = process.env): AddonStatus {
  const tried: { path: string; reason: string }[] = []
  for (const file of addonPaths(env)) {
    if (!fs.existsSync(file)) {
      tried.push({ path: file, reason: 'no such file' })
      continue
    }
    try {
      const addon = require(file) as NativeAddon
      if (typeof addon.VirtualDevice === 'function') return { addon, path: file, tried }
      tried.push({ path: file, reason: 'not an addon of ktl' })
    } catch (error) {
      tried.push({ path: file, reason: (error as Error).message.split('\n')[0]! })
    }
  }
  return { addon: null, path: null, tried }
}

let loaded: NativeAddon | undefined

/** The native addon, loaded once; KTL6004 lists what was tried. */
export function loadAddon(): NativeAddon {
  if (loaded) return loaded
  const { addon, tried } = probeAddon()
  if (!addon) throw ktlError('KTL6004', { tried, unsupported: noAddonFor() })
  return (loaded = addon)
}
