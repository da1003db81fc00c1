/** What a point leaves behind: elements of outputs, and values in the workspace. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { Node, Output } from '../../../compiler/ir/tensor.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import type { Result } from '../../../compiler/targets/simt/plan.ts'
import { call, offset, regionElement, storeText, type SimtContext } from './context.ts'
import { emitCode } from './quantise.ts'
import { looksUp } from '../../../compiler/ir/walk.ts'
import type { Positions } from './reads.ts'
import { emitValues, type Known } from './scope.ts'

interface Place {
  /** Positions of the operand's axes. */
  readonly at: Positions
  /** `if (…) `, where the element may be outside; else ''. */
  readonly condition: string
}

export const rootsOf = ({ value, at }: Output): Node[] => [value, ...(at ?? [])]

/** Where the current point's element of an output is; `values`: of the output's positions. */
export function placeOf(context: SimtContext, { operand: name, at }: Output, values: readonly string[]): Place {
  const { axes } = operandNamed(context.program, name)
  if (!at) return { at: axes.map(() => null), condition: '' }
  const own = (i: number): boolean => at[i]!.kind === 'axis' && at[i]!.axes[0] === axes[i]
  const conditions = axes.flatMap((axis, i) => {
    if (own(i)) return []
    const [position, extent] = [values[i]!, context.names.extent(axis)]
    return [
      looksUp(at[i]!)
        ? call(context, 'ktl_inside', position, extent)
        : `(unsigned int)${position} < (unsigned int)${extent}`,
    ]
  })
  return {
    at: values.map((text, i) => (own(i) ? null : text)),
    condition: conditions.length > 0 ? `if (${conditions.join(' & ')}) ` : '',
  }
}

/** The linear index of an output's element. */
const indexOf = (context: SimtContext, name: string, at: Positions): string => {
  const { axes } = operandNamed(context.program, name)
  return offset(
    context,
    name,
    axes.map((axis, i) => at[i] ?? context.names.index(axis)),
  )
}

/** All values first, then all stores: an input may be the very tensor that is stored to. `known`: values of loops at this point. */
export function emitStores(context: SimtContext, results: readonly Result[], known: Known): void {
  const { out, names } = context
  const roots = results.flatMap((r) => (r.kind === 'store' ? rootsOf(r.output) : r.kind === 'region' ? [r.node] : []))
  const made = new Set(results.flatMap((r) => (r.kind === 'region' ? [r.node] : [])))
  const values = new Map(emitValues(context, roots, known, made).map((value, i) => [roots[i]!, value]))
  const lines = results.map((result): (() => void) => {
    if (result.kind === 'scale') throw new Error('scales belong to blocks')
    if (result.kind === 'region') {
      const { node, region } = result
      const positions = region.axes.map(({ axis }) => names.index(axis))
      const line = `${regionElement(context, region, positions)} = ${values.get(node)!};`
      return () => out.line(line, { ktl: node.span, note: 'into the workspace' })
    }
    const { output, scale } = result
    const { operand: name, value, at, span } = output
    const place = placeOf(
      context,
      output,
      (at ?? []).map((node) => values.get(node)!),
    )
    const code = emitCode(context, output, scale, values.get(value)!, place.at)
    const element = storeText(context, output, name, indexOf(context, name, place.at), code)
    const line = `${place.condition}${element}`
    return () => out.line(line, { ktl: span, note: `store ${name}` })
  })
  lines.forEach((line) => line())
}

type Store = Extract<Result, { kind: 'store' }>

/** Results whose elements can be computed at one place of the text and stored at another: outputs at the points themselves. */
export const plainStores = (results: readonly Result[]): readonly Store[] | null =>
  results.every((r): r is Store => r.kind === 'store' && r.scale === null && !r.output.at) ? results : null

