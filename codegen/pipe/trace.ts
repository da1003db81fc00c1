/**
 * Builds that time themselves: roles write a stamp at the start and the end of waits, issues and epilogues to a region of the workspace.
 * An option of printing, not of the program: without it the text is what it was.
 *
 * A stamp is two 64-bit words: %clock64 (cycles of the SM), and which event (bits 0 to 14), whether it ends (bit 15), the slot of its ring
 * (bits 16 to 31) and the phase (bit 32). A CTA has two streams for each warp, which one thread writes each: of what the warp does
 * together, and of what one elected thread does. The first stamp of the former is (%clock64, %globaltimer).
 */
import type { KernelLaunch } from '../../compiler/ir/launch.ts'
import type { Role, TileOp, TileProgram } from '../../compiler/ir/pipe.ts'
import type { TraceEvent, TraceKind, TraceLayout } from '../cuda/generated.ts'
import { barrierOf, bufferOf, hasPhase, type EmitContext, type Stamps } from './context.ts'

/** CTAs from the first on, and stamps of each stream, that have a place; others are not written. */
const CTAS = 4
const STAMPS = 4096
const STAMP_BYTES = 16
const REGION = 'ktl.trace'

interface Traced {
  readonly kind: TraceKind
  readonly name: string
  readonly ring?: string | null
  /** Waits for the phase before: of the slot's emptiness. */
  readonly before?: boolean
}

/** What is stamped; null: nothing. */
function tracedAs(op: TileOp, program: TileProgram): Traced | null {
  const ring = (buffer: string): string | null => bufferOf(program, buffer).ring
  switch (op.op) {
    case 'wait':
      return { kind: 'wait', name: `wait ${op.barrier}`, ring: barrierOf(program, op.barrier).ring, before: op.parity === 'producer' } // prettier-ignore
    case 'wait_turn':
      return { kind: 'wait', name: `wait ${op.barrier}` }
    case 'wgmma_wait':
      return { kind: 'wait', name: 'wait for MMAs' }
    case 'copy_wait':
      return { kind: 'wait', name: 'wait for copies' }
    case 'bulk_wait_read':
      return { kind: 'wait', name: 'wait for stores' }
    case 'cta_sync':
    case 'role_sync':
    case 'warpgroup_sync':
      return { kind: 'wait', name: 'wait for other warps' }
    case 'tma_load':
    case 'load_atoms':
    case 'load_scales':
    case 'write_atoms':
      return { kind: 'load', name: `load ${op.operand}`, ring: ring(op.buffer) }
    case 'gather':
    case 'copy_tile':
      return { kind: 'load', name: `load ${op.operand}`, ring: op.ring ?? ring(op.buffer) }
    case 'load_ahead':
    case 'load_next':
    case 'copy_rows':
      return { kind: 'load', name: `load ${op.operand}` }
    case 'fetch_stage':
      return { kind: 'load', name: `load ${op.operand}`, ring: ring(op.blocks[0]!.buffer) }
    case 'mma':
    case 'wgmma':
      return { kind: 'multiply', name: 'MMA', ring: ring(op.a) }
    case 'mma_sync':
      return { kind: 'multiply', name: 'MMA' }
    case 'for_subtiles':
      return { kind: 'epilogue', name: 'epilogue' }
    case 'tma_store':
    case 'row_store':
    case 'direct_store':
      return { kind: 'store', name: `store ${op.operand}` }
    default:
      return null
  }
}

/** Operations whose body one elected thread runs. Lane 0 is that of the warp's own stream. */
const elects = (op: TileOp): boolean =>
  op.op === 'elected' || op.op === 'one_thread' || (op.op === 'for_warpgroups' && !op.whole)

/** What a traced kernel is printed with. */
export class Tracer implements Stamps {
  readonly #program: TileProgram
  readonly #pointer: string
  readonly #events: TraceEvent[]
  readonly #elected: boolean

  constructor(program: TileProgram, pointer: string, events: TraceEvent[] = [], elected = false) {
    this.#program = program
    this.#pointer = pointer
    this.#events = events
    this.#elected = elected
  }

  within(op: TileOp): Tracer {
    return this.#elected || !elects(op) ? this : new Tracer(this.#program, this.#pointer, this.#events, true)
  }

