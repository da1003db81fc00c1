/** Types of operations: which compute type the arguments are converted to, and what comes out. */
import type { ComputeType } from '../ir/tensor.ts'
import type { ArgType, Operation } from './operation.ts'

export interface Signature {
  /** What each argument is converted to before the operation. */
  readonly operands: readonly ComputeType[]
  readonly result: ComputeType
}

/** Why the arguments do not fit: a sentence without a full stop, and the argument at fault (-1: their number). */
export interface TypeProblem {
  readonly problem: string
  readonly argument: number
}

const isLiteral = (t: ArgType) => t === 'integer literal' || t === 'float literal'

/** The type several values meet in; null for bool, and for i32 with u32, which need a written cast. */
export function commonType(types: readonly ArgType[]): ComputeType | null {
  if (types.includes('bool')) return null
  if (types.includes('f64')) return 'f64'
  if (types.includes('f32') || types.includes('float literal')) return 'f32'
  if (types.includes('u32')) return types.includes('i32') ? null : 'u32'
  return 'i32'
}

/** Types of a call, or why there are none. Trailing arguments with defaults may be missing. */
export function resolveTypes(op: Operation, args: readonly ArgType[]): Signature | TypeProblem {
  const least = op.parameters.filter((p) => p.default === null).length
  if (args.length < least || args.length > op.parameters.length) {
    const count = least === op.parameters.length ? `${least}` : `${least} to ${op.parameters.length}`
    return {
      problem: `${op.spelling} takes ${count} argument${count === '1' ? '' : 's'}, not ${args.length}`,
      argument: -1,
    }
  }
  if (op.rule === 'logic')
    return expectBool(op, args, args.length) ?? { operands: args.map(() => 'bool'), result: 'bool' }
  if (op.rule === 'select') {
    const wrong = expectBool(op, args, 1)
    if (wrong) return wrong
    const rest = args.slice(1)
    if (rest.every((t) => t === 'bool')) return { operands: ['bool', 'bool', 'bool'], result: 'bool' }
    const type = meet(op, rest, 1)
    return typeof type === 'string' ? { operands: ['bool', type, type], result: type } : type
  }
  if (op.rule === 'compare' && (op.name === 'eq' || op.name === 'ne') && args.every((t) => t === 'bool'))
    return { operands: ['bool', 'bool'], result: 'bool' }
  if (op.rule === 'index') {
    const other = args.findIndex((t) => t !== 'i32' && t !== 'integer literal')
    if (other >= 0)
      return {
        problem: `${op.spelling} of index values needs i32, but argument ${other + 1} is ${args[other]}`,
        argument: other,
      }
    return { operands: args.map(() => 'i32'), result: 'i32' }
  }
  const common = meet(op, args, 0)
  if (typeof common !== 'string') return common
  const type = op.rule === 'float' && common !== 'f64' ? 'f32' : common
  return { operands: args.map(() => type), result: op.rule === 'compare' ? 'bool' : type }
}

/** Type a literal takes in that place. */
export function literalType(arg: ArgType, operand: ComputeType): ComputeType {
  return isLiteral(arg) ? operand : (arg as ComputeType)
}

function meet(op: Operation, args: readonly ArgType[], offset: number): ComputeType | TypeProblem {
  const type = commonType(args)
  if (type) return type
  const bool = args.indexOf('bool')
  if (bool >= 0)
    return {
      problem: `${op.spelling} needs numbers, but argument ${bool + offset + 1} is bool`,
      argument: bool + offset,
    }
  return {
    problem: `${op.spelling} of i32 and u32 needs a cast of one of them`,
    argument: args.indexOf('u32') + offset,
  }
}

function expectBool(op: Operation, args: readonly ArgType[], count: number): TypeProblem | null {
  const wrong = args.slice(0, count).findIndex((t) => t !== 'bool')
  return wrong < 0
    ? null
    : { problem: `${op.spelling} needs bool here, but argument ${wrong + 1} is ${args[wrong]}`, argument: wrong }
}
