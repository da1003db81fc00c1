/** A changed program's text through nvcc, and on the virtual device with every check, against the results of the original. */
import type { GeneratedKernel } from '../../codegen/index.ts'
import { Artifact, KtlError } from '../../runtime/index.ts'
import { compileCuda } from '../../runtime/toolchain/compile.ts'
import { runAll } from '../mutation/judge.ts'
import type { Workload } from '../mutation/workload.ts'

/** null: every run was right. */
export interface Noticed {
  /** `nvcc`, the code of a finding or of what refuses to launch, or `values` for wrong results. */
  readonly by: string
  readonly message: string
}

export async function ptxOf({ cuda }: GeneratedKernel, arch: string): Promise<Uint8Array | Noticed> {
  try {
    return (await compileCuda(cuda, { arch, kind: 'ptx' })).image
  } catch (error) {
    if (!(error instanceof KtlError) || error.code !== 'KTL6002') throw error
    return { by: 'nvcc', message: error.diagnostics[0]!.message }
  }
}

/** `arch`: of the device. */
export async function notice(workloads: readonly Workload[], generated: GeneratedKernel, ptx: Uint8Array): Promise<Noticed | null> {
  const { info, sections } = workloads[0]!.artifact
  const { recipe, sourceMap, cuda } = generated
  const bytes = { ptx, cuda: new TextEncoder().encode(cuda) }
  const changed = sections.map((s) => (s.name === 'ptx' || s.name === 'cuda' ? { ...s, bytes: bytes[s.name] } : s))
  try {
    const { kills } = await runAll(workloads, new Artifact({ ...info, recipe, sourceMap }, changed))
    return kills[0] ? { by: kills[0].by, message: kills[0].message } : null
  } catch (error) {
    // What cannot be launched is noticed, too.
    if (!(error instanceof KtlError)) throw error
    return { by: error.code, message: error.diagnostics[0]!.message }
  }
} // prettier-ignore
