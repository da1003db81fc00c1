/** Changes of one operation of a pipeline program: it is missing, comes twice, or after the one that follows it. */
import { bodiesOf, type TileOp, type TileProgram } from '../../compiler/ir/pipe.ts'

export interface OperationChange {
  readonly change: 'deleted' | 'doubled' | 'swapped'
  readonly op: TileOp['op']
  /** It turns a ring of one slot, or changes places with what does. */
  readonly oneSlot: boolean
  /** What it changes places with. */
  readonly with: TileOp['op'] | null
  /** The role, or `setup`, `teardown`. */
  readonly where: string
  /** Where it is in this program: `roles.1.body.0.body.2`. */
  readonly at: string
  /** A copy of the program with the change. */
  readonly apply: () => TileProgram
}

type List = readonly TileOp[]
/** Finds the list that is changed, in a program or in its copy. */
type Find = (program: TileProgram) => List

interface Place {
  readonly where: string
  readonly at: string
  readonly find: Find
}

function* listsOf(program: TileProgram, { where, at, find }: Place): Generator<Place> {
  yield { where, at, find }
  for (const [i, op] of find(program).entries()) {
    const bodies = bodiesOf(op)
    for (const b of bodies.keys())
      yield* listsOf(program, {
        where,
        at: op.op === 'by_loop' ? `${at}.${i}.bodies.${b}` : `${at}.${i}.body`,
        find: (copy) => bodiesOf(find(copy)[i]!)[b]!,
      })
  }
}

const slotsOf = ({ rings }: TileProgram, ring: string): number => rings.find(({ name }) => name === ring)!.slots

/** Every change of every operation, in program order. */
export function* operationChanges(program: TileProgram): Generator<OperationChange> {
  const steps = (list: 'setup' | 'teardown'): Place[] =>
    program[list].map((_, i) => ({ where: list, at: `${list}.${i}.body`, find: (copy) => copy[list][i]!.body }))
  const roles = program.roles.map(({ name }, i): Place => ({
    where: name,
    at: `roles.${i}.body`,
    find: (copy) => copy.roles[i]!.body,
  }))
  for (const step of [...steps('setup'), ...roles, ...steps('teardown')])
    for (const { where, at, find } of listsOf(program, step)) {
      const ops = find(program)
      for (const [i, { op }] of ops.entries()) {
        const change = (name: OperationChange['change'], edit: (list: TileOp[]) => void): OperationChange => ({
          change: name,
          op,
          oneSlot: [ops[i], name === 'swapped' ? ops[i + 1] : undefined].some(
            (one) => one?.op === 'advance' && slotsOf(program, one.ring) === 1,
          ),
          with: name === 'swapped' ? ops[i + 1]!.op : null,
          where,
          at: `${at}.${i}`,
          apply: () => {
            const copy = structuredClone(program)
            edit(find(copy) as TileOp[])
            return copy
          },
        })
        yield change('deleted', (list) => list.splice(i, 1))
        yield change('doubled', (list) => list.splice(i, 0, structuredClone(list[i]!)))
        if (i + 1 < ops.length) yield change('swapped', (list) => list.splice(i, 2, list[i + 1]!, list[i]!))
      }
    }
}
