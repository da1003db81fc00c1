/** What the header of an artifact may hold: everything that is read of one is checked against this first. */
import type { LaunchRecipe, SourceMapEntry } from '../../codegen/cuda/generated.ts'
import { ARCH_NAMES } from '../../compiler/archs.ts'
import type { Source } from '../../grammar/diagnostics.ts'
import { DTYPE_NAMES } from '../../grammar/vocabulary.ts'
import {
  boolean,
  integer,
  json,
  list,
  nullable,
  oneOf,
  record,
  ShapeError,
  text,
  variants,
  type Shape,
} from '../files/json_shape.ts'

export const SECTIONS = ['cuda', 'ptx', 'cubin'] as const

/** Launches of one call. */
const MAX_LAUNCHES = 64
const MAX_CLUSTER = 16

const int32 = integer(0, 0x7fffffff)
const positive = integer(1, 0x7fffffff)

const matching =
  (pattern: RegExp, what: string): Shape =>
  (value, path) => {
    if (typeof value !== 'string' || !pattern.test(value)) throw new ShapeError(`${path} is not ${what}`)
  }

const clusterShape: Shape = (value, path) => {
  list(integer(1, MAX_CLUSTER), { min: 3, max: 3 })(value, path)
  const ctas = (value as number[]).reduce((product, extent) => product * extent, 1)
  if (ctas > MAX_CLUSTER) throw new ShapeError(`${path} is not a cluster of at most ${MAX_CLUSTER} CTAs`)
}

const launchShape = record({
  entry: matching(/^[A-Za-z_]\w{0,1023}$/, 'the name of a kernel'),
  threads: integer(1, 1024),
  cluster: clusterShape,
  sharedMemBytes: integer(0, 227 * 1024),
  grid: variants({
    persistent: record({ dynamic: boolean, tiles: list(record({ axis: text, extent: positive }), { max: 16 }) }),
    points: record({ axes: list(text, { max: 64 }), perCta: positive, limit: positive }),
    elements: record({ outputs: list(text, { min: 1, max: 64 }), perCta: positive, limit: positive }),
    rows: record({
      copied: list(record({ operand: text, inner: text, piece: integer(1, 16) }), { min: 1, max: 64 }),
      perCta: positive,
      limit: positive,
    }),
  }),
  params: list(
    variants({
      tensorMap: record({
        name: text,
        operand: text,
        dtype: oneOf(DTYPE_NAMES),
        axes: list(text, { min: 1, max: 5 }),
        box: list(integer(1, 256), { min: 1, max: 5 }),
        swizzle: oneOf(['none', '32B', '64B', '128B', '128B_ATOM_32B']),
      }),
      pointer: record({ operand: text, storage: text, isConst: boolean }),
      stride: record({ operand: text, axis: text }),
      extent: record({ axis: text }),
      carries: record({ operand: text, axis: text }),
      scalar: record({ name: text, type: oneOf(['f32', 'f64', 'i32', 'u32']) }),
      scalarAt: record({ name: text, storage: text }),
      tileGroup: record({}),
      workspace: record({ region: text, storage: text }),
    }),
    { max: 4096 },
  ),
})

const clippedShape = record({ rows: positive, cut: oneOf(['before', 'behind']) })

const copyShape = record({ region: text, axes: list(text, { min: 1, max: 64 }) })

const workspaceShape = list(
  record({
    name: text,
    elementBytes: positive,
    extents: list(record({ axis: text, per: positive }), { max: 64 }),
  }),
  { max: 64 },
)

