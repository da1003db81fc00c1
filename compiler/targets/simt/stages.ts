/**
 * What is computed together. A contraction or reduction is computed where it is used if it is used at its own points only; otherwise
 * a stage of its own writes it to the workspace, and the others read it there.
 */
import type { ApplyNode, ComputeType, ContractNode, Node, Output, ReduceNode, TensorProgram } from '../../ir/tensor.ts'
import { children, guardOf, operandNamed, rootsOf, topological } from '../../ir/walk.ts'
import { DTYPES, rowUnit } from '../../dtypes.ts'
import { domainKey, ownAxes, paddedOf, sameDomain } from './domain.ts'
import type { SimtVector } from './vector.ts'
import { contiguousAlong, planTile, splitOf, type SimtTile, type Split, type TileShape } from './tile.ts'

export type LoopNode = ContractNode | ReduceNode
/** What may be kept in the workspace: loops, and factors of contractions that would be computed again for each result. */
export type KeptNode = LoopNode | ApplyNode

/** Part of the workspace: a value for each point of its axes; along an axis in blocks, for each block. */
export interface Region {
  readonly name: string
  readonly axes: readonly { readonly axis: string; readonly per: number }[]
  readonly type: ComputeType
}

/**
 * What a stage leaves behind. `store`: elements of an output (narrow ones several at a time, by their bytes). `scale`: scales of an
 * output in stored form, and the largest magnitudes that they are made from. `region`: a value in the workspace.
 */
export type Result =
  | { readonly kind: 'store'; readonly output: Output; readonly scale: Scale | null }
  | { readonly kind: 'scale'; readonly output: Output; readonly scale: Scale }
  | { readonly kind: 'region'; readonly node: KeptNode; readonly region: Region }

/** How scales of an output in stored form are made: the region has the largest magnitude of each block. */
export interface Scale {
  readonly blocks: readonly Block[]
  readonly region: Region
}

/** Positions of an axis that share a scale; null: all of them. */
export interface Block {
  readonly axis: string
  readonly per: number | null
}

/**
 * How the points of a stage fall to threads. `element`: a thread for each, `pack` neighbours to one thread. `row`: a thread for all along
 * `over`, because they share bytes and lie where an operand says. `team`: several threads for each, which share its loops; neighbouring
 * threads are neighbours `along` the loop, or along the domain; there a team may have `width` points, far apart along the last axis, which
 * share what does not depend on it. `tile`: a CTA for a tile. `vector`: a CTA for a few rows, or parts of them, of a matrix that is read
 * once.
 */
export type Form =
  | { readonly kind: 'element'; readonly pack: number }
  | { readonly kind: 'row'; readonly over: readonly string[] }
  | { readonly kind: 'team'; readonly along: 'loop' | 'domain'; readonly width: number }
  | SimtTile
  | SimtVector

export interface Stage {
  /** Outermost first; the last one is contiguous in the first result. */
  readonly axes: readonly string[]
  readonly results: readonly Result[]
  /** Computed at each point, in this order. */
  readonly loops: readonly LoopNode[]
  readonly form: Form
}

export interface Stages {
  readonly stages: readonly Stage[]
  /** Where nodes are read that a stage has left behind. */
  readonly regions: ReadonlyMap<KeptNode, Region>
}

/** A result with what it needs. */
interface Draft {
  readonly result: Result
  readonly axes: readonly string[]
  readonly loops: readonly LoopNode[]
  readonly needs: readonly (KeptNode | Result)[]
  readonly form: 'element' | 'team' | 'tile' | 'apart'
  readonly split: Split | null
}

export function planStages(program: TensorProgram, tile: TileShape): Stages {
  const kept = new Set<KeptNode>()
  for (;;) {
    const before = kept.size
    const drafts = draftAll(program, kept, tile)
    if (kept.size !== before) continue
    const groups = grouped(program, drafts, tile)
    const places = new Map<LoopNode, number>()
    for (const group of groups)
      for (const node of new Set(group.flatMap(({ loops }) => loops))) places.set(node, (places.get(node) ?? 0) + 1)
    // A region's own loop is computed there and nowhere else.
    for (const [node, count] of places) if (count > 1) kept.add(node)
    if (kept.size !== before) continue
    const regions = new Map(
      drafts.flatMap(({ result: r }) => (r.kind === 'region' ? [[r.node, r.region] as const] : [])),
    )
    return { stages: groups.map((group) => stageOf(program, group, tile)), regions }
  }
}

