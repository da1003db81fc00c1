/** Comparisons, Boolean operations and `select`. */
import type { ComputeType } from '../ir/tensor.ts'
import { distance, whenClose } from './errors.ts'
import { infix, prefix, required, type CudaForm, type Operation } from './operation.ts'

const onEveryType = (form: CudaForm): Operation['cuda'] => ({ f32: form, f64: form, i32: form, u32: form, bool: form })

const compare = (name: string, spelling: string, doc: string, holds: (a: number, b: number) => boolean): Operation => ({
  name,
  spelling,
  doc,
  parameters: required('a', 'b'),
  rule: 'compare',
  evaluate: (_type: ComputeType, a, b) => (holds(a!, b!) ? 1 : 0),
  propagate: whenClose,
  accuracy: 'exact',
  cuda: onEveryType(infix(spelling)),
})

const logic = (name: string, spelling: string, doc: string, holds: (a: number, b: number) => number): Operation => ({
  name,
  spelling,
  doc,
  parameters: required('a', 'b'),
  rule: 'logic',
  evaluate: (_type, a, b) => holds(a!, b!),
  // Uncertain only if the certain side does not decide.
  propagate: (_type, [a, b], [ea, eb]) => {
    const outcomes = new Set<number>()
    for (const x of ea ? [0, 1] : [a!]) for (const y of eb ? [0, 1] : [b!]) outcomes.add(holds(x, y))
    return outcomes.size - 1
  },
  accuracy: 'exact',
  cuda: { bool: infix(spelling) },
})

export const LOGIC: readonly Operation[] = [
  compare('lt', '<', 'Less; false with NaN.', (a, b) => a < b),
  compare('le', '<=', 'Less or equal; false with NaN.', (a, b) => a <= b),
  compare('gt', '>', 'Greater; false with NaN.', (a, b) => a > b),
  compare('ge', '>=', 'Greater or equal; false with NaN.', (a, b) => a >= b),
  compare('eq', '==', 'Equal; false with NaN.', (a, b) => a === b),
  compare('ne', '!=', 'Not equal; true with NaN.', (a, b) => a !== b),
  logic('and', '&&', 'Both.', (a, b) => a & b),
  logic('or', '||', 'Either.', (a, b) => a | b),
  {
    name: 'not',
    spelling: '!',
    doc: 'Negation.',
    parameters: required('a'),
    rule: 'logic',
    evaluate: (_type, a) => 1 - a!,
    propagate: (_type, _args, [e]) => e!,
    accuracy: 'exact',
    cuda: { bool: prefix('!') },
  },
  {
    name: 'select',
    spelling: 'select',
    doc: 'a where the condition holds, else b. Both are evaluated.',
    parameters: required('condition', 'a', 'b'),
    rule: 'select',
    evaluate: (_type, condition, a, b) => (condition ? a! : b!),
    propagate: (_type, [condition, a, b], [ec, ea, eb]) =>
      ec ? distance(a!, b!) + Math.max(ea!, eb!) : condition ? ea! : eb!,
    accuracy: 'exact',
    cuda: onEveryType({ kind: 'conditional' }),
  },
]
