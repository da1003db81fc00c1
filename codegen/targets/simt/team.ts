/**
 * A stage whose points have loops: the threads of a team share those of a point, and a tree combines what they have. How many threads a
 * team has depends on extents alone, so that the order of every sum does too.
 */
import { CUDA_COMPUTE_TYPE } from '../../../compiler/dtypes.ts'
import type { ContractNode, Node, ReduceNode } from '../../../compiler/ir/tensor.ts'
import { children, operandNamed, topological } from '../../../compiler/ir/walk.ts'
import { REDUCTIONS } from '../../../compiler/ops.ts'
import { ownAxes } from '../../../compiler/targets/simt/domain.ts'
import type { Form, LoopNode, Stage } from '../../../compiler/targets/simt/plan.ts'
import { convertCompute, literal } from '../../cuda/expression.ts'
import { call, type SimtContext } from './context.ts'
import { emitPoints, emitPositions, type Points } from './domain.ts'
import { emitGuard } from './guard.ts'
import { insideConditions } from './reads.ts'
import { accumulate, emitFactor, emitValues, finishAccumulator, type Known } from './scope.ts'
import { emitStores } from './stores.ts'

/** Along reduced axes a warp reads neighbours at once; along the domain each thread has a result of its own, if there are enough. */
const SHARES = { loop: { share: 4, most: 32 }, domain: { share: 8, most: 1 } } as const

export interface TeamLoop {
  /** Number of points, and, beforehand, an upper bound of what a point loops over. */
  readonly points: string
  readonly bound: string
  readonly threads: number
  readonly along: 'loop' | 'domain'
}

/** The loop over points: `body` finds the point in `rest`, and `live`, false for threads that only take part in trees. */
export function emitTeams(context: SimtContext, { points, bound, threads, along }: TeamLoop, body: () => void): void {
  const { out } = context
  const { share, most } = SHARES[along]
  out.line(`__shared__ double memory[${threads}];`)
  out.line(`const long long points = ${points};`)
  out.line(`const int team = ${call(context, 'ktl_team', 'points', bound, share, most)}, teams = ${threads} / team;`)
  if (along === 'loop') out.line('const int part = threadIdx.x % team, slot = threadIdx.x / team, stride = 1;')
  else out.line('const int part = threadIdx.x / teams, slot = threadIdx.x % teams, stride = teams;')
  out.block(
    'for (long long first = (long long)blockIdx.x * teams; first < points; first += (long long)gridDim.x * teams)',
    () => {
      out.line('long long rest = min(first + slot, points - 1);')
      body()
    },
  )
}

export const LIVE = 'first + slot < points'

/** How a team's points are written down: `each` has the body for one after the other, `of` is the text of what one of them has. */
interface Width {
  readonly count: number
  readonly each: (body: () => void) => void
  /** What the values of `roots` have in common is computed here, for all of them. */
  readonly share: (roots: readonly Node[], known: Known) => Known
  /** The same for those that there are. */
  readonly store: (body: () => void) => void
  readonly of: (name: string) => string
  /** A declaration's name, and `= value` where all of them begin with it. */
  readonly declared: (name: string, value?: string) => string
}

const ONE: Width = {
  count: 1,
  each: (body) => body(),
  share: (_, known) => known,
  store: (body) => body(),
  of: (name) => name,
  declared: (name, value) => `${name}${value === undefined ? '' : ` = ${value}`}`,
}

/**
 * What all points of a team have in common at this point of the loop: values that do not vary along `axis`, and whether what is read at
 * positions that do not is inside. Looking up is most of the work where rows are short sums of others.
 */
