/** The designs of a kernel on a backend: those of all its schedules for it, each once, or the target's defaults. */
import type { TargetArch } from './archs.ts'
import type { Schedule, Schedules } from './schedule.ts'
import { TARGETS, type Backend, type Design } from './targets/index.ts'
import type { Target } from './targets/target.ts'

/**
 * In the user's order: what can exist. What is not lowered yet, planning rejects.
 *
 * `elementBytes`: of the contracted operands; `isF32`: these are f32, which is multiplied as it is.
 */
export function* designsOf(
  schedules: Schedules,
  backend: Backend,
  arch: TargetArch,
  elementBytes: number,
  isF32 = false,
): Generator<Design> {
  const target = TARGETS.get(backend)
  const name = scheduleNames(target, arch).find((name) => schedules[name] !== undefined)
  yield* joinedDesigns(target, name === undefined ? [] : schedules[name]!, arch, elementBytes, isF32)
}

/** Those of `schedules`, which are all the target's. */
export function* joinedDesigns(
  target: Target,
  schedules: readonly Schedule[],
  arch: TargetArch,
  elementBytes: number,
  isF32 = false,
): Generator<Design> {
  const seen = new Set<string>()
  for (const values of schedules.length > 0 ? schedules.map(({ values }) => values) : [null]) {
    for (const design of target.designs(values, arch, elementBytes, isF32)) {
      const text = JSON.stringify(design)
      if (!seen.has(text)) yield design as Design
      seen.add(text)
    }
  }
}

/** Names of the schedules for an architecture: its own, then what is for all. */
function scheduleNames({ schedules }: Target, arch: TargetArch): readonly string[] {
  const names = Object.keys(schedules)
  const own = names.filter((name) => name === arch || schedules[name]!.includes(arch))
  return [...own, ...names.slice(0, 1)]
}
