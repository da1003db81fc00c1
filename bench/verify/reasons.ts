/**
 * Why a program does the same after a change, or nothing that the verifier or the virtual device could tell. Each is an argument about the
 * two programs; a mutant is counted as equivalent only if no run has shown otherwise.
 */
import type { Mutant } from './mutants.ts'

interface Rule {
  readonly reason: string
  readonly of: (mutant: Mutant) => boolean
}

const oneOf = (...names: readonly string[]) => new Set(names)

/** What holds after the first one holds after the second. */
const IDEMPOTENT = oneOf(
  'wait', 'wait_turn', 'warp_sync', 'cta_sync', 'cluster_sync', 'cluster_start', 'role_sync', 'proxy_fence', 'fence_barrier_init',
  'tcgen05_fence', 'bulk_wait_read', 'wgmma_wait', 'copy_wait',
) // prettier-ignore

/** Values of one thread, made from what neither changes. */
const PURE = oneOf('own_row', 'compute', 'aux_load', 'load_rows', 'take_cells', 'tmem_load', 'direct_store', 'reduce_begin', 'reduce_subtile', 'reduce_end', 'next_origin', 'stop_at_n', 'load_fragments', 'mma_sync', 'zero_cells') // prettier-ignore
const ADVANCE = 'advance'

const pair = ({ kind, subject }: Mutant): readonly [string, string] | null =>
  kind === 'swapped' ? (subject.split(' / ') as [string, string]) : null
const both = (mutant: Mutant, a: ReadonlySet<string>, b: ReadonlySet<string>): boolean => {
  const ops = pair(mutant)
  return ops !== null && ((a.has(ops[0]) && b.has(ops[1])) || (a.has(ops[1]) && b.has(ops[0])))
}
const field = (pattern: RegExp) => (mutant: Mutant): boolean => mutant.kind === 'field' && pattern.test(mutant.subject) // prettier-ignore
const operation = (kind: Mutant['kind'], names: ReadonlySet<string>) => (mutant: Mutant): boolean => mutant.kind === kind && names.has(mutant.subject) // prettier-ignore

const SETUP = oneOf('prefetch_maps', 'barrier_init')
const LOADS = oneOf('tma_load', 'gather', 'copy_tile', 'fetch_first', 'fetch_next')
const ORDERS = oneOf('wait', 'warp_sync', 'lane0', 'last_subtile', 'proxy_fence', 'bulk_wait_read', 'copy_wait', 'copy_commit', 'cta_sync', 'wait_turn', 'pass_turn', 'wgmma_wait', 'for_k', 'tcgen05_fence', 'fetch_first', 'fetch_next', 'one_thread', 'stage_write', ADVANCE) // prettier-ignore

const RULES: readonly Rule[] = [
  { reason: 'waits, fences and meetings that come twice hold what one holds', of: operation('doubled', IDEMPOTENT) },
  { reason: 'one lane waits twice for its stores', of: (m) => m.kind === 'doubled' && m.subject === 'lane0' },
  { reason: 'stores the same sub-tile twice', of: operation('doubled', oneOf('tma_store', 'row_store')) },
  { reason: 'loads the same fragments, cells or words twice', of: operation('doubled', oneOf('load_fragments', 'park')) },
  { reason: 'barriers and maps are set up in any order before the fence', of: (m) => both(m, SETUP, SETUP) },
  { reason: 'loads of a stage are issued in any order', of: (m) => both(m, LOADS, LOADS) || both(m, LOADS, oneOf('leader')) },
  { reason: 'a phase is not complete before its own arrival, whatever has come by then', of: (m) => both(m, oneOf('arrive_expect_tx', 'leader'), LOADS) },
  { reason: 'values of one thread on one side, no access to what it waits for or signals on the other', of: (m) => both(m, PURE, PURE) || both(m, PURE, ORDERS) },
  { reason: 'the place in one ring on one side, another ring or no slot on the other', of: (m) => both(m, oneOf(ADVANCE), oneOf('wait', 'copy_wait', 'after_first_k', 'after_first_staged', 'for_row_blocks', 'before_next_tile', 'cta_sync', 'wgmma_wait', 'skip_tile', ADVANCE)) },
  { reason: 'a ring of one slot and no phase has nowhere to go', of: (m) => (m.kind !== 'field' && /^advance$/.test(m.subject)) || (m.kind === 'swapped' && /^(lane0 \/ advance|advance \/ lane0)$/.test(m.subject)) },
  { reason: 'roles of other warps stand in any order', of: (m) => both(m, oneOf('one_thread'), oneOf('for_warpgroups', 'wait', 'send_sums')) },
  { reason: 'both sides wait; neither releases anything in between', of: (m) => both(m, IDEMPOTENT, IDEMPOTENT) || both(m, oneOf('for_k', 'fetch_first', 'pass_turn', 'for_row_blocks'), oneOf('wait', 'wait_turn', 'wgmma_wait', 'fetch_first', 'for_k', 'skip_tile')) },
  { reason: 'a request or an announcement moves ahead of what only orders it', of: (m) => both(m, oneOf('expect_work', 'read_work', 'lane0'), oneOf('wait', 'warp_sync', 'proxy_fence', ADVANCE)) },
  { reason: 'a meeting of a warp moves past what no other lane looks at', of: (m) => both(m, oneOf('warp_sync'), oneOf('stage_write', 'lane0', 'tcgen05_fence', 'wait')) },
  { reason: 'every lane waits for the slot itself, or has nothing to wait for', of: operation('deleted', oneOf('warp_sync')) },
  { reason: 'an earlier fence has covered all accesses', of: operation('deleted', oneOf('tcgen05_fence')) },
  { reason: 'the origin is worked out where the tile begins', of: operation('deleted', oneOf('next_origin')) },
  { reason: 'rows that nothing reads', of: (m) => operation('deleted', oneOf('own_row'))(m) || field(/^own_row\.lane$/)(m) },
  { reason: 'a hint', of: operation('deleted', oneOf('prefetch_maps')) },
  { reason: 'an earlier fence has covered all accesses', of: field(/^tcgen05_fence\.when$/) },
  { reason: 'more shared memory than is used', of: field(/^launch\.sharedMemBytes$/) },
  { reason: 'another warp does it', of: field(/^setup\[\]\.warp$/) },
  { reason: 'slower or faster, and the same', of: field(/^(wgmma\.stopsAtK|stage_write\.matrices|aux_load\.vector|gather\.batch|launch\.grid\.persistent\.perSm|launch\.next\.grid\.elements\.limit)$/) },
  { reason: 'one slot is addressed with a ring or without', of: field(/^buffers\[\]\.ring$/) },
  { reason: 'a shorter form of a function, within its bound', of: field(/^node\.apply\.short$/) },
] // prettier-ignore

/** null: there is none. */
export const reasonOf = (mutant: Mutant): string | null => RULES.find(({ of }) => of(mutant))?.reason ?? null
