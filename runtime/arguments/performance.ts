import { ktlError } from '../errors/fail.ts'
import { suggest } from '../../grammar/suggest.ts'
import { describe } from '../errors/describe.ts'
import { optionsOf } from '../errors/given.ts'

/**
 * Which output tiles of a tensor-core kernel follow one another: down a column of tiles (`m`), along a row of them (`n`), or
 * in groups of so many rows of tiles, whose operands stay in L2. The results do not depend on it.
 */
export type TileOrder = 'm' | 'n' | number

/** Controls of `PerformanceControls`; null and left out are the same. */
export interface PerformanceFields {
  /** Default: groups of 8 rows; along rows of tiles where the output has 64 times the bytes of the operands. */
  readonly tileOrder?: TileOrder | null
  /** SMs that a persistent kernel may occupy: the others stay free for what runs beside it. Default: all. */
  readonly maxSms?: number | null
}

const KNOWN = ['tileOrder', 'maxSms'] as const

/**
 * How a call should run, where kernels leave a choice. It never changes results; kernels that cannot do what it asks for
 * do not support the arguments (KTL4176). KTL4015 for illegal values, KTL4023 for unknown controls.
 *
 * @example
 * const performance = new PerformanceControls({ tileOrder: 'm', maxSms: 64 })
 * console.log(performance.given)
 */
export class PerformanceControls {
  readonly tileOrder: TileOrder | null
  readonly maxSms: number | null

  constructor(fields: PerformanceFields = {}) {
    const unknown = Object.keys(optionsOf('fields', fields)).find(
      (name) => !(KNOWN as readonly string[]).includes(name),
    )
    if (unknown !== undefined) {
      throw ktlError('KTL4023', {
        what: 'PerformanceControls',
        name: unknown,
        known: KNOWN,
        nearest: suggest(unknown, KNOWN),
      })
    }
    this.tileOrder = fields.tileOrder == null ? null : checkTileOrder(fields.tileOrder)
    this.maxSms = fields.maxSms ?? null
    if (this.maxSms !== null && !(Number.isInteger(this.maxSms) && this.maxSms >= 1))
      throw ktlError('KTL4015', { what: 'maxSms', expected: 'a number of SMs, at least 1', got: describe(this.maxSms) })
    Object.freeze(this)
  }

  /** Names of the controls that ask for something. */
  get given(): readonly string[] {
    return KNOWN.filter((name) => this[name] !== null)
  }
}

/** KTL4015 for an order that is none. */
export function checkTileOrder(order: TileOrder): TileOrder {
  if (order === 'm' || order === 'n' || (Number.isInteger(order) && order >= 1)) return order
  throw ktlError('KTL4015', {
    what: 'tileOrder',
    expected: "'m', 'n' or a number of rows of tiles",
    got: describe(order),
  })
}
