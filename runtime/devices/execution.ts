/** How launches execute on a virtual device: shared by `openDevice` and every launch. */
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'

/** What a virtual device looks for: `full` adds the race detector. */
export type Checks = 'none' | 'default' | 'full'
/** When asynchronous work takes effect: as late as legal, at issue, or seeded random in between. */
export type Order = 'lazy' | 'eager' | 'random'
/**
 * Sums of tcgen05.mma, wgmma and mma.sync. Exact: f32 fused multiply-adds along k. Silicon: one sum per instruction, every
 * term truncated to 25 fraction bits below the largest (fp8 on SM90: 13), as measured on hardware; half as fast. Target:
 * silicon on SM90, where it is bit-exact, and exact on SM100.
 */
export type TensorCores = 'target' | 'exact' | 'silicon'

/** How launches execute; a launch may override what the device was opened with. */
export interface ExecutionOptions {
  readonly checks?: Checks
  readonly order?: Order
  /** Of `order: 'random'`. */
  readonly seed?: number
  /** Worker threads; 0: all cores. Results do not depend on it. */
  readonly threads?: number
  /** Warp instructions a launch may execute, by default 2^36: hours of work. More is KTL5014; 0: no limit. */
  readonly instructionBudget?: number
  /** Instructions each warp may execute, by default 2^28: what endless loops run into, within seconds. 0: no limit. */
  readonly warpInstructionBudget?: number
  readonly tensorCores?: TensorCores
}

const CHECKS: readonly Checks[] = ['none', 'default', 'full']
const ORDERS: readonly Order[] = ['lazy', 'eager', 'random']
const TENSOR_CORES: readonly TensorCores[] = ['target', 'exact', 'silicon']
const DEFAULTS: Required<ExecutionOptions> = {
  checks: 'default',
  order: 'lazy',
  seed: 0,
  threads: 0,
  instructionBudget: 2 ** 36,
  warpInstructionBudget: 2 ** 28,
  tensorCores: 'target',
}

/** Options of a launch over those of its device; KTL4015 for values that mean nothing. */
export function resolveExecution(
  options: ExecutionOptions,
  base: Required<ExecutionOptions> = DEFAULTS,
): Required<ExecutionOptions> {
  const budget = (what: 'instructionBudget' | 'warpInstructionBudget') =>
    integerOption(what, options[what] ?? base[what], 0, Number.MAX_SAFE_INTEGER)
  return {
    checks: oneOf('checks', CHECKS, options.checks ?? base.checks),
    order: oneOf('order', ORDERS, options.order ?? base.order),
    seed: integerOption('seed', options.seed ?? base.seed, 0, 0xffffffff),
    threads: integerOption('threads', options.threads ?? base.threads, 0, 1024),
    instructionBudget: budget('instructionBudget'),
    warpInstructionBudget: budget('warpInstructionBudget'),
    tensorCores: oneOf('tensorCores', TENSOR_CORES, options.tensorCores ?? base.tensorCores),
  }
}

function oneOf<T extends string>(what: string, known: readonly T[], value: T): T {
  if (known.includes(value)) return value
  throw ktlError('KTL4015', { what, expected: known.join(', '), got: describe(value) })
}

export function integerOption(what: string, value: number, low: number, high: number): number {
  if (Number.isInteger(value) && value >= low && value <= high) return value
  throw ktlError('KTL4015', { what, expected: `an integer from ${low} to ${high}`, got: describe(value) })
}
