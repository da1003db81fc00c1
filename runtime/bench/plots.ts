/** Two plots of a benchmark, as SVG that takes its colours from the page around it (report.ts). */
import { scaleLinear, scaleLog } from 'd3-scale'
import { quantile } from './statistics.ts'

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [560, 320, 64, 16, 16, 44] as const

export interface Roof {
  readonly name: string
  readonly teraops: number
  readonly gigabytes: number
}

export interface Point {
  readonly name: string
  /** Operations for each byte that crosses device memory once. */
  readonly intensity: number
  readonly teraops: number
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

interface Axis {
  (value: number): number
  ticks(count?: number): number[]
}

/** Numbers as people read them: 0.5, 20, 1,000. */
const shown = (value: number): string => Number(value.toPrecision(3)).toLocaleString('en-US')

function frame(title: string, x: Axis, y: Axis, labels: readonly [string, string], inside: string): string {
  const bottom = HEIGHT - BOTTOM
  // A logarithmic axis offers all digits; powers, and their doubles and halves, are enough.
  const few = (ticks: number[]): number[] =>
    ticks.length <= 8 ? ticks : ticks.filter((tick) => /^[125]0*(e.*)?$/.test(String(tick).replace('0.', '').replace(/^0*/, ''))) // prettier-ignore
  const horizontal = few(x.ticks(6)).map((tick) => `<path class="grid" d="M${x(tick)} ${TOP}V${bottom}"/><text x="${x(tick)}" y="${bottom + 16}" text-anchor="middle">${shown(tick)}</text>`) // prettier-ignore
  const vertical = few(y.ticks(6)).map((tick) => `<path class="grid" d="M${LEFT} ${y(tick)}H${WIDTH - RIGHT}"/><text x="${LEFT - 6}" y="${y(tick) + 4}" text-anchor="end">${shown(tick)}</text>`) // prettier-ignore
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img"><title>${escaped(title)}</title>
${horizontal.join('')}${vertical.join('')}
<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 6}" text-anchor="middle">${escaped(labels[0])}</text>
<text transform="translate(14 ${(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">${escaped(labels[1])}</text>
${inside}</svg>`
}

/** Rates of instances below what memory and arithmetic allow. `roof` null: a device that ktl does not know. */
export function roofline(points: readonly Point[], roof: Roof | null): string {
  const ridge = roof ? (roof.teraops * 1e3) / roof.gigabytes : 1
  const intensities = [...points.map(({ intensity }) => intensity), ridge]
  const rates = points.map(({ teraops }) => teraops)
  const x = scaleLog([Math.min(...intensities) / 4, Math.max(...intensities) * 4], [LEFT, WIDTH - RIGHT])
  const top = (roof ? roof.teraops : Math.max(...rates)) * 2
  const y = scaleLog([Math.min(...rates, top / 100) / 2, top], [HEIGHT - BOTTOM, TOP])
  const [from, to] = x.domain() as [number, number]
  const line = roof
    ? [Math.max(from, (y.domain()[0]! * 1e3) / roof.gigabytes), ridge, to].map((at) => `${x(at)},${y(Math.min(roof.teraops, (at * roof.gigabytes) / 1e3))}`) // prettier-ignore
    : []
  const dots = points.map(({ name, intensity, teraops }) => `<circle cx="${x(intensity)}" cy="${y(teraops)}" r="4"><title>${escaped(`${name}: ${shown(teraops)} TFLOP/s`)}</title></circle>`) // prettier-ignore
  const inside = `${roof ? `<polyline class="roof" points="${line.join(' ')}"/>` : ''}${dots.join('')}`
  return frame('Roofline', x, y, ['operations for each byte of device memory', 'TFLOP/s'], inside)
}

/** What the values of a plot of quantiles are. */
export interface QuantileAxis {
  readonly title: string
  readonly of: string
  readonly value: string
}

const OF_INSTANCES: QuantileAxis = {
  title: 'Quantiles of the ratio',
  of: 'instances',
  value: 'time, over that of the fastest',
}

/** The share of values that are at most so great; by default how many times the fastest instance's time others take. */
export function quantiles(values: readonly number[], { title, of, value }: QuantileAxis = OF_INSTANCES): string {
  const sorted = [...values].sort((a, b) => a - b)
  const x = scaleLinear([0, 100], [LEFT, WIDTH - RIGHT])
  const y = scaleLinear([Math.min(1, sorted[0]!), Math.max(1.1, sorted.at(-1)!)], [HEIGHT - BOTTOM, TOP]).nice()
  const shares = Array.from({ length: 101 }, (_, share) => `${x(share)},${y(quantile(sorted, share / 100))}`)
  const inside = `<polyline class="roof" points="${shares.join(' ')}"/>`
  return frame(title, x, y, [`per cent of the ${of}`, value], inside)
}
