/** Broken pipeline programs, and what the verifier says of them. Programs that are right are verified wherever tests lower. */
import { describe, expect, test } from 'vitest'
import { operationChanges } from '../../bench/verify/operations.ts'
import { pipelineOf, planInstance } from '../../codegen/index.ts'
import { opsOf, walkTileOps, type TileOp, type TileProgram } from '../../compiler/ir/pipe.ts'
import { verifyTileProgram } from '../../compiler/verify/index.ts'
import { GOLDEN_CASES } from '../codegen/golden_cases.ts'
import { bound } from './support.ts'

function lowered(name: string): TileProgram {
  const plan = planInstance(GOLDEN_CASES.find((one) => one.name === name)!.instance())
  if (!('kind' in plan)) throw new Error(plan.reason)
  return pipelineOf(plan)!
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] extends object ? Mutable<T[K]> : T[K] }
type OpOf<K extends TileOp['op']> = Mutable<Extract<TileOp, { op: K }>>

/** Problems of a copy after an edit. */
function edited(name: string, edit: (program: Mutable<TileProgram>) => void): string {
  const copy = structuredClone(lowered(name))
  edit(copy as Mutable<TileProgram>)
  return verifyTileProgram(copy).join('\n')
}

const SEVERAL_LOOPS = `kernel both(O: bf16[m, h, d], W: bf16[h, d, n], P: bf16[m, r], U: bf16[r, n]) -> D: bf16[m, n] {
  D = sum[h, d](O * W) + sum[r](P * U)
}`

/** On mma.sync, with loads for each loop. */
function loops(edit: (program: Mutable<TileProgram>) => void = () => {}): string {
  const plan = planInstance({
    program: bound(SEVERAL_LOOPS),
    target: 'sm_80',
    design: { kind: 'sm80', warps: 'auto', tile: [64, 64, 32], operands: 'ab', stages: 'auto' },
  })
  if (!('kind' in plan)) throw new Error(plan.reason)
  const copy = structuredClone(pipelineOf(plan)!)
  edit(copy as Mutable<TileProgram>)
  return verifyTileProgram(copy).join('\n')
}

/** The first operation of a kind, in program order, that meets the condition. */
function find<K extends TileOp['op']>(
  program: object,
  op: K,
  meets: (found: OpOf<K>) => boolean = () => true,
): OpOf<K> {
  for (const found of opsOf(program as TileProgram))
    if (found.op === op && meets(found as unknown as OpOf<K>)) return found as unknown as OpOf<K>
  throw new Error(`no ${op}`)
}

/** All changes of a kind of operation of a role. */
const changed = (name: string, where: string, op: TileOp['op'], change: 'deleted' | 'doubled' | 'swapped') =>
  [...operationChanges(lowered(name))]
    .filter((one) => one.where === where && one.op === op && one.change === change)
    .map(({ apply }) => verifyTileProgram(apply()).join('\n'))

const COOPERATIVE = 'sm90 cooperative 128x256'
const PINGPONG = 'sm90 ping-pong 128x128'
const GATED = 'sm90 swiglu'
const SPLIT = 'sm90 k split in 4'
const PAIR = 'sm100 2cta'
const MXFP8 = 'sm100 mxfp8 tiles'
const MXFP8_PLAIN = 'sm100 mxfp8 plain pairs clc'
const OVERLAP = 'sm80 tiles that overlap'
const OVERLAP_PAIRS = 'sm100 tiles of pairs that overlap'
const HELD = 'sm90 fused behind k in two stages'
const CLC = 'sm100 cluster 4x2 fallback clc'

