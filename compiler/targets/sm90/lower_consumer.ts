/** Program of the consumer warpgroups: MMAs over k, then the epilogue of the fragments they leave, sub-tile by sub-tile. */
import type { Node } from '../../ir/tensor.ts'
import type { TileOp } from '../../ir/pipe.ts'
import type { Part, WarpgroupMma } from '../../ir/pipe_mma.ts'
import type { Fetch, Fetched } from '../../ir/pipe_epilogue.ts'
import { elementLoads, elementsBrought, loadsAhead } from '../tensor_core/ahead.ts'
import { tmaOutputs, valuesOf } from '../tensor_core/epilogue.ts'
import { exchangeParts } from '../tensor_core/exchange.ts'
import {
  auxLoads,
  fragmentEpilogue,
  freeBehind,
  tmaStores,
  type Brought,
  type Staging,
} from '../tensor_core/lower_epilogue.ts'
import { domainOf } from '../tensor_core/lower_program.ts'
import { waysOf } from '../../classes/matmul.ts'
import { isPlain } from '../../space/domain.ts'
import { bufferOfB } from '../tensor_core/plan.ts'
import { copiesRows, SWIZZLE_SPAN } from '../tensor_core/operands.ts'
import { guardOf } from '../../ir/walk.ts'
import { broughtBehind, releaseBehind, releasesLate, takeBehind } from './lower_behind.ts'
import { copiedRows, fetchRing, rowRing, slotMaps } from './memory.ts'
import { sumOfParts } from './parts.ts'
import { BLOCK_ROWS, type Sm90Plan } from './plan.ts'

/** Of the consumers. */
const threadsOf = ({ warpgroups }: Sm90Plan): number => 128 * warpgroups

export function consumerRole(plan: Sm90Plan): TileOp[] {
  const pingpong = plan.design.consumers === 'pingpong'
  const rings = ['stage', 'spent']
  const behind = plan.behind?.parts.length ?? 0
  const isSplit = plan.splits > 1
  const fetch: TileOp[] = [
    // Stores of the tile before have read the slots.
    ...(plan.inPlace ? [{ op: 'lane0', body: [{ op: 'bulk_wait_read', pending: 0 }] } as const] : []),
    ...fetches(plan).map(({ request }): TileOp => ({ op: 'fetch_first', ...request })),
  ]
  const finish: TileOp[] = [
    // Each thread reads what it wrote itself.
    ...(plan.parks && !isSplit ? [{ op: 'park', buffer: 'smem_partials', threads: threadsOf(plan) } as const] : []),
    ...(loadsUnderMmas(plan) ? [] : elementLoads(plan.epilogue, plan.elements)),
    ...epilogue(plan),
    ...(isSplit && plan.parks ? releaseSums(plan) : []),
    ...(releasesLate(plan) ? releaseBehind(plan) : []),
  ]
  const sums = (meanwhile: readonly TileOp[]): TileOp[] => [
    ...mainloop(plan, meanwhile),
    ...(isSplit ? exchangeSums(plan) : []),
  ]
  const ahead = loadsAhead({ ...plan, copied: copiedRows(plan, plan) })
  // What needs no registers comes behind the first stages.
  const [late, early] = plan.exchange || !isPlainLoop(plan) ? [[], [...fetch, ...ahead]] : behindFirst(fetch, ahead)
  const tile: TileOp[] = plan.exchange
    ? [...sums([]), ...exchangeParts(plan.exchange, finish, early)]
    : // They land while the MMAs run.
      [...early, ...sums(late), ...finish]
  const turn: TileOp[] = [...tile, ...(pingpong ? [{ op: 'skip_tile', rings, unless: null, behind } as const] : [])]
  return [
    ...(plan.registers.producer === null
      ? []
      : [{ op: 'set_registers', count: plan.registers.consumer, change: 'more' } as const]),
    ...(pingpong ? [{ op: 'skip_tile', rings, unless: 'first', behind } as const] : []),
    { op: 'for_tiles', ...(pingpong && { turns: plan.warpgroups }), accumulators: true, body: turn },
    ...((tmaOutputs(plan.epilogue).length > 0 && !plan.storeWarps) || plan.inPlace
      ? [{ op: 'lane0', body: [{ op: 'bulk_wait_read', pending: 0 }] } as const]
      : []),
  ]
}

