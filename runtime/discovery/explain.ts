/** Why kernels do not support arguments: every candidate counted under the first thing it fails on. */
import { ARCH_NAMES, type TargetArch } from '../../compiler/archs.ts'
import type { Rejection } from '../../compiler/instance.ts'
import type { OrderChoice, TypeChoice } from '../../compiler/family.ts'
import { RuntimeArguments } from '../arguments/base.ts'
import type { PerformanceControls } from '../arguments/performance.ts'
import { refuse, refusedBy, Status, type StatusRefused } from '../errors/status.ts'
import { callOf, describeArguments, type Call } from './calls/call.ts'
import { misaligned, orderFits, typesFit } from './calls/fit.ts'
import { bestAlignment, fusionShape, KtlProvider } from './providers/ktl_provider.ts'
import { controlsFilter } from './filters/controls.ts'
import { designPasses } from './space/found.ts'
import { collectKernels, generateOptions, supportsSafely } from './providers/kernel_class.ts'
import type { PlannedInstance } from './space/planned.ts'
import { Provider, selectProviders, type ProviderSpec } from './providers/provider.ts'
import type { FamilySpace } from './space/space.ts'
import { parseTarget, type TargetSpec } from './filters/target.ts'
import { optionsOf } from '../errors/given.ts'
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'

/** What some kernels fail on first. */
export interface RejectionReason {
  readonly code: string
  /** With the names of one example. */
  readonly reason: string
  /** Candidates that fail on it first. */
  readonly count: number
  readonly operand?: string
  /** The nearest change that would help. */
  readonly fix?: string
}

/** How far a candidate came before it failed: the nearest misses are what a user wants to read first. */
const STAGES: readonly (readonly [RegExp, number])[] = [
  [/^KTL40(3[5679])$/, 0],
  [/^KTL(4033|45)/, 1],
  [/^KTL4032$/, 2],
  [/^KTL4034$/, 3],
  [/^KTL(29|23)/, 4],
  [/^KTL4031$/, 5],
]
const stageOf = ({ code }: RejectionReason): number =>
  STAGES.find(([pattern]) => pattern.test(code))?.[1] ?? STAGES.length

/** What `explainKernels` found; its text is for people. */
export class Explanation {
  readonly target: TargetArch | null
  /** Instances of kernels that do this kind of operation. */
  readonly considered: number
  readonly supported: number
  /** Nearest misses first, then the most frequent. */
  readonly reasons: readonly RejectionReason[]

  constructor(target: TargetArch | null, supported: number, reasons: readonly RejectionReason[]) {
    this.target = target
    this.supported = supported
    this.reasons = Object.freeze([...reasons].sort((a, b) => stageOf(a) - stageOf(b) || b.count - a.count))
    this.considered = supported + reasons.reduce((sum, reason) => sum + reason.count, 0)
    Object.freeze(this)
  }

  toString(): string {
    const where = this.target ?? 'this device'
    const lines = this.reasons.map(
      ({ count, code, reason, fix }) => `${String(count).padStart(6)}  ${code}  ${reason}${fix ? ` (${fix})` : ''}`,
    )
    return [`${this.supported} of ${this.considered} kernels for ${where} support the arguments`, ...lines].join('\n')
  }
}

/**
 * Why kernels do not support arguments: each one is counted under the first thing it fails on. Never throws for well-formed
 * arguments; KTL4024 for what are none, KTL4015 and KTL4028 for options that are none.
 *
 * @example
 * const A = device.tensor('f16', [64, 32], 1)
 * const B = device.tensor('f16', [32, 48], 1)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 48]) })
 * const { supported, considered, reasons } = explainKernels(args)
 * console.log(supported, 'of', considered, reasons[0]!.code, reasons[0]!.reason)
 */
export function explainKernels(
  args: RuntimeArguments,
  options: { readonly cc?: TargetSpec; readonly providers?: readonly ProviderSpec[] } = {},
): Explanation {
  if (!(args instanceof RuntimeArguments))
    throw ktlError('KTL4024', {
      operand: 'args',
      expected: 'GemmArguments, KernelArguments or ElementwiseArguments',
      got: describe(args),
    })
  const target = parseTarget(optionsOf('options', options).cc ?? args.device.arch)
  const tally = new Tally()
  if (target === null) {
    tally.add(refuse('KTL4038', { expected: ARCH_NAMES.join(', '), got: String(options.cc ?? args.device.arch) }), 0)
    return new Explanation(null, 0, tally.reasons)
  }
  let supported = 0
  const providers = selectProviders(options.providers)
  for (const provider of providers) {
    if (!(provider instanceof KtlProvider)) continue
    for (const space of provider.spacesFor(args)) supported += explainSpace(space, args, target, tally)
  }
  const users = providers.filter((provider) => provider instanceof Provider)
  supported += explainProviders(users, args, target, tally)
  if (supported === 0 && tally.reasons.length === 0) {
    tally.add(
      refuse('KTL4030', { expected: 'an operation that some kernel computes', got: describeArguments(args) }),
      0,
    )
  }
  return new Explanation(target, supported, tally.reasons)
}

