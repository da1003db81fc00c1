/** Traces of runs as the command line writes them: Chrome events, or drawn. */
import path from 'node:path'
import type { KernelFamily } from '../../compiler/family.ts'
import { targetOf } from '../../compiler/targets/index.ts'
import { wideEnough } from '../arguments/indices.ts'
import { openDevice, type DeviceSpec } from '../devices/open.ts'
import { virtualDeviceFor } from '../devices/virtual.ts'
import type { PlannedInstance } from '../discovery/space/planned.ts'
import { finite, integer, list, record, ShapeError, text } from '../files/json_shape.ts'
import { readWhole } from '../files/read_file.ts'
import { KtlKernel } from '../kernels/ktl_kernel.ts'
import { timelineHtml } from '../timeline/html.ts'
import { timelineOf } from '../timeline/model.ts'
import { timelineSvg } from '../timeline/svg.ts'
import { tracedBuild } from '../timeline/traced.ts'
import { orderText } from './instances.ts'
import { illegal, type InstanceOptions, type Pairs } from './options.ts'
import { describeDims, makeArguments, planArguments } from './run_arguments.ts'

export const TRACE_FORMATS = ['svg', 'html', 'json'] as const
export type TraceFormat = (typeof TRACE_FORMATS)[number]

/** By the end of the file's name: `.svg`, `.html`, else Chrome events. */
export const formatOf = (file: string): TraceFormat =>
  TRACE_FORMATS.find((format) => file.endsWith(`.${format}`)) ?? 'json'

/** `trace`: Chrome events. `below`: another one, drawn below it. */
export function drawTrace(
  trace: string,
  format: TraceFormat,
  title: string,
  below?: { readonly trace: string; readonly title: string },
): string {
  if (format === 'json') return trace
  const timelines = [timelineOf(trace, title), ...(below ? [timelineOf(below.trace, below.title)] : [])] as const
  return format === 'svg' ? timelineSvg(timelines) : timelineHtml(timelines)
}

const event = record({ name: text, ph: text, pid: integer(0, 1e9), tid: integer(0, 1e9) })
const slice = record({ ts: finite, dur: finite })
const shape = record({
  traceEvents: list((value, at) => {
    event(value, at)
    if ((value as { ph: string }).ph === 'X') slice(value, at)
  }),
})

/** The Chrome events of a file, to be drawn. Rejects with KTL4103 where `option` names something else, KTL6072 where nothing can be read. */
export async function readTrace(
  option: string,
  file: string,
  format: TraceFormat,
): Promise<{ readonly trace: string; readonly title: string }> {
  if (format === 'json') throw illegal(option, 'a picture or a page: --format svg or html', file)
  const trace = (await readWhole(file)).toString('utf8')
  try {
    shape(JSON.parse(trace), 'the trace')
  } catch (error) {
    if (!(error instanceof ShapeError || error instanceof SyntaxError)) throw error
    throw illegal(option, 'a file that `ktl run --trace FILE.json` has written', `${file}: ${error.message}`)
  }
  return { trace, title: path.basename(file) }
}

export interface TimelineOptions extends InstanceOptions {
  readonly dims?: Pairs
}

/** A run of the instance on a virtual device: Chrome events, and what to call them. `options.dims`: default `smallDims`. */
export async function traceInstance(
  instance: PlannedInstance,
  options: TimelineOptions,
  signal: AbortSignal,
): Promise<{ readonly trace: string; readonly title: string }> {
  const { family } = instance.space
  const kernel = new KtlKernel(instance)
  const { types, orders } = instance.choice
  const dims = options.dims ?? smallDims(instance, family)
  const order = Object.fromEntries(Object.entries(orders).map(([name, axes]) => [name, ordered(axes)]))
  const plan = planArguments(family, { ...options, type: types, order, dims, seed: 1, inputs: 'normal' })
  const device = await openDevice((virtualDeviceFor([options.target]) ?? 'virtual-sm90') as DeviceSpec)
  try {
    const { args } = await makeArguments(plan, device)
    const traced = await tracedBuild(kernel, args, { signal })
    const { trace = '' } = await kernel.run(args, { ...traced, trace: true, signal })
    return { trace: traced ? await traced.read(trace) : trace, title: `${family.name}, ${describeDims(plan.extents)}` }
  } finally {
    await device.close()
  }
}

/** As `--order` reads it: axes of several letters have colons between them. */
export const ordered = (axes: readonly string[]): string =>
  axes.some((axis) => axis.length > 1) && axes.length > 1 ? axes.join(':') : orderText(axes)

/** One tile, or one for each CTA of a cluster, and eight tiles of k, so that the ring of stages turns. */
function smallDims({ plan }: PlannedInstance, family: KernelFamily): Pairs {
  const program = targetOf(plan).pipeline?.(plan)
  const small = new Map(family.axes.map(({ name }) => [name, 32]))
  if (program) {
    const { domain, cluster } = program
    small.set(domain.rows.axis, domain.rows.extent * cluster.shape[0])
    small.set(domain.columns.axis, domain.columns.extent * cluster.shape[1])
    for (const { axis, outer } of domain.loops) {
      for (const name of outer) small.set(name, 2)
      small.set(axis, (8 * domain.depth) / 2 ** outer.length)
    }
    if (domain.batch !== null) small.set(domain.batch, 1)
  }
  const given = family.axes.filter(({ extent, optional }) => extent === undefined && !optional)
  const extents = Object.fromEntries(given.map(({ name }) => [name, small.get(name)!]))
  return Object.fromEntries(
    Object.entries(wideEnough(plan.program, extents)).map(([name, extent]) => [name, String(extent)]),
  )
}
