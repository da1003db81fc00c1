import { promises as fs } from 'node:fs'
import path from 'node:path'
import { KtlError } from '../../../grammar/diagnostics.ts'
import { formatProgram } from '../../../grammar/printer.ts'
import type { AddCommand, Context } from '../context.ts'
import { EXIT, type ExitCode } from '../exit.ts'
import { illegal } from '../options.ts'
import { readSource } from '../sources.ts'
import { writeFiles } from '../../files/safe_write.ts'

interface FmtOptions {
  readonly check?: boolean
  readonly stdin?: boolean
}

export const addFmt: AddCommand = (program, context, finish) => {
  program
    .command('fmt')
    .summary('format files')
    .description('Writes .ktl files in their canonical form; comments are kept. Files with errors stay as they are.')
    .argument('[files...]', 'files to format')
    .option('--check', 'write nothing; list the files that differ and end with status 1')
    .option('--stdin', 'format standard input to standard output; - is the same')
    .option('--json', 'a JSON line for each file')
    .action(async (files: string[], options: FmtOptions) => finish(await format(files, options, context)))
}

async function format(files: readonly string[], { check = false, stdin = false }: FmtOptions, { out }: Context) {
  const names = stdin ? [...files, '-'] : files
  if (names.length === 0) throw illegal('FILE…', 'files to format, or `--stdin`', 'nothing')
  if (names.includes('-') && names.length > 1) throw illegal('--stdin', 'no files beside it', files.join(' '))
  let worst: ExitCode = EXIT.pass
  const end = (code: ExitCode): void => {
    worst = Math.max(worst, code) as ExitCode
  }
  for (const name of names) {
    try {
      const { changed, failed } = await formatFile(name, check, out)
      if (failed || (changed && check)) end(EXIT.failed)
    } catch (error) {
      if (!(error instanceof KtlError)) throw error
      out.diagnostics(error.diagnostics)
      end(error.code === 'KTL4102' ? EXIT.usage : EXIT.environment)
    }
  }
  return worst
}

/** `changed`: the file was, or with `check` is, not in canonical form. */
async function formatFile(name: string, check: boolean, out: Context['out']) {
  const source = await readSource(name)
  const { text, diagnostics } = formatProgram(source)
  if (text === null) {
    out.diagnostics(diagnostics)
    out.record('fmt', { file: source.name, ok: false })
    return { changed: false, failed: true }
  }
  const changed = text !== source.text
  const toOutput = name === '-' && !check
  out.record('fmt', { file: source.name, ok: true, changed, ...(toOutput && { text }) })
  if (toOutput && text !== '') out.text(text)
  else if (changed && name !== '-') {
    if (!check) await replace(name, text)
    out.line(name)
  } else if (changed) out.line(source.name)
  return { changed, failed: false }
}

/** The file that a link points to, with the permissions it has, whole or not at all. */
async function replace(name: string, content: string): Promise<void> {
  const file = await fs.realpath(name)
  const { mode } = await fs.stat(file)
  await writeFiles(path.dirname(file), [{ name: path.basename(file), content, mode: mode & 0o7777 }])
}
