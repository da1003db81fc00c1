import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import type { KtlError } from '../../grammar/diagnostics.ts'
import { ktlError } from '../errors/fail.ts'
import { manifestOf, packageRoot } from '../files/package_root.ts'
import { addonPackage, glibcTooOld, noAddonFor, thisMachine, type Machine } from './platform.ts'
import type { NativeAddon } from './virtual.ts'

/** A place where the addon may be. */
interface Place {
  /** What messages call it. */
  readonly path: string
  /** The file, or why there is none. */
  find(): { readonly file: string } | { readonly reason: string }
}

export interface AddonStatus {
  readonly addon: NativeAddon | null
  /** The file that was loaded. */
  readonly path: string | null
  readonly tried: readonly { readonly path: string; readonly reason: string }[]
}

const require = createRequire(import.meta.url)

/** Where `ktl build-addon` and a checkout's build leave it. */
export const builtAddon = (root = packageRoot()): string => path.join(root, 'native/build/Release/ktl.node')

function fileAt(file: string): Place {
  return { path: file, find: () => (fs.existsSync(file) ? { file } : { reason: 'no such file' }) }
}

/** The optional dependency with the addon of a machine. */
function packageFor(machine: Machine, root: string): readonly Place[] {
  const wanted = addonPackage(machine)
  if (wanted === null) return []
  const { name, version } = wanted
  const find = (): ReturnType<Place['find']> => {
    const old = glibcTooOld(machine)
    if (old !== null) return { reason: old }
    try {
      const file = createRequire(path.join(root, 'package.json')).resolve(`${name}/ktl.node`)
      const there = manifestOf(path.dirname(file))?.version
      return there === version ? { file } : { reason: `is of version ${there}, needed is ${version}` }
    } catch {
      return { reason: 'the package is not installed' }
    }
  }
  return [{ path: name, find }]
}

/** Where the addon may be, best first: what was built here, then the package. KTL_NATIVE, when set, is the only place. */
function places({ env, machine, root }: Surroundings): readonly Place[] {
  if (env.KTL_NATIVE) return [fileAt(path.resolve(env.KTL_NATIVE))]
  return [fileAt(builtAddon(root)), ...packageFor(machine, root)]
}

interface Surroundings {
  readonly env: NodeJS.ProcessEnv
  readonly machine: Machine
  readonly root: string
}

/** Tries the places in order and says what happened; never throws. */
export function probeAddon(given: Partial<Surroundings> = {}): AddonStatus {
  const around = { env: process.env, machine: thisMachine(), root: packageRoot(), ...given }
  const tried: { path: string; reason: string }[] = []
  for (const place of places(around)) {
    const found = place.find()
    if ('reason' in found) {
      tried.push({ path: place.path, reason: found.reason })
      continue
    }
    try {
      const addon = require(found.file) as NativeAddon
      if (typeof addon.VirtualDevice === 'function') return { addon, path: found.file, tried }
      tried.push({ path: place.path, reason: 'not an addon of ktl' })
    } catch (error) {
      tried.push({ path: place.path, reason: (error as Error).message.split('\n')[0]! })
    }
  }
  return { addon: null, path: null, tried }
}

/** KTL6004: what was tried, and what to do. */
export function addonMissing(tried: AddonStatus['tried'], machine: Machine = thisMachine()): KtlError {
  const wanted = glibcTooOld(machine) === null ? addonPackage(machine) : null
  const install = wanted === null ? null : `${wanted.name}@${wanted.version}`
  return ktlError('KTL6004', { tried, unsupported: noAddonFor(machine), install })
}

let loaded: { readonly addon: NativeAddon; readonly path: string } | undefined

function load(): { readonly addon: NativeAddon; readonly path: string } {
  if (loaded) return loaded
  const { addon, path: file, tried } = probeAddon()
  if (addon === null || file === null) throw addonMissing(tried)
  return (loaded = { addon, path: file })
}

/** The native addon, loaded once; KTL6004 lists what was tried. */
export const loadAddon = (): NativeAddon => load().addon

/** The file of the addon; KTL6004 where there is none that loads. */
export const addonPath = (): string => load().path
