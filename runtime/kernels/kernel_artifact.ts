/** Between instances of `.ktl` kernels and artifacts: what is stored of one, and whether a stored one is the right one. */
import type { GeneratedKernel } from '../../codegen/cuda/generated.ts'
import { KTL_VERSION } from '../../codegen/cuda/version.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import { printTensorProgram } from '../../compiler/ir/print_tensor.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { Artifact, type Json, type Section } from '../artifacts/artifact.ts'
import type { PlannedKernel } from './planned_kernel.ts'
import { OK, refuse, type Status } from '../errors/status.ts'
import type { ImageKind } from '../toolchain/options.ts'
import type { KernelResources } from '../toolchain/resources.ts'
import { describe } from '../errors/describe.ts'

export interface Image {
  readonly kind: ImageKind
  readonly target: TargetArch
  readonly bytes: Uint8Array
}

export interface Built {
  /** Version of nvcc. */
  readonly toolkit: string
  readonly images: readonly Image[]
  readonly resources: readonly KernelResources[]
}

/** CUDA text and images of an instance with everything that launching it takes. */
export function artifactOf(planned: PlannedKernel, generated: GeneratedKernel, built: Built): Artifact {
  const { recipe, sourceMap, cuda } = generated
  const info = {
    ktl: KTL_VERSION,
    toolkit: built.toolkit,
    kernelName: planned.name,
    targets: planned.metadata.targets,
    signature: signatureOf(planned.program) as unknown as Json,
    recipe,
    sourceMap,
    source: planned.space.family.source,
    resources: built.resources,
  }
  return new Artifact(info, [
    { name: 'cuda', target: null, bytes: new TextEncoder().encode(cuda) },
    ...built.images.map(({ kind, target, bytes }): Section => ({ name: kind, target, bytes })),
  ])
}

interface Signature {
  readonly operands: readonly object[]
  readonly scalars: readonly object[]
  /** The canonical tensor IR: two kernels of one name and signature compute the same. */
  readonly program: string
}

export function signatureOf(program: TensorProgram): Signature {
  const { operands, scalars } = program
  return {
    operands: operands.map(({ name, role, dtype, axes, order, divisibility }) => ({
      name,
      role,
      dtype,
      axes,
      order,
      divisibility,
    })),
    scalars: scalars.map(({ name, dtype }) => ({ name, dtype })),
    program: printTensorProgram(program),
  }
}

/** Artifacts that were found to be of an instance; they never change. */
const checked = new WeakMap<Artifact, PlannedKernel>()

/**
 * May the artifact stand for the instance on a device of `arch` that loads `format`? KTL4040 says what differs: the
 * kernel, the target, or what the kernel of that name takes and computes.
 */
export function artifactStatus(
  planned: PlannedKernel,
  artifact: Artifact,
  { arch, format }: { readonly arch: string; readonly format: ImageKind },
): Status {
  const { name } = planned
  if (!(artifact instanceof Artifact)) return refuse('KTL4040', { expected: name, got: describe(artifact) })
  if (artifact.kernelName !== name) return refuse('KTL4040', { expected: name, got: artifact.kernelName })
  if (artifact.section(format, arch) === null) {
    const built = artifact.sections.flatMap((s) => (s.target === null ? [] : [`${s.name} for ${s.target}`]))
    return refuse('KTL4040', {
      expected: `${name} as ${format} for ${arch}`,
      got: built.join(', ') || 'CUDA text only',
    })
  }
  if (checked.get(artifact) === planned) return OK
  const difference = differs(signatureOf(planned.program), artifact)
  if (difference) return refuse('KTL4040', difference)
  checked.set(artifact, planned)
  return OK
}

function differs(own: Signature, { info }: Artifact): { readonly expected: string; readonly got: string } | null {
  if (JSON.stringify(info.signature) === JSON.stringify(own)) return null
  const made = `(made by ktl ${info.ktl.slice(0, 40)})`
  const given = info.signature as { readonly operands?: unknown; readonly scalars?: unknown } | null
  for (const field of ['operands', 'scalars'] as const) {
    const other: readonly unknown[] = Array.isArray(given?.[field]) ? given[field] : []
    const at = own[field].findIndex((item, i) => JSON.stringify(item) !== JSON.stringify(other[i]))
    if (at >= 0 || other.length !== own[field].length) {
      const shown = (list: readonly unknown[]): string => JSON.stringify(list[Math.max(0, at)] ?? null).slice(0, 200)
      return { expected: `a kernel with ${shown(own[field])}`, got: `one with ${shown(other)} ${made}` }
    }
  }
  return { expected: 'the program of this kernel', got: `another program under the same name ${made}` }
}
