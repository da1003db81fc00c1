/** `formatProgram`: nothing is lost, and formatting twice changes nothing. */
import fc, { type Arbitrary } from 'fast-check'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Comment, Program } from '../../grammar/ast.ts'
import { parseProgram } from '../../grammar/parse.ts'
import { formatProgram, printProgram } from '../../grammar/printer.ts'
import { renderDiagnostics } from '../../grammar/render.ts'
import { programLexer, tokenSpan } from '../../grammar/tokens.ts'
import * as arbitrary from './arbitraries.ts'
import { dedent } from './expect.ts'

const { withoutSpans } = arbitrary
const parse = (text: string) => parseProgram({ name: 'a.ktl', text })

function format(text: string): string {
  const { text: formatted, diagnostics } = formatProgram({ name: 'a.ktl', text })
  expect(renderDiagnostics(diagnostics)).toBe('')
  return formatted!
}

const tree = (program: Program): Program => withoutSpans({ ...program, comments: [] })
const commentsOf = ({ comments }: Program): string[] =>
  comments.map(({ doc, text }: Comment) => (doc ? '///' : '//') + text.trimEnd()).sort()

/** A program as text with comments, blank lines and `;` strewn wherever they may stand. */
const strewn: Arbitrary<string> = fc
  .tuple(
    arbitrary.program,
    fc.array(
      fc.record({
        at: fc.nat(),
        text: fc.constantFrom('// a\n', '  // b\n\n', '\n// c\n', '/// d\n', '\n\n\n/// e\n', '\n/// f\n\n', '\n', '\n\n\n', ';'),
      }),
      { minLength: 1, maxLength: 12 },
    ),
  )
  .map(([program, insertions]) =>
    insertions.reduce(
      (text, { at, text: inserted }, n) => {
        const ends = [0, ...programLexer.tokenize(text).tokens.map((token) => tokenSpan(token).end)]
        const end = ends[at % ends.length]!
        const next = text.slice(0, end) + inserted.replace(/(?<=[a-f])/, String(n)) + text.slice(end)
        return parse(next).diagnostics.length === 0 ? next : text
      },
      printProgram(program),
    ),
  ) // prettier-ignore

test('programs strewn with comments: the same tree, all comments, and formatting twice changes nothing', () => {
  let comments = 0
  fc.assert(
    fc.property(strewn, (text) => {
      const formatted = format(text)
      const before = parse(text).program
      const after = parse(formatted)
      expect(renderDiagnostics(after.diagnostics)).toBe('')
      expect(tree(after.program)).toEqual(tree(before))
      expect(commentsOf(after.program)).toEqual(commentsOf(before))
      expect(format(formatted)).toBe(formatted)
      expect(formatted).not.toMatch(/[^\S\n]$|\n\n\n/m)
      comments += before.comments.length
    }),
    { numRuns: 400 },
  )
  expect(comments).toBeGreaterThan(400)
})

