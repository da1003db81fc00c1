/** Files that are there complete or not at all: written under another name, flushed, renamed. */
import { randomUUID } from 'node:crypto'
import { promises as fs } from 'node:fs'
import path from 'node:path'
import { ktlError } from './fail.ts'

/** `.NAME.12345-0a1b2c3d.tmp`: which process writes it. */
const TEMPORARY = /^\..*\.(\d+)-[0-9a-f]{8}\.tmp$/

/** Replaces the file; its folder is made when missing. KTL6008 when that cannot be done, and nothing is left behind. */
export async function writeFileSafely(file: string, content: string | Uint8Array): Promise<void> {
  const [folder, name] = [path.dirname(file), path.basename(file)]
  const temporary = path.join(folder, `.${name.slice(0, 200)}.${process.pid}-${randomUUID().slice(0, 8)}.tmp`)
  try {
    await fs.mkdir(folder, { recursive: true })
    await fs.writeFile(temporary, content, { flag: 'wx', flush: true })
    await fs.rename(temporary, file)
  } catch (error) {
    await fs.rm(temporary, { force: true }).catch(() => {})
    throw ktlError('KTL6008', { file, reason: (error as Error).message })
  }
}

/** Removes what processes that are gone were writing in a folder when they ended. */
export async function removeTemporaries(folder: string): Promise<void> {
  for (const name of await fs.readdir(folder).catch(() => [])) {
    const pid = TEMPORARY.exec(name)?.[1]
    if (pid !== undefined && !isRunning(Number(pid))) await fs.rm(path.join(folder, name), { force: true })
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
