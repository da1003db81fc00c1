/**
 * Why a program does the same after a change, or what neither the verifier nor the virtual device is there to tell. Each is an argument
 * about the two programs; a mutant counts as equivalent only if every run was right as well.
 */
import type { Mutant } from './mutants.ts'

interface Rule {
  readonly reason: string
  readonly of: (mutant: Mutant) => boolean
}

type Names = ReadonlySet<string>
const names = (...list: readonly string[]): Names => new Set(list)

/** What holds after the first one holds after the second. */
const ORDERS = names('wait', 'wait_turn', 'warp_sync', 'cta_sync', 'cluster_sync', 'cluster_start', 'role_sync', 'warpgroup_sync', 'proxy_fence', 'fence_barrier_init', 'tcgen05_fence', 'bulk_wait_read', 'wgmma_wait', 'copy_wait') // prettier-ignore
/** They write registers of their thread, or what only it can see until something else is done. */
const OWN = names('own_row', 'compute', 'aux_load', 'load_rows', 'take_cells', 'tmem_load', 'direct_store', 'reduce_begin', 'reduce_subtile', 'reduce_end', 'next_origin', 'origin_in_last_k', 'stop_at_n', 'load_fragments', 'mma_sync', 'zero_cells', 'quantise', 'measure_begin', 'measure', 'part_scales') // prettier-ignore
/** What values in registers move past. */
const AROUND = names(...ORDERS, ...OWN, 'lane0', 'one_thread', 'last_subtile', 'copy_commit', 'pass_turn', 'for_k', 'for_first_k', 'fetch_first', 'fetch_next', 'stage_write', 'advance') // prettier-ignore
const SETUP = names('prefetch_maps', 'barrier_init')
const LOADS = names('tma_load', 'gather', 'copy_tile', 'load_scales', 'fetch_first', 'fetch_next', 'by_loop', 'leader')
/** They use other rings than the one that turns. */
const OTHER_RINGS = names('wait', 'copy_wait', 'after_first_k', 'after_first_staged', 'for_row_blocks', 'before_next_tile', 'cta_sync', 'wgmma_wait', 'skip_tile', 'advance', 'lane0') // prettier-ignore
const COPIES = names('copy_wait', 'copy_commit', 'cta_sync')

const operations = (change: Mutant['kind'], of: Names) => ({ kind, subject }: Mutant): boolean => kind === change && of.has(subject) // prettier-ignore
const swapped = (a: Names, b: Names) => ({ kind, subject }: Mutant): boolean => {
  if (kind !== 'swapped') return false
  const [x, y] = subject.split(' / ') as [string, string]
  return (a.has(x) && b.has(y)) || (a.has(y) && b.has(x))
} // prettier-ignore
const field = (pattern: RegExp) => ({ kind, subject }: Mutant): boolean => kind === 'field' && pattern.test(subject) // prettier-ignore
const any = (...of: readonly Rule['of'][]): Rule['of'] => (mutant) => of.some((one) => one(mutant)) // prettier-ignore
const outside = ({ place }: Mutant): boolean => /^(setup|teardown)[ .]/.test(place)
const involves = (of: Names) => ({ kind, subject }: Mutant): boolean => kind !== 'field' && subject.split(' / ').some((name) => of.has(name)) // prettier-ignore

