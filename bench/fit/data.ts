/**
 * Measured times of kernels, as JSON Lines: a header, the problems, and a time for each kernel that ran. The file is all that a fit
 * needs: problems are given in full, kernels by design and alignment.
 *
 *   {"kind":"times","schema":1,"device":"NVIDIA H200 …","arch":"sm_90a","sms":132,"ktl":"0.1.0","clock":"measured"}
 *   {"kind":"problem","name":"bf16 nk 4096^3","shape":{"m":4096,…},"a":"bf16",…}
 *   {"kind":"time","problem":"bf16 nk 4096^3","design":{"kind":"sm90",…},"alignment":{"A":"vector",…},"us":211.4,"low":210.9,"high":212.3}
 */
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Chip } from '../../runtime/discovery/ranking/machine.ts'
import type { TargetArch } from '../../runtime/index.ts'
import type { Problem } from '../gpu/problems.ts'

export interface Header {
  readonly kind: 'times'
  readonly schema: 1
  readonly device: string
  readonly arch: TargetArch
  readonly sms: number
  /** As its driver says it. Default: the chip that is known best. */
  readonly chip?: Chip
  readonly ktl: string
  /** Modelled: of a virtual device, for trying things out. */
  readonly clock: 'measured' | 'modelled'
}

/** What tells a kernel of a problem from the others. */
export interface KernelId {
  readonly design: { readonly kind: string }
  /** By operand: what its addresses are known to be multiples of. */
  readonly alignment: Readonly<Record<string, string>>
}

/** Microseconds: the median of the medians of rounds, the least and the greatest of these. */
export interface Time extends KernelId {
  readonly kind: 'time'
  readonly problem: string
  readonly us: number
  readonly low: number
  readonly high: number
}

export interface TimesFile {
  readonly header: Header
  readonly problems: readonly Problem[]
  readonly times: readonly Time[]
}

type Line = Header | (Problem & { readonly kind: 'problem' }) | Time

/** Written as the times come: what a run that ends early has measured stays. */
export class TimesWriter {
  readonly #file: string

  constructor(file: string, header: Header) {
    this.#file = file
    mkdirSync(path.dirname(path.resolve(file)), { recursive: true })
    if (!existsSync(file)) writeFileSync(file, `${JSON.stringify(header)}\n`)
    // Behind a line that was never finished.
    else if (!readFileSync(file, 'utf8').endsWith('\n')) appendFileSync(file, '\n')
  }

  add(problem: Problem, times: readonly Omit<Time, 'kind' | 'problem'>[]): void {
    const lines: Line[] = [{ kind: 'problem', ...problem }, ...times.map((time) => ({ kind: 'time' as const, problem: problem.name, ...time }))]
    appendFileSync(this.#file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  } // prettier-ignore
}

/** A last line that is half written is left out. */
export function readTimes(file: string): TimesFile {
  const lines = readFileSync(file, 'utf8').split('\n').flatMap(parsed)
  const header = lines.find((line): line is Header => line.kind === 'times')
  if (header?.schema !== 1) throw new Error(`${file} has no header of times, schema 1`)
  return {
    header,
    problems: lines.filter((line): line is Problem & { kind: 'problem' } => line.kind === 'problem'),
    times: lines.filter((line): line is Time => line.kind === 'time'),
  }
}

function parsed(text: string): Line[] {
  try {
    return [JSON.parse(text) as Line]
  } catch {
    return []
  }
}
