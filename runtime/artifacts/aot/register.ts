import { ktlProvider } from '../../discovery/providers/provider.ts'
import { loadSource, register, type KtlProgram } from '../../programs/program.ts'
import { addFolder, ArtifactFolder } from './registry.ts'
import type { ManifestSource } from './manifest.ts'

/** What `registerArtifacts` gives back. */
export interface ArtifactRegistration {
  readonly folder: ArtifactFolder
  /** The programs of the folder's kernels, registered unless they were already. */
  readonly programs: readonly KtlProgram[]
  unregister(): void
}

/**
 * Lets kernels be taken from a folder that `ktl build --aot` wrote: `compile` and `run` of those kernels need no nvcc,
 * and kernels of `.ktl` files that the folder was made of join discovery. `getKernels(args, { metadataFilter: precompiled
 * })` finds these kernels only. Nothing is executed or written; artifacts are read and verified when first used.
 * KTL6060 for what is no such folder, KTL6061 for one of another version of ktl, KTL6062 (when used) for damage.
 *
 * @example
 * const { kernels } = loadSource({ name: 'half.ktl', text: 'kernel half(X: f32[n]) -> Y: f32[n] { Y = X * 0.5 }' })
 * const half = [...kernels.half!.getInstances()]
 * await buildArtifacts(half, `${folder}/ahead`, { formats: ['ptx'], limit: 1 })
 * const { unregister, programs } = await registerArtifacts(`${folder}/ahead`)
 * console.log(programs.length) // 1
 * unregister()
 */
export async function registerArtifacts(folder: string): Promise<ArtifactRegistration> {
  const opened = await ArtifactFolder.open(folder)
  const programs = opened.manifest.sources.map(({ name, text }) => loadSource({ name, text }))
  const undo = [addFolder(opened)]
  const unregister = (): void => undo.forEach((remove) => remove())
  try {
    for (const program of programs) if (!isRegistered(program.source)) undo.push(register(program))
  } catch (error) {
    unregister()
    throw error
  }
  return { folder: opened, programs, unregister }
}

const isRegistered = ({ text }: ManifestSource): boolean =>
  ktlProvider.spaces.some(({ family }) => family.source.text === text)
