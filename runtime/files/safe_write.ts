/** Files that are there complete or not at all: written under other names, flushed, renamed. */
import { promises as fs } from 'node:fs'
import path from 'node:path'
import { ktlError } from '../errors/fail.ts'
import { removeAbandoned, TAG, temporaryTag } from './temporary.ts'

export interface OutputFile {
  /** Path from the folder. */
  readonly name: string
  readonly content: string | Uint8Array
  /** Permission bits, whatever the umask. Default: those of a new file. */
  readonly mode?: number
}

const TEMPORARY = new RegExp(`^\\..*\\.${TAG}\\.tmp$`)

/**
 * Replaces the files, whose folder is made when missing; returns their paths. All are written and flushed before the first gets its
 * name. KTL6008, with the system's error as `cause`, when that cannot be done: nothing of this call is left under another name.
 */
export async function writeFiles(folder: string, files: readonly OutputFile[]): Promise<string[]> {
  const placed = files.map(({ name }) => path.join(folder, name))
  const temporaries: string[] = []
  let current = folder
  try {
    await makeFolder(folder)
    for (const [i, { content, mode }] of files.entries()) {
      current = placed[i]!
      const name = `.${path.basename(current).slice(0, 200)}.${temporaryTag()}.tmp`
      temporaries.push(path.join(path.dirname(current), name))
      await writeFlushed(temporaries[i]!, content, mode)
    }
    for (const [i, temporary] of temporaries.entries()) {
      current = placed[i]!
      await fs.rename(temporary, current)
    }
    return placed
  } catch (error) {
    await Promise.all(temporaries.map((file) => fs.rm(file, { force: true }).catch(() => {})))
    throw ktlError('KTL6008', { file: current, reason: (error as Error).message }, { cause: error })
  }
}

/** One file; see `writeFiles`. */
export async function writeFileSafely(file: string, content: OutputFile['content'], mode?: number): Promise<void> {
  await writeFiles(path.dirname(file), [{ name: path.basename(file), content, ...(mode !== undefined && { mode }) }])
}

/** A rename may reach the disk before the content of the file: after a loss of power, the new name would hold nothing. */
async function writeFlushed(file: string, content: OutputFile['content'], mode: number | undefined): Promise<void> {
  const handle = await fs.open(file, 'wx', mode)
  try {
    await handle.writeFile(content)
    // Not by the option of `open`, which the umask narrows.
    if (mode !== undefined) await handle.chmod(mode)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Not by `recursive`, which never ends where a file system (/proc) takes no folders. */
export async function makeFolder(folder: string, mode?: number): Promise<void> {
  const make = async (): Promise<void> => {
    try {
      await fs.mkdir(folder, mode)
    } catch (error) {
      const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST' && (await fs.stat(folder)).isDirectory()
      if (!isThere) throw error
    }
  }
  try {
    await make()
  } catch (error) {
    const parent = path.dirname(folder)
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === folder) throw error
    await makeFolder(parent, mode)
    // Once: there are folders that take none. Others may have made the parent, and this one, in between.
    await make()
  }
}

/** Removes what processes that are gone were writing in a folder when they ended. */
export const removeTemporaries = (folder: string): Promise<void> => removeAbandoned(folder, TEMPORARY)
