/** The little SVG that the pictures need. Narrow, so that text can be read on a phone; one light ground, for pages of any colour. */

export const WIDTH = 640
export const COLORS = ['#3b6ea8', '#c8641b', '#2f8a57', '#8a4fa3', '#b23a48', '#6b7280', '#0e8a96', '#a37a00'] as const
export const color = (i: number): string => COLORS[i % COLORS.length]!

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

export type Attributes = Readonly<Record<string, string | number>>

export function element(name: string, attributes: Attributes, ...children: readonly string[]): string {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${value}"`).join('') // prettier-ignore
  return children.length === 0 ? `<${name}${written}/>` : `<${name}${written}>${children.join('')}</${name}>`
}

export const rect = (x: number, y: number, width: number, height: number, fill: string, more: Attributes = {}): string =>
  element('rect', { x, y, width, height, fill, ...more }) // prettier-ignore

export const line = (x1: number, y1: number, x2: number, y2: number, stroke: string, more: Attributes = {}): string =>
  element('line', { x1, y1, x2, y2, stroke, ...more })

/** `more['font-size']`: 13 by default. */
export const label = (x: number, y: number, text: string, more: Attributes = {}): string =>
  element('text', { x, y, ...more }, escaped(text))

/** A picture with a title for those who cannot see it. */
export function picture(title: string, height: number, parts: readonly string[]): string {
  const head = {
    xmlns: 'http://www.w3.org/2000/svg', viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height, role: 'img',
    'font-family': 'system-ui, sans-serif', 'font-size': 13, fill: '#1f2933',
  } // prettier-ignore
  const ground = rect(0, 0, WIDTH, height, '#ffffff', { rx: 6 })
  return `${element('svg', head, '\n', [element('title', {}, escaped(title)), ground, ...parts].join('\n'), '\n')}\n`
}
