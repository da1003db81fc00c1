/** The kernel's parameter list, from the rules of its launch recipe: names and CUDA types in one place. */
import { CUDA_COMPUTE_TYPE } from '../../compiler/dtypes.ts'
import type { ParamRule } from './generated.ts'
import { Mangler } from './mangle.ts'

/** Identifiers of what a launch passes. */
export class ParamNames {
  readonly #mangler = new Mangler()
  operand(name: string): string {
    return this.#mangler.name('op', name)
  }
  stride(operand: string, axis: string): string {
    return this.#mangler.name(`${this.operand(operand)}_stride`, axis)
  }
  carries(operand: string, axis: string): string {
    return this.#mangler.name(`${this.operand(operand)}_carries`, axis)
  }
  extent(axis: string): string {
    return this.#mangler.name('x', axis)
  }
  /** Not a parameter: the current position along an axis. */
  index(axis: string): string {
    return this.#mangler.name('i', axis)
  }
  scalar(name: string): string {
    return this.#mangler.name('s', name)
  }
  scalarAt(name: string): string {
    return this.#mangler.name('at', name)
  }
}

/** What a backend calls the things that are passed. */
export type ParamText = Pick<ParamNames, 'operand' | 'stride' | 'carries' | 'extent' | 'scalar' | 'scalarAt'>

export interface KernelParam {
  readonly type: string
  readonly name: string
}

/** Type and name of each parameter, in order. */
export function kernelParams(rules: readonly ParamRule[], names: ParamText): KernelParam[] {
  return rules.map((rule) => {
    switch (rule.kind) {
      case 'tensorMap':
        return { type: 'const __grid_constant__ TensorMap', name: rule.name }
      case 'pointer':
        return { type: `${rule.isConst ? 'const ' : ''}${rule.storage}*`, name: names.operand(rule.operand) }
      case 'stride':
        return { type: 'long long', name: names.stride(rule.operand, rule.axis) }
      case 'extent':
        return { type: 'int', name: names.extent(rule.axis) }
      case 'carries':
        return { type: 'int', name: names.carries(rule.operand, rule.axis) }
      case 'scalar':
        return { type: CUDA_COMPUTE_TYPE[rule.type], name: names.scalar(rule.name) }
      case 'scalarAt':
        return { type: `const ${rule.storage}*`, name: names.scalarAt(rule.name) }
      case 'tileGroup':
        return { type: 'int', name: 'tile_group' }
      case 'workspace':
        return { type: `${rule.storage}*`, name: `partial_${names.operand(rule.region)}` }
    }
  })
}