interface FetchedOperand {
  readonly request: { readonly operand: string; readonly fetch: Fetch; readonly guard: Node | null }
  readonly fetched: Fetched
}

function fetches(plan: Sm90Plan): FetchedOperand[] {
  const values = valuesOf(plan.epilogue)
  return slotMaps(plan, plan).map(({ map, aux: { operand, fetch } }, i) => {
    const slots = { ring: fetchRing(i), buffer: `smem_${fetchRing(i)}`, barrier: `${fetchRing(i)}_full` }
    const { bytes, swizzle } = fetch!
    return {
      request: {
        operand: operand.name,
        fetch: { ...slots, map, bytes, subtiles: plan.subtiles },
        guard: guardOf(values, operand.name),
      },
      fetched: { ...slots, swizzle },
    }
  })
}

/** Do lanes load their elements of the first sub-tile under the last MMAs? Parts of k have none if others finish, and chunks of k end with sums of their own. */
const loadsUnderMmas = ({ exchange, scales }: Sm90Plan): boolean => exchange === null && scales === null

/** A loop over k whose first step every tile has, and nobody's turn. */
const isPlainLoop = ({ scales, gemm, design }: Sm90Plan): boolean =>
  !scales && !gemm.sums && design.consumers === 'cooperative'

/** Of what is asked for ahead, what goes to shared memory or L2, and what goes to registers. */
function behindFirst(fetch: readonly TileOp[], ahead: readonly TileOp[]): readonly [TileOp[], TileOp[]] {
  const isLine = (op: TileOp): boolean => op.op === 'load_ahead' && op.shape === 'full' && op.elements === undefined
  return [[...fetch, ...ahead.filter(isLine)], ahead.filter((op) => !isLine(op))]
}

/**
 * One group of MMAs stays under way: a stage is released when those of the next one have been issued, if there is a next one. `meanwhile`: under the MMAs of a
 * step, of each warp in another one: all at once would hold up the loads of A and B (by 1.3 us of 23 on an H200, 903x2928x2120).
 */
function mainloop(plan: Sm90Plan, meanwhile: readonly TileOp[]): TileOp[] {
  const { design, gemm, mma, a, b, tile, mmaSteps, rowBlocks, scales } = plan
  const release: TileOp[] = [
    { op: 'release', barrier: 'empty', ring: 'spent', eachWarp: false },
    { op: 'advance', ring: 'spent' },
  ]
  const only = plan.stages === 1
  const { d, a: aType, b: bType, k } = mma
  const together = plan.joint ? b.length : 1
  const multiply = (part: Part | null): WarpgroupMma => ({
    op: 'wgmma',
    kind: { d, a: aType, b: bType, k },
    n: (plan.parts?.columns ?? tile[1] * waysOf(gemm)) * together,
    a: 'smem_a',
    products: b.map((_, i) => ({ b: bufferOfB(i) })),
    aDescriptor: a.descriptor,
    bDescriptor: b[0]!.descriptor,
    aMajor: a.major,
    bMajor: b[0]!.major,
    // M-major tiles are swizzle spans of 64 rows side by side.
    blockBytes: a.major === 'k' ? BLOCK_ROWS * SWIZZLE_SPAN : a.boxPitch,
    steps: mmaSteps / (scales?.chunks ?? 1),
    part,
    // Ping-pong has the other warpgroup's MMAs to run meanwhile, and loses 1 % to the branch (measured); several blocks of rows lack
    // the registers.
    stopsAtK:
      scales === null &&
      design.consumers === 'cooperative' &&
      rowBlocks === 1 &&
      !gemm.sums &&
      isPlain(domainOf(plan, false)),
  })
  const landed: TileOp[] = [
    { op: 'wait', barrier: 'full', parity: 'consumer' },
    // Copies of threads come through the generic proxy, and tell of themselves.
    ...(copiesRows(plan) ? [{ op: 'proxy_fence' } as const] : []),
  ]
  if (scales) {
    // Groups of a sum may have no k tiles; all else has one.
    const underMmas = !gemm.sums
    const sums = sumOfParts(plan.parts!, together, scales, {
      landed,
      multiply,
      meanwhile: underMmas ? [{ op: 'origin_in_last_k' }] : [],
    })
    return underMmas ? [{ op: 'next_origin', underMmas }, ...sums] : [...sums, { op: 'next_origin' }]
  }
  const step: TileOp[] = [
    ...landed,
    multiply(null),
    ...(meanwhile.length > 0 ? [{ op: 'in_own_k', body: meanwhile } as const] : []),
    { op: 'wgmma_wait', pending: only ? 0 : 1 },
    ...(only ? release : [{ op: 'after_first_k', body: release } as const]),
    { op: 'advance', ring: 'stage' },
  ]
  const pingpong = design.consumers === 'pingpong'
  const turn = (op: 'wait_turn' | 'pass_turn'): TileOp[] => (pingpong ? [{ op, barrier: 'turn' }] : [])
  return [
    ...turn('wait_turn'),
    { op: 'for_k', body: step },
    ...takeBehind(plan),
    ...turn('pass_turn'),
    ...(loadsUnderMmas(plan) ? elementLoads(plan.epilogue, plan.elements) : []),
    // Divisions, 600 cycles, while the last MMAs run. In ping-pong those of the other warpgroup do.
    ...(pingpong ? [] : [{ op: 'next_origin' } as const]),
    { op: 'wgmma_wait', pending: 0 },
    ...(only ? [] : release),
    ...(releasesLate(plan) ? [] : releaseBehind(plan)),
  ]
}

