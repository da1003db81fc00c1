/** Every change of one operation or field of a kernel's pipeline program, what it makes of the text, and what the verifier says. */
import { createHash } from 'node:crypto'
import { printProgram, type GeneratedKernel } from '../../codegen/index.ts'
import { opsOf, type TileProgram } from '../../compiler/ir/pipe.ts'
import { verifyTileProgram } from '../../compiler/verify/index.ts'
import type { FieldValues } from './fields.ts'
import { grouped } from './grouped.ts'
import { operationChanges, type OperationChange } from './operations.ts'

export type ChangeKind = OperationChange['change'] | 'field'
export const CHANGE_KINDS: readonly ChangeKind[] = ['deleted', 'doubled', 'swapped', 'field']

export interface Mutant {
  readonly kind: ChangeKind
  /** `wait`, `wait / advance` (in the order of the original), `tma_load.tile.rows` */
  readonly subject: string
  /** Of an operation that turns a ring of one slot. */
  readonly oneSlot: boolean
  /** Nothing fills its program's stages asynchronously. */
  readonly synchronous: boolean
  /** A tile of its program is one sub-tile for each warp. */
  readonly oneSubtile: boolean
  /** Where it is: `consumer roles.0.body.1`, and for fields what was done. */
  readonly place: string
  /** Of CUDA text and recipe without comments: the same one behaves alike. */
  readonly code: string
  /** Does the verifier notice it? */
  readonly noticed: boolean
  readonly print: () => GeneratedKernel
}

/** Changes that make no mutant. */
export interface NoMutant {
  readonly kind: ChangeKind
  readonly subject: string
  /** The text is the same; the code is, under other comments; another change has made it; there is none, since the printer throws. */
  readonly why: 'text' | 'code' | 'mutant' | 'none'
  readonly noticed: boolean
}

export interface Changes {
  readonly mutants: readonly Mutant[]
  readonly others: readonly NoMutant[]
}

const withoutComments = (text: string): string => text.replace(/\s*\/\/.*$/gm, '')
const recipeText = ({ recipe }: GeneratedKernel): string => JSON.stringify(recipe)
const codeOf = (generated: GeneratedKernel): string =>
  createHash('sha256')
    .update(withoutComments(generated.cuda) + recipeText(generated))
    .digest('hex')
    .slice(0, 16)

/** Of a program that the printer gives the name of its kernel. */
export function changesOf(program: TileProgram, name: string, values: FieldValues): Changes {
  const original = printProgram(program, name)
  const code = codeOf(original)
  const synchronous = ![...opsOf(program)].some(({ op }) => op === 'tma_load' || op === 'copy_tile')
  const subtiles = (program.layout.columns / program.subtileColumns) * (program.registers?.rowBlocks ?? 1)
  const oneSubtile = subtiles === 1
  const others: NoMutant[] = []
  const mutants: Mutant[] = []
  const add = (of: Pick<Mutant, 'kind' | 'subject' | 'oneSlot' | 'place'>, apply: () => TileProgram): void => {
    const changed = apply()
    const noticed = isNoticed(changed)
    const print = (): GeneratedKernel => printProgram(apply(), name)
    const generated = printed(changed, name)
    const own = generated && codeOf(generated)
    if (own !== null && own !== code) mutants.push({ ...of, synchronous, oneSubtile, code: own, noticed, print })
    else {
      const why = own === null ? 'none' : generated!.cuda === original.cuda ? 'text' : 'code'
      others.push({ kind: of.kind, subject: of.subject, why, noticed })
    }
  }
  for (const { change, op, with: next, oneSlot, where, at, apply } of operationChanges(program))
    add({ kind: change, subject: next === null ? op : `${op} / ${next}`, oneSlot, place: `${where} ${at}` }, apply)
  for (const { field, at, change, apply } of values.changesOf(program))
    add({ kind: 'field', subject: field, oneSlot: false, place: `${at}: ${change}` }, apply)
  const distinct = grouped(mutants, ({ code: own }) => own).map(([, group]) => {
    // Changes of one text are one mutant, which the verifier has missed if it misses one of them.
    const first = group.find(({ noticed }) => !noticed) ?? group[0]!
    others.push(...group.filter((one) => one !== first).map(({ kind, subject, noticed }) => ({ kind, subject, why: 'mutant' as const, noticed })))
    return first
  })
  return { mutants: distinct, others }
} // prettier-ignore

/** null: it cannot be printed. */
function printed(program: TileProgram, name: string): GeneratedKernel | null {
  try {
    return printProgram(program, name)
  } catch {
    return null
  }
}

/** Values that no program can have by its types may make the verifier throw. */
function isNoticed(program: TileProgram): boolean {
  try {
    return verifyTileProgram(program).length > 0
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    return true
  }
}