/** Adds to `kept` what has to be in the workspace; then drafts have to be made again. */
function draftAll(program: TensorProgram, kept: Set<KeptNode>, tile: TileShape): Draft[] {
  const drafts: Draft[] = []
  for (const [i, node] of [...kept].entries()) {
    const axes = ownAxes(program, node.axes)
    const region = { name: `value${i}`, axes: axes.map((axis) => ({ axis, per: 1 })), type: node.type }
    drafts.push(draft(program, { kind: 'region', node, region }, axes, [node], kept, tile))
  }
  for (const output of program.outputs) {
    const axes = outputAxes(program, output)
    const roots = [output.value, ...(output.at ?? [])]
    const scale = scaleOf(program, output, axes)
    const scaled: Result[] = scale ? [{ kind: 'scale', output, scale }] : []
    for (const result of scaled) drafts.push(draft(program, result, axes, roots, kept, tile))
    const store = draft(program, { kind: 'store', output, scale }, axes, roots, kept, tile)
    drafts.push({ ...store, needs: [...store.needs, ...scaled] })
  }
  return drafts
}

/** What an output's points are counted along: its axes in memory order; where it is scattered: the axes of its positions. */
function outputAxes(program: TensorProgram, { operand: name, value, at }: Output): string[] {
  const { axes, order } = operandNamed(program, name)
  if (!at) return ownAxes(program, order)
  const scattered = order.flatMap((axis) => at[axes.indexOf(axis)]!.axes)
  return ownAxes(program, [...new Set([...value.axes.filter((axis) => !scattered.includes(axis)), ...scattered])])
}

function scaleOf(program: TensorProgram, output: Output, axes: readonly string[]): Scale | null {
  const { stored, name } = operandNamed(program, output.operand)
  if (!stored?.scale) return null
  const scale = operandNamed(program, stored.scale)
  const blocks = axes.map((axis): Block => {
    const own = output.at
      ? operandNamed(program, name).axes.find(
          (_, i) => output.at![i]!.kind === 'axis' && output.at![i]!.axes[0] === axis,
        )
      : axis
    const i = own === undefined ? -1 : scale.axes.indexOf(own)
    if (i < 0) return { axis, per: own === undefined ? 1 : null }
    return { axis, per: scale.blocks?.[i] ?? 1 }
  })
  // Blocks of a packed axis are found by the row that they begin with.
  const packed = (axis: string): boolean => program.axes.some((a) => a.name === axis && a.ragged?.form === 'packed')
  const region: Region = {
    name: `largest_${name}`,
    axes: blocks.flatMap(({ axis, per }) => (per === null ? [] : [{ axis, per: packed(axis) ? 1 : per }])),
    type: 'f32',
  }
  return { blocks, region }
}

