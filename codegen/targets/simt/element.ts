/** A stage without loops: a thread for each point, or for neighbours whose elements share bytes. */
import { packedOf, paddedOf } from '../../../compiler/targets/simt/domain.ts'
import type { Stage } from '../../../compiler/targets/simt/plan.ts'
import { call, type SimtContext } from './context.ts'
import { emitPoints, emitPositions, groupOf, lengthOf, rowsOf, startOf } from './domain.ts'
import { emitPackedStore, emitStores } from './stores.ts'

export function emitElements(context: SimtContext, stage: Stage, pack: number): void {
  if (pack > 1) return emitPacked(context, stage, pack)
  const { out } = context
  const points = emitPoints(context, stage.axes, new Set())
  emitThreads(context, points.count, () => {
    const conditions = emitPositions(context, points, 'rest')
    const emit = (): void => emitStores(context, stage.results, [])
    if (conditions.length > 0) out.block(`if (${conditions.join(' && ')})`, emit)
    else emit()
  })
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
    const emit = (): void =>
      emitPackedStore(
        context,
        result,
        { axis, first: 'first', pack, kept: (packed ?? padded) !== null || counted.length > 0 },
        emitElement,
      )
    if (conditions.length > 0) out.block(`if (${conditions.join(' && ')})`, emit)
    else emit()
  })
}
