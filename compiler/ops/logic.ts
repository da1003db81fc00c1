/** Comparisons, Boolean operations and `select`. */
import type { ComputeType } from '../ir/tensor.ts'
import { distance, whenClose } from './errors.ts'
import { entries, infix, prefix, required, type CudaForm, type Operation } from './operation.ts'

const onEveryType = (form: CudaForm): Operation['cuda'] => ({ f32: form, f64: form, i32: form, u32: form, bool: form })

type Directions = Operation['monotone']
type Entry = Omit<Operation, 'name'>

const compare = (
  spelling: string,
  doc: string,
  holds: (a: number, b: number) => boolean,
  monotone: Directions,
): Entry => ({
  spelling,
  doc,
  parameters: required('a', 'b'),
  rule: 'compare',
  evaluate: (_type: ComputeType, a, b) => (holds(a!, b!) ? 1 : 0),
  propagate: whenClose,
  accuracy: 'exact',
  cuda: onEveryType(infix(spelling)),
  cost: 'instruction',
  monotone,
})

const logic = (spelling: string, doc: string, holds: (a: number, b: number) => number, identity: number): Entry => ({
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
  cost: 'instruction',
  monotone: ['increasing', 'increasing'],
  monoid: { identity, inverse: null },
})

const FALLS_RISES: Directions = ['decreasing', 'increasing']
const RISES_FALLS: Directions = ['increasing', 'decreasing']
const NEITHER: Directions = [null, null]

export const LOGIC = entries({
  lt: compare('<', 'Less; false with NaN.', (a, b) => a < b, FALLS_RISES),
  le: compare('<=', 'Less or equal; false with NaN.', (a, b) => a <= b, FALLS_RISES),
  gt: compare('>', 'Greater; false with NaN.', (a, b) => a > b, RISES_FALLS),
  ge: compare('>=', 'Greater or equal; false with NaN.', (a, b) => a >= b, RISES_FALLS),
  eq: compare('==', 'Equal; false with NaN.', (a, b) => a === b, NEITHER),
  ne: compare('!=', 'Not equal; true with NaN.', (a, b) => a !== b, NEITHER),
  and: logic('&&', 'Both.', (a, b) => a & b, 1),
  or: logic('||', 'Either.', (a, b) => a | b, 0),
  not: {
    spelling: '!',
    doc: 'Negation.',
    parameters: required('a'),
    rule: 'logic',
    evaluate: (_type, a) => 1 - a!,
    propagate: (_type, _args, [e]) => e!,
    accuracy: 'exact',
    cuda: { bool: prefix('!') },
    cost: 'instruction',
    monotone: ['decreasing'],
  },
  select: {
    spelling: 'select',
    doc: 'a where the condition holds, else b. Both are evaluated.',
    parameters: required('condition', 'a', 'b'),
    rule: 'select',
    evaluate: (_type, condition, a, b) => (condition ? a! : b!),
    propagate: (_type, [condition, a, b], [ec, ea, eb]) =>
      ec ? distance(a!, b!) + Math.max(ea!, eb!) : condition ? ea! : eb!,
    accuracy: 'exact',
    cuda: onEveryType({ kind: 'conditional' }),
    cost: 'instruction',
    monotone: [null, 'increasing', 'increasing'],
    carries: { first: 1, combine: 'largest' },
  },
})
