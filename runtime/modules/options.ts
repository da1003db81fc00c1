/** How modules are made, and numbers written as parameters. */
import type { KernelSources } from '../addon/findings.ts'

/** How a module is called in messages. */
export interface LoadModuleOptions {
  /** How the text is called in messages. */
  readonly name?: string
  /** Gives findings their role and `.ktl` place. */
  readonly sources?: KernelSources
}

/** How CUDA C++ is compiled for a device. */
export interface CompileCudaOptions extends LoadModuleOptions {
  /** Default: the device's own. */
  readonly arch?: string
  /** Options of nvcc behind ktl's own (`-std=c++17 -lineinfo`). */
  readonly flags?: readonly string[]
  readonly signal?: AbortSignal
  /** Milliseconds for each run of nvcc. Default: KTL_NVCC_TIMEOUT (seconds), else 5 minutes. */
  readonly timeoutMs?: number
}

/** Formats a number may be written in explicitly: `{ f32: 2 }`. */
export type NumberFormat = 'i8' | 'u8' | 'i16' | 'u16' | 'i32' | 'u32' | 'i64' | 'u64' | 'f16' | 'bf16' | 'f32' | 'f64'

export type TypedNumber = { readonly [F in NumberFormat]?: number | bigint }