function draft(
  program: TensorProgram,
  result: Result,
  axes: readonly string[],
  roots: readonly Node[],
  kept: Set<KeptNode>,
  tile: TileShape,
): Draft {
  const loops: LoopNode[] = []
  const outermost: LoopNode[] = []
  const needs = new Set<KeptNode>()
  const seen = new Set<Node>()
  const apart = result.kind === 'scale' || (result.kind === 'store' && isQuantised(program, result.output))
  const visit = (node: Node, inside: boolean): void => {
    if (seen.has(node)) return
    seen.add(node)
    const own = result.kind === 'region' && result.node === node
    if (kept.has(node as KeptNode) && !own) return void needs.add(node as KeptNode)
    if (node.kind !== 'contract' && node.kind !== 'reduce')
      return children(node).forEach((child) => visit(child, inside))
    if (!own && (apart || !sameDomain(program, node.axes, axes))) return void kept.add(node)
    if (!inside) outermost.push(node)
    children(node).forEach((child) => visit(child, true))
    loops.push(node)
  }
  roots.forEach((root) => visit(root, false))
  const common = { result, axes, needs: [...needs] }
  if (apart) return { ...common, loops: [], form: 'apart', split: null }
  const split = outermost.map((node) => tileSplit(program, node, axes, tile)).find((found) => found !== null) ?? null
  if (!split) {
    for (const factor of repeatedFactors(program, loops, axes)) kept.add(factor)
    return { ...common, loops, form: loops.length > 0 ? 'team' : 'element', split: null }
  }
  // Tiles have one split, and their factors no loops.
  const tiled = outermost.filter((node) => sameSplit(tileSplit(program, node, axes, tile), split)) as ContractNode[]
  const fitting = mostThatFit(program, tiled, split, tile)
  for (const node of loops) if (!fitting.includes(node as ContractNode)) kept.add(node)
  return { ...common, loops: fitting, form: 'tile', split }
}

/** Computed factors that results along some axis of the domain share, such as the probabilities of decoding. */
const repeatedFactors = (program: TensorProgram, loops: readonly LoopNode[], axes: readonly string[]): ApplyNode[] =>
  loops
    .flatMap((node) => (node.kind === 'contract' && !guardOf(rootsOf(program), node) ? node.terms : []))
    .flatMap(({ a, b }) => [a, b])
    .filter(
      (factor): factor is ApplyNode => factor.kind === 'apply' && axes.some((axis) => !factor.axes.includes(axis)),
    )

/** In stored form, or several elements to a byte. */
const isQuantised = (program: TensorProgram, { operand: name }: Output): boolean => {
  const { dtype, stored } = operandNamed(program, name)
  return stored !== undefined || DTYPES[dtype].bits < 8
}

const sameSplit = (a: Split | null, b: Split): boolean => JSON.stringify(a) === JSON.stringify(b)

/** null: a loop of a team. */
function tileSplit(program: TensorProgram, node: LoopNode, axes: readonly string[], tile: TileShape): Split | null {
  if (node.kind !== 'contract') return null
  const split = splitOf(program, node, axes)
  return split && planTile(program, [node], split, tile) ? split : null
}

function mostThatFit(
  program: TensorProgram,
  nodes: readonly ContractNode[],
  split: Split,
  tile: TileShape,
): ContractNode[] {
  let count = nodes.length
  while (count > 1 && !planTile(program, nodes.slice(0, count), split, tile)) count--
  return nodes.slice(0, count)
}

/** Results that share a launch, in order of launches. */
function grouped(program: TensorProgram, drafts: readonly Draft[], tile: TileShape): Draft[][] {
  const keyOf = (d: Draft): string =>
    d.form === 'apart'
      ? `apart ${drafts.indexOf(d)}`
      : `${d.form} ${domainKey(program, d.axes)} ${JSON.stringify(d.split)}`
  const maker = (need: KeptNode | Result): Draft =>
    drafts.find(({ result }) => result === need || (result.kind === 'region' && result.node === need))!
  const placed = new Map<Draft, { level: number; key: string }>()
  const levelAs = (d: Draft, key: string): number =>
    Math.max(
      0,
      ...d.needs.map((need) => {
        const made = place(maker(need))
        return made.key === key ? made.level : made.level + 1
      }),
    )
  const place = (d: Draft): { level: number; key: string } => {
    const known = placed.get(d)
    if (known) return known
    let found = { level: levelAs(d, keyOf(d)), key: keyOf(d) }
    // An elementwise result of what a stage computes at the same points is stored there.
    for (const need of d.form === 'element' ? d.needs : []) {
      const from = maker(need)
      const { level, key } = place(from)
      if (sameDomain(program, from.axes, d.axes) && levelAs(d, key) === level) found = { level, key }
    }
    placed.set(d, found)
    return found
  }
  const groups = new Map<string, { level: number; drafts: Draft[] }>()
  for (const d of drafts) {
    const { level, key } = place(d)
    const group = groups.get(`${level} ${key}`)
    if (group && fit(program, [...group.drafts, d], tile)) group.drafts.push(d)
    else groups.set(`${level} ${key}${group ? ` ${groups.size}` : ''}`, { level, drafts: [d] })
  }
  return [...groups.values()].sort((a, b) => a.level - b.level).map((group) => group.drafts)
}

