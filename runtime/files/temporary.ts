/** Names of temporary files and folders that say who made them, so that those of killed processes can be told from live ones. */
import { createHash, randomUUID } from 'node:crypto'
import { promises as fs } from 'node:fs'
import { hostname } from 'node:os'
import path from 'node:path'

/** Containers and machines that share a folder know nothing of each other's processes: what is theirs goes by age. */
const STALE_MS = 24 * 60 * 60 * 1000

const host = (): string => createHash('sha256').update(hostname()).digest('hex').slice(0, 8)

/** `0a1b2c3d-12345-4e5f6a7b`: machine, process, and one of its own. */
export const temporaryTag = (): string => `${host()}-${process.pid}-${randomUUID().slice(0, 8)}`

/** Source text of a pattern with two groups, the machine and the process of a tag. */
export const TAG = '([0-9a-f]{8})-(\\d+)-[0-9a-f]{8}'

/**
 * Removes what `pattern`, around `TAG`, matches in a folder and belongs to nobody any more: to a process of this machine that is
 * gone, or to another machine and untouched for a day. Never fails.
 */
export async function removeAbandoned(folder: string, pattern: RegExp): Promise<void> {
  for (const name of await fs.readdir(folder).catch(() => [])) {
    const [, machine, pid] = pattern.exec(name) ?? []
    if (pid === undefined) continue
    const file = path.join(folder, name)
    const stat = await fs.lstat(file).catch(() => null)
    const isOurs = stat?.uid === process.getuid?.()
    const isAbandoned =
      machine === host() ? !isRunning(Number(pid)) : Date.now() - (stat?.mtimeMs ?? Infinity) > STALE_MS
    if (isOurs && isAbandoned) await fs.rm(file, { recursive: true, force: true }).catch(() => {})
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
