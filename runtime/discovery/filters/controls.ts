/** Performance controls as a condition on designs, so that discovery refuses kernels without making their metadata. */
import type { PerformanceControls } from '../../arguments/performance.ts'
import { RUNTIME_TARGETS } from '../../targets/index.ts'
import { Filter } from './where.ts'

/** The same as `design.supports(performance)` says of every design of ktl; null: all can. */
export function controlsFilter(performance: PerformanceControls | null): Filter | null {
  if (!performance || performance.given.length === 0) return null
  const scheduler = performance.maxSms === null ? {} : ({ tileScheduler: 'static' } as const)
  const kinds = RUNTIME_TARGETS.kinds.filter((kind) => RUNTIME_TARGETS.get(kind).controls)
  return new Filter({ design: { kind: { in: kinds }, ...scheduler } })
}
