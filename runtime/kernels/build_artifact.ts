/** CUDA text to an artifact that a device has taken. */
import type { GeneratedKernel } from '../../codegen/cuda/generated.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import type { Artifact } from '../artifacts/artifact.ts'
import type { Device } from '../devices/device.ts'
import { compileFor } from '../toolchain/cached.ts'
import type { ImageKind } from '../toolchain/options.ts'
import { artifactOf } from './kernel_artifact.ts'
import { entriesOf, loadKernel } from './launch.ts'
import type { PlannedKernel } from './planned_kernel.ts'

export interface BuildOptions {
  readonly arch: TargetArch
  readonly kind: ImageKind
  /** null: nobody loads it now. */
  readonly device: Device | null
  readonly signal?: AbortSignal
  readonly timeoutMs?: number
}

export async function buildArtifact(
  planned: PlannedKernel,
  generated: GeneratedKernel,
  { arch, kind, device, signal, timeoutMs }: BuildOptions,
): Promise<Artifact> {
  const { family } = planned.space
  const sources = { map: generated.sourceMap, ktl: family.source }
  const entries = entriesOf(generated.recipe)
  const compiling = { signal, timeoutMs, arch, kind, name: `${family.name}.cu`, sources, entries }
  return compileFor(generated.cuda, compiling, async ({ image, nvccVersion: toolkit, resources }) => {
    const images = [{ kind, target: arch, bytes: image }]
    const artifact = artifactOf(planned, generated, { toolkit, images, resources })
    // It is loaded for the first launch anyway; what the device refuses shall not be kept.
    if (device) await loadKernel(device, artifact).ready
    return artifact
  })
}
