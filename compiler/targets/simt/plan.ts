/** Planning for SIMT: a chain of stages, a launch each. Whatever the tensor IR can say is lowered. */
import type { Instance } from '../../instance.ts'
import type { Node, TensorProgram } from '../../ir/tensor.ts'
import { children, operandNamed } from '../../ir/walk.ts'
import { rewrite } from '../../passes/graph.ts'
import { markShortForms } from '../../passes/short_forms.ts'
import type { SimtDesign } from './design.ts'
import { planStages, type Stage, type Stages } from './stages.ts'
import { vectorBytes, vectorOf } from './vector.ts'
import { sharedBytes } from './tile.ts'

export type { SimtTile, Split, TileBuffer, TileLoop, TileProduct } from './tile.ts'
export type { Block, Form, KeptNode, LoopNode, Region, Result, Scale, Stage } from './stages.ts'

export interface SimtPlan extends Stages {
  readonly kind: 'simt'
  readonly instance: Instance
  readonly program: TensorProgram
  readonly design: SimtDesign
  /** Of the largest stage. */
  readonly threads: number
  /** Static shared memory, bytes. */
  readonly smemBytes: number
  /** Inputs that are read only where the same thread writes: they may be the very same tensor as an output. */
  readonly inPlace: readonly string[]
}

/** Threads of a CTA without a tile. */
const THREADS = 256

export const stageThreads = ({ form }: Stage): number =>
  form.kind === 'tile' ? form.threads[0] * form.threads[1] : form.kind === 'vector' ? form.threads : THREADS

/** A team's tree has an f64 for each thread. */
const stageSmem = ({ form }: Stage): number =>
  form.kind === 'tile'
    ? sharedBytes(form)
    : form.kind === 'team'
      ? THREADS * 8
      : form.kind === 'vector'
        ? vectorBytes(form)
        : 0

/** What the designs of a program share: the program with its short forms marked, and its stages for each tile. */
interface Shared {
  readonly program: TensorProgram
  readonly stages: Map<string, Stages>
}

const shared = new WeakMap<TensorProgram, Shared>()

function sharedOf(source: TensorProgram): Shared {
  const known = shared.get(source) ?? { program: rewrite(source, markShortForms(source)), stages: new Map() }
  shared.set(source, known)
  return known
}

function stagesOf({ program, stages }: Shared, design: SimtDesign): Stages {
  const key = `${design.tile} ${design.patch}`
  const known = stages.get(key) ?? planStages(program, design)
  stages.set(key, known)
  return known
}

/** The design's tile has at most 1024 threads (the schedule's rule). */
export function planSimt(instance: Instance<SimtDesign>): SimtPlan {
  const { design } = instance
  const own = sharedOf(instance.program)
  const { program } = own
  const { stages: planned, regions } = stagesOf(own, design)
  const stages = planned.map((stage) => asVector(program, stage, design))
  return {
    kind: 'simt',
    instance,
    program,
    design,
    stages,
    regions,
    threads: Math.max(...stages.map(stageThreads)),
    smemBytes: Math.max(...stages.map(stageSmem)),
    inPlace: inPlaceInputs(program, stages),
  }
}

/** The stage as the product of a few rows with a matrix, where the design asks for that and it is one. */
function asVector(program: TensorProgram, stage: Stage, { vector }: SimtDesign): Stage {
  const { form, loops, results } = stage
  if (!vector || (form.kind !== 'tile' && form.kind !== 'team') || results.some(({ kind }) => kind === 'scale'))
    return stage
  const found = vectorOf(program, loops, vector)
  return found ? { ...stage, form: found } : stage
}

/** Read by one stage alone, which no stage with outputs precedes, and there at the element itself. */
function inPlaceInputs(program: TensorProgram, stages: readonly Stage[]): string[] {
  const readBy = new Map<string, Set<number>>()
  const elsewhere = new Set<string>()
  for (const [i, stage] of stages.entries()) {
    const visit = (node: Node, own: boolean): void => {
      if (node.kind === 'input') {
        const { stored, axes } = operandNamed(program, node.operand)
        for (const name of [node.operand, stored?.scale, stored?.zero, stored?.global])
          if (name) readBy.set(name, (readBy.get(name) ?? new Set()).add(i))
        if (!own || node.at || stored || axes.length !== stage.axes.length) elsewhere.add(node.operand)
      }
      const inside = own && node.kind !== 'contract' && node.kind !== 'reduce'
      for (const child of children(node)) visit(child, inside)
    }
    for (const result of stage.results) {
      if (result.kind === 'region') visit(result.node, true)
      else [result.output.value, ...(result.output.at ?? [])].forEach((root) => visit(root, result.kind === 'store'))
    }
  }
  const first = stages.findIndex(({ results }) => results.some(({ kind }) => kind !== 'region'))
  const simple = [...readBy].filter(([name, by]) => by.size === 1 && [...by][0]! <= first && !elsewhere.has(name))
  return simple
    .filter(([name]) => program.operands.every((o) => o.name !== name || o.partOf === undefined))
    .map(([name]) => name)
}
