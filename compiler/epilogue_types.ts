/**
 * Types an epilogue over the accumulator of a kernel. What it gives depends on little of the kernel, so one result serves
 * all kernels that look the same from inside their slots: bind.ts puts it into them.
 */
import type { Name } from '../grammar/ast.ts'
import { diagnose } from '../grammar/catalogue/index.ts'
import { KtlError, type Diagnostic, type Source } from '../grammar/diagnostics.ts'
import type { DTypeName } from '../grammar/vocabulary.ts'
import { withoutAxes } from './check/axes.ts'
import { BodyScope, resolveBody, type Input } from './check/body.ts'
import type { BodyContext, DeclaredOutput, Scope } from './check/context.ts'
import { perGroup } from './check/ragged.ts'
import { Reporter } from './check/report.ts'
import type { Resolved, ResolvedContraction, ResolvedOperand, ResolvedOutput, TypeRef } from './check/resolved.ts'
import { typeBody } from './check/typing.ts'
import { DTYPES, type Accumulator } from './dtypes.ts'
import { checkEpilogue, type BoundEpilogue, type EpilogueBinding, type EpilogueSignature } from './epilogue.ts'
import { impliedGroups } from './ir/verify_tensor.ts'
import type { Axis, ComputeType, Node, Output, ScalarOperand, TensorOperand } from './ir/tensor.ts'

/** A kernel as its epilogue sees it. */
export interface Slot {
  /** All axes of the kernel, in order. */
  readonly axes: readonly Omit<Axis, 'extent'>[]
  /** What the kernel passes through the slot. */
  readonly value: Resolved
  readonly type: ComputeType
  /** Where the result goes. */
  readonly out: Pick<TensorOperand, 'name' | 'dtype' | 'axes' | 'stored'>
  /** The kernel's text; null: it has none. */
  readonly source: Source | null
}

/** Nodes over the accumulator, which is the input operand `ACCUMULATOR`, in the axes of the kernel. */
export interface TypedEpilogue {
  /** What goes to the slot's output. */
  readonly value: Node
  /** The epilogue's own outputs. */
  readonly outputs: readonly Output[]
  /** Tensors and numbers under their names in the epilogue; outputs have all axes that their values have. */
  readonly operands: readonly TensorOperand[]
  readonly scalars: readonly ScalarOperand[]
  /** Of operands that are read at indices. */
  readonly axes: readonly Axis[]
}

/** The slot of `out = epilogue(sum[k](A * B))`, [l?, m, k] x [l?, k, n] → [l?, m, n]. */
export function gemmSlot(accumulator: Accumulator, out: DTypeName): Slot {
  const at = { source: { name: '<gemm>', text: '' }, span: { start: 0, end: 0 } }
  const operand = (name: string, ...axes: string[]): ResolvedOperand => ({
    kind: 'operand',
    name,
    at: null,
    outside: null,
    axes,
    ...at,
  })
  const [a, b] = [operand('A', 'l', 'm', 'k'), operand('B', 'l', 'k', 'n')]
  const axes = ['l', 'm', 'n']
  const value: ResolvedContraction = { kind: 'contract', a, b, over: ['k'], accumulator, axes, ...at }
  return {
    axes: ['l', 'm', 'k', 'n'].map((name) => ({ name, optional: name === 'l' })),
    value,
    type: DTYPES[accumulator].compute,
    out: { name: 'out', dtype: out, axes },
    source: null,
  }
}

const known = new WeakMap<BoundEpilogue, Map<string, TypedEpilogue>>()

/**
 * Throws a KtlError with everything that is wrong with the epilogue in this slot. Slots of plain
 * contractions that differ in nothing an epilogue can tell share the result.
 */
export function typeEpilogue(epilogue: BoundEpilogue, slot: Slot): TypedEpilogue {
  const { axes, value, type, out, source } = slot
  if (value.kind !== 'contract') return typeAnew(epilogue, slot)
  const hasSpans = source === epilogue.source
  const key = JSON.stringify([
    axes,
    value.axes,
    value.over,
    type,
    out.dtype,
    out.axes,
    out.stored !== undefined,
    hasSpans,
  ])
  const results = known.get(epilogue) ?? new Map<string, TypedEpilogue>()
  known.set(epilogue, results)
  const result = results.get(key) ?? typeAnew(epilogue, slot)
  results.set(key, result)
  return result
}

function typeAnew(epilogue: BoundEpilogue, slot: Slot): TypedEpilogue {
  const { outputs, operands, scalars, axes } = resolve(epilogue, slot)
  const [filled] = outputs
  const dtypes = new Map([...operands, ...scalars].map((o) => [o.name, o.dtype]))
  const body = { outputs, axes: [...slot.axes, ...axes] }
  const { outputs: typed, diagnostics } = typeBody(body, {
    source: slot.source,
    dtypeOf: (name) => dtypes.get(name)!,
    storedAs: (output) => (output === filled ? slot.out.dtype : dtypes.get(output.operand)!),
    typeOf: (type) => type as DTypeName,
    storedForms: new Set(slot.out.stored ? [slot.out.name] : []),
  })
  if (diagnostics.length > 0) throw new KtlError(diagnostics)
  const [first, ...own] = typed
  return { value: first!.value, outputs: own, operands, scalars, axes }
}

