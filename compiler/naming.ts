/**
 * Names of kernel instances. A name determines the generated CUDA for a version of ktl, so it spells every choice:
 *
 *   ktl.gemm_sm100_ttn_Af16_Bf16_outf32_accf32_1cta_cluster1x1x1_tile128x256x64_static_tma
 *
 * One letter per tensor says which logical axis is contiguous: t the last, n the one before it, b the third from
 * last. What has no short spelling (epilogues, users' sources) is a hash of the canonical tensor IR.
 */
import type { Design, Instance } from './instance.ts'
import { printTensorProgram } from './print.ts'
import type { TensorOperand, TensorProgram } from './tensor_ir.ts'
import { topological } from './walk.ts'

export interface NamingOptions {
  /** Kernels of the built-in library need no hash of their source: their name determines it. */
  readonly library: boolean
  /** The epilogue slot was filled by the caller. */
  readonly fused: boolean
}

/** What a plan adds to the name: extents of the tile. */
export interface PlannedName {
  readonly tile: readonly number[]
}

export function instanceName(instance: Instance, planned: PlannedName, options: NamingOptions): string {
  const { head, tail } = programName(instance.program, instance.design.kind, options)
  return [...head, ...designName(instance.design, planned), ...tail].join('_')
}

/** What stands in front of the design, and behind it: the same for all designs of a kind. */
export function programName(program: TensorProgram, kind: Design['kind'], { library, fused }: NamingOptions): { readonly head: readonly string[]; readonly tail: readonly string[] } {
  const declared = program.operands.filter((operand) => !operand.fromEpilogue)
  const store = storeClass(program)
  return {
    head: [
      `ktl.${program.kernel}`,
      kind,
      declared.map(orderLetter).join(''),
      ...operandLabels(program, declared),
      ...accumulatorsOf(program).map((type) => `acc${type}`),
      ...(program.accuracy === 'default' ? [] : [program.accuracy]),
    ],
    tail: [
      ...(kind === 'simt' ? [] : [kind === 'sm80' && store === 'tma' ? 'rows' : store, ...unalignedInputs(program, declared)]),
      ...(library ? [] : [`u${shortHash(printTensorProgram(program))}`]),
      ...(library && fused ? [`e${shortHash(printTensorProgram(program))}`] : []),
    ],
  }
} // prettier-ignore

export function designName(design: Design, { tile }: PlannedName): readonly string[] {
  const operands = 'operands' in design && design.operands === 'ba' ? ['ba'] : []
  const stages = 'stages' in design && design.stages !== 'auto' ? [`stages${design.stages}`] : []
  const shape = `tile${tile.join('x')}`
  switch (design.kind) {
    case 'sm100': {
      const fallback = design.fallbackCluster ? [`fallback${design.fallbackCluster.join('x')}`] : []
      const cluster = `cluster${design.cluster.join('x')}`
      return [design.use2ctaMma ? '2cta' : '1cta', cluster, ...fallback, ...operands, shape, ...stages, design.scheduler]
    }
    case 'sm90':
      return [design.consumers, `cluster${design.cluster.join('x')}`, ...operands, shape, ...stages]
    case 'sm80':
      return [...operands, shape, ...(design.warps === 'auto' ? [] : [`warps${design.warps.join('x')}`]), ...stages]
    case 'simt':
      return [`tile${design.tile.join('x')}`]
  }
} // prettier-ignore

/** GEMMs use the names of `GemmArguments`, so that the name of an operation does not depend on whose kernel does it. */
function operandLabels(program: TensorProgram, declared: readonly TensorOperand[]): string[] {
  const inputs = declared.filter((operand) => operand.role === 'input')
  const outputs = declared.filter((operand) => operand.role === 'output')
  const isGemm = inputs.length === 2 && outputs.length === 1 && accumulatorsOf(program).length === 1
  const names = isGemm ? ['A', 'B', 'out'] : [...inputs, ...outputs].map((operand) => operand.name)
  return [...inputs, ...outputs].map((operand, i) => names[i]! + operand.dtype)
}

function orderLetter({ axes, order }: TensorOperand): string {
  const fromEnd = axes.length - 1 - axes.indexOf(order.at(-1)!)
  return ['t', 'n', 'b'][fromEnd] ?? `x${fromEnd}`
}

function accumulatorsOf(program: TensorProgram): string[] {
  const types = new Set<string>()
  for (const node of topological(program.outputs.map((output) => output.value))) {
    if (node.kind === 'contract') types.add(node.accumulator)
  }
  return [...types]
}

/** `tma`: all outputs leave by TMA; `direct`: none; otherwise a letter for each. */
function storeClass(program: TensorProgram): string {
  const outputs = program.operands.filter((operand) => operand.role === 'output')
  const letters = outputs.map((operand) => (operand.divisibility === 'vector' ? 't' : 'd'))
  if (letters.every((letter) => letter === 't')) return 'tma'
  if (letters.every((letter) => letter === 'd')) return 'direct'
  return `store${letters.join('')}`
}

/** Declared full operands of the epilogue that are read element by element. */
function unalignedInputs(program: TensorProgram, declared: readonly TensorOperand[]): string[] {
  const isFull = (operand: TensorOperand): boolean => operand.axes.length >= 2
  const names = declared
    .filter((operand) => operand.role === 'input' && isFull(operand) && operand.divisibility === 'element')
    .map((operand) => operand.name)
  return names.length > 0 ? [`elements${names.join('')}`] : []
}

/** 32 bits of FNV-1a with a final mix: short, stable, and enough to tell a program's epilogues apart. */
export function shortHash(text: string): string {
  let a = 0x811c9dc5
  let b = 0x9e3779b9
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    a = Math.imul(a ^ unit, 0x01000193)
    b = Math.imul(b ^ unit, 0x85ebca6b)
    b = (b << 13) | (b >>> 19)
  }
  const mix = (h: number): number => {
    h = Math.imul(h ^ (h >>> 16), 0x7feb352d)
    h = Math.imul(h ^ (h >>> 15), 0x846ca68b)
    return (h ^ (h >>> 16)) >>> 0
  }
  const hex = (h: number): string => mix(h).toString(16).padStart(8, '0')
  return (hex(a) + hex(b)).slice(0, 12)
}
