/** Runs TypeScript that prints what its comments say: `console.log(x) // 5`. */
import { inspect } from 'node:util'
import { transformSync } from 'esbuild'

export interface Printed {
  /** The line with the call. */
  readonly line: string
  readonly printed: string
}

const AsyncFunction = (async () => {}).constructor as new (
  ...source: string[]
) => (...values: unknown[]) => Promise<void>

/** What each call of `console.log` at a line printed. The code sees the names of `scope`, and nothing else beside globals. */
export async function runCode(code: string, scope: Readonly<Record<string, unknown>>): Promise<Printed[]> {
  const lines = code.split('\n')
  const numbered = lines.map((line, i) => line.replace('console.log(', `print(${i}, `)).join('\n')
  const body = transformSync(`async function example() {\n${numbered}\n}`, { loader: 'ts', target: 'node20' }).code
  const found: Printed[] = []
  const print = (line: number, ...values: unknown[]): void => {
    const printed = values.map((value) => (typeof value === 'string' ? value : inspect(value))).join(' ')
    found.push({ line: lines[line]!, printed })
  }
  const all = { ...scope, print }
  await new AsyncFunction(...Object.keys(all), `${body}\nawait example()`)(...Object.values(all))
  return found
}

/** What a line promises to print; undefined: it promises nothing. */
export const promisedBy = (line: string): string | undefined => /\) \/\/ (.*)$/.exec(line)?.[1]