describe('layout', () => {
  const table: Readonly<Record<string, readonly [input: string, output: string]>> = {
    'comments keep their place': [
      `
      // head

      /// Documented.
      /// Twice.
      kernel f(A: f32[m]) -> D: f32[m] { // open
        // before x
        x = A // behind x
        /// documents D
        D = x; // behind D
        // last
      } // closed
      // tail
      `,
      `
      // head

      /// Documented.
      /// Twice.
      kernel f(A: f32[m]) -> D: f32[m] { // open
        // before x
        x = A // behind x
        /// documents D
        D = x // behind D
        // last
      } // closed
      // tail
      `,
    ],
    'comments between operands, operators, arguments and alternatives': [
      `
      kernel f(
        A: f32[m],   // the input
        // another
        B: f32[m]
      ) -> ( D: f32[m], // first
             E: f32[m] ) {
        D = A      // left
          + max( B // right
             , A ) - (A + // inner
          B)
        E = ( // whole
          B)
      }
      schedule f on simt {
        // sizes
        tile 16x16 // small
          | 32x32
        //// not a doc comment
      }
      `,
      `
      kernel f(
        A: f32[m], // the input
        // another
        B: f32[m]
      ) -> (
        D: f32[m], // first
        E: f32[m]
      ) {
        D = A // left
          + max(
            B, // right
            A
          )
          - (
            A // inner
              + B
          )
        // whole
        E = B
      }
      schedule f on simt {
        // sizes
        tile 16x16 // small
          | 32x32
        //// not a doc comment
      }
      `,
    ],
    'comments in places without a line break go above': [
      `
      kernel // name
        f(A: f32[m, // rows
          n]) -> // result
          D: f32[m, n] {
        D = gelu(-( // sign
          A))
      }
      `,
      `
      // name
      // result
      kernel f(
        // rows
        A: f32[m, n]
      ) -> D: f32[m, n] {
        D = gelu(
          // sign
          -A
        )
      }
      `,
    ],
    'one-line bodies stay, others do not become one': [
      `
      kernel a(A: f32[m]) -> D: f32[m] {D=A}
      schedule a on simt {tile 32x32|16x16}
      kernel b(A: f32[m]) -> D: f32[m] { x = A; D = x }
      kernel c(A: f32[m]) -> D: f32[m] {
        D = A }


      kernel d(A: f32[m]) -> D: f32[m] {
      }
      `,
      `
      kernel a(A: f32[m]) -> D: f32[m] { D = A }
      schedule a on simt { tile 32x32 | 16x16 }
      kernel b(A: f32[m]) -> D: f32[m] {
        x = A
        D = x
      }
      kernel c(A: f32[m]) -> D: f32[m] {
        D = A
      }

      kernel d(A: f32[m]) -> D: f32[m] {}
      `,
    ],
    'rows of alternatives stay rows': [
      'schedule f on sm_100 {\n tile 64x32 | 64x64\n|128x32|128x64\nstages auto }',
      'schedule f on sm_100 {\n  tile 64x32 | 64x64\n    | 128x32 | 128x64\n  stages auto\n}',
    ],
    'kernels of a schedule that are too many for a line': [
      'schedule the_first_of_many_kernels, // first\n  the_second_of_many_kernels, the_third_of_many_kernels, the_fourth_of_many_kernels on sm_100 { tile 64x32 }',
      '// first\nschedule the_first_of_many_kernels,\n    the_second_of_many_kernels,\n    the_third_of_many_kernels,\n    the_fourth_of_many_kernels on sm_100 {\n  tile 64x32\n}',
    ],
    'long lines break': [
      `
      kernel gemm<T: f16 | bf16, O: f16 | bf16 | f32>(A: T[l?, m, k] | T[l?, k, m], B: T[l?, k, n] | T[l?, n, k]) -> D: O[l?, m, n] | O[l?, n, m] {
        acc: f32 = sum[k](A * B) * a_rather_long_name + another_rather_long_name * yet_another_long_name - the_last_name_of_this_line
        D = clamp(acc * the_first_factor * the_second_factor, minimum_of_the_whole_tensor, maximum_of_the_whole_tensor_right_here)
      }
      `,
      `
      kernel gemm<T: f16 | bf16, O: f16 | bf16 | f32>(
        A: T[l?, m, k] | T[l?, k, m],
        B: T[l?, k, n] | T[l?, n, k]
      ) -> D: O[l?, m, n] | O[l?, n, m] {
        acc: f32 = sum[k](A * B) * a_rather_long_name
          + another_rather_long_name * yet_another_long_name
          - the_last_name_of_this_line
        D = clamp(
          acc * the_first_factor * the_second_factor,
          minimum_of_the_whole_tensor,
          maximum_of_the_whole_tensor_right_here
        )
      }
      `,
    ],
    'a loose doc comment does not become one of the node below': [
      'kernel f(A: f32[m]) -> D: f32[m] {\n  D = A * ( /// loose\n 2)\n}',
      'kernel f(A: f32[m]) -> D: f32[m] {\n  D = A /// loose\n    * 2\n}',
    ],
    'prettier-ignore': [
      '// prettier-ignore\nkernel  f(A: f32[m])  -> D: f32[m] {\n    D=A // kept\n}\nkernel  g() -> D: f32[m] {}',
      '// prettier-ignore\nkernel  f(A: f32[m])  -> D: f32[m] {\n    D=A // kept\n}\nkernel g() -> D: f32[m] {}',
    ],
    'only a comment': ['// only a comment', '// only a comment'],
    'other line ends': ['\uFEFF// a\r\n\r\nkernel g() -> D: f32[m] {}\r\n', '// a\n\nkernel g() -> D: f32[m] {}'],
  }
  test.each(Object.entries(table))('%s', (_, [input, output]) => {
    const text = `${dedent(output)}\n`
    expect(format(dedent(input))).toBe(text)
    expect(format(text)).toBe(text)
  })

  test('nothing', () => expect(format('\n\n')).toBe(''))
})

test('a text with errors has no form, only diagnostics', () => {
  const { text, diagnostics } = formatProgram({ name: 'a.ktl', text: 'kernel f(A: f32[m]) -> D: f32[m] { D = }' })
  expect(text).toBeNull()
  expect(diagnostics.length).toBeGreaterThan(0)
})

test.each([
  ['comments', '//\n'],
  ['kernels with comments', '// a\nkernel f(A: f32[m] // b\n) -> D: f32[m] { // c\n D = A // d\n}\n'],
  ['terms', 'x', 'kernel f(x: f32[m]) -> D: f32[m] { D = ', '+', 2000],
  ['powers', 'x', 'kernel f(x: f32[m]) -> D: f32[m] { D = ', '^', 2000],
])('many %s', (_, part, before = '', between = '', count = 0) => {
  const times = count === 0 ? Math.floor(300_000 / part.length) : count
  const text = before + Array.from({ length: times }, () => part).join(between) + (before === '' ? '' : ' }')
  const formatted = format(text)
  expect(formatted.length).toBeGreaterThan(text.length / 2)
  expect(tree(parse(formatted).program)).toEqual(tree(parse(text).program))
})

/** What continuous integration checks: every `.ktl` file of the repository is as `ktl fmt` writes it. */
const root = new URL('../../', import.meta.url)
const files = ['samples', 'runtime/library', 'bench'].flatMap((folder) =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ktl') && !name.includes('node_modules'))
    .map((name) => `${folder}/${name}`),
)
test.each(files)('%s is formatted', (file) => {
  const text = readFileSync(new URL(file, root), 'utf8')
  expect(format(text)).toBe(text)
})