describe('what stands in the program', () => {
  test.each<[string, string, (program: Mutable<TileProgram>) => void, string]>([
    ['names', COOPERATIVE, (p) => (find(p, 'wait').barrier = 'fill'), 'consumer 1.0.0 wait: there is no barrier fill'],
    ['rings that a role keeps', COOPERATIVE, (p) => p.roles[1]!.rings.splice(0, 1), 'nobody keeps ring stage here'],
    ['slots of rings', COOPERATIVE, (p) => (p.rings[0]!.slots = 3), 'smem_a has 4 slots, and its ring 3'],
    ['alignment', COOPERATIVE, (p) => (p.buffers[1]!.offset += 16), 'smem_b at 65552 is not 1024-byte aligned'],
    ['overlap', COOPERATIVE, (p) => (p.buffers[1]!.offset -= 1024), 'smem_a overlaps smem_b'],
    ['tiles of products apart', GATED, (p) => ((p.registers as { joint?: boolean }).joint = false), 'wgmma: columns is'],
    ['tiles of products side by side', GATED, (p) => (p.buffers[2]!.pitch! += 1024), 'smem_b1: place beside smem_b is'],
    ['slots between slots', GATED, (p) => (p.buffers[2]!.pitch = 1024), 'slots of smem_b1 overlap'],
    ['the end of shared memory', COOPERATIVE, (p) => (p.launch.sharedMemBytes -= 64), 'behind the'],
    ['TMEM columns', PAIR, (p) => (p.tmem = { ...p.tmem!, columns: 128 }), 'accumulators do not fit the TMEM columns'],
    ['powers of two', PAIR, (p) => (p.tmem = { ...p.tmem!, columns: 384 }), '384 TMEM columns: not a power of two'],
    ['registers', COOPERATIVE, (p) => (find(p, 'set_registers').count = 240), '66560 registers of all roles'],
    ['registers of several CTAs', 'sm80 f16', (p) => ((p.registers as { perSm: number }).perSm = 3), 'registers for 3 CTAs of an SM, and 2 are launched'],
    ['registers of CTAs that wait for each other', 'sm80 32 parts of k that meet', (p) => delete (p.registers as { perSm?: number }).perSm, 'may leave no room for 3 CTAs of an SM'],
    ['warps', PAIR, (p) => (p.roles[1]!.firstWarp = 5), 'warp 5 has two roles'],
    ['threads', PAIR, (p) => (p.launch.threads = 224), '224 threads; the roles have warps 0 to 5'],
    ['parameters', COOPERATIVE, (p) => p.launch.params.splice(3, 1), 'launch: extent of m is not passed'],
    ['boxes', COOPERATIVE, (p) => ((p.launch.params[0] as { box: number[] }).box[1] = 64), 'tma_load A: box of map_a'],
    ['swizzles', COOPERATIVE, (p) => (find(p, 'tma_load').tile.swizzle = '64B'), 'tma_load A: swizzle'],
    ['descriptors', COOPERATIVE, (p) => (find(p, 'wgmma').aDescriptor.strideBytes = 512), 'wgmma: strideBytes of smem_a is 512, not 1024'],
    ['instructions', PAIR, (p) => (find(p, 'mma').instruction.descriptor ^= 1 << 16), 'mma: instruction'],
    ['steps', PAIR, (p) => (find(p, 'mma').steps = 3), 'mma: steps is 3, not 4'],
    ['alignment of operands', COOPERATIVE, (p) => (p.source.operands[0]!.divisibility = 'element'), 'tma_load A: rows at multiples of 16 bytes'],
    ['k tiles', COOPERATIVE, (p) => ((find(p, 'tma_load').depth.tile as { kind: string; value?: number }) = { kind: 'const', value: 0 } as never), 'its k tiles are not those of the loop'],
    ['copies without a ring', PINGPONG, (p) => (p.buffers[2]!.ring = null), 'smem_d has a copy for each warp, which only a ring addresses'],
    ['rings of fetched operands', 'sm90 fused not in place', (p) => (delete p.buffers.at(-1)!.per, p.buffers.at(-1)!.ring = null), 'has no slots that ring c0 could turn'],
    ['guards', 'sm90 everything', (p) => (find(p, 'fetch_first', (op) => op.guard !== null).guard = null), 'its guard is not that of its uses'],
    ['scopes', CLC, (p) => (p.barriers.find((b) => b.name === 'work_full')!.scope = 'cta'), 'work_full is heard in the cta'],
    ['swizzle patterns', PAIR, (p) => (p.buffers.find((b) => b.name === 'smem_d')!.offset += 128), 'does not begin with a swizzle pattern of 512 bytes'],
    ['columns of scales', MXFP8, (p) => ((find(p, 'mma').scales!.b[0] as { column: number }).column -= 4), 'mma: column of scales is 384, not 388'],
    ['scales that nobody copies', MXFP8, (p) => (find(p, 'copy_atoms').column += 64), 'mma: nobody brings the scales in column 384'],
    ['sides of scales', MXFP8, (p) => (find(p, 'load_atoms').free = 'n'), 'mma: side of scales is "n", not "m"'],
    ['atoms of a tile', MXFP8, (p) => (find(p, 'load_atoms', (op) => op.free === 'n').atoms.rows = 1), 'load_atoms B.scale: rows is 1, not 2'],
    ['tensor maps of scales', MXFP8, (p) => ((p.launch.params[2] as unknown as { tiles: number[] }).tiles[1] = 64), 'load_atoms A.scale: tiles of map_scale_a is [128,64], not [128,128]'],
    ['scales of a step', MXFP8, (p) => ((find(p, 'mma').scales as { perStep: number }).perStep = 2), 'mma: scales of a step is 2, not 1'],
    ['blocks of scales', MXFP8_PLAIN, (p) => (find(p, 'write_atoms').block = 16), 'write_atoms A.scale: block is 16, not 32'],
    ['sectors of tiles that overlap', OVERLAP, (p) => ((p.domain.columns as { step?: number }).step! += 8), 'tiles of 128 columns of D that are 120 apart do not hold all sectors'],
    ['elements of tiles that overlap', OVERLAP, (p) => delete find(p, 'row_store').carry, 'row_store D: tiles overlap, and elements would be stored twice'],
    ['rows of tiles that overlap', OVERLAP_PAIRS, (p) => ((p.layout as { columns: number }).columns = 32), 'tiles of 64 columns overlap, of which warps have 32'],
    ['pieces of tiles that overlap', OVERLAP_PAIRS, (p) => ((p.domain.columns as { step?: number }).step! -= 4, p.source.operands[1]!.order = ['k', 'n']), 'tma_load B: tiles that are 44 apart begin within pieces of its rows'],
    ['blocks of tiles that overlap', OVERLAP_PAIRS, (p) => (p.source.operands[1]!.blocks = [32, 1]), 'tma_load B: tiles that are 48 apart cut its blocks'],
    ['what rows leave for the next sub-tile', OVERLAP_PAIRS, (p) => (find(p, 'row_store').carry! += 16), 'row_store D: what is carried does not fit a slot of smem_d'],
    ['rows that are taken from stages', 'sm90 fused behind k', (p) => (p.source.operands.find(({ name }) => name === 'C')!.order = ['n', 'm']), 'take_stage C: rows of a sub-tile is ["m",64], not ["n",64]'],
    ['sub-tiles that are taken from stages', 'sm90 fused behind k', (p) => (find(p, 'take_stage').columns = 32), 'take_stage C: rows of a sub-tile is ["n",32], not ["n",64]'],
    ['bytes of columns that are left in stages', HELD, (p) => ((p.source.operands.find(({ name }) => name === 'C')!.order = ['n', 'm']), (p.source.operands.find(({ name }) => name === 'C')!.dtype = 'f32')), 'aux_load C: columns by matrices is 4, not 2'],
    ['slots of stages that are held', HELD, (p) => (find(p, 'hold_stage').ring = 'spent'), 'aux_load: reads smem_a[0], which holds something else'],
    ['architectures', PAIR, (p) => (p.target = 'sm_90a'), 'sm100 has no sm_90a'],
  ])('%s', (_, name, edit, problem) => expect(edited(name, edit)).toContain(problem)) // prettier-ignore

  test('values: made before they are read, once, and for somebody', () => {
    const name = 'sm100 everything'
    expect(changed(name, 'epilogue', 'compute', 'deleted')[0]).toContain('reads out:D, which nothing has made')
    expect(changed(name, 'epilogue', 'own_row', 'doubled')[0]).toContain('makes warp row, which is there already')
    expect(changed(name, 'epilogue', 'direct_store', 'deleted')[0]).toContain('out:G is made for nobody')
    expect(changed(name, 'epilogue', 'direct_store', 'doubled')[0]).toContain('out:G leaves more than once')
    expect(changed(name, 'epilogue', 'reduce_end', 'deleted')[0]).toContain('total:most does not leave')
    expect(changed(name, 'epilogue', 'reduce_end', 'doubled')[0]).toContain('total:most leaves more than once')
  })

  test('loads of several loops', () => {
    type Copy = OpOf<'copy_tile'>
    const second = (p: object, operand: string): Copy => find(p, 'copy_tile', (op) => op.operand === operand)
    const named = (name: string) => ({ kind: 'name', name }) as never
    expect(loops()).toBe('')
    expect(loops((p) => (second(p, 'P').depth.tile = named('k')))).toContain('copy_tile P: its k tiles are not those of the loop')
    expect(loops((p) => (second(p, 'O').depth.outer[0]!.at = named('k')))).toContain('copy_tile O: its k tiles are not those of the loop')
    expect(loops((p) => (second(p, 'P').tile.major = 'mn'))).toContain('copy_tile P: contiguous axis is "r", not "m"')
    const without = loops((p) => {
      const { axes, order } = p.source.operands[0]!
      for (const list of new Set([axes, order])) list.splice(list.indexOf('h'), 1)
    })
    expect(without).toContain('copy_tile O: lacks an axis of its tile')
  }) // prettier-ignore
})