/** The slot's output first. */
function resolve(
  epilogue: BoundEpilogue,
  slot: Slot,
): Pick<TypedEpilogue, 'operands' | 'scalars' | 'axes'> & { outputs: readonly ResolvedOutput[] } {
  const { declaration, source, bindings } = epilogue
  const { out, type } = slot
  const report = new Reporter()
  const { signature, diagnostics } = checkEpilogue(declaration, source)
  diagnostics.forEach((diagnostic) => report.add(diagnostic))
  const ownAxes = Object.values(bindings).flatMap((binding) =>
    binding.kind === 'tensor' && binding.indexed ? binding.axes : [],
  )
  const all = [...slot.axes.map((axis) => axis.name), ...ownAxes]
  const optional = slot.axes.filter((axis) => axis.optional).map((axis) => axis.name)
  // Aligned at the right: a kernel without a batch axis has no `l`.
  const aliases = new Map<string, string>()
  epilogue.axes
    .slice(-out.axes.length)
    .forEach((axis, i, used) => aliases.set(axis, out.axes[out.axes.length - used.length + i]!))
  impliedGroups(slot, out.axes).forEach((group, i) => aliases.set(epilogue.groups?.[i] ?? group, group))
  const toKernel = (axis: string): string => aliases.get(axis) ?? axis
  const isAxis = (name: string): boolean => aliases.has(name) || all.includes(name)
  checkBindings(signature, epilogue, isAxis).forEach((diagnostic) => report.add(diagnostic))

  const { axes, source: from, span } = slot.value
  const accumulator: Resolved = { kind: 'accumulator', value: slot.value, type, axes, source: from, span }
  const inputs = new Map<string, Input>()
  const scalars: ScalarOperand[] = []
  const operands: TensorOperand[] = []
  const read = new Map<string, { dtype: TypeRef; axes: readonly string[] }>()
  for (const name of signature.accumulator) inputs.set(name, { value: accumulator, declared: null })
  for (const { name, span, defaultValue } of signature.inputs) {
    const binding: EpilogueBinding | undefined =
      bindings[name] ?? (defaultValue ? { kind: 'scalar', dtype: 'f32' } : undefined)
    if (!binding) continue
    const at = { source, span }
    if (binding.kind === 'tensor') {
      const operand = tensorOperand(name, 'input', binding, toKernel)
      operands.push(operand)
      if (binding.indexed) read.set(name, operand)
      const axes = all.filter((axis) => operand.axes.includes(axis))
      inputs.set(name, { value: { kind: 'operand', name, at: null, outside: null, axes, ...at }, declared: null })
    } else {
      const pointer = binding.kind === 'element'
      const value = bindings[name] ? null : defaultValue!.value
      scalars.push({ name, dtype: binding.dtype, pointer, defaultValue: value, fromEpilogue: true })
      inputs.set(name, { value: { kind: 'scalar', name, axes: [], ...at }, declared: null })
    }
  }
  const declared = new Map<string, DeclaredOutput>()
  for (const name of [signature.slot, ...signature.outputs.map((output) => output.name)]) {
    if (name !== null) declared.set(name, { axes: null, declared: null })
  }

  const context: BodyContext = {
    report,
    source,
    axes: all,
    axisTable: slot.axes,
    declared: read,
    pinned: new Set(),
    axisAliases: aliases,
    typeParams: new Set(),
    typeParamUses: new Set(),
    impliedAxes: optional,
    epilogues: epilogue.epilogues ?? new Map(),
    kernels: new Set(),
    inlining: [],
    inEpilogue: true,
    axesUnknown: false,
    budget: { nodes: 0 },
  }
  const scope = new EpilogueScope(inputs, declaration.body, Object.keys(bindings), signature, context)
  const { returned } = resolveBody(declaration.body, scope, declared, context)
  const valueOf = (name: string | null): Resolved | undefined =>
    (name === null ? returned?.find((r) => r.name === null)?.value : scope.lookup(name)) ?? undefined
  const value = perGroup(valueOf(signature.slot) ?? accumulator, out.axes, context)
  checkFits(out.name, out.axes, value, context)
  const outputs: ResolvedOutput[] = [
    { operand: out.name, value, span: declaration.span, source, slot: false, at: null },
  ]
  for (const { name, span } of signature.outputs) {
    const [own, binding] = [valueOf(name), bindings[name]]
    if (!own || binding?.kind !== 'tensor') continue
    const value = perGroup(own, binding.axes.map(toKernel), context)
    const reduced = reducedAxes(value)
    const unit = (binding.unit ?? []).filter((axis) => reduced.includes(toKernel(axis)))
    const operand = tensorOperand(name, 'output', withoutUnit(binding, unit), toKernel)
    // As for declared outputs, callers may leave an optional axis out, but the operand has it.
    const implied = value.axes.filter((axis) => optional.includes(axis) && !operand.axes.includes(axis))
    const whole = { ...operand, axes: [...implied, ...operand.axes], order: [...implied, ...operand.order] }
    checkFits(name, whole.axes, value, context)
    operands.push(whole)
    outputs.push({ operand: name, value, span, source, slot: false, at: null })
  }
  const errors = report.diagnostics.filter((d) => d.severity === 'error')
  if (errors.length > 0) throw new KtlError(errors)
  return { outputs, operands, scalars, axes: ownAxes.map((name) => ({ name, optional: false })) }
}

