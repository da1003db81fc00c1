import { expect } from 'vitest'
import { KtlError } from '../../grammar/diagnostics.ts'

/** The KtlError that `work` throws or rejects with; fails when it does neither. */
export async function errorOf(work: () => unknown): Promise<KtlError> {
  try {
    await work()
  } catch (error) {
    expect(error).toBeInstanceOf(KtlError)
    return error as KtlError
  }
  throw new Error('expected a KtlError, nothing was thrown')
}
