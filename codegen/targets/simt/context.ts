/** What the parts of a SIMT kernel's text share. */
import type { KeptNode, Region, SimtPlan } from '../../../compiler/targets/simt/plan.ts'
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { InputNode, Output, TensorProgram } from '../../../compiler/ir/tensor.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import type { Counter } from '../../cuda/expression.ts'
import type { ParamRule } from '../../cuda/generated.ts'
import { ParamNames } from '../../cuda/kernel_params.ts'
import type { SourceBuilder } from '../../cuda/source_builder.ts'

/** Names that remember what has to be passed. */
export class UsedNames extends ParamNames {
  readonly used = new Set<string>()

  override operand(name: string): string {
    return this.#note(`pointer ${name}`, super.operand(name))
  }
  override stride(operand: string, axis: string): string {
    return this.#note(`stride ${operand} ${axis}`, super.stride(operand, axis))
  }
  override extent(axis: string): string {
    return this.#note(`extent ${axis}`, super.extent(axis))
  }
  override scalar(name: string): string {
    return this.#note(`scalar ${name}`, super.scalar(name))
  }
  region(name: string): string {
    return this.#note(`workspace ${name}`, `partial_${super.operand(name)}`)
  }

  uses(rule: ParamRule): boolean {
    switch (rule.kind) {
      case 'pointer':
        return this.used.has(`pointer ${rule.operand}`)
      case 'stride':
        return this.used.has(`stride ${rule.operand} ${rule.axis}`)
      case 'extent':
        return this.used.has(`extent ${rule.axis}`)
      case 'scalar':
      case 'scalarAt':
        return this.used.has(`scalar ${rule.name}`)
      case 'workspace':
        return this.used.has(`workspace ${rule.region}`)
      default:
        return true
    }
  }

  #note(what: string, name: string): string {
    this.used.add(what)
    return name
  }
}

export interface SimtContext {
  readonly out: SourceBuilder
  readonly program: TensorProgram
  readonly names: UsedNames
  readonly functions: Set<string>
  readonly temporaries: Counter
  readonly regions: ReadonlyMap<KeptNode, Region>
  /** Whether positions of reads are inside, as names, where that is known before. */
  readonly insides: Map<InputNode, string>
  /** Operands whose group ends an earlier stage, or an earlier line, has checked. */
  readonly checked: Set<string>
  /** Elements of outputs at the current point, where these have been found before. */
  readonly placed?: ReadonlyMap<string, string>
}

export const contextOf = (
  { program, regions }: Pick<SimtPlan, 'program' | 'regions'>,
  out: SourceBuilder,
  functions: Set<string>,
  checked: Set<string>,
): SimtContext => ({
  out,
  program,
  names: new UsedNames(),
  functions,
  temporaries: { count: 0 },
  regions,
  insides: new Map(),
  checked,
})

/** A call of a device function of ours. */
export function call(context: SimtContext, name: string, ...args: readonly (string | number)[]): string {
  context.functions.add(name)
  return `${name}(${args.join(', ')})`
}

/** `op_A[i_m * op_A_stride_m + …]` without the brackets: positions of an operand's axes as a linear index. */
export function offset({ names, program }: SimtContext, name: string, positions: readonly string[]): string {
  const { axes } = operandNamed(program, name)
  return axes.map((axis, i) => `${positions[i]!} * ${names.stride(name, axis)}`).join(' + ') || '0'
}

/** Stores an element of an output, or of its scales. */
export function storeText(context: SimtContext, { at }: Output, name: string, index: string, code: string): string {
  const { names, program } = context
  const pointer = names.operand(name)
  const placed = context.placed?.get(name)
  if (placed !== undefined) return `${placed} = ${code};`
  if (!at) return `${pointer}[${index}] = ${code};`
  const { cudaStorage } = DTYPES[operandNamed(program, name).dtype]
  return `${call(context, 'ktl_scatter', `${pointer} + (${index})`, `(${cudaStorage})(${code})`)};`
}

/** An element of the workspace, at positions of the region's axes. */
export function regionElement({ names }: SimtContext, { name, axes }: Region, positions: readonly string[]): string {
  const extent = (i: number): string => {
    const { axis, per } = axes[i]!
    return per === 1 ? names.extent(axis) : `((${names.extent(axis)} + ${per - 1}) / ${per})`
  }
  const index = positions.reduce((sum, p, i) => (i === 0 ? `(long long)${p}` : `(${sum}) * ${extent(i)} + ${p}`), '0')
  return `${names.region(name)}[${index}]`
}
