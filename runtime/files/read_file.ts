/** Files that callers name, read whole: folders and devices that never end are refused before a byte is read. */
import { promises as fs } from 'node:fs'
import { KtlError } from '../../grammar/diagnostics.ts'
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  ENOTDIR: 'a part of the path is no folder',
  EISDIR: 'it is a folder',
  EACCES: 'permission denied',
}

/** The reason of a file system error in words. */
export function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return REASONS[code ?? ''] ?? message
}

/** The error of a file that cannot be read, from the reason in words and what the system said. */
type Refusal = (file: string, reason: string, cause?: unknown) => KtlError

const unreadable: Refusal = (file, reason, cause) => ktlError('KTL6072', { file, reason }, { cause })

/**
 * At most `limit` bytes (default: all); one more says that there are more. KTL6072 when it cannot be read, with the system's error
 * as `cause`; KTL4015 for what names no file.
 */
export async function readWhole(file: string | URL, limit = Infinity, refuse: Refusal = unreadable): Promise<Buffer> {
  if (typeof file !== 'string' && !(file instanceof URL))
    throw ktlError('KTL4015', { what: 'file', expected: 'a path or a file: URL', got: describe(file) })
  try {
    await using handle = await fs.open(file)
    const stat = await handle.stat()
    if (stat.isCharacterDevice() || stat.isBlockDevice()) throw refuse(String(file), 'it is a device')
    if (limit === Infinity) return await handle.readFile()
    const parts: Buffer[] = []
    let left = limit + 1
    while (left > 0) {
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(Math.min(left, 1 << 16)), 0)
      if (bytesRead === 0) break
      parts.push(buffer.subarray(0, bytesRead))
      left -= bytesRead
    }
    return Buffer.concat(parts)
  } catch (error) {
    throw error instanceof KtlError ? error : refuse(String(file), reasonOf(error), error)
  }
}
