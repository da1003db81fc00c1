/** A timeline as a picture on a light ground. Browser-safe. */
import { describeSlice, KINDS, onOneScale, ticksOf, type Kind, type Slice, type Timeline } from './model.ts'

export const COLORS: Readonly<Record<Kind, string>> = {
  load: '#3b6ea8',
  multiply: '#2f8a57',
  epilogue: '#e3c88f',
  store: '#8a4fa3',
  run: '#7b8794',
  wait: '#cbd2d9',
}

const [LEFT, RIGHT, TOP, ROW] = [112, 16, 70, 24] as const
/** From the last row of a timeline to the first of the next: axis, note and title. */
const BETWEEN = 84
const WAIT_HEIGHT = 5

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
const round = (x: number): number => Math.round(x * 10) / 10

/**
 * `width`: in pixels, 640 by default. Several timelines stand below one another, on one scale of time. Every slice has a title, which
 * browsers show.
 */
export function timelineSvg(
  timelines: Timeline | readonly [Timeline, ...Timeline[]],
  { width = 640 }: { readonly width?: number } = {},
): string {
  const panels = 'rows' in timelines ? [timelines] : onOneScale(timelines)
  const lines: string[] = []
  let top = TOP
  for (const timeline of panels) {
    lines.push(...panel(timeline, top, width))
    top += timeline.rows.length * ROW + BETWEEN
  }
  const height = top - BETWEEN + 50
  const used = (Object.keys(KINDS) as Kind[]).filter((kind) => panels.some(({ kinds }) => kinds.includes(kind)))
  const head = `xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" font-family="system-ui, sans-serif" font-size="12" fill="#1f2933"`
  const { title } = panels[0]!
  return [
    `<svg ${head}>`,
    `<title>${escaped(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#ffffff" rx="6"/>`,
    text(16, 26, title, ' font-weight="600" font-size="14"'),
    ...legend(used),
    ...lines,
    '</svg>\n',
  ].join('\n')
}

/** Rows, the axis and what it counts; above all but the first, whose title is that of the picture, a title. */
function panel({ title, rows, end, time }: Timeline, top: number, width: number): string[] {
  const span = width - LEFT - RIGHT
  const x = (cycle: number): number => round(LEFT + (cycle / end) * span)
  const bottom = top + rows.length * ROW
  return [
    ...(top === TOP ? [] : [text(16, top - 16, title, ' font-weight="600" font-size="14"')]),
    ...ticksOf(end * 0.98, span / 90).flatMap((tick) => [
      `<path d="M${x(tick)} ${top - 6}V${bottom}" stroke="#e4e7eb"/>`,
      text(x(tick), bottom + 14, tick.toLocaleString('en-US'), ' text-anchor="middle"'),
    ]),
    ...rows.flatMap(({ name, slices }, i) => {
      const y = top + i * ROW
      return [text(16, y + 13, name), ...slices.map((slice) => drawn(slice, x, y))]
    }),
    text(16, bottom + 36, `Times are ${time}. Thin and grey: waiting.`, ' fill="#52606d"'),
  ]
}

const text = (at: number, y: number, shown: string, more = ''): string =>
  `<text x="${at}" y="${y}"${more}>${escaped(shown)}</text>`

function legend(kinds: readonly Kind[]): string[] {
  let at = 16
  return kinds.map((kind) => {
    const start = at
    at += 30 + KINDS[kind].length * 7
    return `<rect x="${start}" y="38" width="12" height="12" fill="${COLORS[kind]}"/><text x="${start + 17}" y="48">${KINDS[kind]}</text>`
  })
}

function drawn(slice: Slice, x: (cycle: number) => number, y: number): string {
  const { kind, start, end, depth } = slice
  const left = x(start)
  const width = Math.max(round(x(end) - left), 0.5)
  const [top, height] = kind === 'wait' ? [y + 17 - WAIT_HEIGHT, WAIT_HEIGHT] : [y + 3 * depth, 17 - 3 * depth]
  return `<rect x="${left}" y="${top}" width="${width}" height="${height}" fill="${COLORS[kind]}"><title>${escaped(describeSlice(slice))}</title></rect>`
}
