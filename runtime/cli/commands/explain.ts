import { catalogue, explainCode, type Entry, type Environment, type Example } from '../../../grammar/catalogue/index.ts'
import { renderDiagnostics } from '../../../grammar/render.ts'
import { ktlError } from '../../errors/fail.ts'
import type { AddCommand, Context } from '../context.ts'
import { checkSource } from '../../programs/check_source.ts'

export const addExplain: AddCommand = (program, context) => {
  program
    .command('explain')
    .summary('say what a code such as KTL2001 means')
    .description('Says what a diagnostic means, with a wrong and a right example.')
    .argument('<code>', 'KTL2001, ktl2001 or 2001')
    .option('--json', 'the entry as a JSON line')
    .action((text: string) => explain(text, context))
}

function explain(text: string, { out }: Context): void {
  const code = `KTL${text.replace(/^ktl/i, '')}`
  const entry = explainCode(code)
  if (entry === undefined) throw ktlError('KTL4105', { what: 'code', name: text, known: nearCodes(code) })
  const { title, explain, severity = 'error', wrong, right } = entry
  out.record('explanation', {
    code,
    title,
    severity,
    explanation: explain,
    wrong: wrong && exampleText(wrong),
    right: right && exampleText(right),
  })
  out.line(`${out.colors.bold(code)} (${severity}): ${title}`)
  out.line()
  out.line(wrap(explain))
  if (wrong) showExample('wrong', wrong, code, entry, out)
  if (right) showExample('right', right, code, entry, out)
}

function showExample(
  label: string,
  example: Example,
  code: string,
  { wrong }: Entry<object>,
  out: Context['out'],
): void {
  out.line()
  out.line(out.colors.bold(label))
  out.line(indent(exampleText(example)))
  const report = example === wrong && reportOf(example, code)
  if (report) out.line(`\n${indent(report)}`)
}

/** What checking a program prints about a code; empty: nothing, or the example is no program. */
export function reportOf(example: Example, code: string): string {
  if (!('ktl' in example)) return ''
  const { diagnostics } = checkSource({ name: 'example.ktl', text: example.ktl })
  return renderDiagnostics(diagnostics.filter((d) => d.code === code))
}

/** The text of an example as a user would write it. */
export function exampleText(example: Example): string {
  if ('ktl' in example) return example.ktl.trimEnd()
  if ('command' in example) return `$ ${[...variables(example.environment), example.command].join(' ')}`
  if ('call' in example) return [...variables(example.environment).map((v) => `// with ${v}`), example.call].join('\n')
  if ('launch' in example) {
    const text = 'cuda' in example ? example.cuda : example.ptx
    return `${text.trimEnd()}\n\n// kernel: the one above, loaded on the virtual SM100\n${example.launch}`
  }
  const kernel = example.kernel === undefined ? '' : `${example.kernel.trimEnd()}\n\n`
  return `${kernel}epilogue: ${example.epilogue.trimEnd()}`
}

/** `KTL_NVCC=/nonexistent/nvcc` */
const variables = (environment: Environment = {}): string[] =>
  Object.entries(environment).map(([name, value]) => `${name}=${value}`)

/** Codes of the same hundred. */
const nearCodes = (code: string): string[] =>
  Object.keys(catalogue).filter((known) => known.slice(0, 5) === code.slice(0, 5))

const indent = (text: string): string => text.replaceAll(/^(?=.)/gm, '  ')

function wrap(text: string, width = 100): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line.length + word.length + 1 > width && line !== '') {
      lines.push(line)
      line = word
    } else line += line === '' ? word : ` ${word}`
  }
  return [...lines, line].join('\n')
}
