/** A sample of instances of one target's tensor-core space, and of stored forms, through nvcc and ptxas, for every target each names. */
import { promises as fs } from 'node:fs'
import path from 'node:path'
import {
  bindKernel,
  generatePlan,
  instanceName,
  parseEpilogue,
  pipelineOf,
  planInstance,
  type Design,
  type TensorProgram,
} from '../../codegen/index.ts'
import type { BoundEpilogue, EpilogueBinding } from '../../compiler/epilogue.ts'
import { uniform } from '../../compiler/evaluate/generate.ts'
import { resolveType, type TypeChoice } from '../../compiler/family.ts'
import { verifyTileProgram } from '../../compiler/verify/index.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import { ktlProvider } from '../../runtime/discovery/providers/provider.ts'
import { accumulatorOf } from '../../runtime/discovery/space/signature.ts'
import type { FamilySpace } from '../../runtime/discovery/space/space.ts'
import { loadSource } from '../../runtime/programs/program.ts'
import { deriveMetadata } from '../../runtime/metadata/derive.ts'
import { GENERATED_FLAGS } from '../../runtime/toolchain/compile.ts'
import { findNvcc } from '../../runtime/toolchain/nvcc.ts'
import { runProgram, Semaphore, withTemporaryFolder } from '../../runtime/toolchain/process.ts'
import { parseResources } from '../../runtime/toolchain/resources.ts'
import type { Tally } from './covering_run.ts'
import { progress } from './progress.ts'
import { scaledKernel } from './scaled_kernels.ts'
import { RunState, stateKey } from './state.ts'

export interface SampledKernel {
  readonly name: string
  readonly cuda: string
  readonly targets: readonly string[]
  /** What the verifier of pipeline programs finds. */
  readonly problems: readonly string[]
}

/** Every other instance has one of these: registers are what an epilogue takes. */
const EPILOGUES = [
  { text: 'relu(acc*alpha+C)', inputs: ['C'], outputs: [] },
  { text: 'gelu(acc*alpha)', inputs: [], outputs: [] },
  { text: 'def both(acc, alpha, C, bias):\n  F = acc * alpha + C\n  D = silu(F + bias)\n  return D, F', inputs: ['C', 'bias'], outputs: ['F'] }, // prettier-ignore
] as const

export const BACKEND = { sm_100a: 'sm100', sm_90a: 'sm90', sm_80: 'sm80' } as const
export type SampledTarget = keyof typeof BACKEND
export const SAMPLED_TARGETS = Object.keys(BACKEND) as SampledTarget[]

/** Of the sample: products of stored forms, or into stored forms, that tensor cores run. */
const STORED_SHARE = 0.3

/** An instance that the planner may refuse. */
interface Drawn {
  readonly program: TensorProgram
  readonly design: Design
  readonly space: FamilySpace | null
  readonly fused: boolean
}

/** Draws instances, those of the library each with the same probability, never one twice. */
export function* sampleInstances(seed: number, target: SampledTarget = 'sm_100a'): Generator<SampledKernel> {
  const backend = BACKEND[target]
  const random = uniform(seed)
  const weighted = gemmChoices(target)
  const seen = new Set<string>()
  for (;;) {
    const isStored = random() < STORED_SHARE
    // A stored form that tensor cores lack is drawn again, so that their share stays.
    for (let found = false; !found; found = found || !isStored) {
      const drawn = isStored ? drawStored(random, target) : drawFromLibrary(random, target, weighted)
      if (drawn === null) continue
      // What the planner refuses is no instance: another draw keeps the probabilities equal.
      const plan = planInstance({ program: drawn.program, target, design: drawn.design })
      if (!('kind' in plan) || plan.kind !== backend) continue
      const name = instanceName(plan.instance, { library: drawn.space?.library ?? false, fused: drawn.fused })
      if (seen.has(name)) continue
      found = true
      seen.add(name)
      const operation = drawn.space?.operation ?? null
      const { targets } = deriveMetadata(plan, { kernelName: name, operation, epilogueText: null })
      const problems = verifyTileProgram(pipelineOf(plan)!)
      yield { name, cuda: generatePlan(plan, name).cuda, targets, problems }
    }
  }
}