/** A launch with what it may have besides, and what is launched after it. */
function recipeShape(value: unknown, path: string, launches = 1): void {
  launchShape(value, path)
  const { fallbackCluster, workspace, before, next, params, grid } = value as LaunchRecipe
  if (grid.kind === 'persistent' && grid.perSm !== undefined) integer(1, 32)(grid.perSm, `${path}.grid.perSm`)
  if (fallbackCluster !== undefined) clusterShape(fallbackCluster, `${path}.fallbackCluster`)
  if (grid.kind === 'persistent' && grid.parts !== undefined) integer(1, 1024)(grid.parts, `${path}.grid.parts`)
  if (grid.kind === 'persistent' && grid.wave !== undefined) positive(grid.wave, `${path}.grid.wave`)
  if (grid.kind === 'persistent' && grid.share !== undefined) integer(2, 16)(grid.share, `${path}.grid.share`)
  if (grid.kind === 'persistent' && grid.meets !== undefined) boolean(grid.meets, `${path}.grid.meets`)
  if (workspace !== undefined) workspaceShape(workspace, `${path}.workspace`)
  workspace?.forEach(({ zeroed, most }, i) => {
    if (most !== undefined) positive(most, `${path}.workspace[${i}].most`)
    if (zeroed !== undefined) boolean(zeroed, `${path}.workspace[${i}].zeroed`)
  })
  params.forEach((rule, i) => {
    const at = `${path}.params[${i}]`
    if (rule.kind === 'tensorMap' && rule.tiles !== undefined)
      list(positive, { min: rule.axes.length, max: rule.axes.length })(rule.tiles, `${at}.tiles`)
    if (rule.kind === 'tensorMap' && rule.groups !== undefined) text(rule.groups, `${at}.groups`)
    if (rule.kind === 'tensorMap' && rule.padded !== undefined) boolean(rule.padded, `${at}.padded`)
    if (rule.kind === 'tensorMap' && rule.clipped !== undefined) clippedShape(rule.clipped, `${at}.clipped`)
    const further = rule.kind === 'tensorMap' ? +(rule.tiles !== undefined) + +(rule.clipped !== undefined) : 0
    if (rule.kind === 'tensorMap' && rule.axes.length + further !== rule.box.length) {
      throw new ShapeError(`${at}.box is not of the rank of its axes`)
    }
    if (rule.kind === 'tensorMap' && rule.copy !== undefined) copyShape(rule.copy, `${at}.copy`)
    const region = rule.kind === 'workspace' ? rule.region : rule.kind === 'tensorMap' ? rule.copy?.region : undefined
    if (region !== undefined && !workspace?.some(({ name }) => name === region)) {
      throw new ShapeError(`${at}.region is not a region of the workspace`)
    }
  })
  for (const [name, further] of [
    ['before', before],
    ['next', next],
  ] as const) {
    if (further === undefined) continue
    if (launches === MAX_LAUNCHES) throw new ShapeError(`${path}.${name} is not the end of ${MAX_LAUNCHES} launches`)
    recipeShape(further, `${path}.${name}`, launches + 1)
  }
}

const span = record({ start: int32, end: int32 })
const mapShape = list(record({ cudaLine: positive, ktl: nullable(span), role: nullable(text), note: nullable(text) }))

/** Places lie in the text that the header carries. */
function checkSpans(map: readonly SourceMapEntry[], source: Source | null): void {
  const length = source?.text.length ?? 0
  const outside = map.findIndex(({ ktl }) => ktl !== null && (ktl.start > ktl.end || ktl.end > length))
  if (source !== null && outside >= 0)
    throw new ShapeError(`header.sourceMap[${outside}].ktl is not a place in the source`)
}

function checkSections(sections: readonly { readonly name: string; readonly target: string | null }[]): void {
  const keys = sections.map(({ name, target }) => `${name} ${target}`)
  const twice = keys.findIndex((key, i) => keys.indexOf(key) !== i)
  if (twice >= 0) throw new ShapeError(`header.sections[${twice}] is not the only one of its name and target`)
}

const fields = record({
  ir: int32,
  ktl: text,
  toolkit: text,
  kernelName: text,
  signature: json(32),
  recipe: nullable((value, path) => recipeShape(value, path)),
  sourceMap: mapShape,
  source: nullable(record({ name: text, text })),
  resources: list(
    record({
      entry: text,
      registers: int32,
      spillStoreBytes: int32,
      spillLoadBytes: int32,
      stackBytes: int32,
      staticSharedBytes: int32,
      barriers: int32,
    }),
  ),
  sections: list(
    record({
      name: oneOf(SECTIONS),
      target: nullable(oneOf(ARCH_NAMES)),
      bytes: integer(0, 2 ** 40),
      sha256: matching(/^[0-9a-f]{64}$/, 'a SHA-256'),
    }),
    { max: 64 },
  ),
})

/** All of the header but `format` and `targets`, which are looked at before. */
export const headerShape: Shape = (value, path) => {
  fields(value, path)
  const { sourceMap, source, sections } = value as {
    sourceMap: SourceMapEntry[]
    source: Source | null
    sections: { name: string; target: string | null }[]
  }
  checkSpans(sourceMap, source)
  checkSections(sections)
}
