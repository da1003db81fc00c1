/** Files that appear together, complete, or not at all. */
import { randomUUID } from 'node:crypto'
import { promises as fs } from 'node:fs'
import path from 'node:path'
import { ktlError } from '../fail.ts'
import { reasonOf } from './sources.ts'

export interface OutputFile {
  readonly name: string
  readonly content: string | Uint8Array
  /** Permission bits. Default: those of a new file. */
  readonly mode?: number
}

/** Writes all under other names first, flushed, then renames; KTL6008 leaves nothing of this call behind. */
export async function writeFiles(folder: string, files: readonly OutputFile[]): Promise<string[]> {
  const suffix = `.tmp-${process.pid}-${randomUUID().slice(0, 8)}`
  const temporaries: string[] = []
  let current = folder
  try {
    await makeFolder(folder)
    for (const { name, content, mode } of files) {
      current = path.join(folder, name)
      temporaries.push(current + suffix)
      await fs.writeFile(current + suffix, content, { flag: 'wx', flush: true })
      // Not by the option of `writeFile`, which the umask narrows.
      if (mode !== undefined) await fs.chmod(current + suffix, mode)
    }
    const placed: string[] = []
    for (const temporary of temporaries) {
      current = temporary.slice(0, -suffix.length)
      await fs.rename(temporary, current)
      placed.push(current)
    }
    return placed
  } catch (error) {
    await Promise.all(temporaries.map((file) => fs.rm(file, { force: true })))
    throw ktlError('KTL6008', { file: current, reason: reasonOf(error) })
  }
}

/** Not by `recursive`, which never ends where a file system (/proc) takes no folders. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await fs.mkdir(folder)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await fs.stat(folder)).isDirectory()) return
    const parent = path.dirname(folder)
    if (code !== 'ENOENT' || parent === folder || (await fs.stat(parent).catch(() => null))) throw error
    await makeFolder(parent)
    await fs.mkdir(folder)
  }
}