function explainSpace(space: FamilySpace, args: RuntimeArguments, target: TargetArch, tally: Tally): number {
  let supported = 0
  const call = callOf(space.family, space.operation, args)
  for (const types of space.family.typeChoices) {
    const status = 'ok' in call ? call : typesFit(space.family, types, call)
    if ('ok' in status && !status.ok) tally.add(status, space.size(target, types))
    else supported += explainTypes(space, types, call as Call, args, target, tally)
  }
  return supported
}

function explainTypes(
  space: FamilySpace,
  types: TypeChoice,
  call: Call,
  args: RuntimeArguments,
  target: TargetArch,
  tally: Tally,
): number {
  let supported = 0
  const fusion = fusionShape(space.family, types, call)
  for (const orders of space.orderChoices(types)) {
    const operands = space.family.operands.map(({ name, partOf }) => ({
      name,
      order: orders[name]!,
      ...(partOf !== undefined && { partOf }),
    }))
    const failed = operands.map((operand) => orderFits(operand, call)).find((status) => !status.ok)
    if (failed && !failed.ok) {
      tally.add(failed, space.size(target, types) / space.orderCount(types))
      continue
    }
    const best = bestAlignment(space, orders, call)
    for (const backend of space.backends(target, { types, alignment: best })) {
      for (const alignment of space.alignments(backend, target, types, best, orders)) {
        const { instances, rejections } = space.find(backend, target, { types, orders, alignment }, fusion)
        for (const { rejection, count } of rejections) tally.add(withBytes(rejection, space, orders, call), count)
        const fitted = instances[0]?.call(args)
        if (fitted && 'ok' in fitted) tally.add(fitted, instances.length)
        else supported += instances.length - refusedControls(instances, args.performance, tally)
      }
    }
  }
  return supported
}

/** How many of them cannot do what the controls ask for. */
function refusedControls(
  instances: readonly PlannedInstance[],
  performance: PerformanceControls | null,
  tally: Tally,
): number {
  const filter = controlsFilter(performance)
  const refused = filter === null ? [] : instances.filter((instance) => !designPasses(instance, filter))
  for (const { metadata } of refused) {
    const status = metadata.design.supports(performance)
    if (!status.ok) tally.add(status, 1)
  }
  return refused.length
}

/** Alignment is refused by class; the call knows which bytes are amiss. */
function withBytes(rejection: Rejection, { family }: FamilySpace, orders: OrderChoice, call: Call): StatusRefused {
  const refused = refusedBy(rejection)
  const operand =
    rejection.code === 'KTL4513' ? family.operands.find(({ name }) => name === rejection.operand) : undefined
  if (!operand) return refused
  const { got, fix } = misaligned({ ...operand, order: orders[operand.name]! }, call)
  return {
    ...refused,
    error: `${refused.error}: ${got}`,
    ...(fix !== undefined && { fix }),
    ...(got !== undefined && { got }),
  }
}

function explainProviders(
  providers: readonly Provider[],
  args: RuntimeArguments,
  target: TargetArch,
  tally: Tally,
): number {
  let supported = 0
  const { kernels, failures } = collectKernels(providers, generateOptions(args, target))
  failures.forEach((failure) => tally.add(failure, 1))
  for (const kernel of kernels) {
    const status = Status.first(kernel.metadata.runsOn(target), supportsSafely(kernel, args))
    if (status.ok) supported++
    else tally.add(status, 1)
  }
  return supported
}

/** Refusals that say the same are counted together. */
class Tally {
  readonly #reasons = new Map<string, RejectionReason>()

  add({ code, error, operand, fix }: StatusRefused, count: number): void {
    const key = `${code} ${error}`
    const known = this.#reasons.get(key)
    this.#reasons.set(key, {
      code,
      reason: error,
      count: (known?.count ?? 0) + count,
      ...(operand !== undefined && { operand }),
      ...(fix !== undefined && { fix }),
    })
  }

  get reasons(): readonly RejectionReason[] {
    return [...this.#reasons.values()]
  }
}
