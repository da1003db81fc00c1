/** Numbers on the page of performance stand in the reports that their rows name. */
import { expect, test } from 'vitest'
import { textOf } from './pages.ts'

const rows = textOf('docs/performance.md')
  .split('\n')
  .flatMap((line) => {
    const report = /\((\.\.\/bench\/results\/\w+\.txt)\) +\|$/.exec(line)?.[1]
    if (!line.startsWith('| ') || report === undefined) return []
    const [, , ...cells] = line.slice(0, line.lastIndexOf('[')).split('|')
    return [{ line, report: report.replace('../', ''), numbers: cells.join(' ').match(/\d+(\.\d+)?/g) ?? [] }]
  })

test('there are some', () => expect(rows.length).toBeGreaterThan(15))

test.each(rows)('$line', ({ report, numbers }) => {
  const known = new Set(textOf(report).match(/\d+(\.\d+)?/g))
  expect(numbers.length).toBeGreaterThan(0)
  expect(numbers.filter((number) => !known.has(number))).toEqual([])
})
