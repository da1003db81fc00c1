/** A whole file: names across items, then each kernel, epilogue and schedule. Reports everything it finds. */
import type { EpilogueDecl, Name, Program, Span } from '../../grammar/ast.ts'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import { DTYPE_NAMES } from '../../grammar/vocabulary.ts'
import { isDType } from '../dtypes.ts'
import type { KernelFamily } from '../family.ts'
import type { Schedules } from '../schedule.ts'
import { checkReserved, type Input } from './body.ts'
import { aloneContext, type FileContext } from './context.ts'
import { resolveEpilogueBody } from './inline.ts'
import type { KeptKernels } from './kept.ts'
import { checkKernel } from './kernel.ts'
import { inSourceOrder, Reporter } from './report.ts'
import { addsDesigns, checkSchedule, type CheckedSchedule } from './schedule.ts'

export interface CheckedProgram {
  readonly source: Source
  readonly program: Program
  /** Kernels without errors, in source order. */
  readonly kernels: readonly KernelFamily[]
  /** Named epilogues, by name. */
  readonly epilogues: ReadonlyMap<string, EpilogueDecl>
}

/**
 * Checks a parsed file. Kernels with errors are left out; with warnings only, all are there. `kept`: of the same file before an edit;
 * spans of a kernel that it has are those of the kernel's own `source`.
 */
export function checkProgram(
  program: Program,
  source: Source,
  kept?: KeptKernels,
): { program: CheckedProgram; diagnostics: Diagnostic[] } {
  const report = new Reporter()
  const epilogues = new Map<string, EpilogueDecl>()
  const kernels = new Set<string>()
  const seen = new Map<string, Name>()
  for (const item of program.items) {
    if (item.kind === 'schedule' || !item.name) continue
    const name = item.name.text
    const previous = seen.get(name)
    if (previous) report.report('KTL2002', source, item.name.span, { name, what: item.kind, previous: previous.span })
    else {
      seen.set(name, item.name)
      if (item.kind === 'epilogue') epilogues.set(name, item)
      else kernels.add(name)
    }
  }
  const file: FileContext = { source, report, epilogues, kernels }
  kept?.begin(file)
  for (const item of program.items) if (item.kind === 'epilogue') checkEpilogueDeclaration(item, file)
  const schedules = collectSchedules(program, file, kept)
  const families = program.items.flatMap((item): KernelFamily[] => {
    if (item.kind !== 'kernel') return []
    const family = kept ? kept.check(item, file) : checkKernel(item, file)
    return family && seen.get(item.name.text) === item.name
      ? [{ ...family, schedules: schedules.get(family.name) ?? {} }]
      : []
  })
  return { program: { source, program, kernels: families, epilogues }, diagnostics: inSourceOrder(report.diagnostics) }
}

/** A declaration by itself: names and results. Axes are those of the kernels that call it. */
function checkEpilogueDeclaration(declaration: EpilogueDecl, file: FileContext): void {
  const { source, report } = file
  const { params, name } = declaration
  if (name) checkReserved(name, file)
  if (params.length === 0) report.report('KTL2025', source, name?.span ?? declaration.span, {})
  const inputs = new Map<string, Input>()
  for (const param of params) {
    checkReserved(param.name, file)
    const text = param.name.text
    const previous = inputs.get(text)
    if (previous)
      report.report('KTL2002', source, param.name.span, { name: text, what: 'parameter', previous: previous.declared })
    if (param.dtype && !isDType(param.dtype.text))
      report.report('KTL2201', source, param.dtype.span, { name: param.dtype.text, candidates: DTYPE_NAMES })
    const value = { kind: 'scalar', name: text, axes: [], source, span: param.span } as const
    inputs.set(text, { value, declared: param.name.span })
  }
  resolveEpilogueBody(declaration, inputs, aloneContext(file, name ? [name.text] : []))
}

function collectSchedules(
  program: Program,
  { source, report, kernels }: FileContext,
  kept?: KeptKernels,
): ReadonlyMap<string, Schedules> {
  const found = new Map<string, Map<string, CheckedSchedule[]>>()
  for (const item of program.items) {
    if (item.kind !== 'schedule') continue
    const checked = checkSchedule(item, source, report, kept?.designs)
    const named = new Map<string, Span>()
    item.kernels.forEach((name, i) => {
      const kernel = name.text
      const previous = named.get(kernel)
      if (previous) {
        const after = item.kernels[i - 1]!.span.end
        return report.report('KTL3012', source, name.span, { kernel, previous, after })
      }
      named.set(kernel, name.span)
      if (!kernels.has(kernel)) report.report('KTL3003', source, name.span, { kernel, candidates: [...kernels] })
      if (!checked) return
      const { target } = checked
      const byTarget = found.get(kernel) ?? new Map<string, CheckedSchedule[]>()
      const earlier = byTarget.get(target) ?? []
      if (earlier.length > 0 && !addsDesigns(checked, earlier))
        report.report('KTL3006', source, name.span, { kernel, target, previous: earlier[0]!.schedule.span })
      found.set(kernel, byTarget.set(target, [...earlier, checked]))
    })
  }
  return new Map(
    Array.from(found, ([kernel, byTarget]) => [
      kernel,
      Object.fromEntries(Array.from(byTarget, ([target, all]) => [target, all.map(({ schedule }) => schedule)])),
    ]),
  )
}
