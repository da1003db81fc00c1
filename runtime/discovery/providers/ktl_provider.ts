/** The kernels of .ktl programs: an index from what a call says to the few choices that can serve it. */
import { epilogueOperandName } from '../../../compiler/bind.ts'
import type { KernelFamily, OrderChoice, TypeChoice } from '../../../compiler/family.ts'
import { isFamily, resolveType } from '../../../compiler/family.ts'
import type { TargetArch } from '../../../compiler/instance.ts'
import type { Divisibility } from '../../../compiler/ir/tensor.ts'
import { checkProgram } from '../../../compiler/check/program.ts'
import { KtlError } from '../../../grammar/diagnostics.ts'
import { ktlError } from '../../errors/fail.ts'
import { parseProgram } from '../../../grammar/parse.ts'
import type { RuntimeArguments } from '../../arguments/base.ts'
import { ElementwiseArguments } from '../../arguments/elementwise.ts'
import { computeTypeOf, sharedEpilogue } from '../../arguments/epilogue_check.ts'
import { GemmArguments } from '../../arguments/gemm.ts'
import { ClassArguments, KernelArguments } from '../../arguments/kernel.ts'
import { divisibilityOf } from '../../arguments/operands.ts'
import type { GenerateOptions } from '../../kernels/kernel.ts'
import { KtlKernel } from '../../kernels/ktl_kernel.ts'
import { librarySources } from '../../library/index.ts'
import { callOf, type Call } from '../calls/call.ts'
import { scaledGemm } from '../../operations/scaled_gemm.ts'
import { innerDimension, orderFits } from '../calls/fit.ts'
import type { FusionShape } from '../calls/fusion.ts'
import type { Found } from '../space/found.ts'
import { accumulatorOf } from '../space/signature.ts'
import { correspondence } from '../space/structure.ts'
import { parseTarget } from '../filters/target.ts'
import { FamilySpace } from '../space/space.ts'
import type { Alignment } from '../space/choices.ts'
import { describe } from '../../errors/describe.ts'

/** Instances of one choice, which differ in their designs only. */
export interface Supporting {
  readonly found: Found
  readonly call: Call
}

interface Candidate {
  readonly space: FamilySpace
  readonly types: TypeChoice
}

export class KtlProvider {
  readonly name = 'ktl'
  readonly #spaces = new Map<KernelFamily, FamilySpace>()
  /** By operation and dtypes. */
  readonly #index = new Map<string, Candidate[]>()
  /** By the family of arguments of a class; forgotten when families come or go. */
  #corresponding = new WeakMap<KernelFamily, readonly Candidate[]>()
  #libraryLoaded = false