const loopsOf = (drafts: readonly Draft[]): LoopNode[] => {
  const wanted = new Set(drafts.flatMap(({ loops }) => loops))
  return topological(wanted).filter((node): node is LoopNode => wanted.has(node as LoopNode))
}

/** Does their shared memory suffice for all of them at once? */
function fit(program: TensorProgram, drafts: readonly Draft[], tile: TileShape): boolean {
  const split = drafts.find((d) => d.split !== null)?.split ?? null
  return split === null || planTile(program, loopsOf(drafts) as ContractNode[], split, tile) !== null
}

function stageOf(program: TensorProgram, drafts: readonly Draft[], tile: TileShape): Stage {
  const loops = loopsOf(drafts)
  // Outputs lead: their memory order is the order of the points.
  const lead = drafts.find(({ result }) => result.kind === 'store') ?? drafts[0]!
  const results = drafts.map(({ result }) => result)
  const split = drafts.find((d) => d.split !== null)?.split ?? null
  const form: Form = split
    ? planTile(program, loops as ContractNode[], split, tile)!
    : results[0]!.kind === 'scale'
      ? {
          kind: 'team',
          along: contiguousAlong(program, results[0]!.output.value, reducedBlocks(results[0]!.scale))
            ? 'loop'
            : 'domain',
          width: 1,
        }
      : loops.length > 0
        ? teamOf(program, loops, lead.axes)
        : narrowForm(program, results[0]!, lead.axes)
  return { axes: lead.axes, results, loops, form }
}

/** Points of a team that looks something up for all of them. */
const WIDTH = 4

function teamOf(program: TensorProgram, loops: readonly LoopNode[], axes: readonly string[]): Form {
  const [first] = loops
  if (contiguousAlong(program, bodyOf(first!), overOf(program, first!)))
    return { kind: 'team', along: 'loop', width: 1 }
  const last = axes.at(-1)
  const looksUp = topological(loops).some(
    (node) => node.kind === 'input' && node.at && last !== undefined && node.axes.includes(last),
  )
  const plain = program.axes.every(({ ragged }) => !ragged)
  const guarded = loops.some((node) => guardOf(rootsOf(program), node))
  return { kind: 'team', along: 'domain', width: looksUp && plain && !guarded ? WIDTH : 1 }
}

const reducedBlocks = ({ blocks }: Scale): string[] => blocks.flatMap(({ axis, per }) => (per === 1 ? [] : [axis]))

const bodyOf = (node: LoopNode): Node => (node.kind === 'reduce' ? node.value : node.terms[0].a)
const overOf = (program: TensorProgram, node: LoopNode): string[] =>
  ownAxes(program, node.kind === 'reduce' ? node.over : node.terms[0].over)

/** Elements that fill whole bytes, together. */
function narrowForm(program: TensorProgram, result: Result, points: readonly string[]): Form {
  if (result.kind !== 'store') return { kind: 'element', pack: 1 }
  const { at, operand } = result.output
  const { dtype, axes, order } = operandNamed(program, operand)
  const pack = axes.length > 0 ? rowUnit(dtype) : 1
  const place = pack > 1 ? at?.[axes.indexOf(order.at(-1)!)] : undefined
  if (place === undefined || place.kind === 'axis') return { kind: 'element', pack }
  const others = new Set(at!.flatMap((index) => (index === place ? [] : index.axes)))
  const along = (axis: string): boolean => place.axes.includes(axis) && !others.has(axis)
  // How many rows an axis has may depend on a group that is walked along.
  const over = points.filter((axis) => along(axis) || along(paddedOf(program, axis)?.group ?? ''))
  return { kind: 'row', over }
}
