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
  KTL9002: entry<{ kernel: string; problems: readonly string[] }>({
    title: 'broken pipeline program',
    explain:
      'What a kernel was lowered to would race, hang or read what is not there: the verifier of pipeline programs says where. ' +
      'The program in the source is right.',
    word: ({ kernel, problems }) => ({
      message: `the pipeline program of ${kernel} is broken: ${problems[0]}`,
      notes: problems.slice(1),
      help: 'this is a mistake of ktl: please report it with the program; another tile or schedule may not have it',
    }),
  }),
}
