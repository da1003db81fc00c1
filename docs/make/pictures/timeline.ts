/** What the warps of one CTA did on a virtual device: from a trace. Its ticks are instructions of warps, not time on a GPU. */
import type { TileProgram } from '../../../compiler/ir/pipe.ts'
import { color, label, line, picture, rect, WIDTH } from './svg.ts'

interface Slice {
  readonly name: string
  readonly ph: string
  readonly pid: number
  readonly tid: number
  readonly ts: number
  readonly dur: number
}

const [LEFT, RIGHT, ROW] = [112, 16, 24] as const
const SPAN = WIDTH - LEFT - RIGHT
const UNITS: Readonly<Record<number, string>> = { 1000: 'TMA loads', 1002: 'tensor core', 1003: 'TMA stores' }

export function timeline(title: string, trace: string, { roles }: TileProgram): string {
  const { traceEvents } = JSON.parse(trace) as { traceEvents: readonly Slice[] }
  const slices = traceEvents.filter(({ ph, pid }) => ph === 'X' && pid === 0)
  const end = Math.max(...slices.map(({ ts, dur }) => ts + dur))
  const x = (tick: number): number => LEFT + Math.round((tick / end) * SPAN * 10) / 10
  const warps = roles.flatMap(({ name, firstWarp, warps: count }, role) =>
    Array.from({ length: count }, (_, i) => ({
      tid: firstWarp + i,
      name: `${name} ${firstWarp + i}`,
      fill: color(role),
    })),
  )
  const units = Object.entries(UNITS).map(([tid, name], i) => ({
    tid: Number(tid),
    name,
    fill: color(roles.length + i),
  }))
  const rows = [...warps.sort((a, b) => a.tid - b.tid), ...units].filter(({ tid }) => slices.some((s) => s.tid === tid))
  const parts = [label(16, 26, title, { 'font-weight': 600, 'font-size': 14 })]
  rows.forEach(({ tid, name, fill }, i) => {
    const y = 44 + i * ROW
    parts.push(label(16, y + 14, name, { 'font-size': 12 }), line(LEFT, y + 18, WIDTH - RIGHT, y + 18, '#e4e7eb'))
    for (const { name: what, ts, dur } of slices.filter((slice) => slice.tid === tid)) {
      const width = Math.max(x(ts + dur) - x(ts), 0.5)
      if (what === 'wait') parts.push(rect(x(ts), y + 12, width, 4, '#cbd2d9'))
      else parts.push(rect(x(ts), y, width, 17, fill, { stroke: '#ffffff', 'stroke-width': 0.3 }))
    }
  })
  const bottom = 44 + rows.length * ROW
  parts.push(label(LEFT, bottom + 14, '0', { 'font-size': 12 }))
  parts.push(label(WIDTH - RIGHT, bottom + 14, `${end} ticks: instructions of warps, in turn`, { 'font-size': 12, 'text-anchor': 'end' })) // prettier-ignore
  parts.push(label(16, bottom + 34, 'thin and grey: waiting. Under way in a unit: from its issue to its end.', { 'font-size': 12, fill: '#52606d' })) // prettier-ignore
  return picture(title, bottom + 48, parts)
}
