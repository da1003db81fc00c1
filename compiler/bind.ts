/** Binding: a kernel family, one choice of everything, and perhaps an epilogue, become one tensor program. */
import type { Name } from '../grammar/ast.ts'
import { diagnose } from '../grammar/catalogue/index.ts'
import { KtlError, type Diagnostic } from '../grammar/diagnostics.ts'
import type { DTypeName } from '../grammar/vocabulary.ts'
import { sameAxes } from './check/axes.ts'
import { BodyScope, resolveBody, type DeclaredOutput, type Input } from './check/body.ts'
import { printChoice, typed } from './check/choices.ts'
import type { BodyContext, Scope } from './check/expressions.ts'
import { checkReductions, rowStatistics } from './check/reductions.ts'
import { Reporter } from './check/report.ts'
import type { Resolved, ResolvedOutput } from './check/resolved.ts'
import { typeOutputs } from './check/typing.ts'
import { checkEpilogue, type BoundEpilogue, type EpilogueBinding, type EpilogueSignature } from './epilogue.ts'
import { resolveType, type KernelFamily, type OrderChoice, type TypeChoice } from './family.ts'
import { canonicalise } from './pipeline.ts'
import type { Divisibility, Output, ScalarOperand, TensorOperand, TensorProgram } from './tensor_ir.ts'

export interface Binding {
  /** Default: the first legal choice. */
  readonly types?: TypeChoice
  /** By operand; default: the logical order. */
  readonly orders?: OrderChoice
  /** By operand; default: `element`, which is always right. */
  readonly divisibility?: Readonly<Record<string, Divisibility>>
}

/**
 * The tensor program of one choice, after all passes of the tensor IR. Throws a KtlError for what the user wrote:
 * forms that are not lowered yet (KTL29xx), an illegal choice of types, and everything about the epilogue.
 */
export function bindKernel(family: KernelFamily, binding: Binding = {}, epilogue?: BoundEpilogue): TensorProgram {
  if (family.notLowered.length > 0) throw new KtlError(family.notLowered)
  const types = binding.types ?? family.typeChoices[0]!
  const program = programOf(family, types, epilogue)
  const operands = program.operands.map((operand): TensorOperand => {
    const order = binding.orders?.[operand.name] ?? operand.order
    const divisibility = binding.divisibility?.[operand.name] ?? operand.divisibility
    if (order === operand.order && divisibility === operand.divisibility) return operand
    if (!sameAxes(order, operand.axes)) throw new Error(`[${order}] is no order of ${operand.name}[${operand.axes}]`)
    const variants = entry(inMemory, operand, () => new Map<string, TensorOperand>())
    return entry(variants, `${order.join()} ${divisibility}`, () => ({ ...operand, order, divisibility }))
  })
  return { ...program, operands }
}

/** Operands as they lie in memory, by how: choices of one program share them, and what planning works out of each. */
const inMemory = new WeakMap<TensorOperand, Map<string, TensorOperand>>()

/** Name that an epilogue's operand has in the program: its own, unless the kernel declares that. */
export function epilogueOperandName(family: KernelFamily, name: string): string {
  const declared = new Set([...family.operands, ...family.scalars].map((operand) => operand.name))
  while (declared.has(name)) name += '_'
  return name
}

/** Programs by choice of types: orders and divisibility do not change them. */
const unfused = new WeakMap<KernelFamily, Map<string, TensorProgram>>()
const fused = new WeakMap<BoundEpilogue, WeakMap<KernelFamily, Map<string, TensorProgram>>>()

function programOf(family: KernelFamily, types: TypeChoice, epilogue: BoundEpilogue | undefined): TensorProgram {
  const families = epilogue
    ? entry(fused, epilogue, () => new WeakMap<KernelFamily, Map<string, TensorProgram>>())
    : unfused
  const programs = entry(families, family, () => new Map<string, TensorProgram>())
  return entry(programs, printChoice(types), () => canonicalise(build(family, types, epilogue)))
}

function entry<K extends object | string, V>(map: { get(key: K): V | undefined; set(key: K, value: V): unknown }, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
} // prettier-ignore

