/** A timeline as a picture on a light ground. Browser-safe. */
import { describeSlice, KINDS, ticksOf, type Kind, type Slice, type Timeline } from './model.ts'

export const COLORS: Readonly<Record<Kind, string>> = {
  load: '#3b6ea8',
  multiply: '#2f8a57',
  epilogue: '#e3c88f',
  store: '#8a4fa3',
  run: '#7b8794',
  wait: '#cbd2d9',
}

const [LEFT, RIGHT, TOP, ROW] = [112, 16, 70, 24] as const
const WAIT_HEIGHT = 5

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
const round = (x: number): number => Math.round(x * 10) / 10

/** `width`: in pixels, 640 by default. Every slice has a title, which browsers show. */
export function timelineSvg(timeline: Timeline, { width = 640 }: { readonly width?: number } = {}): string {
  const { title, rows, end, time, kinds } = timeline
  const span = width - LEFT - RIGHT
  const x = (cycle: number): number => round(LEFT + (cycle / end) * span)
  const bottom = TOP + rows.length * ROW
  const text = (at: number, y: number, shown: string, more = ''): string =>
    `<text x="${at}" y="${y}"${more}>${escaped(shown)}</text>`
  const lines = [
    `<title>${escaped(title)}</title>`,
    `<rect width="${width}" height="${bottom + 50}" fill="#ffffff" rx="6"/>`,
    text(16, 26, title, ' font-weight="600" font-size="14"'),
    ...legend(kinds),
    ...ticksOf(end * 0.98, span / 90).flatMap((tick) => [
      `<path d="M${x(tick)} ${TOP - 6}V${bottom}" stroke="#e4e7eb"/>`,
      text(x(tick), bottom + 14, tick.toLocaleString('en-US'), ' text-anchor="middle"'),
    ]),
    ...rows.flatMap(({ name, slices }, i) => {
      const y = TOP + i * ROW
      return [text(16, y + 13, name), ...slices.map((slice) => drawn(slice, x, y))]
    }),
    text(16, bottom + 36, `Times are ${time}. Thin and grey: waiting.`, ' fill="#52606d"'),
  ]
  const head = `xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + 50}" width="${width}" height="${bottom + 50}" role="img" font-family="system-ui, sans-serif" font-size="12" fill="#1f2933"`
  return `<svg ${head}>\n${lines.join('\n')}\n</svg>\n`
}

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
