/** The hooks themselves; Node runs them on a thread of their own. */
import type { LoadHook } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { KtlError, type Diagnostic } from '../../grammar/diagnostics.ts'
import { ktlModule } from './ktl_module.ts'
import { LIMITS } from '../../grammar/limits.ts'
import { readWhole } from '../files/read_file.ts'

/** The text is read again at each import: Node caches the module. */
export const load: LoadHook = async (url, context, nextLoad) => {
  if (!/^file:[^?#]*\.ktl(?:[?#]|$)/.test(url)) return nextLoad(url, context)
  const file = fileURLToPath(url)
  const source = {
    name: path.relative('.', file) || file,
    text: (await readWhole(file, 4 * LIMITS.sourceLength)).toString(),
  }
  const { code, diagnostics } = ktlModule(source)
  if (code === null) throw failure(diagnostics)
  return { format: 'module', shortCircuit: true, source: code }
}

/** What Node shows of an error: its text, and its own fields. The stack would be that of the hook. */
function failure(diagnostics: readonly Diagnostic[]): Error {
  const { code, message } = new KtlError(diagnostics)
  const error = Object.assign(new Error(message), { code })
  error.stack = `${error.name}: ${message}`
  return error
}