/** Null: nobody can ask for it. */
function drawFromLibrary(random: () => number, target: SampledTarget, weighted: readonly GemmChoice[]): Drawn | null {
  const backend = BACKEND[target]
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!
  let at = random() * weighted.reduce((sum, { size }) => sum + size, 0)
  const { space, types } = weighted.find(({ size }) => (at -= size) < 0) ?? weighted.at(-1)!
  const orders = pick([...space.orderChoices(types)])
  const divisibility = pick([...space.alignments(backend, target, types, bestAlignment(space), orders)])
  const drawn = pick(space.designs(backend, target, types))
  // No schedule of the library asks for it.
  const design = drawn.kind === 'sm80' && space.family.name === 'sgemm' && random() < 0.5 ? { ...drawn, f32: 'tf32x3' as const } : drawn // prettier-ignore
  const epilogue = random() < 0.5 ? null : boundEpilogue(pick(EPILOGUES), space, types)
  try {
    const program = bindKernel(space.family, { types, orders, divisibility }, epilogue ?? undefined)
    return { program, design, space, fused: epilogue !== null }
  } catch (error) {
    // The epilogue does not fit these types.
    if (error instanceof KtlError) return null
    throw error
  }
}

function drawStored(random: () => number, target: SampledTarget): Drawn | null {
  const { source, aligned } = scaledKernel(Math.floor(random() * 2 ** 31))
  const { family } = loadSource({ name: 'f.ktl', text: source }).kernels['f']!
  const program = bindKernel(family, {
    divisibility: Object.fromEntries(
      family.operands.map(({ name }) => [name, aligned || random() < 0.5 ? 'vector' : 'element']),
    ),
  })
  const designs = ktlProvider.spaceOf(family).designs(BACKEND[target], target, family.typeChoices[0]!)
  return { program, design: designs[Math.floor(random() * designs.length)]!, space: null, fused: false }
}

interface GemmChoice {
  readonly space: FamilySpace
  readonly types: TypeChoice
  /** Draws that these types have, legal or not. */
  readonly size: number
}

function gemmChoices(target: SampledTarget): GemmChoice[] {
  const backend = BACKEND[target]
  const choices: GemmChoice[] = []
  for (const space of ktlProvider.spaces) {
    if (!space.library || space.operation?.operation !== 'gemm' || space.family.slot === null) continue
    for (const types of space.family.typeChoices) {
      const alignments = [...space.alignments(backend, target, types, bestAlignment(space))].length
      const size = space.orderCount(types) * alignments * space.designs(backend, target, types).length
      choices.push({ space, types, size })
    }
  }
  return choices
}

const bestAlignment = ({ family }: FamilySpace) =>
  Object.fromEntries(family.operands.map(({ name }) => [name, 'vector' as const]))

