/** Scalars of the kernel that lie on the device are read once, when a thread begins: launches that are repeated see new values. */
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { loadConversion } from './conversion.ts'
import type { ParamRule } from './generated.ts'
import type { ParamText } from './kernel_params.ts'
import type { SourceBuilder } from './source_builder.ts'

export function emitScalars(
  out: SourceBuilder,
  rules: readonly ParamRule[],
  names: Pick<ParamText, 'scalar' | 'scalarAt'>,
  { scalars }: Pick<TensorProgram, 'scalars'>,
  functions: Set<string>,
): void {
  for (const rule of rules) {
    if (rule.kind !== 'scalarAt') continue
    const { dtype } = scalars.find(({ name }) => name === rule.name)!
    const at = names.scalarAt(rule.name)
    out.line(`if (${at} != nullptr) ${names.scalar(rule.name)} = ${loadConversion(dtype, `*${at}`, functions)};`)
  }
}