describe('what a run shows', () => {
  test('deadlocks', () => {
    const missing = changed(COOPERATIVE, 'consumer', 'release', 'deleted')
    expect(missing).toHaveLength(2)
    for (const problems of missing) expect(problems).not.toBe('')
    expect(edited(COOPERATIVE, (p) => find(p, 'arrive_expect_tx').bytes++)).toContain('for ever waits for full[0], which lacks 0 arrivals and 1 bytes') // prettier-ignore
    expect(edited(PAIR, (p) => (p.barriers[3]!.arrivals = { preferred: 9, fallback: 9 }))).toContain('for ever waits for acc_empty[0]') // prettier-ignore
  })

  test('bytes that nobody announced', () => {
    expect(edited(COOPERATIVE, (p) => (find(p, 'arrive_expect_tx').bytes = 32768))).toContain('brings 16384 bytes more to full[0] than were announced') // prettier-ignore
  })

  test('scales of another k tile', () => {
    const [first] = changed(MXFP8, 'mma', 'copy_atoms', 'deleted')
    expect(first).not.toBe('')
    const swapped = changed(MXFP8, 'mma', 'copy_atoms', 'swapped')
    expect(swapped.at(-1)).toContain('multiplies by scales in column 388, which are not those of its k tile')
    expect(changed(MXFP8_PLAIN, 'gather', 'proxy_fence', 'deleted')[0]).not.toBe('')
    expect(changed(MXFP8_PLAIN, 'gather', 'write_atoms', 'deleted')[0]).not.toBe('')
  })

  test('waits and arrivals that could be a phase off', () => {
    expect(edited(COOPERATIVE, (p) => (find(p, 'wait').parity = 'producer'))).not.toBe('')
    expect(changed(PINGPONG, 'consumer', 'wait_turn', 'swapped')[0]).toContain('may pass two phases of full[')
    const [early] = changed('sm100 1cta', 'tma', 'wait', 'swapped')
    expect(early).toContain('arrives on full[0], whose phase before may not be complete')
  })

  test('copies that tell of themselves: their readers have a fence, and nobody reads before they have landed', () => {
    const LOOKED_UP = 'sm90 rows that are looked up'
    const [unfenced] = changed(LOOKED_UP, 'consumer', 'proxy_fence', 'deleted')
    expect(unfenced).toMatch(/wgmma: reads smem_a\[0\] while no proxy fence lies behind copy_tile X/)
    const [without] = changed(LOOKED_UP, 'producer', 'arrive_copied', 'deleted')
    expect(without).toMatch(/full/)
  })

  test('slots that are written while they are read, or read before they are full', () => {
    expect(changed(COOPERATIVE, 'producer', 'wait', 'deleted')[0]).toContain('may still be under way')
    expect(edited(COOPERATIVE, (p) => (find(p, 'wgmma_wait', ({ pending }) => pending === 0).pending = 1))).toContain('takes accumulators of MMAs that may still be under way') // prettier-ignore
    const bulk = edited(PINGPONG, (p) => (find(p, 'bulk_wait_read', ({ pending }) => pending === 1).pending = 2))
    expect(bulk).toMatch(/stage_write: writes smem_d\[\d+\] while tma_store D may still be under way/)
    expect(edited('sm80 f16', (p) => (find(p, 'copy_wait').pending = 3))).toMatch(/load_fragments: reads smem_a\[0\] while copy_tile A/) // prettier-ignore
  })

  test('slots that hold something else', () => {
    expect(changed(COOPERATIVE, 'producer', 'advance', 'deleted')[0]).not.toBe('')
    expect(edited(COOPERATIVE, (p) => (find(p, 'tma_load').buffer = 'smem_b'))).toContain('tma_load A')
    expect(edited('sm80 f16', (p) => (find(p, 'load_fragments').step = 1))).toContain('multiplies other fragments than those of step 0') // prettier-ignore
  })

  test('fences', () => {
    for (const problems of changed(PINGPONG, 'consumer', 'proxy_fence', 'deleted'))
      expect(problems).toContain('no proxy fence lies behind stage_write D')
    for (const problems of changed('sm100 gather', 'gather', 'proxy_fence', 'deleted'))
      expect(problems).toContain('no proxy fence lies behind gather A')
    for (const role of ['epilogue', 'tma', 'mma'])
      expect(changed(CLC, role, 'proxy_fence', 'deleted')[0]).toContain('no proxy fence lies behind read_work')
    expect(changed(PAIR, 'setup', 'fence_barrier_init', 'deleted')[0]).toContain('whose initialisation it may not see')
    expect(changed(PAIR, 'mma', 'tcgen05_fence', 'deleted')[0]).toContain('while tmem_load may still be under way')
    for (const problems of changed(PAIR, 'epilogue', 'tcgen05_fence', 'deleted')) expect(problems).toContain('may still be under way') // prettier-ignore
  })

  test('meetings of warps, CTAs and clusters', () => {
    expect(changed(PINGPONG, 'consumer', 'warp_sync', 'deleted')).toHaveLength(2)
    for (const problems of changed(PINGPONG, 'consumer', 'warp_sync', 'deleted')) expect(problems).not.toBe('')
    expect(changed(PAIR, 'setup', 'warp_sync', 'deleted')[0]).toContain('for which the others have not waited')
    expect(changed(PAIR, 'setup', 'cluster_start', 'deleted')[0]).not.toBe('')
    expect(changed(PAIR, 'teardown', 'cluster_sync', 'deleted')[0]).not.toBe('')
    expect(changed(SPLIT, 'consumer', 'role_sync', 'deleted')[0]).toContain('may still be under way')
    expect(changed(PAIR, 'tma', 'for_slots', 'deleted')[0]).toContain('may come when that has left')
  })

  test('tensor memory: allocated, given back, and not used in between', () => {
    expect(changed(PAIR, 'setup', 'tmem_alloc', 'deleted')[0]).toContain('that nobody has allocated')
    expect(changed(PAIR, 'setup', 'tmem_relinquish', 'deleted')[0]).toContain('permit it has kept')
    expect(changed(PAIR, 'teardown', 'tmem_dealloc', 'deleted')[0]).toContain('tensor memory is never freed')
  })

  test('what is left behind', () => {
    expect(changed(PINGPONG, 'consumer', 'bulk_wait_read', 'deleted').at(-1)).toContain('leaves while its stores')
    expect(changed(PINGPONG, 'consumer', 'tma_store', 'deleted')[0]).not.toBe('')
    expect(changed(PINGPONG, 'consumer', 'bulk_commit', 'deleted')[0]).not.toBe('')
  })
})

