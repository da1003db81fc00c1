/** Forms that are checked in full but not lowered yet: block scales and ragged axes. */
import type { OperandDecl, TensorType } from '../../grammar/ast.ts'
import { isDType } from '../dtypes.ts'
import type { FamilyOperand } from '../family.ts'
import type { BodyContext } from './expressions.ts'
import type { FileContext } from './kernel.ts'

/** Block sizes each scale type goes with, and the data types it scales (OCP MX 1.0; NVFP4). */
const SCALES: Readonly<Record<string, { readonly blocks: readonly number[]; readonly data: readonly string[] }>> = {
  ue8m0: { blocks: [32, 16], data: ['e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1'] },
  ue4m3: { blocks: [16], data: ['e2m1'] },
}

/** `A: e4m3[m, k] * ue8m0[m, k/32]`: the same axes in the same order, one of them in blocks. */
export function checkScale(
  type: TensorType,
  operand: string,
  params: ReadonlySet<string>,
  uses: Set<string>,
  { source, report }: FileContext,
): void {
  const scale = type.scale!
  const wrong = (got: string): void => report.report('KTL2215', source, scale.span, { got, operand })
  for (const part of [type.zero, scale, type.global]) if (part) uses.add(part.dtype.text)
  const rule = SCALES[scale.dtype.text]
  const axes = scale.axes?.map((axis) => axis.name.text) ?? []
  const divided = scale.axes?.filter((axis) => axis.divisor !== null) ?? []
  const data = type.dtype.text
  if (!rule) wrong(params.has(scale.dtype.text) ? `the type parameter ${scale.dtype.text}` : scale.dtype.text)
  else if (isDType(data) && !rule.data.includes(data)) wrong(`${scale.dtype.text} with ${data}`)
  else if (axes.join() !== type.axes?.map((axis) => axis.name.text).join())
    wrong(`a scale with axes [${axes.join(', ')}]`)
  else if (divided.length !== 1)
    wrong(divided.length === 0 ? 'a scale for every element' : 'a scale of several blocked axes')
  else if (!rule.blocks.includes(divided[0]!.divisor!))
    wrong(`${scale.dtype.text} for blocks of ${divided[0]!.divisor}`)
}

/** `D: bf16[t, n] ragged t by off as g` */
export function checkRagged(
  operand: OperandDecl,
  operands: readonly FamilyOperand[],
  used: Set<string>,
  { report, source }: BodyContext,
): void {
  const { axis, by, as } = operand.ragged!
  const inputs = operands.filter((o) => o.role === 'input')
  const offsets = inputs.find((o) => o.name === by.text)
  const self = operands.find((o) => o.name === operand.name.text)
  used.add(by.text)
  const wrong = (span: typeof axis.span, reason: string, help: string): void =>
    report.report('KTL2218', source, span, { reason, help })
  if (self && self.role === 'input')
    wrong(operand.ragged!.span, `\`${self.name}\` is an input`, 'write `ragged` after an output')
  else if (self && !self.axes.includes(axis.text))
    wrong(axis.span, `\`${self.name}\` has no axis \`${axis.text}\``, `its axes are ${self.axes.join(', ')}`)
  else if (!offsets) report.report('KTL2001', source, by.span, { name: by.text, candidates: inputs.map((o) => o.name) })
  else if (offsets.dtype !== 'i32' || offsets.axes.join() !== as.text) {
    wrong(
      by.span,
      `\`${by.text}\` must be \`i32[${as.text}]\``,
      `declare \`${by.text}: i32[${as.text}]\`: where each group ends`,
    )
  } else if (!inputs.some((o) => o !== offsets && o.axes.includes(as.text))) {
    wrong(as.span, `no operand is chosen by the group axis \`${as.text}\``, `give an input the axis \`${as.text}\``)
  }
}
