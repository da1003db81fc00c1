/**
 * Factors of contractions as MMAs of a machine take them. What is no element of an operand that an MMA reads as it lies in memory
 * becomes an operand of its own: its elements are computed on their way to shared memory, where they have the type of the MMA
 * (evaluate/mma_type.ts). Of stored forms, what does not vary along the sum goes behind it.
 */
import { DTYPES, type Accumulator } from '../dtypes.ts'
import { dataTypesOf, mmaTypesOf, pairOf } from '../evaluate/mma_type.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type {
  ContractNode,
  ContractTerm,
  InputNode,
  Node,
  StoredForm,
  TensorOperand,
  TensorProgram,
} from '../ir/tensor.ts'
import { isPlainInput, operandNamed, topological } from '../ir/walk.ts'
import { inTiles } from '../stored/tiles.ts'
import { bare, partNode, timesAll } from './factor_scales.ts'
import { nodesOf, rewrite } from './graph.ts'

/** What the MMAs of a machine take. */
export interface MmaUnits {
  multiplies(a: DTypeName, b: DTypeName, accumulator: Accumulator): boolean
  /** May such a scale of an operand of this type, along the summed axes `over`, multiply partial sums? */
  scalesParts(scale: TensorOperand, dtype: DTypeName, over: readonly string[]): boolean
  /** Do MMAs read the scales of the operands themselves, of one of them at least? Absent: none does. */
  readsScales?(a: ScaledFactor, b: ScaledFactor, over: readonly string[]): boolean
}

/** Data of an operand, and its scale where that varies along the sum. */
export interface ScaledFactor {
  readonly dtype: DTypeName
  readonly scale: TensorOperand | null
}

/** Of a term. `apart`: data decodes without its scale where that varies along the sum, if the units take it so; null: with it. */
interface How {
  readonly over: readonly string[]
  readonly alone: boolean
  readonly apart: MmaUnits | null
}

/** A factor, and what multiplies the sum in its stead. */
interface Side {
  readonly node: InputNode
  readonly behind: readonly Node[]
}

/** The program with computed operands where `units` need them and can multiply them; itself where they do not. */
export function computeOperands(program: TensorProgram, units: MmaUnits): TensorProgram {
  const maker = new Maker(program)
  const axes = program.axes.map(({ name }) => name)
  const rewritten = rewrite(program, (node, old) => {
    if (node.kind !== 'contract' || old.kind !== 'contract') return node
    if (old.terms.every((term) => areTaken(program, units, term, old))) return node
    const terms = old.terms.map((term) => maker.term(term, old, units))
    return terms.every((term) => term !== null) ? withTerms(node, terms, axes) : node
  })
  const { operands, decoded } = maker
  if (operands.length === 0) return program
  // Another reader of a stored form would see its data alone.
  if (nodesOf(rewritten).some((node) => node.kind === 'input' && decoded.has(node.operand) && !maker.isOwn(node)))
    return program
  // Rows that are decoded are read from where they lie.
  const read = program.operands.filter(({ name, computed }) => !computed || !decoded.has(name) || maker.keeps.has(name))
  const inputs = read.map((operand) =>
    decoded.has(operand.name) || (operand.partOf !== undefined && decoded.has(operand.partOf))
      ? bare(operand, program.operands)
      : operand,
  )
  return { ...rewritten, operands: [...inputs, ...operands] }
}

/** Do MMAs take both factors as they lie in memory, and partial sums their scales? */
function areTaken(
  program: TensorProgram,
  units: MmaUnits,
  { a, b, over }: ContractTerm,
  { accumulator, terms }: ContractNode,
): boolean {
  if (!isPlainInput(a) || !isPlainInput(b)) return false
  const sides = [a, b].map(({ operand }) => operandNamed(program, operand))
  const [x, y] = sides as [TensorOperand, TensorOperand]
  const isStored = sides.some(({ stored }) => stored)
  const factors = sides.map(({ dtype, stored }): ScaledFactor => {
    const scale = program.operands.find(({ name }) => name === stored?.scale)
    return { dtype, scale: scale?.axes.some((axis) => over.includes(axis)) ? scale : null }
  })
  const isScaled =
    terms.length === 1 && sides.every(({ stored }) => !stored?.zero) && factors.some(({ scale }) => scale)
  if (isScaled && units.readsScales?.(factors[0]!, factors[1]!, over)) return true
  // Sums of the data of integers are integers.
  const sum = isStored && [x, y].every(({ dtype }) => DTYPES[dtype].class === 'int') ? 'i32' : accumulator
  if (!units.multiplies(x.dtype, y.dtype, sum)) return false
  if (!isStored) return true
  return (
    terms.length === 1 &&
    sides.every(({ stored, dtype }) => {
      const scale = program.operands.find(({ name }) => name === stored?.scale)
      const varies = scale?.axes.some((axis) => over.includes(axis))
      return !stored?.zero && (!varies || units.scalesParts(scale!, dtype, over))
    })
  )
}

