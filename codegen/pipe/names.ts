/** CUDA identifiers of a tensor-core kernel. User names are mangled: they never reach the text as they are. */
import type { Matmul } from '../../compiler/classes/matmul.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import type { ParamText } from '../cuda/kernel_params.ts'
import { Mangler } from '../cuda/mangle.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'

export interface KernelNames extends ParamText {
  readonly gemm: Matmul
  /** Register value(s) of an operand in the epilogue. */
  value(name: string): string
  /** Third coordinate of an operand's tensor map, or null when it has no batch axis. */
  batchCoordinate(operand: string): string | null
}

export function kernelNames(program: TensorProgram, gemm: Matmul): KernelNames {
  const mangler = new Mangler()
  const extents: Record<string, string> = { [gemm.m]: 'M', [gemm.n]: 'N', [gemm.segments[0].k]: 'K', ...(gemm.l !== null && { [gemm.l]: 'L' }) } // prettier-ignore
  const roles: Record<string, string> = { [gemm.m]: 'm', [gemm.n]: 'n', [gemm.segments[0].k]: 'k', ...(gemm.l !== null && { [gemm.l]: 'l' }) } // prettier-ignore
  const operand = (name: string): string => mangler.name('op', name)
  const carries = (name: string, axis: string): string => `${operand(name)}_carries_${roles[axis]}`
  return {
    gemm,
    operand,
    value: (name) => mangler.name('v', name),
    stride: (name, axis) => `${operand(name)}_${roles[axis]}`,
    scalar: (name) => mangler.name('s', name),
    extent: (axis) => extents[axis]!,
    carries,
    batchCoordinate: (name) => {
      const { axes, role } = operandNamed(program, name)
      if (gemm.l === null || !axes.includes(gemm.l)) return null
      // An input may be left without its batch axis at a call; its map then has one batch.
      const optional = program.axes.find((a) => a.name === gemm.l)!.optional
      return optional && role === 'input' ? `at.l * ${carries(name, gemm.l)}` : 'at.l'
    },
  }
}
