/** A stage without loops: a thread for each point, or for neighbours whose elements share bytes. */
import { packedOf, paddedOf } from '../../../compiler/targets/simt/domain.ts'
import type { Stage } from '../../../compiler/targets/simt/plan.ts'
import type { SourceBuilder } from '../../cuda/source_builder.ts'
import { call, type SimtContext } from './context.ts'
import { emitPoints, emitPositions, groupOf, lengthOf, rowsOf, startOf } from './domain.ts'
import { emitNarrowStore, emitPackedStore, emitStores } from './stores.ts'

export function emitElements(context: SimtContext, stage: Stage, pack: number): void {
  if (pack > 1) return emitPacked(context, stage, pack)
  const { out } = context
  const points = emitPoints(context, stage.axes, new Set())
  emitThreads(context, points.count, () => {
    guarded(out, emitPositions(context, points, 'rest'), () => emitStores(context, stage.results, []))
  })
}

function guarded(out: SourceBuilder, conditions: readonly string[], body: () => void): void {
  if (conditions.length > 0) out.block(`if (${conditions.join(' && ')})`, body)
  else body()
}

/** Elements that share bytes and lie where an operand says, one after the other. */
export function emitRows(context: SimtContext, { axes, results }: Stage, over: readonly string[]): void {
  const { out } = context
  const [result] = results
  if (result?.kind !== 'store') throw new Error('only outputs share bytes')
  const rows = emitPoints(
    context,
    axes.filter((axis) => !over.includes(axis)),
    new Set(),
  )
  emitThreads(context, rows.count, () =>
    guarded(out, emitPositions(context, rows, 'rest'), () => {
      const row = emitPoints(context, over, rows.known)
      out.line(`const long long elements = ${row.count};`)
      out.block('for (long long i = 0; i < elements; ++i)', () => {
        out.line('long long left = i;')
        guarded(out, emitPositions(context, row, 'left'), () => emitNarrowStore(context, result))
      })
    }),
  )
}

/** A thread for each of `count` linear indices, which the body finds in `rest`. */
function emitThreads({ out }: SimtContext, count: string, body: () => void): void {
  out.line(`const long long points = ${count}, step = (long long)gridDim.x * blockDim.x;`)
  out.block('for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < points; e += step)', () => {
    out.line('long long rest = e;')
    body()
  })
}

function emitPacked(context: SimtContext, { axes, results }: Stage, pack: number): void {
  const { out, names, program } = context
  const [result] = results
  const axis = axes.at(-1)!
  if (result?.kind !== 'store') throw new Error('only outputs are packed')
  const points = emitPoints(context, axes.slice(0, -1), new Set())
  const packed = packedOf(program, axis)
  const padded = paddedOf(program, axis)
  const counted = axes.filter((own) => paddedOf(program, own)?.group === axis)
  if (packed && !points.known.has(packed.group)) out.line(`const int rows = ${rowsOf(context, axis, packed)};`)
  const units = `((${names.extent(axis)} + ${pack - 1}) / ${pack})`
  emitThreads(context, `${points.count} * ${units}`, () => {
    out.line(`const int first = ${call(context, 'ktl_split', 'rest', units)} * ${pack};`)
    const conditions = emitPositions(context, points, 'rest')
    const i = names.index(axis)
    // Where neighbours are groups, each has rows of its own along other axes.
    const rows = counted.map((own) => `${names.index(own)} < ${lengthOf(context, own)}`)
    const emitElement = (body: () => void): void => {
      if (rows.length > 0) out.block(`if (${rows.join(' && ')})`, body)
      else if (packed && !points.known.has(packed.group)) {
        out.line(`if (${i} >= rows) break;`)
        out.line(`const int ${names.index(packed.group)} = ${groupOf(context, axis, packed, i)};`)
        body()
      } else if (packed)
        out.block(
          `if (${i} >= ${startOf(context, axis)} && ${i} - ${startOf(context, axis)} < ${lengthOf(context, axis)})`,
          body,
        )
      else if (padded && points.known.has(padded.group)) out.block(`if (${i} < ${lengthOf(context, axis)})`, body)
      else body()
    }
    const kept = (packed ?? padded) !== null || counted.length > 0
    guarded(out, conditions, () => emitPackedStore(context, result, { axis, first: 'first', pack, kept }, emitElement))
  })
}
