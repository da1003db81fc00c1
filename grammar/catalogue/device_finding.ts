/** How the entries of findings are built. */
import { entry, type Entry, type Example } from './entry.ts'

/** What the device says, and where. */
export interface Reported {
  readonly message: string
  readonly notes?: readonly string[]
}

/** An entry of a finding: `examples` are a wrong snippet and its right twin. */
export const finding = (title: string, explain: string, [wrong, right]: readonly Example[] = []): Entry<Reported> =>
  entry<Reported>({
    title,
    explain,
    ...(wrong && { wrong }),
    ...(right && { right }),
    word: ({ message, notes }) => ({ message, ...(notes?.length && { notes }) }),
  })

/** One warp. */
const LAUNCH = 'kernel.launch({ grid: 1, block: 32, params: [] })'

/** The same kernel with a wrong and a right part. */
export const cuda = (
  text: (part: string) => string,
  wrong: string,
  right: string,
  launch = LAUNCH,
): readonly Example[] => [wrong, right].map((part) => ({ cuda: dedent(text(part)), launch }))

/** The same PTX with a wrong and a right part. */
export const ptx = (
  text: (part: string) => string,
  wrong: string,
  right: string,
  launch = LAUNCH,
): readonly Example[] => [wrong, right].map((part) => ({ ptx: dedent(text(part)), launch }))

/** The same kernel, launched wrong and right. */
export const launches = (text: string, wrong: string, right: string): readonly Example[] =>
  [wrong, right].map((launch) => ({ cuda: dedent(text), launch }))

/** Without the indentation of the first line, and without lines that an empty part left. */
function dedent(text: string): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  const indentation = /^ */.exec(lines[0]!)![0]
  return lines.map((line) => (line.startsWith(indentation) ? line.slice(indentation.length) : line)).join('\n')
}
