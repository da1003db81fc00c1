/** Stable text of pipeline programs, for `ktl inspect --stage tile` and goldens. Every field of every operation is in it. */
import { printIx } from '../space/ix.ts'
import type { StageBlock } from './pipe_epilogue.ts'
import type { SharedTile } from '../space/layout.ts'
import { bodiesOf, opsOf, type TileOp, type TileProgram } from './pipe.ts'
import type { DepthView, ScaleAtoms, ScaleLayout, ScaleSource } from './pipe_loads.ts'
import type { MmaScales, Part, TileSource } from './pipe_mma.ts'
import type { Node } from './tensor.ts'
import { children, topological } from './walk.ts'

export function printTileProgram(program: TileProgram): string {
  const { domain, source, launch, cluster, tmem, registers } = program
  const tile = [domain.rows.extent, domain.columns.extent, domain.depth].join('x')
  const lines = [
    `tile program ${source.kernel}: ${tile} of a CTA, ${launch.threads} threads, cluster ` +
      [...cluster.shape, ...(cluster.splits > 1 ? [cluster.splits] : [])].join('x'),
  ]
  if (domain.walk === 'dynamic') lines.push('  work handed out by the device')
  if (domain.parts !== undefined)
    lines.push(
      `  ${domain.parts} parts of k to each tile${domain.share ? `, work items shared by ${domain.share}` : ''}`,
    )
  if (domain.groups) {
    const { by, group, form, along } = domain.groups
    lines.push(
      `  tiles of groups of ${(along === 'm' ? domain.rows : domain.columns).axis}, ${form} by ${by} as ${group}`,
    )
  }
  if (domain.sums) {
    const { by, group, form } = domain.sums
    lines.push(`  sums of groups, ${form} by ${by} as ${group}`)
  }
  const { axis: columns, interleaved, step } = domain.columns
  if (step !== undefined) lines.push(`  tiles ${step} columns apart, whole sectors of outputs`)
  if (interleaved !== undefined)
    lines.push(`  columns 2${columns} and 2${columns} + 1 of ${interleaved} for each of ${columns}`)
  for (const { axis, outer } of domain.loops) lines.push(`  loop over tiles of ${[...outer, axis].join(', ')}`)
  for (const r of program.rings)
    lines.push(`  ring ${r.name}[${r.slots}]${r.startsAt ? ` from the ${r.startsAt}'s slot on` : ''}`)
  for (const b of program.buffers)
    lines.push(
      `  smem ${b.name} @${b.offset}: ${b.slots} x ${b.slotBytes} B${b.per ? ` x ${b.per.count} ${b.per.owner}s` : ''}` +
        `${b.ring === null ? '' : ` of ring ${b.ring}`}${b.over ? ` over ${b.over}` : ''}  -- ${b.holds}`,
    )
  for (const b of program.barriers) {
    const { preferred, fallback } = b.arrivals
    const bytes = announcedBytes(program, b.name)
    lines.push(
      `  barrier ${b.name}[${b.ring}] @${b.offset}: ` +
        `${preferred === fallback ? preferred : `${preferred} or ${fallback}`} arrival(s)` +
        `${bytes === null ? '' : ` + ${bytes} B`}${b.per ? ` for each ${b.per.owner}` : ''}  -- ${b.meaning}`,
    )
  }
  if (tmem)
    lines.push(
      `  tmem ${tmem.columns} columns, ${tmem.columnsPerAccumulator} for each slot of ring ${tmem.ring}` +
        (tmem.sums === null ? '' : `, sums of parts from ${tmem.sums} on`) +
        (tmem.inRegisters === undefined ? '' : `, ${tmem.inRegisters} in registers`),
    )
  if (registers)
    lines.push(
      `  accumulators in registers: ${registers.products} x ${registers.rowBlocks} blocks of ` +
        `${registers.warps ? 16 : 64} x ${registers.columns}` +
        (registers.warps ? ` for each of ${registers.warps.join('x')} warps` : '') +
        (registers.perSm === undefined ? '' : `, for ${registers.perSm} CTAs of an SM`) +
        (registers.parts ? `, parts of ${registers.parts.columns} columns in ${registers.parts.cells}` : ''),
    )
  for (const r of program.reductions)
    lines.push(
      `  reduction ${r.operand}: ${r.fn}[${r.over.join(', ')}], parts for each ${r.keepsM ? 'm' : 'block of rows'}, ${r.keepsN ? 'n' : 'block of columns'}`,
    )
  for (const step of program.setup) lines.push(`  setup (${warpText(step.warp)})`, ...printOps(step.body, 2))
  for (const role of program.roles) {
    const last = role.firstWarp + role.warps - 1
    lines.push(
      `  role ${role.name} (${role.warps === 1 ? `warp ${last}` : `warps ${role.firstWarp}-${last}`}): ${role.does}`,
      ...printOps(role.body, 2),
    )
  }
  for (const step of program.teardown) lines.push(`  teardown (${warpText(step.warp)})`, ...printOps(step.body, 2))
  return lines.join('\n') + '\n'
}

/** Bytes that are announced on a barrier for each of its phases; null: none. */
export function announcedBytes(program: TileProgram, barrier: string): number | null {
  for (const op of opsOf(program)) {
    if ((op.op === 'arrive_expect_tx' || op.op === 'expect_work') && op.barrier === barrier) return op.bytes
    if (op.op === 'fetch_first' && op.fetch.barrier === barrier) return op.fetch.bytes
  }
  return null
}

const warpText = (warp: number | null): string => (warp === null ? 'all warps' : `warp ${warp}`)

function printOps(ops: readonly TileOp[], depth: number): string[] {
  return ops.flatMap((op) => {
    const bodies = bodiesOf(op)
    const line = '  '.repeat(depth) + printOp(op)
    if (bodies.length < 2) return [line, ...bodies.flatMap((body) => printOps(body, depth + 1))]
    return bodies.flatMap((body, i) => [`${line} ${i}`, ...printOps(body, depth + 1)])
  })
}

const partText = ({ index, of, chunk, product, block, column, columnBytes }: Part): string =>
  `part ${index} of ${of} (chunk ${chunk}, product ${product}, block ${block}, column ${column} @${columnBytes})`

const scaleText = ({ group, count, chunk, chunks }: ScaleLayout): string =>
  `${count} of ${group} rows x ${chunks} of ${chunk} k`

const sourceOfScales = (source: ScaleSource | null): string =>
  source ? `${source.buffer} (${scaleText(source.layout)})` : 'none'

const atomsText = ({ rows, steps, from }: ScaleAtoms): string => `${rows} x ${steps} atoms, from that of the ${from} on`
const mmaScalesText = (scales: MmaScales | null): string =>
  scales === null
    ? ''
    : `, ${scales.perStep} scales a step: ` +
      [scales.a, ...scales.b]
        .map(({ column, atoms }) => `column ${column} (${atoms ? atomsText(atoms) : 'filled'})`)
        .join(' * ')

const depthText = ({ axis, tile, outer }: DepthView): string =>
  [...outer.map((o) => `${o.axis} ${printIx(o.at)}`), `${axis} tile ${printIx(tile)}`].join(', ')
const tileText = ({ rows, depth, major, boxes, span, pitch, swizzle, shifted, dealt }: SharedTile): string =>
  `${rows} x ${depth} ${major}-major, ${boxes > 1 ? `${boxes} boxes of ${span} elements, ${pitch} B apart` : `rows of ${span}`}, ${placeText({ swizzle, shifted, dealt })}`
const sourceText = ({ major, span, pitch, swizzle, shifted, settled, dealt }: TileSource['tile']): string =>
  `${major}-major, ${pitch > 0 ? `boxes of ${span} elements, ${pitch} B apart` : `rows of ${span}`}, ${placeText({ swizzle, shifted, settled, dealt })}`
const placeText = ({
  swizzle,
  shifted,
  settled,
  dealt,
}: Pick<TileSource['tile'], 'swizzle' | 'shifted' | 'settled' | 'dealt'>): string =>
  settled ? 'settled' : shifted ? 'shifted' : dealt ? `by ${dealt} of lanes` : `swizzle ${swizzle}`
const descriptorText = (d: { leadingBytes: number; strideBytes: number; stepBytes: number; swizzle: string }): string =>
  `(lbo ${d.leadingBytes}, sbo ${d.strideBytes}, step ${d.stepBytes}, swizzle ${d.swizzle})`
const blocksText = (blocks: readonly StageBlock[]): string =>
  blocks.map(({ buffer, offset, column }) => `${column} in ${buffer} @${offset}`).join(', ')
const guarded = (guard: Node | null): string =>
  guard === null ? '' : `, if ${valueTexts([{ name: null, value: guard }])} is not 0`

/**
 * `D = relu(fma(sum0, alpha, C))`. What is used more than once is named first: `%0 = …`, so that a text is never longer than its
 * program.
 */
function valueTexts(values: readonly { readonly name: string | null; readonly value: Node }[]): string {
  const uses = new Map<Node, number>()
  const nodes = topological(values.map(({ value }) => value))
  for (const node of nodes) for (const child of children(node)) uses.set(child, (uses.get(child) ?? 0) + 1)
  const texts = new Map<Node, string>()
  const shared: string[] = []
  for (const node of nodes) {
    const text = nodeText(node, (child) => texts.get(child)!)
    const several = (uses.get(node) ?? 0) > 1 && children(node).length > 0
    if (several) shared.push(text)
    texts.set(node, several ? `%${shared.length - 1}` : text)
  }
  const named = values.map(({ name, value }) => `${name === null ? '' : `${name} = `}${texts.get(value)!}`)
  return [...shared.map((text, i) => `%${i} = ${text}`), ...named].join('; ')
}

function nodeText(node: Node, of: (child: Node) => string): string {
  switch (node.kind) {
    case 'accumulator':
      return `sum${node.index}`
    case 'input':
      return node.at ? `${node.operand}[${node.at.map(of).join(', ')}]` : node.operand
    case 'scalar':
      return node.operand
    case 'const':
      return Object.is(node.value, -0) ? '-0' : String(node.value)
    case 'size':
    case 'start':
    case 'length':
      return `${node.kind}(${node.axis})`
    case 'axis':
      return node.axis
    case 'contract':
      return `contract(${children(node).map(of).join(', ')})`
    case 'reduce':
      return `${node.fn}[${node.over.join(', ')}](${of(node.value)})`
    case 'cast':
      return `${node.to}(${of(node.value)})`
    case 'apply':
      return `${node.op}${node.short ? '~' : ''}(${node.args.map(of).join(', ')})`
    case 'skip0':
      return `skip0(${of(node.scale)}) * ${of(node.value)}`
  }
}

function printOp(op: TileOp): string {
  switch (op.op) {
    case 'wait':
      return `wait ${op.barrier} (${op.parity})`
    case 'arrive':
      return `arrive ${op.barrier} at ${op.at}${op.ring ? `, slot of ${op.ring}` : ''}`
    case 'arrive_expect_tx':
    case 'expect_work':
      return `${op.op} ${op.barrier}, ${op.bytes} B`
    case 'tma_load':
      return (
        `tma_load ${op.operand} (${op.free}, ${depthText(op.depth)}) by ${op.map} -> ${op.buffer}, ${tileText(op.tile)}` +
        `${op.slices ? `, ${op.slices.count} slices of ${op.slices.rows} rows, ${op.slices.bytes} B` : ''}, on ` +
        op.barrier
      )
    case 'gather':
    case 'copy_tile':
      return (
        `${op.op} ${op.operand} (${op.free}, ${depthText(op.depth)}) -> ${op.buffer}${op.ring ? `[${op.ring}]` : ''}, ` +
        `${tileText(op.tile)}, ${op.op === 'gather' ? `${op.batch} chunks at once` : `${op.bytes} B each${op.cached ? ', through L1' : ''}`}`
      )
    case 'find_rows':
      return `find_rows ${op.operand} (${op.free}), ${op.rows} of ${op.chunks} chunks along ${op.along}`
    case 'settle_rows':
      return `settle_rows ${op.operand} of ${op.buffer}`
    case 'load_fragments':
      return (
        'load_fragments ' +
        [op.a, ...op.products]
          .map(({ buffer, operand, tile }) => `${operand} of ${buffer} (${sourceText(tile)})`)
          .join(', ') +
        `, step ${op.step} -> set ${op.set}`
      )
    case 'mma_sync':
      return `mma_sync.m16n8k${op.kind.k}.${op.kind.d}.${op.kind.a}.${op.kind.b}${op.kind.split ? ' in parts' : ''} set ${op.set}${op.chunk ? `, a chunk ${op.chunk}` : ''}`
    case 'mma':
      return (
        `mma.${op.kind} ${op.a} * ${op.products.map(({ b, column }) => `${b} -> column ${column}`).join(', ')}, ` +
        `${op.steps} steps${op.chunk === null ? '' : ` of chunk ${op.chunk}`}, instruction 0x${(op.instruction.descriptor >>> 0).toString(16).padStart(8, '0')} (` +
        `${op.instruction.text}), a ${descriptorText(op.aDescriptor)}, b ${descriptorText(op.bDescriptor)}` +
        mmaScalesText(op.scales)
      )
    case 'wgmma':
      return (
        `wgmma.k${op.kind.k}.${op.kind.d}.${op.kind.a}.${op.kind.b} n${op.n} ${op.a} * ` +
        `${op.products.map(({ b }) => b).join(', ')} x ${op.steps} steps${op.stopsAtK ? ' up to k' : ''}, blocks ` +
        `${op.blockBytes} B apart, a ${op.aMajor}-major ${descriptorText(op.aDescriptor)}, b ${op.bMajor}-major ` +
        descriptorText(op.bDescriptor) +
        (op.part ? `, ${partText(op.part)}` : '')
      )
    case 'quantise': {
      const { scale, global, norm, rounding } = op.form
      return `quantise ${op.operand} in blocks of ${op.block} along ${op.along}${op.shared === null ? '' : ` (${op.shared})`}, scale ${scale} rounded ${rounding}, global ${global}, norm ${norm}${op.measured ? ', measured' : ''}`
    }
    case 'measure_begin':
    case 'measure':
      return `${op.op} ${op.operand}`
    case 'for_blocks':
      return `for_blocks of ${op.columns} columns`
    case 'for_subtiles':
      return `for_subtiles${op.of === undefined ? '' : ` of a block of ${op.of} columns`}`
    case 'share_largest':
      return `share_largest ${op.operand} -> ${op.buffer}`
    case 'load_scales':
      return (
        `load_scales ${op.operand} (${op.free}, ${depthText(op.depth)}) -> ${op.buffer}${op.ring ? `[${op.ring}]` : ''}, ${scaleText(op.layout)}, ` +
        (op.copies
          ? `copies ${op.barrier === null ? 'of the thread' : `on ${op.barrier}`}`
          : `through registers${op.barrier === null ? '' : `, for ${op.barrier}`}`) +
        `, by ${op.warps} warp(s)`
      )
    case 'load_atoms':
      return `load_atoms ${op.operand} (${op.free}, ${depthText(op.depth)}) by ${op.map} -> ${op.buffer}, ${atomsText(op.atoms)}, on ${op.barrier}`
    case 'write_atoms':
      return `write_atoms ${op.operand} (${op.free}, ${depthText(op.depth)}) -> ${op.buffer}, ${atomsText(op.atoms)}, ${op.block} k to a scale`
    case 'copy_atoms':
      return `copy_atoms ${op.buffer} -> column ${op.column}, ${atomsText(op.atoms)}`
    case 'fill_columns':
      return `fill_columns ${op.columns} from column ${op.column} on with 0x${op.word.toString(16)}`
    case 'part_scales':
    case 'promote':
      return `${op.op} ${partText(op.part)}, a ${sourceOfScales(op.a)}, b ${sourceOfScales(op.b)}`
    case 'add_part':
      return (
        `add_part ${op.chunk} of ${op.of} (${op.cells}), a ${sourceOfScales(op.a)}, ` +
        op.b.map((b) => `b ${sourceOfScales(b)}`).join(', ')
      )
    case 'wgmma_wait':
    case 'copy_wait':
    case 'bulk_wait_read':
      return `${op.op}, ${op.pending} may be pending`
    case 'commit':
      return `commit ${op.barrier} to ${op.to}`
    case 'release':
      return `release ${op.barrier}, slot of ${op.ring}${op.eachWarp ? ', by each warp' : ''}`
    case 'wait_turn':
    case 'pass_turn':
    case 'arrive_all':
    case 'arrive_copied':
    case 'barrier_init':
      return `${op.op} ${op.barrier}`
    case 'advance':
      return `advance ${op.ring}`
    case 'for_slots':
      return `for_slots ${op.ring}${op.but > 0 ? ` but ${op.but}` : ''}`
    case 'skip_tile':
      return `skip_tile ${op.rings.join(', ')}${op.behind > 0 ? ` and ${op.behind} more` : ''}${op.unless ? `, unless ${op.unless}` : ''}`
    case 'set_registers':
      return `set_registers ${op.count} (${op.change})`
    case 'for_tiles':
      return `for_tiles${op.turns === undefined ? '' : `, ${op.turns} in turns`}${op.accumulators ? ', with accumulators' : ''}`
    case 'for_warpgroups':
      return `for_warpgroups${op.whole ? ', whole warps' : ''}`
    case 'for_first_k':
      return `for_first_k ${op.count}`
    case 'ahead':
      return `ahead by ${op.by}`
    case 'prefetch_maps':
      return `prefetch_maps ${op.maps.join(', ')}`
    case 'tcgen05_fence':
      return `tcgen05_fence ${op.when}`
    case 'request_work':
      return `request_work -> ${op.buffer} on ${op.barrier}`
    case 'read_work':
      return `read_work ${op.buffer}`
    case 'park':
      return `park -> ${op.buffer}, of ${op.threads} threads`
    case 'leave_cells':
      return `leave_cells -> ${op.buffer}`
    case 'add_cells':
      return `add_cells of ${op.buffer}`
    case 'last_part':
      return `last_part, of ${op.threads} threads`
    case 'role_sync':
      return `role_sync of ${op.threads} threads`
    case 'meet_parts':
      return `meet_parts, of ${op.threads} threads${op.finishes === 'each' ? ', each of which finishes a share' : ''}`
    case 'add_sums':
      return `add_sums of ${op.buffer}, of ${op.threads} threads`
    case 'send_sums':
      return `send_sums -> ${op.buffer} on ${op.barrier}, of ${op.threads} threads`
    case 'take_cells':
      return `take_cells${op.from ? ` from ${op.from.buffer}, of ${op.from.threads} threads` : ''}`
    case 'own_row':
      return `own_row${op.lane ? ' and lane' : ''}`
    case 'tmem_load':
      return `tmem_load ${op.products}`
    case 'fetch_first':
    case 'fetch_next': {
      const { ring, buffer, barrier, map, bytes, subtiles } = op.fetch
      return `${op.op} ${op.operand} by ${map} -> ${buffer}[${ring}] on ${barrier}, ${bytes} B, ${subtiles} in a tile${guarded(op.guard)}`
    }
    case 'hold_stage':
      return `hold_stage ${op.operand} part ${op.part} in ${op.ring}`
    case 'prefetch_stage':
      return `prefetch_stage ${op.operand} by ${op.map}, ${op.columns} columns in a step of k${guarded(op.guard)}`
    case 'fetch_stage':
    case 'take_stage': {
      const how = op.op === 'fetch_stage' ? ` by ${op.map} on ${op.barrier}, ${op.bytes} B` : `, swizzle ${op.swizzle}`
      return `${op.op} ${op.operand}${how}: ${op.columns} columns from ${blocksText(op.blocks)}${guarded(op.guard)}`
    }
    case 'load_ahead':
      return `load_ahead ${op.operand} (${op.shape}${op.elements ? `, elements of a ${op.elements}` : ''})${guarded(op.guard)}`
    case 'load_next':
      return `load_next ${op.operand}${op.stops ? ', up to n' : ''}${guarded(op.guard)}`
    case 'aux_load':
      return (
        `aux_load ${op.operand} (${op.shape}${op.vector ? ', vector' : ''}${op.ahead ? `, ahead of the ${op.ahead}` : ''}` +
        `${op.rows ? `, rows ${op.rows.copied ? 'from' : 'by'} ${op.rows.buffer}` : ''}` +
        `${op.stage ? `, from ${op.stage.parts.map(blocksText).join('; ')}, ${op.stage.columns} columns each, swizzle ${op.stage.swizzle}` : ''}` +
        `${op.fetched ? `, from ${op.fetched.buffer}, swizzle ${op.fetched.swizzle}` : ''})${guarded(op.guard)}`
      )
    case 'copy_rows':
      return `copy_rows ${op.operand} -> ${op.buffer}${guarded(op.guard)}`
    case 'compute':
      return `compute ${valueTexts(op.outputs.map(({ operand, value }) => ({ name: operand, value })))}`
    case 'stage_write':
      return (
        `stage_write ${op.operand} -> ${op.buffer} (${op.bytes} B, ${op.contiguous}-contiguous, swizzle ${op.swizzle}` +
        `${op.matrices ? ', by stmatrix' : ''}${op.carry === undefined ? '' : `, carried at ${op.carry}`}${op.dense ? ', dense' : ''})`
      )
    case 'row_store':
      return (
        `row_store ${op.buffer} -> ${op.operand} (${op.bytes} B, ${op.contiguous}-contiguous, swizzle ${op.swizzle}` +
        `${op.carry === undefined ? '' : `, carried at ${op.carry}`}${op.dense ? ', dense' : ''})`
      )
    case 'tma_store':
      return `tma_store ${op.buffer} -> ${op.operand} by ${op.map} (${op.contiguous}-contiguous)`
    case 'direct_store':
      return `direct_store ${op.operand}${op.places ? ` at ${op.places.join(', ')}` : ''}`
    case 'reduce_begin':
    case 'reduce_subtile':
    case 'reduce_end':
      return `${op.op} ${op.operand}`
    case 'origin_in_last_k':
    case 'next_origin':
    case 'while_work':
    case 'leader':
    case 'first_cta':
    case 'for_k':
    case 'by_loop':
    case 'elected':
    case 'lane0':
    case 'fence_barrier_init':
    case 'tmem_alloc':
    case 'tmem_relinquish':
    case 'tmem_dealloc':
    case 'tmem_address':
    case 'cta_sync':
    case 'cluster_start':
    case 'cluster_sync':
    case 'warp_sync':
    case 'warpgroup_sync':
    case 'in_own_k':
    case 'after_first_k':
    case 'first_along_k':
    case 'one_thread':
    case 'last_warp':
    case 'first_warp':
    case 'check_groups':
    case 'before_next_tile':
    case 'store_part':
    case 'add_parts':
    case 'copy_commit':
    case 'zero_cells':
    case 'park_cells':
    case 'for_row_blocks':
    case 'stop_at_n':
    case 'last_subtile':
    case 'proxy_fence':
    case 'for_staged':
    case 'after_first_staged':
    case 'bulk_commit':
      return op.op
  }
}
