/** Results as JSON Lines, written as they come: what a process that is lost has done is not. */
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Result } from './measure.ts'
import type { Problem } from './problems.ts'
import { jsonLine, type Failure } from './report.ts'

export interface MachineRecord {
  readonly device: string
  /** For people. */
  readonly text: string
}

type Line = { readonly kind: string; readonly name?: string; readonly reason?: string } & Record<string, unknown>

export class Journal {
  readonly file: string

  constructor(file: string) {
    this.file = file
  }

  clear(): void {
    mkdirSync(path.dirname(path.resolve(this.file)), { recursive: true })
    writeFileSync(this.file, '')
  }

  machine(machine: MachineRecord): void {
    this.#append({ kind: 'machine', ...machine })
  }

  started(name: string): void {
    this.#append({ kind: 'started', name })
  }

  failed(name: string, reason: string): void {
    this.#append({ kind: 'failure', name, reason })
  }

  add(result: Result): void {
    appendFileSync(this.file, `${jsonLine(result)}\n`)
  }

  /** Names of problems with a result or a failure. */
  get done(): ReadonlySet<string> {
    return new Set(this.#lines().flatMap(({ kind, name }) => (kind === 'comparison' || kind === 'failure' ? [name!] : [])))
  }

  /** The problem that was begun last and has neither a result nor a failure. */
  get unfinished(): string | null {
    const last = this.#lines().findLast(({ kind }) => kind === 'started')?.name
    return last === undefined || this.done.has(last) ? null : last
  }

  /** In the order of `problems`; those without a line were out of time. */
  read(problems: readonly Problem[]): { results: Result[]; failures: Failure[]; machine: MachineRecord | null } {
    const lines = this.#lines()
    const named = (kind: string, name: string): Line | undefined => lines.findLast((line) => line.kind === kind && line.name === name)
    const results: Result[] = []
    const failures: Failure[] = []
    for (const problem of problems) {
      const result = named('comparison', problem.name)
      if (result) results.push({ ...(result as unknown as Omit<Result, 'problem'>), problem })
      else failures.push({ problem, reason: named('failure', problem.name)?.reason ?? 'out of time' })
    }
    return { results, failures, machine: (lines.findLast(({ kind }) => kind === 'machine') as unknown as MachineRecord) ?? null }
  }

  #append(line: object): void {
    appendFileSync(this.file, `${JSON.stringify({ schema: 1, ...line })}\n`)
  }

  /** The last line may be half written. */
  #lines(): Line[] {
    if (!existsSync(this.file)) return []
    return readFileSync(this.file, 'utf8').split('\n').flatMap((text) => {
      try {
        return [JSON.parse(text) as Line]
      } catch {
        return []
      }
    })
  }
} // prettier-ignore