function tensorOperand(
  name: string,
  role: TensorOperand['role'],
  { dtype, axes, order, divisibility }: TensorBinding,
  toKernel: (axis: string) => string,
): TensorOperand {
  return { name, role, dtype, axes: axes.map(toKernel), order: order.map(toKernel), divisibility, fromEpilogue: true }
}

type TensorBinding = Extract<EpilogueBinding, { kind: 'tensor' }>

/** A reduced axis of extent 1 is none of the output's: a row that is all of the output has one maximum. */
const withoutUnit = (binding: TensorBinding, unit: readonly string[]): TensorBinding => ({
  ...binding,
  axes: withoutAxes(binding.axes, unit),
  order: withoutAxes(binding.order, unit),
})

function reducedAxes(e: Resolved): readonly string[] {
  return e.kind === 'typed' ? reducedAxes(e.value) : e.kind === 'reduce' ? e.over : []
}

/** The value that goes to `out` may not vary along axes that `out` lacks. */
function checkFits(
  name: string,
  axes: readonly string[],
  value: Resolved,
  { report, source, axisTable }: BodyContext,
): void {
  const implied = impliedGroups({ axes: axisTable }, axes)
  const missing = value.kind === 'error' ? [] : withoutAxes(value.axes, [...axes, ...implied])
  if (missing.length === 0) return
  const span = value.source === source ? value.span : { start: 0, end: source.text.length }
  report.report('KTL2007', source, span, { axes: missing, target: name, targetSpan: null })
}

function checkBindings(
  { inputs, outputs, slot, locals }: EpilogueSignature,
  { source, bindings }: BoundEpilogue,
  isAxis: (name: string) => boolean,
): Diagnostic[] {
  const diagnostics: Diagnostic[] = []
  const names = Object.keys(bindings)
  for (const { name, span, defaultValue, mayBeAxis } of inputs) {
    if (!bindings[name] && !defaultValue && !(mayBeAxis && isAxis(name)))
      diagnostics.push(diagnose('KTL2023', { source, span, name, candidates: names }))
  }
  for (const { name, span } of outputs) {
    if (bindings[name]?.kind !== 'tensor') diagnostics.push(diagnose('KTL2030', { source, span, name }))
  }
  const candidates = [...inputs, ...outputs].map((x) => x.name)
  for (const name of names) {
    if (candidates.includes(name)) continue
    if (locals.includes(name)) diagnostics.push(diagnose('KTL2031', { source, span: null, name, slot: slot ?? 'D' }))
    else diagnostics.push(diagnose('KTL2024', { source, span: null, name, candidates }))
  }
  return diagnostics
}

/** Names of an epilogue string: bindings, with annotations that must say what the binding says. */
class EpilogueScope extends BodyScope implements Scope {
  private readonly bindings: readonly string[]
  private readonly signature: EpilogueSignature
  private readonly context: BodyContext

  constructor(
    inputs: ReadonlyMap<string, Input>,
    body: BoundEpilogue['declaration']['body'],
    bindings: readonly string[],
    signature: EpilogueSignature,
    context: BodyContext,
  ) {
    super(inputs, body)
    this.bindings = bindings
    this.signature = signature
    this.context = context
  }

  annotate(name: Name, axes: readonly Name[]): void {
    const { report, source, axisAliases } = this.context
    const value = this.lookup(name.text)
    const written = axes.map((axis) => axisAliases.get(axis.text) ?? axis.text)
    if (!value || value.kind === 'error') return
    if (value.axes.length === 0 && value.kind === 'scalar') return
    // An extent of 1 broadcasts, so a bound tensor may have fewer axes than written; of others, only a batch that calls may leave out.
    const implied = this.context.impliedAxes
    if (value.axes.every((axis) => written.includes(axis) || implied.includes(axis))) return
    const span = { start: axes[0]!.span.start, end: axes.at(-1)!.span.end }
    report.report('KTL2026', source, span, { target: name.text, axes: written, declared: value.axes, declaredAt: null })
  }

  readAxes(name: string): readonly string[] | undefined {
    return this.context.declared.get(name)?.axes
  }

  unknown(name: Name): void {
    const { report, source } = this.context
    // Inputs without a binding have been reported by name already.
    if (this.signature.inputs.some((input) => input.name === name.text)) return
    report.report('KTL2023', source, name.span, { name: name.text, candidates: this.bindings })
  }
}
