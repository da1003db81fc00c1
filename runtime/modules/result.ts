/** The launches of one call as one result. */
import type { Finding } from '../addon/findings.ts'
import type { NativeStats } from '../addon/virtual.ts'

/** What a virtual device says of a launch. */
export interface LaunchResult {
  /** Of virtual devices. */
  readonly findings: readonly Finding[]
  /** A GPU counts CTAs and clusters, and milliseconds where `timed`; the rest is 0 there. */
  readonly stats: NativeStats
  /** Chrome trace events, JSON text. */
  readonly trace?: string
}

/** Statistics of which only some are known. */
export const launchStats = (known: Partial<NativeStats> = {}): NativeStats => ({
  warpInstructions: 0,
  ctas: 0,
  clusters: 0,
  milliseconds: 0,
  tensorMacs: 0,
  tmaBytesLoaded: 0,
  tmaBytesStored: 0,
  sharedBytesPerCta: 0,
  tmemColumns: 0,
  modelledCycles: 0,
  fidelity: { exact: {}, approximated: {} },
  ...known,
})

/** Findings in launch order, counts added, sizes the largest; the trace is that of the first. `results` is not empty. */
export function mergeResults(results: readonly LaunchResult[]): LaunchResult {
  const [first, ...others] = results as readonly [LaunchResult, ...LaunchResult[]]
  if (others.length === 0) return first
  return {
    ...first,
    findings: results.flatMap(({ findings }) => findings),
    stats: others.reduce((sum, { stats }) => add(sum, stats), first.stats),
  }
}

function add(a: NativeStats, b: NativeStats): NativeStats {
  const exact = { ...a.fidelity.exact }
  for (const [form, count] of Object.entries(b.fidelity.exact)) exact[form] = (exact[form] ?? 0) + count
  return {
    warpInstructions: a.warpInstructions + b.warpInstructions,
    ctas: a.ctas + b.ctas,
    clusters: a.clusters + b.clusters,
    milliseconds: a.milliseconds + b.milliseconds,
    tensorMacs: a.tensorMacs + b.tensorMacs,
    tmaBytesLoaded: a.tmaBytesLoaded + b.tmaBytesLoaded,
    tmaBytesStored: a.tmaBytesStored + b.tmaBytesStored,
    sharedBytesPerCta: Math.max(a.sharedBytesPerCta, b.sharedBytesPerCta),
    tmemColumns: Math.max(a.tmemColumns, b.tmemColumns),
    modelledCycles: a.modelledCycles + b.modelledCycles,
    fidelity: { exact, approximated: { ...a.fidelity.approximated, ...b.fidelity.approximated } },
  }
}
