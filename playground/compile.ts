/** What the page makes of a program by itself: the stages up to CUDA, and what the reference evaluator computes. Pure: for a worker, and for tests. */
import { generatePlan } from '../codegen/index.ts'
import type { GeneratedKernel } from '../codegen/cuda/generated.ts'
import { bindKernel } from '../compiler/bind.ts'
import type { KernelFamily } from '../compiler/family.ts'
import type { TargetArch } from '../compiler/instance.ts'
import { printTileProgram } from '../compiler/ir/print_pipe.ts'
import { printTensorProgram } from '../compiler/ir/print_tensor.ts'
import { targetOf } from '../compiler/targets/index.ts'
import { verifyTileProgram } from '../compiler/verify/index.ts'
import type { Span } from '../grammar/ast.ts'
import { KtlError } from '../grammar/diagnostics.ts'
import { renderDiagnostics } from '../grammar/render.ts'
import { dimsText, sameExtents } from '../runtime/cli/extents.ts'
import { ktlError } from '../runtime/errors/fail.ts'
import { checkSource } from '../runtime/programs/check_source.ts'
import { evaluateKernel } from './evaluate.ts'
import { firstInstance } from './instance.ts'
import type { Checked, Made, Question } from './stages.ts'

const sourceOf = (text: string) => ({ name: 'playground.ktl', text })

export function check(text: string): Checked {
  const { program, diagnostics } = checkSource(sourceOf(text))
  const isWrong = diagnostics.some(({ severity }) => severity === 'error')
  const kernels = isWrong ? [] : program.kernels.map((family) => ({ name: family.name, dims: smallDims(family) }))
  return { kernels, diagnostics }
}

/** Extents that the reference evaluator and the virtual device are done with at once. */
function smallDims(family: KernelFamily): string {
  const given = family.axes.filter(({ extent, optional }) => extent === undefined && !optional)
  return dimsText(sameExtents(family, given.length <= 4 ? 64 : 16, given))
}

/** Mistakes are the text. */
export function make(question: Question): Made {
  try {
    return stageOf(question, kernelOf(question))
  } catch (error) {
    if (error instanceof KtlError) return { text: renderDiagnostics(error.diagnostics, { color: false }) }
    throw error
  }
}

export function kernelOf({ source, kernel }: Pick<Question, 'source' | 'kernel'>): KernelFamily {
  const { program, diagnostics } = checkSource(sourceOf(source))
  if (diagnostics.some(({ severity }) => severity === 'error')) throw new KtlError(diagnostics)
  const found = program.kernels.find(({ name }) => kernel === '' || name === kernel)
  const known = program.kernels.map(({ name }) => name)
  if (!found) throw ktlError('KTL4105', { what: 'kernel in', name: kernel || 'the program', known })
  return found
}

function stageOf({ stage, target, dims }: Question, family: KernelFamily): Made {
  if (stage === 'tensor') return { text: printTensorProgram(bindKernel(family, { types: family.typeChoices[0]! })) }
  if (stage === 'evaluate') return { text: evaluateKernel(family, dims) }
  if (stage === 'tile') return { text: tileText(family, target) }
  const { name, plan } = firstInstance(family, target)
  if (stage === 'plan') return { text: [`plan ${name}`, ...targetOf(plan).describe(plan).map((line) => `  ${line}`), ''].join('\n') } // prettier-ignore
  const generated = generatePlan(plan, name)
  return { text: generated.cuda, origins: originsOf(generated) }
}

function tileText(family: KernelFamily, target: TargetArch): string {
  const { name, plan } = firstInstance(family, target, { piped: true })
  const program = targetOf(plan).pipeline!(plan)
  const problems = verifyTileProgram(program)
  const text = printTileProgram(program)
  if (problems.length === 0) return text
  return `${text}\n${renderDiagnostics(ktlError('KTL9002', { kernel: name, problems }).diagnostics, { color: false })}`
}

function originsOf({ cuda, sourceMap }: GeneratedKernel): (Span | null)[] {
  const origins: (Span | null)[] = cuda.split('\n').map(() => null)
  for (const { cudaLine, ktl } of sourceMap) origins[cudaLine - 1] = ktl
  return origins
}
