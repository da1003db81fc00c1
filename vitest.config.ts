import { defineConfig } from 'vitest/config'
import { FULL } from './test/cases_of.ts'

/**
 * Files that change nothing beside their own values: those of a worker share the modules that they import. So none of
 * those modules may name hooks when it is imported (test/runtime/cli.ts does): they would run for the first file alone.
 */
const SHARING = [
  ...['grammar', 'compiler', 'codegen', 'catalogue'].map((room) => `test/${room}/**/*.test.ts`),
  // The addon's own counts devices that are left to the garbage collector.
  'test/native/**/!(addon).test.ts',
  'test/docs/{cutlass_table,examples,links,made,members,notebooks,numbers,programs}.test.ts',
  'test/lsp/{bad_input,features,grammar}.test.ts',
  'test/{fit/learn,hooks/bundlers,layering,work}.test.ts',
  // Devices of the runtime that no settings, mocks or registered kernels change; each closes its own.
  'test/{cases,full,mutation}/**/*.test.ts',
  ...[
    'arguments',
    'artifact*',
    'bench',
    'discovery',
    'discovery_where',
    'epilogue_*',
    'exact_ranking',
    'few_ranking',
    'formats',
    'forms',
    'graph',
    'in_place_rows',
    'host_work',
    'int4',
    'kernel',
    'launch',
    'library',
    'library_kernels',
    'machine',
    'metadata*',
    'operations',
    'parts',
    'performance',
    'playground_page',
    'program',
    'quantised_outputs',
    'scale_tiles',
    'scaled_*',
    'scalars',
    'stream',
    'target',
    'tensor',
    'tensor_like',
    'tensor_map',
  ].map((name) => `test/runtime/${name}.test.ts`),
]

/** Broken kernels, and random ones: files of the full test alone. */
const LATER = FULL ? [] : ['test/mutation/{mutation,tensor_cores,verify}.test.ts', 'test/full/*.test.ts']

const common = {
  // A native addon and its devices belong to one process each.
  pool: 'forks',
  // Winners that a developer has tuned must not change what tests find.
  env: { KTL_TUNING_FILE: '/nonexistent/ktl-tuning.json' },
  testTimeout: 60_000,
  hookTimeout: 60_000,
} as const

export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: ['default', './test/reporter.ts'],
    projects: [
      { test: { ...common, name: 'sharing', include: SHARING, exclude: LATER, isolate: false } },
      { test: { ...common, name: 'apart', include: ['test/**/*.test.ts'], exclude: [...SHARING, ...LATER] } },
    ],
  },
})
