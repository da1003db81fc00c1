/**
 * What every pipeline program must satisfy: names, values, memory, launch and operands fit together, and an abstract run of it, without a
 * GPU, shows no race, no deadlock and no byte that is missing. It runs on every program that tests lower, and in
 * `ktl inspect --stage tile`: a broken program is a bug of the compiler (KTL9002), found here rather than as a hang on a device.
 */
import type { TileProgram } from '../ir/pipe.ts'
import { targetOf } from '../targets/index.ts'
import { checkEpilogue, checkExpressions } from './epilogue.ts'
import { formProblems } from './form.ts'
import { launchProblems } from './launch.ts'
import { memoryProblems } from './memory.ts'
import { checkLoads } from './operands.ts'
import { overlapProblems } from './overlap.ts'
import { referenceProblems } from './references.ts'
import { runProblems } from './run.ts'
import { Tiles } from './tiles.ts'
import { valueProblems } from './values.ts'

/** Problems in words, with role and operation; empty: the program is well formed. */
export function verifyTileProgram(program: TileProgram): string[] {
  // The others look names up.
  const basics = [...formProblems(program), ...referenceProblems(program)]
  if (basics.length > 0) return basics
  const target = targetOf(program)
  const tiles = new Tiles(program)
  if (target.scope === 'own' && !target.archs.includes(program.target))
    tiles.problems.push(`${program.kind} has no ${program.target}`)
  for (const check of [checkLoads, checkEpilogue, checkExpressions]) check(tiles)
  target.verify?.(tiles)
  const problems = [
    ...memoryProblems(program),
    ...overlapProblems(program),
    ...launchProblems(program),
    ...tiles.problems,
    ...valueProblems(program),
  ]
  return problems.length > 0 ? problems : runProblems(program)
}
