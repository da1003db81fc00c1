/** What the runtime knows of each backend, a line each: metadata of its designs, and what its kernels cost. */
import { Registry } from '../../compiler/registry.ts'
import type { Backend, DesignFields, Plans } from '../../compiler/targets/index.ts'
import type { PlanBase } from '../../compiler/targets/target.ts'
import type { Machine } from '../discovery/machine.ts'
import { costOfEach, type Costs } from '../discovery/rank.ts'
import { estimateSimt } from '../discovery/rank_simt.ts'
import { estimateSm80 } from '../discovery/rank_sm80.ts'
import { estimateSm90 } from '../discovery/rank_sm90.ts'
import { Sm100Costs } from '../discovery/rank_sm100.ts'
import {
  SimtDesignMetadata,
  Sm100DesignMetadata,
  Sm80DesignMetadata,
  Sm90DesignMetadata,
  type BLASDesignMetadata,
} from '../metadata/design.ts'

/** `P`, `F`: its plans, and what the fields of its design metadata hold. */
export interface RuntimeTarget<P extends PlanBase = PlanBase, F = Readonly<Record<string, unknown>>> {
  metadata(fields: F): BLASDesignMetadata
  /** Of plans of one program. */
  costs(plans: readonly P[], machine: Machine): Costs
  /** May its kernels take performance controls? What design metadata say about it in detail, filters look up. */
  readonly controls: boolean
}

const OWN = {
  sm100: {
    metadata: (fields) => new Sm100DesignMetadata(fields),
    costs: (plans, machine) => new Sm100Costs(plans, machine),
    controls: true,
  },
  sm90: { metadata: (fields) => new Sm90DesignMetadata(fields), costs: costOfEach(estimateSm90), controls: true },
  sm80: { metadata: (fields) => new Sm80DesignMetadata(fields), costs: costOfEach(estimateSm80), controls: true },
  simt: {
    metadata: ({ tileShape, threads }) => new SimtDesignMetadata(tileShape, threads),
    costs: costOfEach(estimateSimt),
    controls: false,
  },
} satisfies { readonly [B in Backend]: RuntimeTarget<Plans[B], DesignFields[B]> }

export const RUNTIME_TARGETS = new Registry<Backend, RuntimeTarget>(OWN)
