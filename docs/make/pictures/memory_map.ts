/** Where things lie in shared memory, and in tensor memory: from the pipeline program of a kernel. */
import type { SmemBuffer, TileProgram } from '../../../compiler/ir/pipe.ts'
import { color, label, line, picture, rect, WIDTH } from './svg.ts'

const [LEFT, RIGHT, ROW] = [130, 20, 34] as const
const SPAN = WIDTH - LEFT - RIGHT

interface Row {
  readonly name: string
  readonly from: number
  readonly bytes: number
  readonly pieces: number
  readonly text: string
}

const piecesOf = ({ slots, per }: SmemBuffer): number => slots * (per?.count ?? 1)

export function memoryMap(title: string, { buffers, barriers, tmem }: TileProgram): string {
  const rows: Row[] = buffers.map((buffer) => {
    const pieces = piecesOf(buffer)
    const per = buffer.per ? ` × ${buffer.per.count} ${buffer.per.owner}s` : ''
    const text = `${buffer.slots} × ${buffer.slotBytes} B${per}: ${buffer.holds}`
    return { name: buffer.name, from: buffer.offset, bytes: pieces * buffer.slotBytes, pieces, text }
  })
  const first = Math.min(...barriers.map(({ offset }) => offset))
  const last = Math.max(...barriers.map(({ offset }) => offset)) + 8
  rows.push({ name: 'mbarriers', from: first, bytes: last - first, pieces: 1, text: barriers.map(({ name }) => name).join(', ') }) // prettier-ignore
  const total = Math.max(...rows.map(({ from, bytes }) => from + bytes))
  const x = (bytes: number): number => LEFT + Math.round((bytes / total) * SPAN * 10) / 10
  const parts = [label(16, 26, title, { 'font-weight': 600, 'font-size': 14 })]
  rows.forEach(({ name, from, bytes, pieces, text }, i) => {
    const y = 48 + i * ROW * 1.6
    parts.push(label(16, y + 16, name, { 'font-family': 'ui-monospace, monospace', 'font-size': 12 }))
    parts.push(line(LEFT, y + 23, WIDTH - RIGHT, y + 23, '#d5dae0'))
    for (let piece = 0; piece < pieces; piece++) {
      const [start, end] = [x(from + (bytes / pieces) * piece), x(from + (bytes / pieces) * (piece + 1))]
      parts.push(rect(start, y, Math.max(end - start - 1, 1.5), 22, color(i)))
    }
    parts.push(label(LEFT, y + 40, text, { 'font-size': 12, fill: '#52606d' }))
  })
  let bottom = 48 + rows.length * ROW * 1.6
  parts.push(label(LEFT, bottom + 8, '0', { 'font-size': 12 }))
  parts.push(label(WIDTH - RIGHT, bottom + 8, `${total} B`, { 'font-size': 12, 'text-anchor': 'end' }))
  if (tmem) {
    bottom += 24
    parts.push(label(16, bottom + 16, 'tensor memory', { 'font-size': 12 }))
    parts.push(line(LEFT, bottom + 23, WIDTH - RIGHT, bottom + 23, '#d5dae0'))
    const column = SPAN / 512
    const slots = Math.floor(tmem.columns / tmem.columnsPerAccumulator)
    for (let slot = 0; slot < slots; slot++)
      parts.push(rect(LEFT + slot * tmem.columnsPerAccumulator * column, bottom, tmem.columnsPerAccumulator * column - 1, 22, color(rows.length))) // prettier-ignore
    const text = `${tmem.columns} of 512 columns, ${tmem.columnsPerAccumulator} for each slot of ring ${tmem.ring}`
    parts.push(label(LEFT, bottom + 40, text, { 'font-size': 12, fill: '#52606d' }))
    bottom += 44
  }
  return picture(title, bottom + 22, parts)
}