/** The first that fits says why. */
const RULES: readonly Rule[] = [
  { reason: 'waits, fences and meetings that come twice hold what one holds', of: operations('doubled', ORDERS) },
  { reason: 'the same results are computed and stored once more', of: operations('doubled', names('tma_store', 'row_store', 'lane0', 'for_subtiles', 'for_blocks', 'for_row_blocks', 'for_tiles')) },
  { reason: 'the same fragments or cells are read once more', of: operations('doubled', names('load_fragments', 'park')) },
  { reason: 'an empty group of copies more: waits are for older ones than they need', of: operations('doubled', names('copy_commit')) },
  { reason: 'no copy is asynchronous in this kernel, its stages are filled some steps ahead, and its epilogue uses no shared memory', of: (m) => m.synchronous && any(involves(COPIES), field(/^copy_wait\./))(m) },
  { reason: 'fences of set-up and tear-down: allocation is synchronous, and a fence before has covered other accesses', of: (m) => outside(m) && any(involves(names('tcgen05_fence')), field(/^tcgen05_fence\./))(m) },
  { reason: 'barriers and maps are set up in any order before the fence', of: swapped(SETUP, SETUP) },
  { reason: 'copies to another stage than the one that fragments are read of', of: swapped(names('load_fragments'), names('ahead')) },
  { reason: 'which slot is held is the same before a wait and behind it', of: swapped(names('hold_stage'), names('wait')) },
  { reason: 'the CTA meets before the rows of another sub-tile are written', of: (m) => m.oneSubtile && swapped(names('row_store'), names('warp_sync'))(m) },
  { reason: 'loads of a stage are issued in any order', of: swapped(LOADS, LOADS) },
  { reason: 'a phase is not complete before its own arrival, whatever has come by then', of: any(swapped(names('arrive_expect_tx', 'leader', 'one_thread'), LOADS), swapped(names('one_thread'), names('send_sums'))) },
  { reason: 'bytes are announced before a wait: the phase before is over by then', of: any(swapped(names('expect_work', 'one_thread'), names('wait')), swapped(names('expect_work'), names('warp_sync')), swapped(names('one_thread'), names('for_warpgroups'))) },
  { reason: 'a place in a ring on one side, another ring or no slot on the other', of: any(swapped(names('advance', 'skip_tile'), OTHER_RINGS)) },
  { reason: 'the only slot of a ring without phases has no next one', of: (m) => m.oneSlot && operations(m.kind, names('advance'))(m) },
  { reason: 'registers of a thread on one side, which the other does not use', of: swapped(OWN, AROUND) },
  { reason: 'commits follow the same MMAs', of: swapped(names('commit'), names('commit')) },
  { reason: 'what is asked for, waited for or handed on a little earlier or later is used no earlier', of: any(swapped(names('fetch_first', 'pass_turn', 'for_k'), names('wait', 'wait_turn', 'wgmma_wait', 'for_k', 'fetch_first')), swapped(names('warp_sync'), names('lane0'))) },
  { reason: 'registers loaded ahead of a loop that does not use them', of: swapped(names('load_ahead'), names('for_k')) },
  { reason: 'scales of the next part lie in registers of their own', of: swapped(names('part_scales'), names('wgmma', 'promote')) },
  { reason: 'the origin is worked out anywhere in the last k tile', of: swapped(names('origin_in_last_k'), names('wgmma')) },
  { reason: 'other warps than those on the other side', of: swapped(names('for_warpgroups'), names('last_warp')) },
  { reason: 'the slot of two rings that turn together', of: field(/^release\.ring$/) },
  { reason: 'two waits or meetings in a row', of: swapped(names('wait', 'warp_sync', 'cta_sync'), names('wait', 'warp_sync', 'cta_sync')) },
  { reason: 'lanes that meet have waited by themselves, or have nothing to wait for', of: any(operations('deleted', names('warp_sync')), swapped(names('warp_sync'), names('stage_write'))) },
  { reason: 'a fence for the async proxy anywhere between a write and the copy, by a thread that has seen the write', of: swapped(names('proxy_fence'), names('warp_sync')) },
  { reason: 'columns behind n are left out at every access, too', of: any(operations('deleted', names('stop_at_n')), operations('doubled', names('stop_at_n'))) },
  { reason: 'the origin is worked out where the tile begins', of: any(operations('deleted', names('next_origin')), swapped(names('next_origin'), names('for_row_blocks'))) },
  { reason: 'rows that nothing reads', of: any(operations('deleted', names('own_row')), swapped(names('own_row'), names('for_subtiles')), field(/^own_row\.lane$/)) },
  { reason: 'more shared memory than is used', of: field(/^launch\.sharedMemBytes$/) },
  { reason: 'another warp does it', of: field(/^setup\[\]\.warp$/) },
  { reason: 'values are in registers before and behind the epilogue', of: swapped(names('warpgroup_sync'), names('for_row_blocks')) },
  { reason: 'slower or faster, and the same', of: any(involves(names('prefetch_stage')), field(/^(registers\.perSm|wgmma\.stopsAtK|stage_write\.matrices|aux_load\.vector|gather\.batch|load_scales\.copies|launch\.grid\.persistent\.perSm|launch\.next\.grid\.elements\.limit)$/)) },
  { reason: 'a shorter form of a function, within its bound', of: field(/^node\.apply\.short$/) },
] // prettier-ignore

/** null: there is none. */
export const reasonOf = (mutant: Mutant): string | null => RULES.find(({ of }) => of(mutant))?.reason ?? null