function build(family: KernelFamily, types: TypeChoice, epilogue: BoundEpilogue | undefined): TensorProgram {
  const declared = family.operands.map((operand): TensorOperand => ({
    name: operand.name, role: operand.role, dtype: resolveType(operand.dtype, types), axes: operand.axes, order: operand.axes,
    divisibility: 'element', fromEpilogue: false,
  })) // prettier-ignore
  const scalars = family.scalars.map((scalar): ScalarOperand => ({
    name: scalar.name, dtype: resolveType(scalar.dtype, types), pointer: false,
    defaultValue: scalar.defaultValue?.value ?? null, fromEpilogue: false,
  })) // prettier-ignore
  const fusion = epilogue ? fuse(family, epilogue) : null
  const outputs = fusion ? typeFused(family, types, fusion) : typedOutputs(family, types)
  const of = (role: TensorOperand['role']) => (operand: TensorOperand): boolean => operand.role === role // prettier-ignore
  const operands = [...declared.filter(of('input')), ...(fusion?.operands.filter(of('input')) ?? []), ...declared.filter(of('output')), ...(fusion?.operands.filter(of('output')) ?? [])] // prettier-ignore
  const { name: kernel, accuracy, axes } = family
  return { kernel, accuracy, axes, operands, scalars: [...scalars, ...(fusion?.scalars ?? [])], outputs }
}

function typedOutputs(family: KernelFamily, types: TypeChoice): readonly Output[] {
  const { outputs, diagnostics } = typed(family, types)
  if (diagnostics.length > 0) throw new KtlError(diagnostics)
  return outputs
}

interface Fusion {
  readonly outputs: readonly ResolvedOutput[]
  /** The epilogue's operands, under their names in the program. */
  readonly operands: readonly TensorOperand[]
  readonly scalars: readonly ScalarOperand[]
}

function typeFused(family: KernelFamily, types: TypeChoice, fusion: Fusion): readonly Output[] {
  const own = new Map([...family.operands, ...family.scalars].map((o) => [o.name, resolveType(o.dtype, types)]))
  const bound = new Map([...fusion.operands, ...fusion.scalars].map((o) => [o.name, o.dtype]))
  const { outputs, diagnostics } = typeOutputs(fusion.outputs, {
    source: family.source,
    dtypeOf: (name): DTypeName => own.get(name) ?? bound.get(name)!,
    typeOf: (type) => resolveType(type, types),
    scaled: new Set(),
  })
  if (diagnostics.length > 0) throw new KtlError(diagnostics)
  return outputs
}

