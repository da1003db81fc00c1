/** The passes over the tensor IR, in order. Each keeps the value of every output, bit for bit, but for `joinContractions` and `formFma`. */
import { joinContractions } from './passes/contractions.ts'
import { shareCommonSubexpressions } from './passes/cse.ts'
import { dropUnusedEpilogueOperands } from './passes/dead_code.ts'
import { formFma } from './passes/fma.ts'
import { foldConstants } from './passes/fold.ts'
import type { TensorProgram } from './ir/tensor.ts'

/** `afterEach` sees the program after every pass: tests verify it there, `ktl inspect` can print it. */
export function canonicalise(program: TensorProgram, afterEach?: (program: TensorProgram, pass: string) => void): TensorProgram {
  const run = (pass: (program: TensorProgram) => TensorProgram): void => {
    program = pass(program)
    afterEach?.(program, pass.name)
  }
  run(shareCommonSubexpressions)
  run(foldConstants)
  run(shareCommonSubexpressions)
  run(joinContractions)
  run(formFma)
  run(shareCommonSubexpressions)
  run(dropUnusedEpilogueOperands)
  return program
} // prettier-ignore