function emitShared(context: SimtContext, roots: readonly Node[], axis: string, known: Known): Known {
  // Other loops' values are computed elsewhere, along axes of their own.
  const isLoop = (node: Node): boolean => node.kind === 'contract' || node.kind === 'reduce'
  const stops = new Set([...[...known].map(([node]) => node), ...topological(roots).filter(isLoop)])
  const nodes = topological(roots, stops).filter((node) => !stops.has(node))
  const varies = (node: Node): boolean => node.axes.includes(axis)
  const isLeaf = (node: Node): boolean => children(node).length === 0 && node.kind !== 'input'
  const within = new Set(nodes.filter(varies).flatMap(children))
  const common = nodes.filter((node) => !varies(node) && !isLeaf(node) && (within.has(node) || roots.includes(node)))
  const values = emitValues(context, common, known)
  const texts = new Map(common.map((node, i) => [node, values[i]!]))
  for (const node of nodes) {
    if (node.kind !== 'input' || !node.at || !varies(node)) continue
    const operand = operandNamed(context.program, node.operand)
    const own = (i: number): boolean => node.at![i]!.kind === 'axis'
    if (!node.at.every((place, i) => own(i) || texts.has(place))) continue
    const at = node.at.map((place, i) => texts.get(place) ?? context.names.index(operand.axes[i]!))
    const conditions = insideConditions(context, operand, node.at, at, node.outside !== undefined)
    if (conditions.length === 0 || node.at.some((place, i) => own(i) && place.axes[0] !== operand.axes[i])) continue
    const name = `inside_${context.temporaries.count++}`
    context.out.line(`const bool ${name} = ${conditions.join(' & ')};`)
    context.insides.set(node, name)
  }
  return [...known, ...texts]
}

/** Points `lanes` apart along `axis`, so that neighbouring threads have neighbours of each; behind the end the last one stands in. */
function wide(context: SimtContext, axis: string, count: number): Width {
  const { out, names } = context
  const [own, end] = [names.index(axis), names.extent(axis)]
  const each = (body: () => void): void => {
    out.line('#pragma unroll')
    out.block(`for (int v = 0; v < ${count}; ++v)`, () => {
      out.line(`[[maybe_unused]] const int ${own} = min(first_along + v * lanes, ${end} - 1);`)
      body()
    })
  }
  return {
    count,
    each,
    share: (roots, known) => emitShared(context, roots, axis, known),
    store: (body) => each(() => out.block(`if (first_along + v * lanes < ${end})`, body)),
    of: (name) => `${name}[v]`,
    declared: (name, value) =>
      `${name}[${count}]${value === undefined ? '' : ` = {${Array.from({ length: count }, () => value).join(', ')}}`}`,
  }
}

export function emitTeamStage(
  context: SimtContext,
  stage: Stage,
  threads: number,
  { along, width: count }: Extract<Form, { kind: 'team' }>,
): void {
  const { out, names, program } = context
  const last = stage.axes.at(-1)!
  const width = count === 1 ? ONE : wide(context, last, count)
  if (count > 1) out.line(`const int lanes = (${names.extent(last)} + ${count - 1}) / ${count};`)
  const points = emitPoints(context, stage.axes, new Set(), count > 1 ? { [last]: 'lanes' } : {})
  const [loop] = stage.loops
  const over = loop!.kind === 'reduce' ? loop!.over : loop!.terms[0].over
  const bound = ['1LL', ...ownAxes(program, over).map((axis) => names.extent(axis))].join(' * ')
  emitTeams(context, { points: points.count, bound, threads, along }, () => {
    const conditions = emitPositions(context, points, 'rest')
    if (count > 1) out.line(`const int first_along = ${names.index(last)};`)
    out.line(`const bool live = ${[LIVE, ...conditions].join(' && ')};`)
    const known: [Node, string][] = []
    for (const node of stage.loops) {
      const emit = node.kind === 'contract' ? emitContract : emitReduce
      known.push([node, width.of(emit(context, node as never, points, known, width))])
    }
    out.block('if (live && part == 0)', () => width.store(() => emitStores(context, stage.results, known)))
  })
}

/** The part of a thread: every `team`-th point of `axes`. Returns their number, or, where it is known point by point, null. */
function emitPart(
  context: SimtContext,
  loop: LoopNode,
  axes: readonly string[],
  outer: Points,
  body: () => void,
): string | null {
  const { out, temporaries } = context
  const inner = emitPoints(context, axes, outer.known)
  const n = temporaries.count++
  const [count, trips] = [`count_${n}`, `trips_${n}`]
  out.line(`const long long ${count} = ${inner.count};`)
  const each = (): void => {
    // A count that is known beforehand lets loads of several iterations overlap; a team is a power of two.
    out.line(`const long long ${trips} = (${count} - part + team - 1) >> (31 - __clz(team));`)
    out.line('#pragma unroll 4')
    out.block(`for (long long i = 0; i < ${trips}; ++i)`, () => {
      if (inner.ranges.length > 0) out.line('long long rest = part + i * team;')
      const conditions = emitPositions(context, inner, 'rest')
      if (conditions.length > 0) out.block(`if (${conditions.join(' && ')})`, body)
      else body()
    })
  }
  out.block('if (live)', () => {
    const guard = emitGuard(context, loop, false)
    if (guard) out.block(`if (${guard})`, each)
    else each()
  })
  return inner.guarded.length > 0 ? null : count
}