  /** Every registered family, the library's first. */
  get spaces(): readonly FamilySpace[] {
    this.#loadLibrary()
    return [...this.#spaces.values()]
  }

  /** Every instance of every kernel of a program joins discovery, until the returned function is called. KTL4172 for names that are taken. */
  register(program: { readonly kernels: Readonly<Record<string, { readonly family: KernelFamily }>> }): () => void {
    const kernels = Object.values(program?.kernels ?? {})
    if (typeof program?.kernels !== 'object' || kernels.some((kernel) => !isFamily(kernel?.family)))
      throw ktlError('KTL4015', {
        what: 'program',
        expected: 'what `loadKtl` or `loadSource` gives',
        got: describe(program),
      })
    const families = kernels.map((kernel) => kernel.family)
    families.forEach((family) => this.#refuseTaken(family))
    families.forEach((family) => this.add(family))
    return () => families.forEach((family) => this.remove(family))
  }

  /** Names end with a hash of what the kernel means: equal ones are kernels of one name that mean the same. */
  #refuseTaken(family: KernelFamily): void {
    const firstName = (own: KernelFamily): string | undefined =>
      new FamilySpace(own, false).instances('sm_100a').next().value?.name
    const same = [...this.#spaces.values()].filter((space) => !space.library && space.family.name === family.name)
    if (same.length === 0) return
    const name = firstName(family)
    const taken = same.find(
      (space) => space.family === family || (name !== undefined && firstName(space.family) === name),
    )
    if (taken)
      throw ktlError('KTL4172', {
        names: [name ?? family.name],
        owner: `a kernel of ${taken.family.source?.name ?? 'another program'}`,
      })
  }

  add(family: KernelFamily, library = false): FamilySpace {
    if (!library) this.#loadLibrary()
    const space = new FamilySpace(family, library)
    this.#spaces.set(family, space)
    this.#corresponding = new WeakMap()
    for (const key of keysOf(space))
      this.#index.set(key.text, [...(this.#index.get(key.text) ?? []), { space, types: key.types }])
    return space
  }

  remove(family: KernelFamily): void {
    this.#spaces.delete(family)
    this.#corresponding = new WeakMap()
    for (const [key, candidates] of this.#index) {
      const kept = candidates.filter(({ space }) => space.family !== family)
      if (kept.length > 0) this.#index.set(key, kept)
      else this.#index.delete(key)
    }
  }

  /** Registered or not, a kernel of a program can be asked for by its own arguments. */
  spaceOf(family: KernelFamily): FamilySpace {
    const known = this.#spaces.get(family) ?? unregistered.get(family)
    if (known) return known
    const space = new FamilySpace(family, false)
    unregistered.set(family, space)
    return space
  }

  /**
   * Kernels for a compute capability: those that support `args`, or all there are, each made when it is asked for. An epilogue is
   * fused for arguments only: its operands' dtypes and axes are part of the kernel.
   */
  *generateKernels({ cc, args, epilogueArguments, metadataFilter }: GenerateOptions): Generator<KtlKernel> {
    const target = parseTarget(cc)
    if (target === null || (args === null && epilogueArguments !== null)) return
    const found = args ? [...this.find(args, target)].map(({ found: { instances } }) => instances) : null
    for (const instances of found ?? this.spaces.map((space) => space.instances(target)))
      for (const planned of instances) if (metadataFilter(planned.metadata)) yield new KtlKernel(planned)
  }

  /** Instances that support the arguments on the target, in no order, with the call they would make. */
  *find(args: RuntimeArguments, target: TargetArch): Generator<Supporting> {
    for (const { space, types } of this.#candidates(args)) {
      const call = callOf(space.family, space.operation, args)
      if ('ok' in call) continue
      yield* findIn(space, types, call, args, target)
    }
  }

  /** Families that compute what the arguments ask for. */
  spacesFor(args: RuntimeArguments): readonly FamilySpace[] {
    if (args instanceof GemmArguments && args.isScaled) return this.spacesFor(scaledGemm(args))
    if (args instanceof ClassArguments) return [...new Set(this.#candidates(args).map(({ space }) => space))]
    if (args instanceof KernelArguments) return [this.spaceOf(args.family)]
    const operation =
      args instanceof GemmArguments ? 'gemm' : args instanceof ElementwiseArguments ? 'elementwise' : null
    return this.spaces.filter((space) => space.operation !== null && space.operation.operation === operation)
  }

  #candidates(args: RuntimeArguments): readonly Candidate[] {
    if (args instanceof ClassArguments) return this.#candidatesLike(args.family)
    if (args instanceof KernelArguments) {
      const space = this.spaceOf(args.family)
      return args.family.typeChoices.filter((types) => dtypesMatch(args, types)).map((types) => ({ space, types }))
    }
    if (args instanceof GemmArguments && args.isScaled) return this.#candidates(scaledGemm(args))
    this.#loadLibrary()
    if (args instanceof GemmArguments) {
      const { A, B, out, accumulatorType } = args
      const exact = this.#index.get(gemmKey(A.dtype, B.dtype, out.dtype, accumulatorType)) ?? []
      if (!args.allowTf32 || (A.dtype !== 'f32' && B.dtype !== 'f32')) return exact
      const rounded = [A, B].map(({ dtype }) => (dtype === 'f32' ? 'tf32' : dtype)) as [string, string]
      return [...exact, ...(this.#index.get(gemmKey(...rounded, out.dtype, accumulatorType)) ?? [])]
    }
    if (args instanceof ElementwiseArguments) {
      return this.#index.get(elementwiseKey(args.A.dtype, args.B.dtype, args.out.dtype)) ?? []
    }
    return []
  }

  /** Registered families of the same structure and types; the family itself where the library has none. */
  #candidatesLike(asked: KernelFamily): readonly Candidate[] {
    const known = this.#corresponding.get(asked)
    if (known) return known
    const found = this.spaces.flatMap((space) => {
      const names = correspondence(asked, space.family)
      if (names === null) return []
      const [given] = asked.typeChoices
      const accumulator = accumulatorOf(asked, given!)
      return space.family.typeChoices
        .filter(
          (types) =>
            names.types.every(([one, other]) => resolveType(one, given!) === resolveType(other, types)) &&
            accumulatorOf(space.family, types) === accumulator,
        )
        .map((types) => ({ space, types }))
    })
    const own = found.some(({ space }) => space.library)
      ? []
      : [{ space: this.spaceOf(asked), types: asked.typeChoices[0]! }]
    const candidates = [...found, ...own]
    this.#corresponding.set(asked, candidates)
    return candidates
  }

  #loadLibrary(): void {
    if (this.#libraryLoaded) return
    this.#libraryLoaded = true
    for (const source of librarySources()) {
      const { program, diagnostics: syntax } = parseProgram(source)
      const checked = checkProgram(program, source)
      const errors = [...syntax, ...checked.diagnostics].filter((d) => d.severity === 'error')
      if (errors.length > 0) throw new KtlError(errors)
      for (const family of checked.program.kernels) this.add(family, true)
    }
  }
}

/** Spaces of programs that were loaded but not registered. */
const unregistered = new WeakMap<KernelFamily, FamilySpace>()

function* findIn(
  space: FamilySpace,
  types: TypeChoice,
  call: Call,
  args: RuntimeArguments,
  target: TargetArch,
): Generator<Supporting> {
  const fusion = fusionShape(space.family, types, call)
  for (const orders of matchingOrders(space, types, call)) {
    const best = bestAlignment(space, orders, call)
    for (const backend of space.backends(target, { types, alignment: best })) {
      for (const alignment of space.alignments(backend, target, types, best, orders)) {
        const found = space.find(backend, target, { types, orders, alignment }, fusion)
        // What is left to check (overlap, mostly) is the same for all designs of a choice.
        const fitted = found.instances[0]?.call(args)
        if (fitted && !('ok' in fitted)) yield { found, call: fitted }
      }
    }
  }
}

/** The epilogue of a call as instances remember it. */
export function fusionShape(family: KernelFamily, types: TypeChoice, { fusion }: Call): FusionShape | null {
  if (fusion === null) return null
  const { key, epilogue, scalars } = fusion
  const bound = sharedEpilogue(fusion, computeTypeOf(family, types))
  return { key, text: epilogue.text, scalars: Object.keys(scalars), bound }
}

/** Orders whose contiguous axes are contiguous in the tensors of the call. */
function* matchingOrders(space: FamilySpace, types: TypeChoice, call: Call): Generator<OrderChoice> {
  for (const orders of space.orderChoices(types)) {
    const fits = space.family.operands.every(
      ({ name, partOf }) => orderFits({ name, order: orders[name]!, ...(partOf !== undefined && { partOf }) }, call).ok,
    )
    if (fits) yield orders
  }
}

/** What the tensors of the call admit at most, the epilogue's included. */
export function bestAlignment(space: FamilySpace, orders: OrderChoice, call: Call): Alignment {
  const best: Record<string, Divisibility> = {}
  for (const { name, role } of space.family.operands) {
    best[name] = divisibilityOf(call.tensors[name]!, innerDimension({ name, order: orders[name]! }, call), role)
  }
  for (const { name, divisibility } of call.fusion?.tensors ?? [])
    best[epilogueOperandName(space.family, name)] = divisibility
  return best
}

const gemmKey = (...dtypes: string[]): string => `gemm ${dtypes.join()}`
const elementwiseKey = (...dtypes: string[]): string => `elementwise ${dtypes.join()}`

function* keysOf({ family, operation }: FamilySpace): Generator<{ text: string; types: TypeChoice }> {
  if (operation === null || operation.operation === 'groupedGemm') return
  const { A, B, out } = operation
  const typeOf = (name: string): string => family.operands.find((operand) => operand.name === name)!.dtype
  for (const types of family.typeChoices) {
    const dtypes = [A, B, out].map((name) => resolveType(typeOf(name), types))
    if (operation.operation === 'gemm') yield { text: gemmKey(...dtypes, accumulatorOf(family, types)!), types }
    else yield { text: elementwiseKey(...dtypes), types }
  }
}

function dtypesMatch({ family, tensors }: KernelArguments, types: TypeChoice): boolean {
  return family.operands.every(({ name, dtype }) => resolveType(dtype, types) === tensors[name]!.dtype)
}
