/** `ktl run --show`: where in the outputs errors are. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { PNG } from 'pngjs'
import { expect, test } from 'vitest'
import { compare } from '../../compiler/evaluate/compare.ts'
import { mapsAsPng, showMap } from '../../runtime/cli/show.ts'
import { coarser, ErrorMaps } from '../../runtime/selftest/error_map.ts'
import { folder, ktl } from './cli.ts'

/** 3 x 4 elements with bound 1: right, half the bound in one place, wrong in another. */
function maps() {
  const data = new Float64Array(12)
  const actual = Float64Array.from(data)
  actual[5] = 0.5
  actual[10] = 2
  const found = new ErrorMaps()
  compare({ D: { data, bounds: new Float64Array(12).fill(1), shape: [3, 4] } } as never, { D: actual }, found.observe)
  return found.all
}

test('a map has each element: equal, a share of its bound, or beyond it', () => {
  expect(maps()).toMatchObject([{ output: 'D', rows: 3, columns: 4 }])
  expect([...maps()[0]!.levels]).toEqual([0, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, Infinity, 0])
  expect([...coarser(maps()[0]!, 2, 2).levels]).toEqual([0.5, 0, 0, Infinity])
})

test('signs without colours; two rows to a line with them', () => {
  const plain = showMap(maps()[0]!, { color: false, width: 80 })
  expect(plain.slice(0, 4)).toEqual(['errors of D: 3 x 4 elements', '  ····', '  ·=··', '  ··#·'])
  const colored = showMap(maps()[0]!, { color: true, width: 80 })
  expect(colored).toHaveLength(1 + 2 + 1)
  expect(colored[1]!.match(/▀/g)).toHaveLength(4)
  expect(colored[2]).toContain('\x1b[38;5;196m\x1b[49m▀')
})

test('an image: several pixels for each of few elements, red where it is wrong', () => {
  const { width, height, data } = PNG.sync.read(mapsAsPng(maps()))
  expect([width, height]).toEqual([256, 192])
  const at = (x: number, y: number): number[] => [...data.subarray((y * width + x) * 4, (y * width + x) * 4 + 4)]
  expect([at(0, 0), at(2 * 64 + 9, 2 * 64 + 9), at(64, 64)]).toEqual([[0, 0, 95, 255], [255, 0, 0, 255], [95, 175, 95, 255]]) // prettier-ignore
})

test('on the command line: text where there is no terminal, a file, and what is refused', async () => {
  const run = ['run', 'samples/gemm.ktl', '--dims', 'm=5,n=6,k=16', '--inputs', 'integers']
  const shown = await ktl([...run, '--show'])
  expect(shown.status).toBe(0)
  expect(shown.stdout).toContain(`errors of D: 5 x 6 elements\n${'  ······\n'.repeat(5)}`)
  const file = path.join(folder, 'errors.png')
  expect((await ktl([...run, '--show', file])).status).toBe(0)
  expect(PNG.sync.read(readFileSync(file)).width).toBe(42 * 6)
  const refused = await ktl([...run, '--show', 'errors.jpeg'])
  expect([refused.status, refused.stderr]).toEqual([2, expect.stringContaining('KTL4103')])
})
