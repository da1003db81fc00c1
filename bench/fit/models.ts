/** The cost models as functions of their constants. */
import { machineFor, machineOf, type Machine } from '../../runtime/discovery/ranking/machine.ts'
import type { Extents } from '../../runtime/discovery/ranking/rank.ts'
import { estimateSimt, SIMT_CONSTANTS } from '../../runtime/targets/simt.ts'
import { estimateSm80, SM80_CONSTANTS } from '../../runtime/targets/sm80.ts'
import { estimateSm90, SM90_CONSTANTS } from '../../runtime/targets/sm90.ts'
import { Sm100Costs, SM100_CONSTANTS } from '../../runtime/targets/sm100.ts'
import { openDevice, type KtlKernel } from '../../runtime/index.ts'
import { onPaper } from '../../runtime/bench/suite/open.ts'
import { open } from '../gpu/ours.ts'
import type { Problem } from '../gpu/problems.ts'
import { idOf, kernelsOf, keyOf, type Model } from './cases.ts'
import type { TimesFile } from './data.ts'

export type Constants = Readonly<Record<string, number>>

type Plan = KtlKernel['plan']
type PlanOf<K extends Model> = Extract<Plan, { readonly kind: K }>

interface CostModel {
  /** Those in force. */
  readonly constants: Constants
  /** Microseconds. */
  time(plan: Plan, extents: Extents, machine: Machine, constants: Constants): number
}

const modelOf = <K extends Model, C extends Constants>(
  constants: C,
  time: (plan: PlanOf<K>, extents: Extents, machine: Machine, constants: C) => number,
): CostModel => ({ constants, time: time as CostModel['time'] })

export const COST_MODELS: Readonly<Record<Model, CostModel>> = {
  sm90: modelOf<'sm90', typeof SM90_CONSTANTS>(SM90_CONSTANTS, (...given) => estimateSm90(...given).microseconds),
  sm80: modelOf<'sm80', typeof SM80_CONSTANTS>(SM80_CONSTANTS, (...given) => estimateSm80(...given).microseconds),
  sm100: modelOf<'sm100', typeof SM100_CONSTANTS>(
    SM100_CONSTANTS,
    (plan, extents, machine, constants) => new Sm100Costs([plan], machine, constants).estimate(0, extents).microseconds,
  ),
  simt: modelOf<'simt', typeof SIMT_CONSTANTS>(SIMT_CONSTANTS, (...given) => estimateSimt(...given).microseconds),
}

/** A time, and what the model makes of the kernel it is of. */
export interface Row {
  readonly problem: string
  readonly measured: number
  /** With the constants in force and what was learned beside them, unless others are given: then by these alone. */
  modelled(constants?: Constants): number
}

/** The same, and what of. */
export interface KernelRow extends Row {
  readonly shape: Problem['shape']
  readonly plan: Plan
  readonly extents: Extents
  readonly machine: Machine
}

/** The chip that was measured, as far as the file says. */
export const machineOfTimes = ({ arch, chip, sms }: TimesFile['header']): Machine =>
  chip ? machineOf(arch, chip) : { ...machineFor(arch), sms }

/** Rows of the times of these kinds whose kernels exist still; `missing` counts the others. */
export async function rowsOf({ header, problems, times }: TimesFile, models: readonly Model[]): Promise<{ rows: KernelRow[]; missing: number }> {
  const machine = machineOfTimes(header)
  const untaught = { ...machine, taught: false }
  const device = await openDevice(header.arch === 'sm_90a' ? 'virtual-sm90' : 'virtual-sm100')
  const rows: KernelRow[] = []
  let missing = 0
  for (const problem of problems) {
    const { args } = await open(problem, onPaper(device))
    const byKey = new Map(kernelsOf(args, problem, models).map((kernel) => [keyOf(idOf(kernel)), kernel]))
    for (const timed of times.filter((time) => time.problem === problem.name && models.some((model) => model === time.design.kind))) {
      const kernel = byKey.get(keyOf(timed))
      const call = kernel?.planned.call(args)
      if (kernel === undefined || call === undefined || 'ok' in call) {
        missing++
        continue
      }
      const { plan } = kernel
      const { time, constants: own } = COST_MODELS[plan.kind]
      const { extents } = call
      const modelled: Row['modelled'] = (constants) => time(plan, extents, constants ? untaught : machine, constants ?? own)
      rows.push({ problem: problem.name, shape: problem.shape, measured: timed.us, plan, extents, machine, modelled })
    }
  }
  await device.close()
  return { rows, missing }
} // prettier-ignore

export function byProblem<T extends { readonly problem: string }>(all: readonly T[]): Map<string, T[]> {
  const found = new Map<string, T[]>()
  for (const one of all) found.set(one.problem, [...(found.get(one.problem) ?? []), one])
  return found
}
