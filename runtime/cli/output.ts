/**
 * Where things go: results on stdout, everything else on stderr. With `--json` results are JSON Lines, diagnostics
 * among them; colours and progress only where a terminal shows them.
 */
import { WriteStream } from 'node:tty'
import { SingleBar } from 'cli-progress'
import pc from 'picocolors'
import type { Diagnostic } from '../../grammar/diagnostics.ts'
import { lineColumn } from '../../grammar/lines.ts'
import { renderDiagnostic } from '../../grammar/render.ts'

export const SCHEMA = 1

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json | undefined }

export interface Progress {
  update(done: number, total: number): void
  /** Leaves nothing on the screen. */
  stop(): void
}

/** On terminals that have them; FORCE_COLOR, NO_COLOR and TERM count as they do for Node itself. */
export function hasColors(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv = process.env): boolean {
  if (!stream.isTTY && env.FORCE_COLOR === undefined) return false
  return WriteStream.prototype.getColorDepth.call(stream as WriteStream, env) > 1
}

/** What of a stream is used; those of a process are such. */
export interface TextStream {
  write(text: string): unknown
  readonly isTTY?: boolean
  /** Of a terminal. */
  readonly columns?: number
}

export class Output {
  json = false
  readonly stdout: TextStream
  readonly stderr: TextStream
  readonly colors
  #progress: Progress | null = null

  constructor(stdout: TextStream = process.stdout, stderr: TextStream = process.stderr) {
    this.stdout = stdout
    this.stderr = stderr
    this.colors = pc.createColors(hasColors(stdout))
  }

  /** A line of the result for people. */
  line(text = ''): void {
    if (!this.json) this.stdout.write(`${text}\n`)
  }

  /** Text as it is: CUDA, IR. In JSON mode it belongs into a record. */
  text(text: string): void {
    if (!this.json) this.stdout.write(text.endsWith('\n') ? text : `${text}\n`)
  }

  /** The same result for programs. */
  record(kind: string, fields: Readonly<Record<string, Json | undefined>>): void {
    if (this.json) this.stdout.write(`${JSON.stringify({ schema: SCHEMA, kind, ...fields }, numbersAsText)}\n`)
  }

  note(text: string): void {
    this.#progress?.stop()
    this.stderr.write(`${text}\n`)
  }

  diagnostics(list: readonly Diagnostic[]): void {
    this.#progress?.stop()
    const color = hasColors(this.stderr)
    for (const diagnostic of list) {
      if (this.json) this.record('diagnostic', diagnosticFields(diagnostic))
      else this.stderr.write(`${renderDiagnostic(diagnostic, { color })}\n`)
    }
  }

  /** A bar on stderr when that is a terminal; otherwise nothing. One at a time. */
  progress(label: string, unit: string): Progress {
    this.#progress?.stop()
    if (this.stderr !== process.stderr || !process.stderr.isTTY) return { update: () => {}, stop: () => {} }
    const format = `${label} [{bar}] {value} of {total} ${unit}`
    const bar = new SingleBar({ format, stream: process.stderr, clearOnComplete: true, hideCursor: true, barsize: 30 })
    bar.start(1, 0)
    const progress: Progress = {
      update: (done, total) => {
        bar.setTotal(total)
        bar.update(done)
      },
      stop: () => {
        bar.stop()
        if (this.#progress === progress) this.#progress = null
      },
    }
    return (this.#progress = progress)
  }
}

/** JSON has no infinities and no NaN. */
function numbersAsText(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value
}

function diagnosticFields({
  code,
  severity,
  message,
  source,
  span,
  label,
  notes,
  help,
  fix,
}: Diagnostic): Record<string, Json | undefined> {
  const place = source && span ? lineColumn(source, span.start) : null
  return {
    code,
    severity,
    message,
    file: source?.name,
    ...(place && { line: place.line, column: place.column }),
    label,
    notes,
    help,
    fix: fix && {
      description: fix.description,
      start: fix.span.start,
      end: fix.span.end,
      replacement: fix.replacement,
    },
  }
}

/** `1 kernel`, `2 kernels`, `1,234 instances` */
export function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`
}

/** `0.42 ms`, `12 ms`, `1.3 s` */
export function milliseconds(ms: number): string {
  if (ms < 10) return `${ms.toFixed(2)} ms`
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(2)} s`
}

/** `912 B`, `48.5 KiB` */
export function bytes(count: number): string {
  if (count < 1024) return `${count} B`
  return count < 1 << 20 ? `${(count / 1024).toFixed(1)} KiB` : `${(count / (1 << 20)).toFixed(1)} MiB`
}
