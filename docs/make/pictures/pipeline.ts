/** Who does what, and who waits for whom: the roles of a pipeline program with a track for each barrier. */
import { bodiesOf, type TileOp, type TileProgram } from '../../../compiler/ir/pipe.ts'
import { referencesOf } from '../../../compiler/verify/references.ts'
import { color, element, label, line, picture, rect, WIDTH } from './svg.ts'

const [LINE, TRACK, TOP] = [19, 30, 70] as const

/** Bookkeeping that says nothing of the order of work. */
const HIDDEN: ReadonlySet<TileOp['op']> = new Set<TileOp['op']>(['advance', 'warp_sync', 'own_row', 'next_origin', 'tcgen05_fence', 'proxy_fence', 'wgmma_wait', 'set_registers', 'take_cells', 'bulk_wait_read', 'bulk_commit', 'copy_commit']) // prettier-ignore
const WAITS: ReadonlySet<TileOp['op']> = new Set<TileOp['op']>(['wait', 'wait_turn', 'aux_load'])

interface Entry {
  readonly depth: number
  readonly text: string
  readonly barrier: string | null
  readonly waits: boolean
}

function entriesOf(ops: readonly TileOp[], depth: number): Entry[] {
  return ops.flatMap((op) => {
    const { barriers: [barrier = null] = [], buffers = [], operands = [] } = referencesOf(op)
    const inner = (by: number): Entry[] => bodiesOf(op).flatMap((body) => entriesOf(body, depth + by))
    if (HIDDEN.has(op.op)) return inner(0)
    // Who of the warps does it is not what the picture is about.
    if (['elected', 'lane0', 'one_thread'].includes(op.op)) return inner(0)
    const names = op.op === 'wait' || op.op === 'arrive' ? [barrier] : [...operands, ...buffers]
    const text = [op.op.replaceAll('_', ' '), ...new Set(names)].join(' ')
    return [{ depth, text, barrier, waits: WAITS.has(op.op) }, ...inner(1)]
  })
}

export function pipeline(title: string, program: TileProgram): string {
  const tracks = program.barriers.map(({ name }) => name)
  const x = (barrier: string): number => WIDTH - 72 - TRACK * (tracks.length - 1 - tracks.indexOf(barrier))
  const parts = [label(16, 26, title, { 'font-weight': 600, 'font-size': 14 })]
  const marks: string[] = []
  const range = new Map<string, [number, number]>()
  let y = TOP
  for (const { name, firstWarp, warps, does, body } of program.roles) {
    const entries = entriesOf(body, 0)
    const height = (entries.length + 1) * LINE + 12
    parts.push(rect(12, y, x(tracks[0]!) - 36, height, '#f4f6f8', { rx: 5, stroke: '#d5dae0' }))
    const which = warps === 1 ? `warp ${firstWarp}` : `warps ${firstWarp}-${firstWarp + warps - 1}`
    parts.push(label(22, y + LINE, `${name} (${which}): ${does}`, { 'font-weight': 600, 'font-size': 12 }))
    entries.forEach(({ depth, text, barrier, waits }, i) => {
      const at = y + (i + 2) * LINE
      const ink = barrier === null ? '#1f2933' : color(tracks.indexOf(barrier))
      parts.push(
        label(28 + depth * 16, at, text, { 'font-family': 'ui-monospace, monospace', 'font-size': 12, fill: ink }),
      )
      if (barrier === null) return
      const [from, to] = [x(tracks[0]!) - 24, at - 4]
      const known = range.get(barrier) ?? [to, to]
      range.set(barrier, [Math.min(known[0], to), Math.max(known[1], to)])
      marks.push(
        line(from, to, x(barrier), to, ink, { 'stroke-width': 1.5, 'stroke-dasharray': waits ? '4 3' : 'none' }),
      )
      marks.push(waits ? element('path', { d: `M${from} ${to} l8 -4 v8 z`, fill: ink }) : element('circle', { cx: x(barrier), cy: to, r: 4, fill: ink })) // prettier-ignore
    })
    y += height + 10
  }
  const heads = tracks.map((name, i) => label(x(name) + 4, TOP - 8, name, { 'font-size': 11, fill: color(i), transform: `rotate(-32 ${x(name)} ${TOP - 8})` })) // prettier-ignore
  const lines = [...range].map(([name, [from, to]]) => line(x(name), from, x(name), to, color(tracks.indexOf(name)), { 'stroke-width': 2 })) // prettier-ignore
  const foot = label(16, y + 12, '● signals a barrier (or announces what will)   ◀ waits for it', { 'font-size': 12, fill: '#52606d' }) // prettier-ignore
  return picture(title, y + 26, [...parts, ...heads, ...lines, ...marks, foot])
}
