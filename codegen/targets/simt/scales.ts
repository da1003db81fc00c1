/** A stage that makes the scales of an output in stored form: a team for each block finds its largest magnitude. */
import { packedOf, paddedOf } from '../../../compiler/targets/simt/domain.ts'
import type { Block, Result, Stage } from '../../../compiler/targets/simt/plan.ts'
import { convertCompute } from '../../cuda/expression.ts'
import { call, type SimtContext } from './context.ts'
import { emitBlock, emitPoints, emitPositions, lengthOf } from './domain.ts'
import { emitScaleStore, largestElement } from './quantise.ts'
import { emitValues } from './scope.ts'
import { placeOf } from './stores.ts'
import { emitCombined, emitTeams, LIVE } from './team.ts'

export function emitScales(
  context: SimtContext,
  { axes, results }: Stage,
  threads: number,
  along: 'loop' | 'domain',
): void {
  const { out, names, temporaries } = context
  const { output, scale } = results[0] as Extract<Result, { kind: 'scale' }>
  const blocks = scale.blocks.filter(({ per }) => per !== 1)
  const single = axes.filter((axis) => !blocks.some((block) => block.axis === axis))
  const points = emitPoints(context, single, new Set())
  const counts = blocks.map((block) => blockCount(context, block))
  const bound = ['1LL', ...blocks.map(({ axis, per }) => (per === null ? names.extent(axis) : `${per}`))].join(' * ')
  emitTeams(context, { points: [points.count, ...counts].join(' * '), bound, threads, along }, () => {
    const number = new Map(blocks.map(({ axis }) => [axis, `block_${temporaries.count++}`]))
    const splitBlocks = (): void => {
      for (const [i, { axis }] of [...blocks].reverse().entries())
        out.line(
          `const int ${number.get(axis)!} = ${call(context, 'ktl_split', 'rest', counts[blocks.length - 1 - i]!)};`,
        )
    }
    // Neighbouring teams have neighbouring results: blocks of a row, or columns of a block.
    if (along === 'loop') splitBlocks()
    const conditions = emitPositions(context, points, 'rest', along === 'domain')
    if (along === 'domain') splitBlocks()
    const known = new Set(points.known)
    const spans = blocks.map((block) => emitSpan(context, block, number.get(block.axis)!, known))
    out.line(`const bool live = ${[LIVE, ...conditions, ...spans.map(({ length }) => `${length} > 0`)].join(' && ')};`)
    const largest = `largest_${temporaries.count++}`
    out.line(`float ${largest} = 0.0f;`, { ktl: output.span, note: `largest magnitude of ${output.operand}` })
    const total = ['1LL', ...spans.map(({ length }) => length)].join(' * ')
    out.block(`if (live) for (long long i = part; i < ${total}; i += team)`, () => {
      if (spans.length > 0) out.line('long long rest = i;')
      for (const { axis, begin, length } of [...spans].reverse())
        out.line(`const int ${names.index(axis)} = ${begin} + ${call(context, 'ktl_split', 'rest', length)};`)
      const [value] = emitValues(context, [output.value]) as [string]
      const wide = convertCompute(output.value.type, 'f32', value, context.functions)
      out.line(`${largest} = ${call(context, 'ktl_max_f32', largest, `fabsf(${wide})`)};`)
    })
    emitCombined(context, 'float', largest, call(context, 'ktl_max_f32', 'a', 'b'))
    out.block('if (live && part == 0)', () => {
      for (const { axis, begin } of spans) out.line(`const int ${names.index(axis)} = ${begin};`)
      const values = emitValues(context, output.at ?? [])
      out.line(`${largestElement(context, scale)} = ${largest};`)
      const { at, condition } = placeOf(context, output, values)
      emitScaleStore(context, output, largest, at, condition)
    })
  })
}

/** Blocks along an axis, counting one that may be empty for each group. */
function blockCount({ names, program }: SimtContext, { axis, per }: Block): string {
  if (per === null) return '1'
  const packed = packedOf(program, axis)
  return `((${names.extent(axis)} + ${per - 1}) / ${per}${packed ? ` + ${names.extent(packed.group)}` : ''})`
}

interface Span {
  readonly axis: string
  readonly begin: string
  readonly length: string
}

/** Positions of an axis in the block `number`; declares its group if it has one that is not known yet. */
function emitSpan(context: SimtContext, { axis, per }: Block, number: string, known: Set<string>): Span {
  const { out, names, program, temporaries } = context
  const n = temporaries.count++
  const [begin, length] = [`begin_${n}`, `length_${n}`]
  const packed = packedOf(program, axis)
  const padded = paddedOf(program, axis)
  if (packed && per !== null) {
    emitBlock(context, axis, per, number, known.has(packed.group), [begin, length])
    known.add(packed.group)
    return { axis, begin, length }
  }
  const end = padded && known.has(padded.group) ? lengthOf(context, axis) : names.extent(axis)
  out.line(`const int ${begin} = ${per === null ? '0' : `${number} * ${per}`};`)
  out.line(`const int ${length} = ${per === null ? end : `min(${per}, ${end} - ${begin})`};`)
  return { axis, begin, length }
}
