/** The kernel of GEMM arguments with scaled operands: its text follows from their forms. */
import type { GemmArguments } from '../arguments/gemm.ts'
import { ClassArguments } from '../arguments/kernel.ts'
import { familyOf, typeText } from './template.ts'

const made = new WeakMap<GemmArguments, ClassArguments>()

/** The same call as arguments of that kernel, whose operands are A, B and out. */
export function scaledGemm(args: GemmArguments): ClassArguments {
  const known = made.get(args)
  if (known) return known
  const { scaled, accumulatorType, epilogue, performance } = args
  const [A, B, out] = [scaled.A ?? args.A, scaled.B ?? args.B, scaled.out ?? args.out]
  const batch = (rank: number): string[] => (rank === 3 ? ['l'] : [])
  const type = (operand: typeof A, rows: string, columns: string): string => {
    const lead = batch(operand.shape.length)
    return typeText(
      operand,
      [...lead, rows, columns],
      [
        [...lead, rows, columns],
        [...lead, columns, rows],
      ],
    )
  }
  const text = `kernel gemm(
  A: ${type(A, 'm', 'k')},
  B: ${type(B, 'k', 'n')}
) -> out: ${type(out, 'm', 'n')} {
  acc: ${accumulatorType} = sum[k](A * B)
  out = epilogue(acc)
}
`
  const call = new ClassArguments(familyOf('gemm', text), { A, B, out, epilogue }, { performance })
  made.set(args, call)
  return call
}