/** Declares the value of all parts. */
export function emitCombined(context: SimtContext, type: string, value: string, combine: string): void {
  const lambda = `[](${type} a, ${type} b) { return ${combine}; }`
  context.out.line(`${value} = ${call(context, 'ktl_combine', value, 'memory', 'team', 'part', 'stride', lambda)};`)
}

function emitContract(
  context: SimtContext,
  node: ContractNode,
  outer: Points,
  known: [Node, string][],
  width: Width,
): string {
  const { out, temporaries } = context
  const sum = `sum_${temporaries.count++}`
  const type = CUDA_COMPUTE_TYPE[node.type]
  const own = width.of(sum)
  out.line(`${type} ${width.declared(sum, literal(node.type, 0).text)};`, { ktl: node.span, note: 'contract' })
  for (const { a, b, over } of node.terms)
    emitPart(context, node, over, outer, () => {
      const shared = width.share([a, b], known)
      width.each(() => {
        const [x, y] = [a, b].map((factor) => emitFactor(context, factor, node.type, shared)) as [string, string]
        out.line(accumulate(context, node.type, own, x, y), { ktl: node.span, note: 'contraction' })
      })
    })
  width.each(() => {
    emitCombined(context, type, own, node.type === 'i32' ? call(context, 'ktl_add_i32', 'a', 'b') : 'a + b')
    finishAccumulator(context, node, own)
  })
  return sum
}

function emitReduce(
  context: SimtContext,
  node: ReduceNode,
  outer: Points,
  known: [Node, string][],
  width: Width,
): string {
  const { out, temporaries, functions } = context
  const { combine, identity } = REDUCTIONS[node.fn]
  const n = temporaries.count++
  const result = `${node.fn}_${n}`
  // Sums of floats are kept in f64 and rounded once.
  const held = combine === 'add' && node.type === 'f32' ? 'f64' : node.type
  const type = CUDA_COMPUTE_TYPE[held]
  const total = held === node.type && node.fn !== 'mean' ? result : `total_${n}`
  const own = width.of(total)
  out.line(`${type} ${width.declared(total, literal(held, identity(held)).text)};`, {
    ktl: node.span,
    note: 'reduce',
  })
  const counted = node.fn === 'mean' ? `seen_${n}` : null
  if (counted) out.line(`long long ${counted} = 0;`)
  const operator = (a: string, b: string): string =>
    combine === 'add' && node.type !== 'i32' ? `${a} + ${b}` : call(context, `ktl_${combine}_${held}`, a, b)
  const count = emitPart(context, node, node.over, outer, () => {
    const shared = width.share([node.value], known)
    width.each(() => {
      const [value] = emitValues(context, [node.value], shared) as [string]
      out.line(`${own} = ${operator(own, convertCompute(node.value.type, held, value, functions))};`)
    })
    if (counted) out.line(`++${counted};`)
  })
  width.each(() => emitCombined(context, type, own, operator('a', 'b')))
  if (counted && count === null) emitCombined(context, 'long long', counted, 'a + b')
  if (total === result) return result
  const final = counted
    ? convertCompute(
        'f64',
        node.type,
        `${convertCompute(held, 'f64', own, functions)} / (double)${count ?? counted}`,
        functions,
      )
    : convertCompute(held, node.type, own, functions)
  const as = CUDA_COMPUTE_TYPE[node.type]
  if (width.count === 1) out.line(`const ${as} ${result} = ${final};`)
  else {
    out.line(`${as} ${width.declared(result)};`)
    width.each(() => out.line(`${width.of(result)} = ${final};`))
  }
  return result
}
