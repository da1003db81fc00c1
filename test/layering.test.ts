/** Who may import whom, and who may name a backend: the sources read as text. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { TARGETS } from '../compiler/targets/index.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** From left to right: imports go to the same or an earlier one. */
const LAYERS = [['grammar'], ['compiler'], ['codegen'], ['runtime'], ['samples', 'bench', 'test']] as const
const FOLDERS = LAYERS.flat()
const layerOf = (file: string): number => LAYERS.findIndex((folders) => folders.some((f) => file.startsWith(`${f}/`)))

/** Packages that a layer may import; runtime and what uses it: any. */
const PACKAGES: Partial<Record<string, RegExp>> = { grammar: /^(chevrotain|prettier(\/doc)?)$/, compiler: /^$/, codegen: /^$/ } // prettier-ignore

interface Import {
  readonly from: string
  /** As written. */
  readonly specifier: string
  /** A file of the repository; null: a package. */
  readonly to: string | null
  /** Gone once compiled. */
  readonly typeOnly: boolean
}

const textOf = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8')

const FILES = FOLDERS.flatMap((folder) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.includes('node_modules'))
    .map((file) => path.posix.join(folder, file.split(path.sep).join('/'))),
)

/** Static imports and exports begin a line; dynamic ones stand anywhere. */
function importsOf(from: string): Import[] {
  const statements = textOf(from).matchAll(/^(?:import|export)\b([^'"`;]*?)\bfrom '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm)
  return Array.from(statements, ([, clause = '', named, plain, dynamic]) => {
    const specifier = (named ?? plain ?? dynamic)!
    const to = specifier.startsWith('.') ? path.posix.join(path.posix.dirname(from), specifier) : null
    const inBraces = /^\s*\{([^}]*)\}\s*$/.exec(clause)?.[1]?.split(',').filter((name) => name.trim() !== '')
    const typeOnly = /^\s*type\b/.test(clause) || (inBraces?.every((name) => /^\s*type\b/.test(name)) ?? false)
    return { from, specifier, to, typeOnly }
  })
} // prettier-ignore

const IMPORTS = FILES.flatMap(importsOf)

describe('imports', () => {
  test('the reader of imports sees them', () => {
    expect(FILES.length).toBeGreaterThan(300)
    expect(IMPORTS.filter(({ from }) => from === 'test/layering.test.ts').map(({ specifier }) => specifier)).toEqual([
      'node:fs', 'node:path', 'node:url', 'vitest', '../compiler/targets/index.ts',
    ]) // prettier-ignore
    const missing = IMPORTS.filter(({ from, to }) => layerOf(from) <= 3 && to?.endsWith('.ts') && !FILES.includes(to))
    expect(missing.map(({ from, to }) => `${from} -> ${to}`)).toEqual([])
  })

  test('run from grammar through compiler, codegen and runtime to samples, bench and test', () => {
    const backwards = IMPORTS.filter(({ from, to }) => to !== null && layerOf(to) > layerOf(from))
    expect(backwards.map(({ from, to }) => `${from} -> ${to}`)).toEqual([])
  })

  test('grammar, compiler and codegen run anywhere: nothing of Node, no package but the parser and the formatter', () => {
    const foreign = IMPORTS.filter(({ from, to, specifier }) => {
      const allowed = PACKAGES[from.split('/')[0]!]
      return to === null && allowed !== undefined && !allowed.test(specifier)
    })
    expect(foreign.map(({ from, specifier }) => `${from} -> ${specifier}`)).toEqual([])
    const globals = FILES.filter((file) => layerOf(file) <= 2 && /\b(process\.|require\(|Buffer\.)/.test(codeOf(file)))
    expect(globals).toEqual([])
  })

  test('the native addon is loaded in one place', () => {
    const loading = FILES.filter((file) => layerOf(file) === 3 && /\.node\b['"`]/.test(codeOf(file)))
    expect(loading).toEqual(['runtime/addon/load.ts'])
    expect(IMPORTS.filter(({ to }) => to?.startsWith('native/'))).toEqual([])
  })

  /** Why files of one circle are several files all the same; imports of types alone count as well. */
  const CIRCLES: readonly { readonly files: readonly string[]; readonly reason: string }[] = [
    {
      files: ['compiler/check/body.ts', 'compiler/check/expressions.ts', 'compiler/check/inline.ts'],
      reason: 'one recursion: an expression may call an epilogue, whose body has expressions',
    },
    {
      files: ['compiler/ir/pipe.ts', 'compiler/ir/pipe_epilogue.ts'],
      reason: 'types alone: operations of epilogues are operations, and some have a body of any operations',
    },
    ...TARGETS.kinds
      .filter((kind) => FILES.includes(`compiler/targets/${kind}/memory.ts`))
      .sort()
      .map((kind) => ({
        files: ['division', 'memory', 'plan']
          .map((name) => `compiler/targets/${kind}/${name}.ts`)
          .filter((file) => FILES.includes(file)),
        reason: 'types alone: a plan has the map of its memory worked out from what of it is known by then',
      })),
    {
      files: ['compiler/verify/agent.ts', 'compiler/verify/barriers.ts'],
      reason: 'types alone: an agent waits at a barrier, which knows the agent that made it',
    },
  ]

  test('make no circles but the known ones, and none in runtime', () => {
    const graph = new Map(FILES.map((file) => [file, [] as string[]]))
    for (const { from, to } of IMPORTS) if (to !== null) graph.get(from)!.push(to)
    expect(circlesOf(graph)).toEqual(CIRCLES.map(({ files }) => files))
    expect(CIRCLES.filter(({ files, reason }) => reason === '' || files.some((file) => layerOf(file) >= 3))).toEqual([])
  })

  test('a circle is seen, of types or of values', () => {
    const graph = new Map([['a', ['b']], ['b', ['c', 'd']], ['c', ['a']], ['d', ['e']], ['e', []]]) // prettier-ignore
    expect(circlesOf(graph)).toEqual([['a', 'b', 'c']])
    const [typeOnly] = importsOf('runtime/streams/event.ts').filter(({ to }) => to === 'runtime/devices/device.ts')
    expect(typeOnly).toMatchObject({ typeOnly: true })
  })

  test('lie in rooms: no file of runtime is loose but its entry and what looks at the version of Node', () => {
    const loose = readdirSync(path.join(ROOT, 'runtime')).filter((name) => name.includes('.'))
    expect(loose).toEqual(['index.ts', 'node_minimum.ts', 'node_version.ts'])
  })

  test('every room is in the table of contents', () => {
    const contents = textOf('docs/architecture.md')
    const rooms = readdirSync(path.join(ROOT, 'runtime'), { withFileTypes: true }).filter((entry) =>
      entry.isDirectory(),
    )
    expect(rooms.filter(({ name }) => !contents.includes(`| \`${name}/\``)).map(({ name }) => name)).toEqual([])
  })
})

describe('backends', () => {
  /** Folders of targets, and what is about one target beside them. */
  const OWN = /^(compiler|codegen|runtime)\/targets\//
  /** Public classes of designs, and the registry that reads them. */
  const ALSO = ['runtime/metadata/design.ts']

  test('are named in their folders and registries alone', () => {
    const literal = new RegExp(`['"](${TARGETS.kinds.join('|')})['"]|\\b(${TARGETS.kinds.join('|')}):`)
    const naming = FILES.filter((file) => layerOf(file) <= 3 && !OWN.test(file) && literal.test(codeOf(file)))
    expect(naming).toEqual(ALSO)
  })

  test('so are their files', () => {
    const kinds = TARGETS.kinds.join('|')
    const into = IMPORTS.filter(({ from, to }) => {
      const named = new RegExp(`^\\w+/targets/(${kinds})[/.]`)
      return to !== null && named.test(to) && layerOf(from) <= 3 && !OWN.test(from)
    })
    // The types of the operands of MMAs.
    expect([...new Set(into.map(({ from }) => from))]).toEqual(['compiler/ir/pipe.ts', 'compiler/ir/pipe_mma.ts'])
    expect(into.filter(({ typeOnly }) => !typeOnly)).toEqual([])
  })
})

/** Without comments. Strings keep theirs. */
function codeOf(file: string): string {
  const token = /\/\*[^]*?\*\/|\/\/[^\n]*|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[^])*`/g
  return textOf(file).replace(token, (text) => (text.startsWith('/') ? '' : text))
}

/** Strongly connected components of more than one file (Tarjan), sorted. */
function circlesOf(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = []
  const index = new Map<string, number>()
  const lowest = new Map<string, number>()
  const stack: string[] = []
  const visit = (file: string): number => {
    index.set(file, index.size)
    lowest.set(file, index.get(file)!)
    stack.push(file)
    for (const next of graph.get(file) ?? []) {
      const reached = !index.has(next) ? visit(next) : stack.includes(next) ? index.get(next)! : Infinity
      lowest.set(file, Math.min(lowest.get(file)!, reached))
    }
    if (lowest.get(file) === index.get(file)) {
      const circle = stack.splice(stack.indexOf(file))
      if (circle.length > 1) found.push(circle.sort())
    }
    return lowest.get(file)!
  }
  for (const file of graph.keys()) if (!index.has(file)) visit(file)
  return found.sort((a, b) => (a[0]! < b[0]! ? -1 : 1))
}

/** Dtypes that few can hold: who else named them, but in an example, would have to learn of the next one. */
const NARROW = ['e3m2', 'e2m3', 'e2m1', 'ue4m3']
const NAMES_DTYPES: readonly (readonly [RegExp, string])[] = [
  [/^grammar\//, 'the word, and examples'],
  [/^compiler\/(dtypes|codec)\.ts$/, 'the entry, and its values'],
  [/^compiler\/check\/stored\.ts$/, 'which scales go with which data'],
  [/^compiler\/targets\/\w+\/mma\.ts$/, 'instructions by dtype'],
  [/^codegen\/cuda\/(conversion|device\/\w+)\.ts$/, 'conversions in CUDA'],
]

test('dtypes are named where an entry of theirs belongs, and nowhere else', () => {
  const naming = FILES.filter(
    (file) =>
      layerOf(file) <= 3 &&
      NARROW.some((name) => new RegExp(`\\b${name}\\b`).test(textOf(file).replace(/^ *(\*|\/\/).*$/gm, ''))),
  )
  expect(naming.length).toBeGreaterThan(3)
  expect(naming.filter((file) => !NAMES_DTYPES.some(([where]) => where.test(file)))).toEqual([])
})
