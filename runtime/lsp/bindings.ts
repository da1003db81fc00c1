/** What each name of a file stands for: declarations, and where each is used. Of broken texts too, as far as they could be read. */
import type {
  AxisRef,
  EpilogueDecl,
  Equation,
  Expr,
  Item,
  KernelDecl,
  Name,
  OperandDecl,
  PartType,
  Program,
  Span,
  Statement,
  TypeName,
} from '../../grammar/ast.ts'

export type Role = 'kernel' | 'epilogue' | 'type' | 'input' | 'output' | 'parameter' | 'value' | 'axis'

/** Something that has a name. */
export interface Declared {
  readonly name: string
  readonly role: Role
  /** Of the name. */
  readonly span: Span
  /** What it belongs to: itself for kernels and epilogues. */
  readonly item: Item
  /** Inputs and outputs of kernels. */
  readonly operand?: OperandDecl
  /** Values. */
  readonly equation?: Equation
}

/** A name in the text. */
export interface Occurrence {
  readonly span: Span
  readonly of: Declared
  /** It is declared or assigned here. */
  readonly writes: boolean
}

export interface Bindings {
  readonly declared: readonly Declared[]
  /** By position. */
  readonly occurrences: readonly Occurrence[]
}

export function bind(program: Program): Bindings {
  const binder = new Binder(program)
  for (const item of program.items) {
    if (item.kind === 'kernel') binder.kernel(item)
    else if (item.kind === 'epilogue') binder.epilogue(item)
    else for (const name of item.kernels) binder.use(name, binder.file.get(name.text))
  }
  binder.occurrences.sort((a, b) => a.span.start - b.span.start)
  return binder
}

/** The occurrence at an offset, its end included: an editor's cursor stands behind what was typed. */
export function occurrenceAt({ occurrences }: Bindings, offset: number): Occurrence | undefined {
  const at = occurrences.filter(({ span }) => span.start <= offset && offset <= span.end)
  return at.find(({ span }) => offset < span.end) ?? at[0]
}

export const occurrencesOf = ({ occurrences }: Bindings, declared: Declared): readonly Occurrence[] =>
  occurrences.filter(({ of }) => of === declared)

type Names = Map<string, Declared>

class Binder implements Bindings {
  readonly declared: Declared[] = []
  readonly occurrences: Occurrence[] = []
  /** Kernels and epilogues. */
  readonly file: Names = new Map()
  #types: Names = new Map()
  #values: Names = new Map()
  #axes: Names = new Map()

  constructor({ items }: Program) {
    for (const item of items) {
      if (item.kind !== 'schedule' && item.name)
        this.#declare(this.file, item.name, { role: item.kind, item, name: item.name.text, span: item.name.span })
    }
  }

  kernel(item: KernelDecl): void {
    this.#begin()
    const own = <D extends object>(name: Name, role: Role, more?: D) => ({
      role,
      item,
      name: name.text,
      span: name.span,
      ...more,
    })
    for (const { name } of item.typeParams) this.#declare(this.#types, name, own(name, 'type'))
    const operands = [
      ...item.params.map((operand) => ({ operand, role: 'input' as const })),
      ...item.outputs.map((operand) => ({ operand, role: 'output' as const })),
    ]
    for (const { operand, role } of operands)
      this.#declare(this.#values, operand.name, own(operand.name, role, { operand }))
    for (const { operand } of operands) {
      for (const { dtype, axes, zero, scale, global } of operand.alternatives) {
        this.#type(dtype)
        this.#axisRefs(axes, item)
        for (const part of [zero, scale, global]) if (part) this.#part(part, item)
      }
      if (!operand.ragged) continue
      this.#axis(operand.ragged.axis, item)
      this.use(operand.ragged.by, this.#values.get(operand.ragged.by.text))
      this.#axis(operand.ragged.as, item)
    }
    this.#body(item.body, item)
  }

  epilogue(item: EpilogueDecl): void {
    this.#begin()
    for (const { name, dtype, axes } of item.params) {
      this.#declare(this.#values, name, { role: 'parameter', item, name: name.text, span: name.span })
      if (dtype) this.#type(dtype)
      for (const axis of axes ?? []) this.#axis(axis, item)
    }
    for (const name of item.outputs ?? [])
      this.#declare(this.#values, name, { role: 'output', item, name: name.text, span: name.span })
    this.#body(item.body, item)
  }

  use(name: Name, of: Declared | undefined, writes = false): void {
    if (of && isWritten(name)) this.occurrences.push({ span: name.span, of, writes })
  }

  #begin(): void {
    this.#types = new Map()
    this.#values = new Map()
    this.#axes = new Map()
  }

