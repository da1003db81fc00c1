/** Every change of one operation or field of a kernel's pipeline program, what it makes of the text, and what the verifier says. */
import { printProgram, type GeneratedKernel } from '../../codegen/index.ts'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import { verifyTileProgram } from '../../compiler/verify/index.ts'
import type { FieldValues } from './fields.ts'
import { operationChanges, type OperationChange } from './operations.ts'

export type ChangeKind = OperationChange['change'] | 'field'
export const CHANGE_KINDS: readonly ChangeKind[] = ['deleted', 'doubled', 'swapped', 'field']

export interface Mutant {
  readonly kind: ChangeKind
  /** `wait`, `wait / advance` (in the order of the original), `tma_load.tile.rows` */
  readonly subject: string
  /** Of an operation that turns a ring of one slot. */
  readonly oneSlot: boolean
  /** Where it is: `consumer roles.0.body.1`, and for fields what was done. */
  readonly place: string
  /** `same`: CUDA text and recipe are; `comments`: their code is. `none`: the printer throws. */
  readonly text: 'same' | 'comments' | 'changed' | 'none'
  /** Code and recipe: mutants with the same behave alike. */
  readonly code: string
  /** Of the verifier. */
  readonly problems: readonly string[]
  readonly print: () => GeneratedKernel
}

const withoutComments = (text: string): string => text.replace(/\s*\/\/.*$/gm, '')
const recipeText = ({ recipe }: GeneratedKernel): string => JSON.stringify(recipe)
const codeOf = (generated: GeneratedKernel): string => withoutComments(generated.cuda) + recipeText(generated)

export function* mutantsOf(program: TileProgram, name: string, values: FieldValues): Generator<Mutant> {
  const original = printProgram(program, name)
  const code = codeOf(original)
  const mutant = (of: Pick<Mutant, 'kind' | 'subject' | 'oneSlot' | 'place'>, apply: () => TileProgram): Mutant => {
    const changed = apply()
    const print = (): GeneratedKernel => printProgram(apply(), name)
    const problems = problemsOf(changed)
    let generated: GeneratedKernel
    try {
      generated = printProgram(changed, name)
    } catch {
      return { ...of, text: 'none', code: '', problems, print }
    }
    const own = codeOf(generated)
    const same = generated.cuda === original.cuda && recipeText(generated) === recipeText(original)
    return { ...of, text: same ? 'same' : own === code ? 'comments' : 'changed', code: own, problems, print }
  }
  for (const { change, op, with: next, oneSlot, where, at, apply } of operationChanges(program))
    yield mutant({ kind: change, subject: next === null ? op : `${op} / ${next}`, oneSlot, place: `${where} ${at}` }, apply)
  for (const { field, at, change, apply } of values.changesOf(program))
    yield mutant({ kind: 'field', subject: field, oneSlot: false, place: `${at}: ${change}` }, apply)
}

/** Values that no program can have by its types may make it throw. */
function problemsOf(program: TileProgram): readonly string[] {
  try {
    return verifyTileProgram(program)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    return [`cannot be verified: ${error.message}`]
  }
}
