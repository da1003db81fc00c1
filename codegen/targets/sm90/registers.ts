/** Accumulators in registers: how many a thread has, and of which type. */
import type { RegisterPlan } from '../../../compiler/ir/pipe.ts'
import type { EmitContext } from '../../pipe/context.ts'
import { cellsOf } from './ptx.ts'

export const PTX_CELL = { f32: 'f32', i32: 's32', f16: 'f16' } as const

export const registersOf = (c: EmitContext): RegisterPlan => c.program.registers!

/** Registers of a thread for all accumulators. */
export function allCells(c: EmitContext): number {
  const { products, rowBlocks, columns, cells } = registersOf(c)
  return products * rowBlocks * cellsOf(PTX_CELL[cells], columns)
}
