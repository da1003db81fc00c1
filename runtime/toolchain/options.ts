/** What compilers are asked for, and what they give. */
import type { KernelSources } from '../addon/findings.ts'
import type { KernelResources } from './resources.ts'

export type ImageKind = 'ptx' | 'cubin'

export interface CompileOptions {
  /** `sm_100a` */
  readonly arch: string
  readonly kind: ImageKind
  readonly flags?: readonly string[]
  /** How the CUDA text is called in messages and in line information. */
  readonly name?: string
  readonly sources?: KernelSources | undefined
  readonly signal?: AbortSignal | undefined
  /** For each run of nvcc. Default: KTL_NVCC_TIMEOUT (seconds), else 5 minutes. */
  readonly timeoutMs?: number | undefined
  /** Kernels that the image must have. */
  readonly entries?: readonly string[]
  /** PTX of this very text, for a cubin: saves making it again. */
  readonly ptx?: Uint8Array
}

export interface Compiled {
  readonly kind: ImageKind
  /** PTX text (UTF-8) or a cubin. */
  readonly image: Uint8Array
  /** Cubins only: ptxas' report for each kernel. */
  readonly resources: readonly KernelResources[]
  readonly nvccVersion: string
}