/**
 * Nothing waits for a CTA that has left: sums are sent, not fetched, and only those who await another tile are told of free slots. They are
 * before the epilogue, for whose stores the release would wait, unless that reads its sums in loops.
 */
const exchangeSums = (plan: Sm90Plan): TileOp[] => [
  { op: 'wait', barrier: 'partials_empty', parity: 'producer' },
  { op: 'one_thread', body: [{ op: 'arrive_expect_tx', barrier: 'partials_full', bytes: plan.partialBytes }] },
  { op: 'send_sums', buffer: 'smem_partials', barrier: 'partials_full', threads: threadsOf(plan) },
  { op: 'wait', barrier: 'partials_full', parity: 'consumer' },
  ...(plan.parks
    ? []
    : [{ op: 'add_sums', buffer: 'smem_partials', threads: threadsOf(plan) } as const, ...releaseSums(plan)]),
]

const releaseSums = (plan: Sm90Plan): TileOp[] => [
  {
    op: 'before_next_tile',
    body: [
      { op: 'role_sync', threads: threadsOf(plan) },
      { op: 'arrive_all', barrier: 'partials_empty' },
    ],
  },
  { op: 'advance', ring: 'partials' },
]

function epilogue(plan: Sm90Plan): TileOp[] {
  const fetched = fetches(plan).map(({ request, fetched }, i): [string, Brought] => {
    // What leaves in place of the operand ends its turn.
    const then: TileOp[] = plan.inPlace && i === 0 ? [] : [{ op: 'fetch_next', ...request }]
    return [request.operand, { before: [], from: { fetched }, then }]
  })
  const copied = copiedRows(plan, plan).map(({ operand }, i): [string, Brought] => {
    const ring = rowRing(i)
    const release: TileOp = { op: 'lane0', body: [{ op: 'arrive', barrier: `${ring}_empty`, at: 'cta' }] }
    return [
      operand.name,
      {
        before: [{ op: 'wait', barrier: `${ring}_full`, parity: 'consumer' }],
        from: { rows: { buffer: `smem_${ring}`, copied: true } },
        then: [{ op: 'warp_sync' }, release, { op: 'advance', ring }],
      },
    ]
  })
  const brought = new Map([
    ...fetched,
    ...copied,
    ...broughtBehind(plan),
    ...elementsBrought(plan.epilogue, plan.elements),
  ])
  const staging: Staging = plan.inPlace
    ? { buffer: `smem_${fetchRing(0)}`, ring: fetchRing(0), free: null, issue: 'here' }
    : plan.storeWarps
      ? {
          buffer: 'smem_d',
          ring: 'staging',
          free: { op: 'wait', barrier: 'stored', parity: 'producer' },
          issue: { arriveOn: 'staged' },
        }
      : { buffer: 'smem_d', ring: 'staging', free: freeBehind(plan.stagingSlots - 1), issue: 'here' }
  const loads = (shapes: readonly string[]): TileOp[] => auxLoads(plan.epilogue, shapes, brought, plan.ahead)
  const from = plan.parks ? { buffer: 'smem_partials', threads: threadsOf(plan) } : null
  return fragmentEpilogue(plan.epilogue, loads, from, tmaStores(plan.epilogue, staging), threadsOf(plan))
}
