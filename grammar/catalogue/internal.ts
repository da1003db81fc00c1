/** KTL90xx: mistakes of ktl itself. */
import { entry } from './entry.ts'

export const internal = {
  KTL9001: entry<{ reason: string }>({
    title: 'internal error',
    explain:
      'Something that ktl takes for impossible has happened. The program may be right; please report it with its text.',
    word: ({ reason }) => ({
      message: `internal error: ${reason}`,
      help: 'this is a mistake of ktl: please report it with the program',
    }),
  }),
}
