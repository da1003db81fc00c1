/** How much JavaScript runs, counted: the same on a busy machine as on an idle one. */
import { Session, type Profiler } from 'node:inspector'

/** Calls of functions while `work` runs, as the engine counts them; not the turns of loops that call nothing. */
export function workOf(work: () => void): number {
  const session = new Session()
  session.connect()
  try {
    session.post('Profiler.enable')
    session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    work()
    let calls = 0
    session.post('Profiler.takePreciseCoverage', (error, coverage: Profiler.TakePreciseCoverageReturnType) => {
      if (error) throw error
      for (const { functions } of coverage.result) for (const { ranges } of functions) calls += ranges[0]!.count
    })
    session.post('Profiler.stopPreciseCoverage')
    return calls
  } finally {
    session.disconnect()
  }
}
