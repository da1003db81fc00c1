/** Findings and errors of the native device as diagnostics, with the role and the `.ktl` place where a map knows them. */
import type { Span } from '../../grammar/ast.ts'
import { explainCode } from '../../grammar/catalogue/index.ts'
import { KtlError, type Diagnostic, type Source } from '../../grammar/diagnostics.ts'
import type { SourceMapEntry } from '../../codegen/cuda/generated.ts'
import type { NativeFinding } from './virtual.ts'

/** From CUDA lines to what they were generated from. */
export interface KernelSources {
  readonly map: readonly SourceMapEntry[]
  /** The `.ktl` text that spans point into. */
  readonly ktl: Source | null
}

/** A finding of the virtual device, and what the source map knows about its CUDA line. */
export interface Finding extends NativeFinding {
  /** Warp role: `producer`, `mma`, `epilogue` … */
  readonly role: string | null
  /** Stage and barrier of the line. */
  readonly sourceNote: string | null
  readonly ktl: Span | null
}

export function annotate(finding: NativeFinding, sources: KernelSources | undefined): Finding {
  // The entry of the line, or the nearest above it: statements may go over several lines.
  const entry = finding.cudaLine > 0 ? entryAt(sources?.map ?? [], finding.cudaLine) : null
  return { ...finding, role: entry?.role ?? null, sourceNote: entry?.note ?? null, ktl: entry?.ktl ?? null }
}

export function entryAt(map: readonly SourceMapEntry[], cudaLine: number): SourceMapEntry | null {
  let best: SourceMapEntry | null = null
  for (const entry of map) {
    if (entry.cudaLine <= cudaLine && (best === null || entry.cudaLine > best.cudaLine)) best = entry
  }
  return best
}

/** `CTA (1, 0, 0), warp 4 (mma), lane 0, kernel.cu:120, PTX line 310: mbarrier.try_wait…` */
export function describeLocation(finding: Finding): string {
  const parts = [`CTA (${finding.cta.join(', ')})`]
  if (finding.warp >= 0) parts.push(`warp ${finding.warp}${finding.role ? ` (${finding.role})` : ''}`)
  if (finding.lane >= 0) parts.push(`lane ${finding.lane}`)
  if (finding.cudaLine > 0) parts.push(`${finding.cudaFile || 'CUDA'}:${finding.cudaLine}`)
  if (finding.ptxLine > 0) parts.push(`PTX line ${finding.ptxLine}`)
  const where = `in ${finding.function}: ${parts.join(', ')}`
  return finding.instruction ? `${where}: ${finding.instruction}` : where
}

export function findingDiagnostic(finding: Finding, sources?: KernelSources): Diagnostic {
  const notes = [describeLocation(finding), ...(finding.sourceNote ? [finding.sourceNote] : []), ...finding.notes]
  if (finding.count > 1) notes.push(`${finding.count} findings like this one`)
  const explained = explainCode(finding.code)
  return {
    code: finding.code,
    severity: finding.fatal ? 'error' : finding.remark ? 'note' : 'warning',
    message: finding.message,
    source: finding.ktl ? (sources?.ktl ?? null) : null,
    span: sources?.ktl ? finding.ktl : null,
    notes,
    ...(explained && { help: explained.explain }),
  }
}

/** One error of all findings; null when there are none, or remarks only. */
export function findingsError(findings: readonly Finding[], sources?: KernelSources): KtlError | null {
  if (findings.every(({ remark }) => remark)) return null
  return new KtlError(findings.map((finding) => findingDiagnostic(finding, sources)))
}

/** An error thrown by the addon as a KtlError; `ptx` places the ones that name a line. */
export function nativeError(error: unknown, ptx: Source | null): unknown {
  const { code, line, message } = error as { code?: unknown; line?: unknown; message?: string }
  if (error instanceof KtlError || typeof code !== 'string' || !code.startsWith('KTL')) return error
  const span = ptx && typeof line === 'number' && line > 0 ? lineSpan(ptx.text, line) : null
  const diagnostic = { code, severity: 'error', message: message ?? code, source: span ? ptx : null, span } as const
  return new KtlError(diagnostic, { cause: error })
}

/** The span of a 1-based line, without its indentation and line end. */
export function lineSpan(text: string, line: number): Span | null {
  let start = 0
  for (let n = 1; n < line; n++) {
    start = text.indexOf('\n', start) + 1
    if (start === 0) return null
  }
  const newline = text.indexOf('\n', start)
  const end = newline < 0 ? text.length : newline
  const indentation = text.slice(start, end).length - text.slice(start, end).trimStart().length
  return { start: start + indentation, end: Math.max(start + indentation, end) }
}