  /** The first of a name counts; further ones are mistakes, which stand for it. */
  #declare(names: Names, name: Name, declared: Declared): void {
    if (!isWritten(name)) return
    const known = names.get(name.text)
    this.use(name, known ?? declared, true)
    if (known) return
    names.set(name.text, declared)
    this.declared.push(declared)
  }

  #type({ text, span }: TypeName): void {
    this.use({ kind: 'name', text, span }, this.#types.get(text))
  }

  #part({ dtype, axes }: PartType, item: Item): void {
    this.#type(dtype)
    this.#axisRefs(axes, item)
  }

  #axisRefs(axes: readonly AxisRef[] | null, item: Item): void {
    for (const { name } of axes ?? []) this.#axis(name, item)
  }

  /** Axes are declared where they are first named. */
  #axis(name: Name, item: Item): void {
    const known = this.#axes.get(name.text)
    if (known) this.use(name, known)
    else this.#declare(this.#axes, name, { role: 'axis', item, name: name.text, span: name.span })
  }

  #body(body: readonly Statement[], item: Item): void {
    for (const statement of body) {
      if (statement.kind === 'axisStatement') this.#axis(statement.axis, item)
      if (statement.kind !== 'equation') continue
      for (const { name } of statement.targets) {
        const known = this.#values.get(name.text)
        if (known) this.use(name, known, true)
        else
          this.#declare(this.#values, name, {
            role: 'value',
            item,
            name: name.text,
            span: name.span,
            equation: statement,
          })
      }
    }
    for (const statement of body) {
      if (statement.kind === 'return') for (const value of statement.values) this.#expression(value, item)
      else this.#expression(statement.value, item)
      if (statement.kind !== 'equation') continue
      for (const { at, dtype } of statement.targets) {
        if (dtype) this.#type(dtype)
        for (const index of at ?? []) this.#expression(index, item, this.#axes)
      }
    }
  }

  /** `first`: where a lone name is looked for before it is a value. Chains of operators are deeper than the stack. */
  #expression(root: Expr, item: Item, first?: Names): void {
    const pending: Expr[] = [root]
    for (let e = pending.pop(); e; e = pending.pop()) {
      switch (e.kind) {
        case 'reference': {
          const { text } = e.name
          const axis = e.at === null ? this.#axes.get(text) : undefined
          this.use(e.name, (first && e === root ? axis : undefined) ?? this.#values.get(text) ?? axis)
          pending.push(...(e.at ?? []))
          break
        }
        case 'unary':
          pending.push(e.operand)
          break
        case 'binary':
          pending.push(e.left, e.right)
          break
        case 'call':
          this.use(e.callee, this.#types.get(e.callee.text) ?? this.file.get(e.callee.text))
          pending.push(...e.args)
          break
        case 'reduce':
          for (const axis of e.axes) this.#axisUse(axis, item)
          pending.push(e.value)
          break
        case 'size':
          this.#axisUse(e.axis, item)
          break
        case 'slot':
          pending.push(e.value)
      }
    }
  }

  /** An epilogue need not name the axes that it reduces before. */
  #axisUse(name: Name, item: Item): void {
    if (item.kind === 'epilogue') this.#axis(name, item)
    else this.use(name, this.#axes.get(name.text))
  }
}

/** Names that the parser made up to go on have no place. */
const isWritten = ({ span }: Name): boolean => span.end > span.start
