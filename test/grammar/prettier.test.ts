/** The plugin under Prettier itself: the same form as `ktl fmt`. */
import * as prettier from 'prettier'
import { expect, test } from 'vitest'
import { formatProgram } from '../../grammar/printer.ts'
import * as plugin from '../../grammar/prettier.ts'

const format = (text: string, options: prettier.Options = {}): Promise<string> =>
  prettier.format(text, { filepath: 'a.ktl', plugins: [plugin], ...options })

const TEXT = `// head
/// Doc.
kernel  f( A: f32[m], // first
 B: f32[m])->D:f32[m] { x=A*(B+1); D=x // done
}
schedule f on simt {tile 32x32}
`

test('the form of `ktl fmt`, every comment once', async () => {
  const formatted = await format(TEXT)
  expect(formatted).toBe(formatProgram({ name: 'a.ktl', text: TEXT }).text)
  expect(await prettier.check(formatted, { filepath: 'a.ktl', plugins: [plugin] })).toBe(true)
  expect(formatted.match(/\/\/.*/g)).toEqual(['// head', '/// Doc.', '// first', '// done'])
})

test('the width is an option; by default 120, as everywhere in ktl', async () => {
  const text = 'kernel add(left: f32[m, n], right: f32[m, n]) -> total: f32[m, n] { total = left + right }\n'
  expect(await format(text)).toBe(text)
  expect(await format(text, { printWidth: 60 })).toBe(
    'kernel add(\n  left: f32[m, n],\n  right: f32[m, n]\n) -> total: f32[m, n] {\n  total = left + right\n}\n',
  )
})

test('code blocks of Markdown', async () => {
  const fenced = (code: string): string => `# Title\n\n\`\`\`ktl\n${code}\n\`\`\`\n`
  const text = fenced('kernel  f(A:f32[m])->D:f32[m] {D=A}')
  expect(await prettier.format(text, { filepath: 'a.md', plugins: [plugin] })).toBe(
    fenced('kernel f(A: f32[m]) -> D: f32[m] { D = A }'),
  )
})

test('a file with errors is refused with the diagnostic and the lines around', async () => {
  const error = (await format('kernel f(A: f32[m]) -> D: f32[m] {\n  D = A +\n}\n').catch((e: unknown) => e)) as Error
  expect(error).toBeInstanceOf(SyntaxError)
  expect(error.message).toMatch(/^KTL1007: the line ends with `\+`/)
  expect(error.message).toContain('> 2 |   D = A +\n    |         ^\n')
})
