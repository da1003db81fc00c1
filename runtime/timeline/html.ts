/**
 * A timeline as a page of its own that asks no other host for anything. Slices are boxes whose places are per cent of a track, so that
 * zooming is the width of the track, and scrolling is the browser's.
 */
import { describeSlice, KINDS, onOneScale, ticksOf, type Row, type Timeline } from './model.ts'

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

export const TIMELINE_STYLE = `
.timeline { --load: #3b6ea8; --multiply: #2f8a57; --epilogue: #e3c88f; --store: #8a4fa3; --run: #7b8794; --wait: #b8c1cb;
  --ground: #fff; --on: #fff; --ink: #1f2933; --faint: #52606d; --grid: #e4e7eb; color: var(--ink); background: var(--ground); font: 13px system-ui, sans-serif }
@media (prefers-color-scheme: dark) { :root:not([data-theme=light]) .timeline { --load: #6ea2dd; --multiply: #52b77f; --epilogue: #8a744a; --store: #b98bd0; --run: #8b98a6;
  --wait: #55606c; --ground: #14181d; --on: #14181d; --ink: #e6eaee; --faint: #a4afba; --grid: #2c343d } }
:root[data-theme=dark] .timeline { --load: #6ea2dd; --multiply: #52b77f; --epilogue: #8a744a; --store: #b98bd0; --run: #8b98a6;
  --wait: #55606c; --ground: #14181d; --on: #14181d; --ink: #e6eaee; --faint: #a4afba; --grid: #2c343d }
.timeline .bar { display: flex; flex-wrap: wrap; gap: .4em 1em; align-items: center; margin: .5em 0 }
.timeline .key::before { content: ''; display: inline-block; width: .8em; height: .8em; margin-right: .4em; background: var(--color) }
.timeline button { font: inherit; color: inherit; background: none; border: 1px solid var(--faint); border-radius: 4px; padding: .1em .7em }
.timeline .rows { display: grid; grid-template-columns: max-content minmax(0, 1fr) }
.timeline .names > div { height: 24px; line-height: 24px; padding-right: 1em; white-space: nowrap }
.timeline .scroll { overflow-x: auto; position: relative }
.timeline .track { position: relative; min-width: 100% }
.timeline .row { position: relative; box-sizing: border-box; height: 24px; border-bottom: 1px solid var(--grid) }
.timeline .row i { position: absolute; bottom: 1px; height: 20px; min-width: 1px; background: var(--color); font: 11px/20px system-ui; color: var(--on); overflow: hidden; white-space: nowrap; box-shadow: inset 1px 0 var(--ground) }
.timeline .row i.wait { height: 6px }
.timeline .row i.d1 { height: 15px; line-height: 15px } .timeline .row i.d2 { height: 10px; line-height: 10px }
.timeline .row i.wait.d1 { height: 6px }
.timeline .row i.epilogue { color: var(--ink) }
.timeline .ruler { position: relative; height: 22px; color: var(--faint) }
.timeline .ruler span { position: absolute; border-left: 1px solid var(--faint); padding-left: 3px; white-space: nowrap }
.timeline .said { min-height: 1.5em; color: var(--faint) }
`

/** What the page does, as the text of a function of the element: zoom by buttons, keys and the wheel with Ctrl; what is under the pointer. */
export const TIMELINE_SCRIPT = `function (root) {
  const scroll = root.querySelector('.scroll'), track = root.querySelector('.track'), said = root.querySelector('.said')
  let zoom = 1
  const apply = (next, at) => {
    next = Math.min(200, Math.max(1, next))
    const x = at === undefined ? scroll.clientWidth / 2 : at
    const place = (scroll.scrollLeft + x) / track.offsetWidth
    zoom = next
    track.style.width = zoom * 100 + '%'
    scroll.scrollLeft = place * track.offsetWidth - x
  }
  root.querySelector('[data-zoom=in]').onclick = () => apply(zoom * 2)
  root.querySelector('[data-zoom=out]').onclick = () => apply(zoom / 2)
  root.querySelector('[data-zoom=all]').onclick = () => apply(1)
  scroll.onkeydown = ({ key }) => { if (key === '+' || key === '=') apply(zoom * 2); else if (key === '-') apply(zoom / 2); else if (key === '0') apply(1) }
  scroll.addEventListener('wheel', (event) => {
    if (!event.ctrlKey) return
    event.preventDefault()
    apply(zoom * Math.exp(-event.deltaY / 200), event.clientX - scroll.getBoundingClientRect().left)
  }, { passive: false })
  const tell = ({ target }) => { if (target.title) said.textContent = target.title }
  track.onpointerover = tell
  track.onclick = tell
}`

/** The part of a page: `TIMELINE_STYLE` and a call of `TIMELINE_SCRIPT` with its element go with it. */
export function timelineFragment({ title, rows, end, time, kinds }: Timeline): string {
  const keys = kinds.map((kind) => `<span class="key" style="--color:var(--${kind})">${KINDS[kind]}</span>`).join('')
  const ticks = ticksOf(end * 0.95, 8).map((tick) => `<span style="left:${percent(tick, end)}">${tick.toLocaleString('en-US')}</span>`) // prettier-ignore
  const names = rows.map(({ name }) => `<div>${escaped(name)}</div>`).join('')
  return `<div class="timeline"><div class="bar">${keys}<button data-zoom="out" aria-label="zoom out">−</button><button data-zoom="in" aria-label="zoom in">+</button><button data-zoom="all">all</button></div>
<div class="rows"><div class="names">${names}</div><div class="scroll" tabindex="0" role="group" aria-label="${escaped(title)}; plus and minus zoom"><div class="track">
${rows.map((row) => drawn(row, end)).join('\n')}
<div class="ruler">${ticks.join('')}</div></div></div></div>
<div class="said" aria-live="polite">Times are ${escaped(time)}.</div></div>`
}

const percent = (cycle: number, end: number): string => `${Math.round((cycle / end) * 1e6) / 1e4}%`

function drawn({ slices }: Row, end: number): string {
  const boxes = slices.map((slice) => {
    const { kind, start, slot, depth } = slice
    const shown = slot !== null && kind !== 'wait' ? slot : ''
    const depthClass = depth > 0 ? ` d${Math.min(depth, 2)}` : ''
    return `<i class="${kind}${depthClass}" style="left:${percent(start, end)};width:${percent(slice.end - start, end)};--color:var(--${kind})" title="${escaped(describeSlice(slice))}">${shown}</i>`
  })
  return `<div class="row">${boxes.join('')}</div>`
}

/** Several timelines stand below one another, on one scale of time. */
export function timelineHtml(timelines: Timeline | readonly [Timeline, ...Timeline[]]): string {
  const panels = 'rows' in timelines ? [timelines] : onOneScale(timelines)
  const title = escaped(panels[0]!.title)
  const parts = panels.map(
    (timeline, i) => `${i === 0 ? '' : `<h1>${escaped(timeline.title)}</h1>\n`}${timelineFragment(timeline)}`,
  )
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>${title}</title>
<style>body { margin: 1em; background: #fff; color: #1f2933 } @media (prefers-color-scheme: dark) { body { background: #14181d; color: #e6eaee } } h1 { font: 600 16px system-ui, sans-serif }${TIMELINE_STYLE}</style>
<main><h1>${title}</h1>
<p style="font: 13px system-ui, sans-serif">Numbers in boxes are slots of their ring. Zoom with + and −, or the wheel with Ctrl; point at a box, and what it is stands below.</p>
${parts.join('\n')}</main>
<script>document.querySelectorAll('.timeline').forEach(${TIMELINE_SCRIPT})</script>
</html>
`
}