  around(op: TileOp, c: EmitContext, emit: () => void): void {
    const traced = c.role === null ? null : tracedAs(op, this.#program)
    if (traced === null) return emit()
    const ring = placedBy(traced, c.role!)
    const event = this.#event({ name: traced.name, kind: traced.kind, role: c.role!.name, ring })
    const phase = ring !== null && hasPhase(this.#program, ring) ? `${ring}_phase${traced.before ? ' ^ 1' : ''}` : '0'
    const place = ring === null ? '0, 0' : `${ring}, ${phase}`
    this.#stamp(c, event, place)
    emit()
    this.#stamp(c, event | 0x8000, place)
  }

  declare(c: EmitContext): void {
    c.wrappers.add('trace_stamp')
    c.out.line('u32 trace_warp = 0, trace_elected = 0;  // stamps of this thread')
    c.out.line(`trace_begin(${this.#pointer}, trace_warp);`)
  }

  get layout(): TraceLayout {
    return {
      region: REGION,
      ctas: CTAS,
      streams: streamsOf(this.#program.launch),
      stamps: STAMPS,
      events: this.#events,
    }
  }

  /** A number for each event; printing the kernel twice gives the same. */
  #event(event: TraceEvent): number {
    const key = JSON.stringify(event)
    const known = this.#events.findIndex((other) => JSON.stringify(other) === key)
    return known >= 0 ? known : this.#events.push(event) - 1
  }

  #stamp(c: EmitContext, event: number, place: string): void {
    const [stream, count] = this.#elected ? ['2 * warp + 1', 'trace_elected'] : ['2 * warp', 'trace_warp']
    c.out.line(`trace_stamp(${this.#pointer}, ${stream}, ${count}, ${event}, ${place});`)
  }
}

/** The ring of the event, where the role keeps it. */
const placedBy = ({ ring }: Traced, { rings }: Role): string | null =>
  ring !== undefined && ring !== null && rings.includes(ring) ? ring : null

const streamsOf = ({ threads }: Pick<KernelLaunch, 'threads'>): number => (threads / 32) * 2

/** The launch with the address of the stamps as its last parameter, behind what the workspace has already. */
export function tracedLaunch<L extends KernelLaunch>(launch: L): L {
  const elementBytes = CTAS * streamsOf(launch) * STAMPS * STAMP_BYTES
  return {
    ...launch,
    params: [...launch.params, { kind: 'workspace', region: REGION, storage: 'unsigned long long' }],
    workspace: [...(launch.workspace ?? []), { name: REGION, elementBytes, extents: [] }],
  }
}

/** The pointer as the kernel's parameters call it. */
export const tracePointer = (c: Pick<EmitContext, 'names'>): string => `partial_${c.names.operand(REGION)}`

/** PTX ISA 10.22 and 10.24: %clock64 and %globaltimer. A predicated store leaves no thread behind. */
export const traceWrapper = (
  launch: KernelLaunch,
): string => `constexpr u32 TRACE_CTAS = ${CTAS}, TRACE_STREAMS = ${streamsOf(launch)}, TRACE_STAMPS = ${STAMPS};

__device__ __forceinline__ void trace_write(u64* trace, u32 stream, u32& count, u64 time, u64 what) {
  const u64 place = (u64(blockIdx.x) * TRACE_STREAMS + stream) * TRACE_STAMPS + count;
  const u32 writes = blockIdx.x < TRACE_CTAS && count < TRACE_STAMPS && (stream % 2 == 1 || threadIdx.x % 32 == 0);
  asm volatile("{\\n\\t.reg .pred p;\\n\\tsetp.ne.u32 p, %0, 0;\\n\\t@p st.global.v2.u64 [%1], {%2, %3};\\n\\t}"
    ::"r"(writes), "l"(trace + 2 * (writes ? place : 0)), "l"(time), "l"(what) : "memory");
  ++count;
}

__device__ __forceinline__ u64 trace_clock() {
  u64 time;
  asm volatile("mov.u64 %0, %clock64;" : "=l"(time) :: "memory");
  return time;
}

__device__ __forceinline__ void trace_stamp(u64* trace, u32 stream, u32& count, u32 event, u32 slot, u32 phase) {
  trace_write(trace, stream, count, trace_clock(), event | u64(slot) << 16 | u64(phase & 1) << 32);
}

__device__ __forceinline__ void trace_begin(u64* trace, u32& count) {
  u64 time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time) :: "memory");
  trace_write(trace, threadIdx.x / 32 * 2, count, trace_clock(), time);
}`
