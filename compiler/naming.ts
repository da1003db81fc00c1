/**
 * Names of kernel instances. A name determines the generated CUDA for a version of ktl, so it spells every choice:
 *
 *   ktl.gemm_sm100_ttn_Af16_Bf16_outf32_accf32_1cta_cluster1x1x1_tile128x256x64_static_tma
 *
 * One letter per tensor says which logical axis is contiguous: t the last, n the one before it, b the third from
 * last; s: scales in tiles. What has no short spelling (epilogues, users' sources) is a hash of the canonical tensor IR.
 */
import type { Instance } from './instance.ts'
import { printTensorProgram } from './ir/print_tensor.ts'
import type { TensorOperand, TensorProgram } from './ir/tensor.ts'
import { accumulatorsOf } from './ir/walk.ts'
import { shortHash } from './short_hash.ts'
import { inTiles } from './stored/tiles.ts'
import { TARGETS } from './targets/index.ts'

export interface NamingOptions {
  /** Kernels of the built-in library need no hash of their source: their name determines it. */
  readonly library: boolean
  /** The epilogue slot was filled by the caller. */
  readonly fused: boolean
}

/** Instances of one choice have one program: thousands of them ask for the same. */
const known = new WeakMap<TensorProgram, Map<string, ReturnType<typeof programName>>>()

export function instanceName({ program, design }: Instance, options: NamingOptions): string {
  const ofProgram = known.get(program) ?? new Map<string, ReturnType<typeof programName>>()
  known.set(program, ofProgram)
  const key = [design.kind, options.library, options.fused].join()
  const { head, tail } = ofProgram.get(key) ?? programName(program, design.kind, options)
  ofProgram.set(key, { head, tail })
  return [...head, ...TARGETS.get(design.kind).nameParts(design), ...tail].join('_')
}

/** What stands in front of the design, and behind it: the same for all designs of a backend. */
export function programName(
  program: TensorProgram,
  backend: string,
  { library, fused }: NamingOptions,
): { readonly head: readonly string[]; readonly tail: readonly string[] } {
  const declared = program.operands.filter((operand) => !operand.fromEpilogue)
  const { storeName } = TARGETS.get(backend)
  return {
    head: [
      `ktl.${program.kernel}`,
      backend,
      declared.map(orderLetter).join(''),
      ...operandLabels(program, declared),
      ...accumulatorsOf(program).map((type) => `acc${type}`),
      ...(program.accuracy === 'default' ? [] : [program.accuracy]),
    ],
    tail: [
      ...(storeName === null ? [] : [storeClass(program, storeName), ...unalignedInputs(declared)]),
      ...(library ? [] : [`u${shortHash(printTensorProgram(program))}`]),
      ...(library && fused ? [`e${shortHash(printTensorProgram(program))}`] : []),
    ],
  }
}

/** GEMMs use the names of `GemmArguments`, so that the name of an operation does not depend on whose kernel does it. */
function operandLabels(program: TensorProgram, declared: readonly TensorOperand[]): string[] {
  const inputs = declared.filter((operand) => operand.role === 'input')
  const outputs = declared.filter((operand) => operand.role === 'output')
  const isGemm = inputs.length === 2 && outputs.length === 1 && accumulatorsOf(program).length === 1
  const names = isGemm ? ['A', 'B', 'out'] : [...inputs, ...outputs].map((operand) => operand.name)
  return [...inputs, ...outputs].map((operand, i) => names[i]! + operand.dtype)
}

function orderLetter({ axes, order }: TensorOperand): string {
  if (inTiles(order)) return 's'
  const fromEnd = axes.length - 1 - axes.indexOf(order.at(-1)!)
  return ['t', 'n', 'b'][fromEnd] ?? `x${fromEnd}`
}

/** `aligned`: all outputs leave that way; `direct`: none; otherwise a letter for each. */
function storeClass(program: TensorProgram, aligned: string): string {
  const outputs = program.operands.filter(({ role, partOf }) => role === 'output' && partOf === undefined)
  const letters = outputs.map((operand) => (operand.divisibility === 'vector' ? 't' : 'd'))
  if (letters.every((letter) => letter === 't')) return aligned
  if (letters.every((letter) => letter === 'd')) return 'direct'
  return `store${letters.join('')}`
}

/** How names call inputs that are not read in vectors: element by element, from copies with aligned rows, by words. */
const UNALIGNED = { element: 'elements', repacked: 'repack', word: 'words' } as const

/** Scales and operands of one axis are always read element by element: names do not say so. */
function unalignedInputs(declared: readonly TensorOperand[]): string[] {
  const isSaid = ({ role, axes, partOf, divisibility }: TensorOperand): boolean =>
    divisibility !== 'element' || (role === 'input' && axes.length >= 2 && partOf === undefined)
  return Object.entries(UNALIGNED).flatMap(([how, called]) => {
    const names = declared.filter((one) => one.divisibility === how && isSaid(one)).map(({ name }) => name)
    return names.length > 0 ? [called + names.join('')] : []
  })
}