function boundEpilogue({ text, inputs, outputs }: (typeof EPILOGUES)[number], { family }: FamilySpace, types: TypeChoice): BoundEpilogue {
  const integer = accumulatorOf(family, types) === 'i32'
  const out = resolveType(family.operands.find(({ role }) => role === 'output')!.dtype, types)
  // Written for floats; integer accumulators are cast where they come in.
  const source = { name: '<epilogue>', text: integer ? text.replace(/(= |\()acc \*|\(acc\*/g, (part) => part.replace('acc', 'f32(acc)')) : text }
  const tensor = (axes: readonly string[], dtype = out): EpilogueBinding => ({ kind: 'tensor', dtype, axes, order: axes, divisibility: axes.length > 1 ? 'vector' : 'element' })
  const bindings: Record<string, EpilogueBinding> = { alpha: { kind: 'scalar', dtype: 'f32' } }
  for (const name of inputs) bindings[name] = name === 'bias' ? tensor(['n'], 'f32') : tensor(['l', 'm', 'n'], 'bf16')
  for (const name of outputs) bindings[name] = tensor(['l', 'm', 'n'], 'f32')
  return { declaration: parseEpilogue(source).epilogue!, axes: ['l', 'm', 'n'], source, bindings }
} // prettier-ignore

/** Compiles the sample; every failure, spill and warning is a failed instance. Prints what the sample proves. */
export async function runPtxas(count: number, { seed, fresh, target }: { seed: number; fresh: boolean; target: SampledTarget }): Promise<Tally> {
  const state = new RunState('ptxas', fresh)
  const nvcc = await findNvcc()
  const slots = new Semaphore(2)
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 }
  const bar = progress('ptxas', count)
  let done = 0
  let mostRegisters = 0
  const judge = async ({ name, cuda, targets, problems: broken }: SampledKernel): Promise<void> => {
    const key = stateKey([nvcc.version, cuda, ...targets])
    if (state.has(key)) tally.skipped++
    else {
      const problems = [...broken]
      for (const target of targets) {
        const { problem, registers } = await compile(nvcc.path, cuda, target)
        mostRegisters = Math.max(mostRegisters, registers)
        if (problem) problems.push(`${target}: ${problem}`)
      }
      if (problems.length === 0) {
        tally.passed++
        state.add(key)
      } else {
        tally.failed++
        bar.note(`FAIL ${name}\n  ${problems.join('\n  ')}`)
      }
    }
    bar.update(++done, tally.failed)
  }
  const pending = new Set<Promise<void>>()
  let drawn = 0
  for (const kernel of sampleInstances(seed, target)) {
    if (drawn++ >= count) break
    const work: Promise<void> = slots.run(() => judge(kernel)).finally(() => pending.delete(work))
    pending.add(work)
    // CUDA text is drawn as it is needed.
    if (pending.size >= 4) await Promise.race(pending)
  }
  await Promise.all(pending)
  bar.stop()
  const clean = tally.passed + tally.skipped
  console.log(`${clean} of ${count} instances of ${target}, drawn at random with seed ${seed}, build for every target they name without failure, spill or warning`)
  if (mostRegisters > 0) console.log(`at most ${mostRegisters} registers`)
  if (tally.failed === 0) console.log(`with 95 % confidence fewer than ${((100 * 3) / count).toFixed(2)} % of the space fail (rule of three)`)
  return tally
} // prettier-ignore

/** The pipeline programs of the sample through the verifier. */
export function runVerify(count: number, { seed, target }: { seed: number; target: SampledTarget }): Tally {
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 }
  for (const { name, problems } of sampleInstances(seed, target)) {
    if (tally.passed + tally.failed === count) break
    if (problems.length === 0) tally.passed++
    else {
      tally.failed++
      console.log(`FAIL ${name}\n  ${problems.join('\n  ')}`)
    }
  }
  console.log(`${tally.passed} of ${count} pipeline programs for ${target}, drawn at random with seed ${seed}, are well formed`) // prettier-ignore
  return tally
}

async function compile(nvcc: string, cuda: string, target: string): Promise<{ problem: string | null; registers: number }> {
  return withTemporaryFolder(async (folder) => {
    await fs.writeFile(path.join(folder, 'kernel.cu'), cuda)
    const args = [...GENERATED_FLAGS, `-arch=${target}`, '-Xptxas', '-v', '-cubin', 'kernel.cu', '-o', 'kernel.cubin']
    const env = { ...process.env, TMPDIR: folder }
    const { status, output, timedOut } = await runProgram(nvcc, args, { cwd: folder, env, timeoutMs: 300_000 })
    if (status !== 0) return { problem: timedOut ? 'timed out' : firstLine(output, /error/i), registers: 0 }
    const [resources] = parseResources(output)
    if (!resources) return { problem: 'ptxas reports no kernel', registers: 0 }
    const { registers, spillLoadBytes, spillStoreBytes, stackBytes } = resources
    // The MMAs of a warpgroup wait for each other (C7510 to C7519): right, and slow.
    if (/\(C75\d\d\)/.test(output)) return { problem: firstLine(output, /\(C75\d\d\)/), registers }
    if (/warning/i.test(output)) return { problem: firstLine(output, /warning/i), registers }
    if (spillLoadBytes + spillStoreBytes > 0) return { problem: `spills ${spillStoreBytes} B, reloads ${spillLoadBytes} B, ${registers} registers`, registers }
    if (stackBytes > 0) return { problem: `a stack frame of ${stackBytes} B`, registers }
    return { problem: null, registers }
  })
} // prettier-ignore

const firstLine = (output: string, pattern: RegExp): string =>
  output.split('\n').find((line) => pattern.test(line)) ?? output.split('\n')[0] ?? ''