/** The codes of outputs at the current point, into variables. */
export function emitCodes(context: SimtContext, stores: readonly Store[], known: Known, to: readonly string[]): void {
  const values = emitValues(
    context,
    stores.map(({ output }) => output.value),
    known,
  )
  for (const [i, { output }] of stores.entries())
    context.out.line(`${to[i]!} = ${emitCode(context, output, null, values[i]!, [])};`, { ktl: output.span })
}

/** Stores them at the current point. */
export function emitCodeStores(context: SimtContext, stores: readonly Store[], from: readonly string[]): void {
  for (const [i, { output }] of stores.entries()) {
    const { operand: name, span } = output
    const { at } = placeOf(context, output, [])
    context.out.line(storeText(context, output, name, indexOf(context, name, at), from[i]!), {
      ktl: span,
      note: `store ${name}`,
    })
  }
}

/** The code of an output's element at the current point, and where it goes. */
function elementOf(
  context: SimtContext,
  { output, scale }: Store,
): { readonly code: string; readonly index: string; readonly condition: string } {
  const { operand: name, at, value } = output
  const roots = rootsOf(output)
  const values = new Map(emitValues(context, roots).map((text, i) => [roots[i]!, text]))
  const { at: positions, condition } = placeOf(
    context,
    output,
    (at ?? []).map((node) => values.get(node)!),
  )
  const code = emitCode(context, output, scale, values.get(value)!, positions)
  return { code, index: indexOf(context, name, positions), condition }
}

/** An element of an output that shares bytes with others, which the same thread stores. */
export function emitNarrowStore(context: SimtContext, result: Store): void {
  const { out, names, program } = context
  const { operand: name, span } = result.output
  const { bits } = DTYPES[operandNamed(program, name).dtype]
  const { code, index, condition } = elementOf(context, result)
  out.block(condition.trimEnd(), () => {
    out.line(`const long long bit = (${index}) * ${bits};`)
    out.line('const int shift = (int)(bit & 7);')
    const mask = `${2 ** bits - 1}u << shift`
    const code32 = `(unsigned int)(${code}) << shift`
    const store = call(
      context,
      'ktl_store_bits',
      `${names.operand(name)} + (bit >> 3)`,
      code32,
      mask,
      `shift + ${bits}`,
    )
    out.line(`${store};`, { ktl: span, note: `store ${name}` })
  })
}

/**
 * Elements of an output that share bytes: a thread owns those of `pack` neighbours along `axis`, from `first` on. `conditions`: of the
 * point of one element. `kept`: bits of elements that do not exist, because the axis is ragged, stay as they are.
 */
export function emitPackedStore(
  context: SimtContext,
  result: Store,
  { axis, first, pack, kept }: { axis: string; first: string; pack: number; kept: boolean },
  emitElement: (body: () => void) => void,
): void {
  const { out, names, program } = context
  const { operand: name, at, span } = result.output
  const { bits } = DTYPES[operandNamed(program, name).dtype]
  const whole = 2 ** (bits * pack) - 1
  out.line(`unsigned int code = 0, mask = ${kept ? '0' : whole};`)
  out.line('long long place = -1;')
  out.block(`for (int j = 0; j < ${pack} && ${first} + j < ${names.extent(axis)}; ++j)`, () => {
    out.line(`const int ${names.index(axis)} = ${first} + j;`)
    emitElement(() => {
      const { code, index, condition } = elementOf(context, result)
      out.line(`${condition}place = ${index} - j * ${names.stride(name, axis)};`)
      out.line(`code |= (unsigned int)(${code}) << j * ${bits};`, { ktl: span, note: `element of ${name}` })
      if (kept) out.line(`mask |= ${2 ** bits - 1}u << j * ${bits};`)
    })
  })
  const used = `min(${pack}, ${names.extent(axis)} - ${first}) * ${bits}`
  const how = at ? 'ktl_scatter_bits' : 'ktl_store_bits'
  const store = call(context, how, `${names.operand(name)} + place * ${bits} / 8`, 'code', 'mask', used)
  out.line(`if (place >= 0) ${store};`, { ktl: span, note: `store ${name}` })
}
