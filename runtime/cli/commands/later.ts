import { ktlError } from '../../fail.ts'
import type { AddCommand } from '../context.ts'

const LATER = {
  fmt: 'two blanks of indentation, one statement a line, as in samples/, is the canonical form',
  bench: '`npm run bench` in the checkout measures the compiler and the virtual device',
}

/** Commands of the contract that this version does not have: they say so instead of being unknown. */
export const addLater: AddCommand = (program) => {
  for (const [command, help] of Object.entries(LATER)) {
    program
      .command(command)
      .summary('not available yet')
      .argument('[files...]')
      .allowUnknownOption()
      .action(() => {
        throw ktlError('KTL4108', { command, help })
      })
  }
}
