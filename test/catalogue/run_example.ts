/** Runs the snippets of the catalogue: one function for each kind, each giving the codes that the snippet produces. */
import { CommanderError } from 'commander'
import { checkEpilogue } from '../../compiler/epilogue.ts'
import type { Diagnostic } from '../../grammar/diagnostics.ts'
import { parseEpilogue } from '../../grammar/parse.ts'
import { Output } from '../../runtime/cli/output.ts'
import { createProgram, usageError } from '../../runtime/cli/program.ts'
import { checkSource } from '../../runtime/programs/check_source.ts'
import { ktlProvider } from '../../runtime/discovery/providers/provider.ts'
import { loadSource } from '../../runtime/programs/program.ts'

export type Scope = Readonly<Record<string, unknown>>

/** What checking says. */
export const codesOfProgram = (text: string): string[] =>
  checkSource({ name: 'a.ktl', text }).diagnostics.map((d) => d.code)

/** Why there are no instances, or not all that the schedules list, on the target of the schedule; else on sm_100a. */
export function codesOfLowering(text: string): string[] {
  const [, on] = / on (sm_90|sm_80)\b/.exec(text) ?? []
  const target = on === 'sm_90' ? 'sm_90a' : on === 'sm_80' ? 'sm_80' : 'sm_100a'
  const { kernels } = loadSource({ name: 'a.ktl', text })
  return Object.values(kernels).flatMap(({ family }) => {
    const { rejections } = ktlProvider.spaceOf(family).count(target)
    return rejections.map(({ rejection }) => rejection.code)
  })
}

export function codesOfEpilogue(text: string): string[] {
  const source = { name: '<epilogue>', text }
  const { epilogue, diagnostics } = parseEpilogue(source)
  const checked = diagnostics.length > 0 ? [] : checkEpilogue(epilogue, source).diagnostics
  return [...diagnostics, ...checked].map((d) => d.code)
}

const AsyncFunction = (async () => {}).constructor as new (
  ...source: string[]
) => (...values: unknown[]) => Promise<unknown>

/** Statements, the last of which is an expression: its value. */
export async function evaluate(text: string, scope: Scope): Promise<unknown> {
  const ends = [0, ...[...text.matchAll(/; |\n/g)].map((match) => match.index + 1)]
  for (const end of ends) {
    let run
    try {
      run = new AsyncFunction(...Object.keys(scope), `${text.slice(0, end)}\nreturn (${text.slice(end)}\n)`)
    } catch (error) {
      // The rest holds several statements, or the cut is within a string.
      if (error instanceof SyntaxError) continue
      throw error
    }
    return run(...Object.values(scope))
  }
  throw new SyntaxError(`no expression at the end of: ${text}`)
}

/** The codes of whatever a call gives: an error, a Status, findings, an empty list, reasons; none for anything else. */
export async function codesOfCall(work: () => Promise<unknown>): Promise<string[]> {
  let value: any
  try {
    value = await work()
  } catch (error) {
    return codesOfError(error)
  }
  if (value?.ok === false) return [value.code]
  if (Array.isArray(value?.findings)) return value.findings.map((finding: { code: string }) => finding.code)
  if (Array.isArray(value?.reasons)) return value.reasons.map((reason: { code: string }) => reason.code)
  return typeof value?.why === 'string' ? value.why.match(/KTL\d{4}/g).slice(0, 1) : []
}

/** A KtlError, also one of another copy of the modules. */
function codesOfError(error: unknown): string[] {
  const diagnostics = (error as { diagnostics?: readonly Diagnostic[] }).diagnostics
  if (!Array.isArray(diagnostics)) throw error
  return diagnostics.map((d: Diagnostic) => d.code)
}

class Recorder extends Output {
  readonly codes: string[] = []
  override line(): void {}
  override text(): void {}
  override record(): void {}
  override note(): void {}
  override diagnostics(list: readonly Diagnostic[]): void {
    this.codes.push(...list.map((d) => d.code))
  }
}

/** `ktl WORDS…` in the current folder. */
export async function codesOfCommand(command: string): Promise<string[]> {
  const [name, ...words] = command.split(' ')
  if (name !== 'ktl') throw new Error(`not a call of ktl: ${command}`)
  const out = new Recorder()
  try {
    const program = createProgram({ out, signal: new AbortController().signal }, () => {})
    await program.parseAsync(words, { from: 'user' })
    return out.codes
  } catch (error) {
    return [...out.codes, ...codesOfError(error instanceof CommanderError ? usageError(error, words) : error)]
  }
}
