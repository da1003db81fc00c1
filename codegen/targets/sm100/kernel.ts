/** SM100: plan → tile IR → CUDA C++. */
import { lowerSm100 } from '../../../compiler/targets/sm100/lower.ts'
import type { Sm100Plan } from '../../../compiler/targets/sm100/plan.ts'
import type { TileProgram } from '../../../compiler/ir/pipe.ts'
import type { GeneratedKernel } from '../../cuda/generated.ts'
import { hex, printKernel } from '../../pipe/kernel.ts'
import { SM100_EMITTERS } from './emit.ts'
import { SM100_WRAPPERS } from './ptx.ts'

export function generateSm100(plan: Sm100Plan, name: string): GeneratedKernel {
  return printSm100(plan, lowerSm100(plan), name)
}

/** Apart from `generateSm100`, tests print edited programs with it. */
export function printSm100(plan: Sm100Plan, program: TileProgram, name: string): GeneratedKernel {
  return printKernel(plan, program, name, {
    emitters: SM100_EMITTERS,
    wrappers: SM100_WRAPPERS,
    constants(define) {
      const { a, b } = plan
      const [m, n] = program.tile
      define(
        `TMEM_COLUMNS = ${program.tmem!.columns}, ACC_COLUMNS = ${program.tmem!.columnsPerAccumulator}`,
        `${plan.accumulators} accumulator${plan.accumulators > 1 ? 's' : ''}, rounded up to a power of two`,
      )
      const major = (x: 'k' | 'mn', free: string): string => `${x === 'k' ? 'K' : free}-major`
      define(
        `INSTRUCTION = ${hex(plan.instructionDescriptor, 8)}`,
        `${a.operand.dtype} x ${b[0]!.operand.dtype} -> ${plan.accumulator}, ${m} x ${n}, A ${major(a.major, 'M')}, B ${major(b[0]!.major, 'N')}`,
      )
    },
    prologue() {},
  })
}