function withTerms(
  node: ContractNode,
  sides: readonly (readonly [Side, Side, readonly string[]])[],
  axes: readonly string[],
): Node {
  const [first, ...others] = sides.map(([a, b, over]): ContractTerm => ({ a: a.node, b: b.node, over }))
  const sum: ContractNode = { ...node, terms: [first!, ...others] }
  return timesAll(
    sum,
    sides.flatMap(([a, b]) => [...a.behind, ...b.behind]),
    axes,
  )
}

/** Makes computed operands, one for each factor, type and sum. */
class Maker {
  readonly operands: TensorOperand[] = []
  /** Operands in stored forms that are read by their data alone. */
  readonly decoded = new Set<string>()
  /** Those of them that MMAs take. */
  readonly keeps = new Set<string>()
  readonly #program: TensorProgram
  readonly #made = new Map<Node, Map<string, Side>>()
  readonly #own = new Set<Node>()

  constructor(program: TensorProgram) {
    this.#program = program
  }

  /** Is this a read of the data of a stored form? */
  isOwn = (node: Node): boolean => this.#own.has(node)

  term(
    term: ContractTerm,
    { accumulator, terms }: ContractNode,
    units: MmaUnits,
  ): readonly [Side, Side, readonly string[]] | null {
    const pair = pairOf(term, this.#program)
    const taken = pair && units.multiplies(...pair, accumulator) ? pair : null
    const alone = terms.length === 1
    const decoded = taken ?? mmaTypesOf(term, accumulator, this.#program)
    // Scales that would cost bits stay behind, with the sums of their blocks.
    const types = decoded ?? (alone ? dataTypesOf(term, accumulator, this.#program) : null)
    if (!types || !units.multiplies(...types, accumulator)) return null
    const how: How = { over: term.over, alone, apart: decoded ? null : units }
    const [a, b] = [term.a, term.b].map((factor, i) => this.#side(factor, [term.b, term.a][i]!, types[i]!, how))
    return a && b ? [a, b, term.over] : null
  }

  #side(factor: Node, other: Node, dtype: DTypeName, how: How): Side | null {
    const key = [dtype, ...how.over, how.alone, how.apart !== null].join()
    const known = this.#made.get(factor)?.get(key)
    if (known) return known
    const side = isPlainInput(factor)
      ? this.#element(factor, other, dtype, how)
      : this.#expression(factor, other, dtype, how.over)
    if (side) this.#made.set(factor, new Map([...(this.#made.get(factor) ?? []), [key, side]]))
    return side
  }

  /** Of an operand: what decodes it. */
  #element(node: InputNode, other: Node, dtype: DTypeName, { over, alone, apart }: How): Side | null {
    const operand = operandNamed(this.#program, node.operand)
    const { stored } = operand
    if (!stored) {
      if (operand.dtype === dtype) return { node, behind: [] }
      return { node: this.#operand(asFloat(node, dtype), node, other, dtype, over), behind: [] }
    }
    const part = (name: string): Node => partNode(this.#program, name)
    const parts = [stored.scale, stored.global].filter((name) => name !== null).map(part)
    const varies = (value: Node): boolean => value.axes.some((axis) => over.includes(axis))
    const behind = parts.filter((value) => !varies(value))
    // In a sum of several products each has scales of its own.
    if (behind.length > 0 && !alone) return null
    if (behind.some((value) => value.kind === 'input' && this.#inTiles(value))) return null
    const scale = parts.find(varies)
    const kept = apart && scale ? operandNamed(this.#program, stored.scale!) : null
    if (kept && !apart!.scalesParts(kept, dtype, over)) return null
    this.decoded.add(operand.name)
    const zero = stored.zero === null ? null : part(stored.zero)
    const factors = kept ? [] : parts.filter(varies).map((value) => this.#source(value))
    const value = decodedBy(this.#source(this.#data(node)) as InputNode, zero, factors)
    const isData = value.kind !== 'apply' && operand.dtype === dtype
    if (isData) {
      this.keeps.add(operand.name)
      return { node: this.#data(node), behind }
    }
    const form = kept && { ...stored, zero: null, global: null }
    return { node: this.#operand(value, node, other, dtype, over, node.axes, form), behind }
  }

  #inTiles({ operand }: InputNode): boolean {
    return inTiles(operandNamed(this.#program, operand).order)
  }

  /** What looked-up rows are read from. */
  #source(value: Node): Node {
    return (value.kind === 'input' && operandNamed(this.#program, value.operand).computed) || value
  }

  #data(node: InputNode): InputNode {
    const { dtype } = operandNamed(this.#program, node.operand)
    const data: InputNode = { ...node, type: DTYPES[dtype].compute }
    this.#own.add(data)
    return data
  }

  /** Null: it has a sum of its own. */
  #expression(factor: Node, other: Node, dtype: DTypeName, over: readonly string[]): Side | null {
    const nodes = topological([factor])
    const isElementwise = ({ kind }: Node): boolean =>
      !['contract', 'reduce', 'accumulator', 'start', 'length'].includes(kind)
    const reads = nodes.filter((node) => node.kind === 'input')
    const isStored = ({ operand }: InputNode): boolean => operandNamed(this.#program, operand).stored !== undefined
    if (!nodes.every(isElementwise) || reads.some(isStored)) return null
    const [first] = [...reads].sort((x, y) => y.axes.length - x.axes.length)
    if (!first) return null
    return { node: this.#operand(asFloat(factor, dtype), first, other, dtype, over, factor.axes), behind: [] }
  }

  /** Its elements lie as those of `like` do, or else along k: of the axes summed over, the one that `other` has contiguous. */
  #operand(
    computed: Node,
    like: InputNode,
    other: Node,
    dtype: DTypeName,
    over: readonly string[],
    axes: readonly string[] = like.axes,
    stored: StoredForm | null = null,
  ): InputNode {
    const inner = operandNamed(this.#program, like.operand).order.at(-1)!
    const read = isPlainInput(other) ? operandNamed(this.#program, other.operand).order.at(-1)! : inner
    const shared = over.includes(read) ? read : over.at(-1)!
    const isFree = axes.includes(inner) && !over.includes(inner) && !other.axes.includes(inner)
    const last = isFree || over.includes(inner) ? inner : shared
    const own = operandNamed(this.#program, like.operand)
    const count = this.operands.filter(({ name }) => name.startsWith(`${own.name}.`)).length
    const name = `${own.name}.${own.stored ? 'decoded' : 'computed'}${count > 0 ? count + 1 : ''}`
    this.operands.push({
      name,
      role: 'input',
      dtype,
      axes,
      order: [...axes.filter((axis) => axis !== last), last],
      divisibility: 'element',
      fromEpilogue: false,
      computed,
      ...(stored && { stored }),
    })
    return { kind: 'input', operand: name, type: DTYPES[dtype].compute, axes, span: like.span }
  }
}

const asFloat = (node: Node, dtype: DTypeName): Node => (DTYPES[dtype].compute === 'f32' ? toF32(node) : node)

const toF32 = (value: Node): Node =>
  value.type === 'f32' ? value : { kind: 'cast', to: 'f32', value, type: 'f32', axes: value.axes, span: value.span }

/** (data - zero) * scale …, each step in f32. */
function decodedBy(data: InputNode, zero: Node | null, factors: readonly Node[]): Node {
  const { axes, span } = data
  const steps = [...(zero ? [['sub', zero] as const] : []), ...factors.map((factor) => ['mul', factor] as const)]
  return steps.reduce<Node>(
    (value, [op, arg]) => ({ kind: 'apply', op, args: [value, toF32(arg)], type: 'f32', axes, span }),
    toF32(data),
  )
}
