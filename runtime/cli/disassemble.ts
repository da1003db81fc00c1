/** SASS of a cubin by the toolkit's disassembler. */
import { promises as fs } from 'node:fs'
import path from 'node:path'
import { KtlError } from '../../grammar/diagnostics.ts'
import { ktlError } from '../errors/fail.ts'
import { findNvcc, nvccTimeout } from '../toolchain/nvcc.ts'
import { runProgram, withTemporaryFolder } from '../toolchain/process.ts'

const TOOLS = { nvdisasm: ['-c'], cuobjdump: ['-sass'] } as const

/** Beside nvcc, then in PATH; null: there is none. */
export async function findDisassembler(): Promise<string | null> {
  for (const folder of await folders()) {
    for (const tool of Object.keys(TOOLS)) {
      const file = path.join(folder, tool)
      if (
        await fs.access(file, fs.constants.X_OK).then(
          () => true,
          () => false,
        )
      )
        return file
    }
  }
  return null
}

async function folders(): Promise<string[]> {
  const fromPath = (process.env.PATH ?? '').split(path.delimiter).filter((folder) => folder !== '')
  try {
    return [path.dirname((await findNvcc()).path), ...fromPath]
  } catch (error) {
    if (!(error instanceof KtlError)) throw error
    return fromPath
  }
}

/** KTL6007: there is none. */
export async function requireDisassembler(): Promise<string> {
  const tool = await findDisassembler()
  if (tool !== null) return tool
  throw ktlError('KTL6007', { tried: ['the folder of nvcc', 'every folder of PATH'] })
}

/** Text of the machine code; KTL6003 when the tool fails. */
export async function disassemble(tool: string, cubin: Uint8Array, signal: AbortSignal): Promise<string> {
  return withTemporaryFolder(async (folder) => {
    await fs.writeFile(path.join(folder, 'kernel.cubin'), cubin)
    const options = TOOLS[path.basename(tool) as keyof typeof TOOLS]
    const timeoutMs = nvccTimeout(undefined)
    const { status, output, timedOut } = await runProgram(tool, [...options, 'kernel.cubin'], {
      cwd: folder,
      timeoutMs,
      signal,
    })
    if (timedOut) throw ktlError('KTL6009', { what: tool, ms: timeoutMs, output })
    if (status !== 0) throw ktlError('KTL6003', { what: tool, reason: `failed with status ${status}`, output })
    return output
  })
}
