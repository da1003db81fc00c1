/** Options of what devices do. */

/** How a new tensor lies in memory. */
export interface TensorOptions {
  /** In elements. Default: row-major without padding. */
  readonly strides?: readonly number[]
}

/** Where and how an allocation lies. */
export interface MallocOptions {
  /** Address to place the allocation at (virtual devices only). */
  readonly at?: bigint
  /** Power of two; at least 256 bytes are always kept. */
  readonly align?: number
}

/** How work is enqueued. */
export interface EnqueueOptions {
  /** Aborted before the work starts: it never does, and the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}
