/** The command in the process of a test: loading it and warming it up is most of the time of a call that compiles nothing. */
import { Readable } from 'node:stream'
import { runCommand } from '../../runtime/cli/command.ts'
import { Output } from '../../runtime/cli/output.ts'
import type { Ended } from './cli.ts'

export interface CommandOptions {
  readonly stdin?: string
  readonly env?: Readonly<Record<string, string>>
}

/**
 * `ktl ARGS`, as `ktl` of cli.ts has it, but for what only a process has: its cache is that of the tests, what is asked once in a process stays
 * known, and streams are never a terminal. One call at a time.
 */
export async function command(args: readonly string[], { stdin = '', env = {} }: CommandOptions = {}): Promise<Ended> {
  const text = { stdout: '', stderr: '' }
  const into = (name: 'stdout' | 'stderr') => ({ write: (part: string) => void (text[name] += part) })
  const own = Object.getOwnPropertyDescriptor(process, 'stdin')!
  const before = process.env
  // Texts are compared, wherever the tests run.
  const { FORCE_COLOR: _, ...without } = before
  process.env = { ...without, ...env }
  Object.defineProperty(process, 'stdin', { value: Readable.from([stdin]), configurable: true })
  try {
    const out = new Output(into('stdout'), into('stderr'))
    const status = await runCommand(args, { out, signal: new AbortController().signal })
    return { status, ...text }
  } finally {
    Object.defineProperty(process, 'stdin', own)
    process.env = before
  }
}
