import type { Reporter, TestModule, SerializedError } from 'vitest/node'

/** Prints `N passed, N failed, N skipped` as the very last line, alone: what continuous integration reads. */
export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const counts = { passed: 0, failed: unhandled.length, skipped: 0 }
    for (const module of modules) {
      let failed = 0
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        if (state === 'passed') counts.passed++
        else if (state === 'failed') failed++
        else counts.skipped++
      }
      // A file that does not load, or whose hook throws, fails without a failing test.
      counts.failed += failed === 0 && module.state() === 'failed' ? 1 : failed
    }
    process.on('exit', () => {
      console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`)
    })
  }
}
