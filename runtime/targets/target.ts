/** What the runtime knows of a backend: metadata of its designs, and what its kernels cost. */
import type { PlanBase } from '../../compiler/targets/target.ts'
import type { Machine } from '../discovery/ranking/machine.ts'
import type { Costs } from '../discovery/ranking/rank.ts'
import type { BLASDesignMetadata } from '../metadata/design.ts'

/** `P`, `F`: its plans, and what the fields of its design metadata hold. */
export interface RuntimeTarget<P extends PlanBase = PlanBase, F = Readonly<Record<string, unknown>>> {
  metadata(fields: F): BLASDesignMetadata
  /** Of plans of one program. */
  costs(plans: readonly P[], machine: Machine): Costs
  /** May its kernels take performance controls? What design metadata say about it in detail, filters look up. */
  readonly controls: boolean
}
