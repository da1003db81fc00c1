/** nvcc's messages as diagnostics, placed in the CUDA text, or in the `.ktl` it was generated from. */
import { diagnose } from '../../grammar/catalogue/index.ts'
import { KtlError, type Diagnostic, type Source } from '../../grammar/diagnostics.ts'
import { ktlError } from '../errors/fail.ts'
import { entryAt, lineSpan, type KernelSources } from '../addon/findings.ts'
import type { RunResult } from './process.ts'

const MAX_DIAGNOSTICS = 20

interface Message {
  readonly line: number
  readonly text: string
}

/** `kernel.cu(12): error: …`, `kernel.cu(12): error #20: …`, `ptxas kernel.ptx, line 40; error : …` */
function parseErrors(output: string, file: string): Message[] {
  const messages: Message[] = []
  for (const row of output.split('\n')) {
    const cuda = /^(.*?)\((\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (.*)$/.exec(row)
    const ptx = /^ptxas .*?, line (\d+); (?:fatal|error)\s*: (.*)$/.exec(row)
    if (cuda) {
      const inText = cuda[1]!.endsWith(file)
      messages.push({
        line: inText ? Number(cuda[2]) : 0,
        text: inText ? cuda[3]! : `${cuda[1]}(${cuda[2]}): ${cuda[3]}`,
      })
    } else if (ptx) messages.push({ line: 0, text: `${ptx[2]} (PTX line ${ptx[1]})` })
  }
  return messages
}

/** The error of a failed compilation: KTL6002 with places, KTL6009 when it ran out of time, KTL6003 when nvcc names no place. */
export function compileError(
  result: Omit<RunResult, 'timedOut'> & { readonly timedOutMs: number | null },
  cuda: Source,
  file: string,
  sources: KernelSources | undefined,
): KtlError {
  if (result.startError) return didNotFinish(`did not start: ${result.startError.message}`, '')
  if (result.timedOutMs !== null)
    return ktlError('KTL6009', { what: 'nvcc', ms: result.timedOutMs, output: result.output.trim() })
  if (result.status === null) return didNotFinish('was killed', result.output)
  const errors = parseErrors(result.output, file).slice(0, MAX_DIAGNOSTICS)
  if (errors.length === 0) return didNotFinish(`failed with status ${result.status}`, result.output)
  return new KtlError(errors.map((error) => place(error, cuda, sources)))
}

export function didNotFinish(reason: string, output: string): KtlError {
  return ktlError('KTL6003', { what: 'nvcc', reason, output: output.trim() })
}

function place({ line, text }: Message, cuda: Source, sources: KernelSources | undefined): Diagnostic {
  const span = line > 0 ? lineSpan(cuda.text, line) : null
  const origin = sources?.ktl ? entryAt(sources.map, line)?.ktl : null
  if (origin && span) {
    const note = `${cuda.name}:${line}: ${cuda.text.slice(span.start, span.end)}`
    return diagnose('KTL6002', { message: text, notes: [note], source: sources!.ktl, span: origin })
  }
  return diagnose('KTL6002', { message: text, source: span ? cuda : null, span })
}
