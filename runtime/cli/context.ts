import type { Command } from 'commander'
import type { ExitCode } from './exit.ts'
import type { Output } from './output.ts'

/** What every command gets. */
export interface Context {
  readonly out: Output
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal
}

/** A file in commands/: adds itself to the program. `finish` takes what the command ends with. */
export type AddCommand = (program: Command, context: Context, finish: (code: ExitCode) => void) => void
