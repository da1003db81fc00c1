/** A changed program's text through nvcc, and on the virtual device with every check, against the results of the original. */
import type { GeneratedKernel } from '../../codegen/index.ts'
import { Artifact, KtlError, type TargetArch } from '../../runtime/index.ts'
import { compileCuda } from '../../runtime/toolchain/compile.ts'
import { runAll } from '../mutation/judge.ts'
import type { Workload } from '../mutation/workload.ts'

/** What noticed it: `nvcc`, the code of a finding or of what refuses to launch, or `values` for wrong results; null: every run was right. */
export type Noticed = string | null

/** Null: nvcc refuses it. */
export async function ptxOf({ cuda }: GeneratedKernel, arch: TargetArch): Promise<Uint8Array | null> {
  try {
    return (await compileCuda(cuda, { arch, kind: 'ptx' })).image
  } catch (error) {
    if (!(error instanceof KtlError) || error.code !== 'KTL6002') throw error
    return null
  }
}

/** What the PTX of a workload was compiled for. */
export const archOf = ({ artifact }: Workload): TargetArch =>
  artifact.sections.find(({ name }) => name === 'ptx')!.target!

export async function notice(workloads: readonly Workload[], generated: GeneratedKernel, ptx: Uint8Array): Promise<Noticed> {
  const { info, sections } = workloads[0]!.artifact
  const { recipe, sourceMap, cuda } = generated
  const bytes = { ptx, cuda: new TextEncoder().encode(cuda) }
  const changed = sections.map((s) => (s.name === 'ptx' || s.name === 'cuda' ? { ...s, bytes: bytes[s.name] } : s))
  try {
    const { kills } = await runAll(workloads, new Artifact({ ...info, recipe, sourceMap }, changed))
    return kills[0]?.by ?? null
  } catch (error) {
    // What cannot be launched is noticed, too.
    if (!(error instanceof KtlError)) throw error
    return error.code
  }
} // prettier-ignore