/** The family's outputs with the epilogue in its slot. */
function fuse(family: KernelFamily, epilogue: BoundEpilogue): Fusion {
  const { declaration, source, bindings } = epilogue
  const slot = family.outputs.find((output) => output.slot)
  if (!slot) throw new Error(`kernel ${family.name} has no epilogue slot`)
  const report = new Reporter()
  const { signature, diagnostics } = checkEpilogue(declaration, source)
  diagnostics.forEach((diagnostic) => report.add(diagnostic))
  checkBindings(signature, epilogue).forEach((diagnostic) => report.add(diagnostic))

  const all = family.axes.map((axis) => axis.name)
  const optional = family.axes.filter((axis) => axis.optional).map((axis) => axis.name)
  const out = family.operands.find((operand) => operand.name === slot.operand)!
  // Aligned at the right: a kernel without a batch axis has no `l`.
  const aliases = new Map<string, string>()
  epilogue.axes
    .slice(-out.axes.length)
    .forEach((axis, i, used) => aliases.set(axis, out.axes[out.axes.length - used.length + i]!))
  const toKernel = (axis: string): string => aliases.get(axis) ?? axis
  const named = (name: string): string => epilogueOperandName(family, name)

  const inputs = new Map<string, Input>()
  const scalars: ScalarOperand[] = []
  const operands: TensorOperand[] = []
  for (const name of signature.accumulator) inputs.set(name, { value: slot.value, declared: null })
  for (const { name, span, defaultValue } of signature.inputs) {
    const binding: EpilogueBinding | undefined =
      bindings[name] ?? (defaultValue ? { kind: 'scalar', dtype: 'f32' } : undefined)
    if (!binding) continue
    const at = { source, span }
    if (binding.kind === 'tensor') {
      const operand = tensorOperand(named(name), 'input', binding, toKernel)
      operands.push(operand)
      const axes = all.filter((axis) => operand.axes.includes(axis))
      inputs.set(name, { value: { kind: 'operand', name: operand.name, axes, ...at }, declared: null })
    } else {
      const pointer = binding.kind === 'element'
      const value = bindings[name] ? null : defaultValue!.value
      scalars.push({ name: named(name), dtype: binding.dtype, pointer, defaultValue: value, fromEpilogue: true })
      inputs.set(name, { value: { kind: 'scalar', name: named(name), axes: [], ...at }, declared: null })
    }
  }
  const outputs = new Map<string, DeclaredOutput>()
  for (const name of [signature.slot, ...signature.outputs.map((output) => output.name)]) {
    if (name !== null) outputs.set(name, { axes: null, declared: null })
  }

  const context: BodyContext = {
    report, source, axes: all, axisAliases: aliases, typeParams: new Set(), typeParamUses: new Set(), impliedAxes: optional,
    epilogues: epilogue.epilogues ?? new Map(), kernels: new Set(), inlining: [], inEpilogue: true, axesUnknown: false,
    budget: { nodes: 0 },
  } // prettier-ignore
  const scope = new EpilogueScope(inputs, declaration.body, Object.keys(bindings), signature, context)
  const { definitions, returned } = resolveBody(declaration.body, scope, outputs, context)
  const valueOf = (name: string | null): Resolved | undefined =>
    (name === null ? returned?.find((r) => r.name === null)?.value : scope.lookup(name)) ?? undefined
  const value = valueOf(signature.slot)
  const fusedOutputs: ResolvedOutput[] = family.outputs.map((output) =>
    output === slot && value ? { ...output, value, slot: false } : output,
  )
  if (value) checkFits(slot.operand, out.axes, value, context)
  for (const { name, span } of signature.outputs) {
    const [extra, binding] = [valueOf(name), bindings[name]]
    if (!extra || binding?.kind !== 'tensor') continue
    const operand = tensorOperand(named(name), 'output', binding, toKernel)
    // As for declared outputs, callers may leave an optional axis out, but the operand has it.
    const implied = extra.axes.filter((axis) => optional.includes(axis) && !operand.axes.includes(axis))
    const whole = { ...operand, axes: [...implied, ...operand.axes], order: [...implied, ...operand.order] }
    checkFits(name, whole.axes, extra, context)
    operands.push(whole)
    fusedOutputs.push({ operand: whole.name, value: extra, span, source, slot: false })
  }
  checkReductions(fusedOutputs, definitions, context)
  // What is refused for good needs no second reason.
  for (const { source: at, span } of report.errors > 0 ? [] : rowStatistics(fusedOutputs)) {
    report.add(diagnose('KTL2903', { source: at, span, reduction: at.text.slice(span.start, span.end) }))
  }
  const errors = report.diagnostics.filter((d) => d.severity === 'error')
  if (errors.length > 0) throw new KtlError(errors)
  return { outputs: fusedOutputs, operands, scalars }
}

function tensorOperand(
  name: string, role: TensorOperand['role'], { dtype, axes, order, divisibility }: Extract<EpilogueBinding, { kind: 'tensor' }>,
  toKernel: (axis: string) => string,
): TensorOperand {
  return { name, role, dtype, axes: axes.map(toKernel), order: order.map(toKernel), divisibility, fromEpilogue: true }
} // prettier-ignore

/** The value that goes to `out` may not vary along axes that `out` lacks. */
function checkFits(name: string, axes: readonly string[], value: Resolved, { report, source }: BodyContext): void {
  const missing = value.kind === 'error' ? [] : value.axes.filter((axis) => !axes.includes(axis))
  if (missing.length === 0) return
  const span = value.source === source ? value.span : { start: 0, end: source.text.length }
  report.report('KTL2007', source, span, { axes: missing, target: name, targetSpan: null })
}

function checkBindings(
  { inputs, outputs, slot, locals }: EpilogueSignature,
  { source, bindings }: BoundEpilogue,
): Diagnostic[] {
  const diagnostics: Diagnostic[] = []
  const names = Object.keys(bindings)
  for (const { name, span, defaultValue } of inputs) {
    if (!bindings[name] && !defaultValue)
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
    inputs: ReadonlyMap<string, Input>, body: BoundEpilogue['declaration']['body'], bindings: readonly string[],
    signature: EpilogueSignature, context: BodyContext,
  ) {
    super(inputs, body)
    this.bindings = bindings
    this.signature = signature
    this.context = context
  } // prettier-ignore

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

  unknown(name: Name): void {
    const { report, source } = this.context
    // Inputs without a binding have been reported by name already.
    if (this.signature.inputs.some((input) => input.name === name.text)) return
    report.report('KTL2023', source, name.span, { name: name.text, candidates: this.bindings })
  }
}
