/** Error maps as people see them: in the terminal, two rows to a line, or as an image. */
import { PNG } from 'pngjs'
import { coarser, type ErrorMap } from '../selftest/error_map.ts'

type Rgb = readonly [number, number, number]

/** Equal; then the error over its bound, up to an eighth, a quarter, a half, all of it; then beyond it. */
const LEVELS: readonly {
  readonly upTo: number
  readonly sign: string
  readonly color256: number
  readonly rgb: Rgb
}[] = [
  { upTo: 0, sign: '·', color256: 17, rgb: [0, 0, 95] },
  { upTo: 1 / 8, sign: ':', color256: 24, rgb: [0, 95, 135] },
  { upTo: 1 / 4, sign: '-', color256: 30, rgb: [0, 135, 135] },
  { upTo: 1 / 2, sign: '=', color256: 71, rgb: [95, 175, 95] },
  { upTo: 1, sign: '+', color256: 179, rgb: [215, 175, 95] },
  { upTo: Infinity, sign: '#', color256: 196, rgb: [255, 0, 0] },
]

const levelOf = (value: number) => LEVELS.find(({ upTo }) => value <= upTo)!

const LEGEND = ['equal', 'up to 1/8 of the bound', '1/4', '1/2', 'the bound', 'beyond it']

export interface ShowOptions {
  readonly color: boolean
  readonly width: number
}

/** Lines of text. Without colours a sign for each cell, as screen readers and files can have it. */
export function showMap(map: ErrorMap, { color, width }: ShowOptions): string[] {
  const columns = Math.max(8, Math.min(width - 2, 96))
  const small = coarser(map, columns, color ? 48 : 24)
  const cell = (row: number, column: number) => levelOf(small.levels[row * small.columns + column]!)
  const scaled = small === map ? '' : `, the worst of each block of about ${Math.ceil(map.rows / small.rows)} x ${Math.ceil(map.columns / small.columns)}` // prettier-ignore
  const lines = [`errors of ${map.output}: ${map.rows} x ${map.columns} elements${scaled}`]
  for (let row = 0; row < small.rows; row += color ? 2 : 1) {
    let line = '  '
    for (let column = 0; column < small.columns; column++) {
      if (!color) line += cell(row, column).sign
      else {
        const below = row + 1 < small.rows ? `\x1b[48;5;${cell(row + 1, column).color256}m` : '\x1b[49m'
        line += `\x1b[38;5;${cell(row, column).color256}m${below}▀`
      }
    }
    lines.push(color ? `${line}\x1b[0m` : line)
  }
  const key = LEVELS.map(({ sign, color256 }, i) => `${color ? `\x1b[38;5;${color256}m■\x1b[0m` : sign} ${LEGEND[i]}`)
  return [...lines, `  ${key.join('  ')}`]
}

const [MOST, LEAST, GAP] = [1024, 256, 8] as const

/** One below the other; an element is a pixel, or several where there are few. */
export function mapsAsPng(maps: readonly ErrorMap[]): Buffer {
  const drawn = maps.map((map) => {
    const small = coarser(map, MOST, MOST)
    return { map: small, factor: Math.max(1, Math.floor(LEAST / Math.max(small.columns, small.rows, 1))) }
  })
  const width = Math.max(1, ...drawn.map(({ map, factor }) => map.columns * factor))
  const height = Math.max(
    1,
    drawn.reduce((sum, { map, factor }) => sum + map.rows * factor + GAP, -GAP),
  )
  const image = new PNG({ width, height })
  let top = 0
  for (const { map, factor } of drawn) {
    for (let y = 0; y < map.rows * factor; y++)
      for (let x = 0; x < map.columns * factor; x++) {
        const { rgb } = levelOf(map.levels[Math.floor(y / factor) * map.columns + Math.floor(x / factor)]!)
        image.data.set([...rgb, 255], ((top + y) * width + x) * 4)
      }
    top += map.rows * factor + GAP
  }
  return PNG.sync.write(image)
}
