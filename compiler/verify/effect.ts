/** What an operation does to an abstract machine. */
import type { TileOp } from '../ir/pipe.ts'
import type { Agent } from './agent.ts'

export type OpOf<K extends TileOp['op']> = Extract<TileOp, { op: K }>

/** Why an agent stands still, and until when. */
export interface Blocked {
  readonly until: () => boolean
  readonly why: string
}

export type Steps = Generator<Blocked, void>
/** Of operations, on machines `M`. */
export type Effects<K extends TileOp['op'], M> = {
  readonly [O in K]: (op: OpOf<O>, agent: Agent, m: M) => Steps | void
}

/** Operations whose effect is on values alone, which values.ts follows. */
export const nothing = (): void => {}
