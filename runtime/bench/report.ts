/** A benchmark as a page of its own, which asks no other host for anything: plots, a table, and the numbers as JSON. */
import { quantiles, roofline, type Roof } from './plots.ts'

export interface ReportRow {
  readonly instance: string
  readonly place: number
  readonly milliseconds: number
  /** Of rounds; the same twice where nothing varies. */
  readonly low: number
  readonly high: number
  /** null: times are measured. */
  readonly modelledCycles: number | null
  readonly operations: number
  readonly bytes: number
}

export interface BenchReport {
  readonly kernel: string
  readonly dims: string
  readonly device: string
  readonly times: 'measured' | 'modelled'
  /** What the device can do at most; null: not known, or nothing is contracted. */
  readonly roof: Roof | null
  readonly rows: readonly ReportRow[]
}

const STYLE = `:root { color-scheme: light dark; --ink: #1f2933; --faint: #52606d; --grid: #e4e7eb; --ground: #fff; --line: #2f6fb0; --dot: #c8641b }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaee; --faint: #a4afba; --grid: #2c343d; --ground: #14181d; --line: #6ea2dd; --dot: #e08a45 } }
body { margin: 1.5em auto; padding: 0 1em; max-width: 75em; font: 14px system-ui, sans-serif; color: var(--ink); background: var(--ground) }
h1 { font-size: 18px } h2 { font-size: 15px } .plots { display: flex; flex-wrap: wrap; gap: 1em } .plots > section { flex: 1 1 20em; min-width: 0 }
svg { width: 100%; height: auto; font-size: 12px; fill: var(--faint) } .grid { stroke: var(--grid); fill: none } .roof { fill: none; stroke: var(--line); stroke-width: 2 } circle { fill: var(--dot) }
.table { overflow-x: auto } table { border-collapse: collapse } th, td { padding: .25em .8em; border-bottom: 1px solid var(--grid); text-align: right; white-space: nowrap } th:last-child, td:last-child { text-align: left }
pre { white-space: pre-wrap; overflow-wrap: anywhere; color: var(--faint) }`

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
const number = (value: number): string => Number(value.toPrecision(4)).toLocaleString('en-US')

export function benchHtml(report: BenchReport): string {
  const { kernel, dims, device, times, roof, rows } = report
  const title = `${kernel}, ${dims}, on ${device}`
  const fastest = Math.min(...rows.map(({ milliseconds }) => milliseconds))
  const rates = rows.map(({ operations, milliseconds }) => operations / milliseconds / 1e9)
  const contracted = rows.some(({ operations }) => operations > 0)
  const points = rows.map(({ instance, operations, bytes }, i) => ({ name: instance, intensity: operations / bytes, teraops: rates[i]! })) // prettier-ignore
  const plots = [
    ...(contracted ? [section('Roofline', roof ? `Line: ${roof.name}, dense rates of the data sheet.` : 'ktl does not know what this device can do at most.', roofline(points, roof))] : []), // prettier-ignore
    ...(rows.length > 1 ? [section('Quantiles of the ratio', 'How much longer than the fastest instances take.', quantiles(rows.map(({ milliseconds }) => milliseconds / fastest)))] : []), // prettier-ignore
  ]
  const cells = rows.map(({ instance, place, milliseconds, low, high, modelledCycles, operations, bytes }) => [
    modelledCycles === null ? `${number(milliseconds * 1e3)}` : modelledCycles.toLocaleString('en-US'),
    ...(modelledCycles === null ? [`${number(low * 1e3)} to ${number(high * 1e3)}`] : []),
    number(operations / milliseconds / 1e9),
    number(bytes / milliseconds / 1e6),
    number(milliseconds / fastest),
    String(place),
    instance,
  ])
  const header = [...(times === 'modelled' ? ['cycles (modelled)', 'TFLOP/s (modelled)', 'GB/s (modelled)'] : ['µs', 'rounds', 'TFLOP/s', 'GB/s']), 'ratio', 'place', 'instance'] // prettier-ignore
  const said =
    times === 'modelled'
      ? 'Modelled by the virtual device, not measured: for comparing instances, no prediction of a GPU.'
      : 'Medians of rounds with cold caches, measured by the device.'
  return page(title, said, plots, [{ title: 'Instances', header, rows: cells }], report)
}

interface PageTable {
  readonly title: string
  readonly header: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** Plots, tables, and the numbers as JSON. */
export function page(title: string, said: string, plots: readonly string[], tables: readonly PageTable[], data: object): string {
  const table = ({ title, header, rows }: PageTable): string =>
    `<h2>${escaped(title)}</h2>
<div class="table" tabindex="0" role="group" aria-label="${escaped(title)}"><table><thead>${tableRow(header, 'th')}</thead><tbody>${rows.map((row) => tableRow(row, 'td')).join('\n')}</tbody></table></div>`
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escaped(title)}</title>
<style>${STYLE}</style>
<main><h1>${escaped(title)}</h1>
<p>${escaped(said)}</p>
<div class="plots">${plots.join('\n')}</div>
${tables.map(table).join('\n')}
<details><summary>As JSON</summary><pre id="data">${escaped(JSON.stringify(data, null, 1))}</pre></details></main>
</html>
`
} // prettier-ignore

export const section = (title: string, text: string, plot: string): string =>
  `<section><h2>${title}</h2><p>${escaped(text)}</p>${plot}</section>`

const tableRow = (cells: readonly string[], tag: string): string =>
  `<tr>${cells.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join('')}</tr>`
