/** Stable text of tile IR, for `ktl inspect --stage tile` and goldens. */
import { isNested, type TileOp, type TileProgram } from './pipe.ts'

export function printTileProgram(program: TileProgram): string {
  const [m, n, k] = program.tile
  const lines = [`tile program ${program.tensor.kernel}: ${m}x${n}x${k}, ${program.threads} threads`]
  for (const r of program.rings) lines.push(`  ring ${r.name}[${r.slots}]`)
  for (const b of program.buffers)
    lines.push(`  smem ${b.name} @${b.offset}: ${b.slots} x ${b.slotBytes} B${b.per ? ` x ${b.per.count} ${b.per.owner}s` : ''} of ring ${b.ring}  -- ${b.holds}`) // prettier-ignore
  for (const b of program.barriers)
    lines.push(`  barrier ${b.name}[${b.ring}] @${b.offset}: ${b.arrivals.preferred === b.arrivals.fallback ? b.arrivals.preferred : `${b.arrivals.preferred} or ${b.arrivals.fallback}`} arrival(s)${b.txBytes === null ? '' : ` + ${b.txBytes} B`}  -- ${b.meaning}`) // prettier-ignore
  const { tmem, registers } = program
  if (tmem)
    lines.push(`  tmem ${tmem.columns} columns, ${tmem.columnsPerAccumulator} for each slot of ring ${tmem.ring}`)
  if (registers)
    lines.push(
      `  accumulators in registers: ${registers.products} x ${registers.rowBlocks} blocks of ${registers.warps ? 16 : 64} x ${registers.columns}${registers.warps ? ` for each of ${registers.warps.join('x')} warps` : ''}`,
    )
  for (const step of program.setup) lines.push(`  setup (${warpText(step.warp)})`, ...printOps(step.body, 2))
  for (const role of program.roles) {
    const last = role.firstWarp + role.warps - 1
    lines.push(
      `  role ${role.name} (${role.warps === 1 ? `warp ${last}` : `warps ${role.firstWarp}-${last}`}): ${role.does}`,
    )
    lines.push(...printOps(role.body, 2))
  }
  for (const step of program.teardown) lines.push(`  teardown (${warpText(step.warp)})`, ...printOps(step.body, 2))
  return lines.join('\n') + '\n'
}

const warpText = (warp: number | null): string => (warp === null ? 'all warps' : `warp ${warp}`)

function printOps(ops: readonly TileOp[], depth: number): string[] {
  return ops.flatMap((op) => {
    const line = '  '.repeat(depth) + printOp(op)
    return isNested(op) ? [line, ...printOps(op.body, depth + 1)] : [line]
  })
}

function printOp(op: TileOp): string {
  switch (op.op) {
    case 'wait':
      return `wait ${op.barrier} (${op.parity})`
    case 'tma_load':
      return `tma_load ${op.operand} -> ${op.buffer}, ${op.plan.slices} slice(s) of ${op.plan.boxes} x ${op.plan.boxBytes} B on ${op.barrier}`
    case 'gather':
    case 'copy_tile':
      return `${op.op} ${op.operand} -> ${op.buffer}${op.ring ? `[${op.ring}]` : ''}${op.op === 'copy_tile' ? `, ${op.plan.copyBytes} B each` : ''}`
    case 'load_fragments':
      return `load_fragments ${[op.a, ...op.products].map(({ buffer, plan }) => `${buffer} (${plan.major}-major)`).join(', ')}, step ${op.step} -> set ${op.set}`
    case 'mma_sync':
      return `mma_sync.m16n8k${op.kind.k}.${op.kind.d}.${op.kind.a}.${op.kind.b} set ${op.set}`
    case 'mma':
      return `mma.${op.kind} ${op.steps} steps, instruction 0x${op.instructionDescriptor.toString(16).padStart(8, '0')}, a ${descriptorText(op.aDescriptor)}, b ${descriptorText(op.bDescriptor)}` // prettier-ignore
    case 'wgmma':
      return `wgmma.k${op.kind.k}.${op.kind.d}.${op.kind.a}.${op.kind.b} n${op.n} x ${op.steps} steps${op.stopsAtK ? ' up to k' : ''}, a ${op.aMajor}-major ${descriptorText(op.aDescriptor)}, b ${op.bMajor}-major ${descriptorText(op.bDescriptor)}`
    case 'aux_load':
      return `aux_load ${op.operand} (${op.shape}${op.vector ? ', vector' : ''}${op.guard ? ', guarded' : ''})`
    case 'compute':
      return `compute ${op.outputs.map((o) => o.operand).join(', ')}`
    case 'stage_write':
      return `stage_write ${op.operand} -> ${op.buffer} (${op.contiguous}-contiguous, swizzle ${op.swizzle})`
    case 'tma_store':
      return `tma_store ${op.buffer} -> ${op.operand}`
    case 'direct_store':
      return `direct_store ${op.operand}`
    default: {
      const detail = Object.entries(op).filter(([key]) => key !== 'op' && key !== 'body')
      return [op.op, ...detail.map(([, value]) => String(value))].join(' ')
    }
  }
}

const descriptorText = (d: { leadingBytes: number; strideBytes: number; stepBytes: number }): string =>
  `(lbo ${d.leadingBytes}, sbo ${d.strideBytes}, step ${d.stepBytes})`