test('parts of k finish shares of a tile only where sub-tiles know nothing of each other', () => {
  const finishing = (name: string): string =>
    edited(name, (program) => {
      find(program, 'meet_parts').finishes = 'each'
    })
  expect(finishing('sm90 11 parts of k that meet')).toContain('tma_store: each part has sub-tiles of its own')
  expect(finishing('sm80 8 parts of k, each of which finishes a share')).toBe('')
  const without = edited('sm80 8 parts of k, each of which finishes a share', (program) => {
    const grid = program.launch.grid as { meets?: true }
    delete grid.meets
  })
  expect(without).toContain('meet_parts: the launch has none')
})

/** Operations that a program could do without: they cost nothing, or save time. */
const SPARE: Readonly<Record<string, readonly string[]>> = {
  // The warps that issue the stores have rows of their own, and every lane waits for a free slot by itself.
  [COOPERATIVE]: ['consumer next_origin', 'consumer own_row', 'consumer warp_sync'],
  [PINGPONG]: [],
  [SPLIT]: ['consumer next_origin', 'consumer advance'],
  // A warp meets between its loads of a sub-tile and its stores.
  'sm90 rows copied for ping-pong': ['consumer warp_sync'],
  // Lines of memory, which come when they are needed.
  'sm80 elements ahead of sub-tiles': ['worker load_ahead'],
  // What lies beyond n is stored by nobody.
  'sm80 f16': ['worker stop_at_n'],
  // Those of the roles before have covered all that they could.
  [PAIR]: ['teardown tcgen05_fence'],
}

test.each(Object.keys(SPARE))('no operation of %s can be missing unnoticed, but for a few that it could do without', (name) => {
  const unnoticed = [...operationChanges(lowered(name))]
    .filter(({ change, apply }) => change === 'deleted' && verifyTileProgram(apply()).length === 0)
    .map(({ where, op }) => `${where} ${op}`)
  expect(unnoticed).toEqual(SPARE[name])
}) // prettier-ignore

test('every operation has a place in some recorded program', () => {
  // The table of effects has an entry for each by its type; here each of them runs.
  const kinds = new Set<string>()
  for (const { name } of GOLDEN_CASES.filter(({ name: one }) => !one.startsWith('simt')))
    for (const { body } of [...lowered(name).setup, ...lowered(name).roles, ...lowered(name).teardown])
      for (const [op] of walkTileOps(body)) kinds.add(op.op)
  expect(kinds.size).toBeGreaterThanOrEqual(75)
})
