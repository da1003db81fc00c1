/** Every target, a line each. */
import type { TargetArch } from '../archs.ts'
import type { Instance, Rejection } from '../instance.ts'
import { Registry } from '../registry.ts'
import { simt } from './simt/index.ts'
import { sm80 } from './sm80/index.ts'
import { sm90 } from './sm90/index.ts'
import { sm100 } from './sm100/index.ts'
import type { Target, ValuesOf } from './target.ts'

const OWN = { sm100, sm90, sm80, simt } as const satisfies Record<string, Target>

export type Backend = keyof typeof OWN
type PlanOf<T extends Target> = Exclude<ReturnType<T['plan']>, Rejection>
/** The plans of each backend. */
export type Plans = { readonly [B in Backend]: PlanOf<(typeof OWN)[B]> }
/** What the fields of design metadata of each backend hold. */
export type FieldValues = { readonly [B in Backend]: ValuesOf<(typeof OWN)[B]['fields']> }
export type Plan = Plans[Backend]
export type Design = Plan['design']

export const TARGETS = new Registry<Backend, Target>(OWN)

/** Of a plan. */
export const targetOf = ({ kind }: { readonly kind: string }): Target => TARGETS.get(kind)

/** Plain code, for no tensor cores? */
export const isGeneral = (backend: Backend): boolean => TARGETS.get(backend).scope === 'general'

/** Why a plan of tiles is on CUDA cores all the same; null: it is on tensor cores. */
export const offTensorCores = (plan: Plan): Rejection | null => targetOf(plan).offTensorCores?.(plan) ?? null

/** Architectures that have a target of their own. */
export const archs = (): readonly TargetArch[] => TARGETS.entries.flatMap((target) => target.archs)

/** Budgets of an instance on its target, or why it does not exist. */
export const planInstance = (instance: Instance<Design>): Plan | Rejection =>
  targetOf(instance.design).plan(instance) as Plan | Rejection
