import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // A native addon and its devices belong to one process each.
    pool: 'forks',
    maxWorkers: 2,
    // Winners that a developer has tuned must not change what tests find.
    env: { KTL_TUNING_FILE: '/nonexistent/ktl-tuning.json' },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['default', './test/reporter.ts'],
  },
})
