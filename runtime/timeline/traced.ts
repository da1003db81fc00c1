/** Runs of builds that time themselves, on any device: what their roles did when, as a Chrome trace. */
import { generateTraced } from '../../codegen/index.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import type { RuntimeArguments } from '../arguments/base.ts'
import type { Artifact } from '../artifacts/artifact.ts'
import { buildArtifact } from '../kernels/build_artifact.ts'
import type { KtlKernel } from '../kernels/ktl_kernel.ts'
import { workspaceBytes } from '../kernels/plan_launch.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { FIRST_UNIT, MEASURED, MODELLED, parseTrace, printTrace, type ChromeEvent } from './chrome.ts'
import { readStamps, type StampedCta } from './stamps.ts'

export interface TracedBuild {
  /** To run the kernel with. */
  readonly artifact: Artifact
  /** All zeros: the stamps come behind what the kernel itself has there. */
  readonly workspace: Tensor
  /** After the run. `units`: the trace of a virtual device, whose units are kept. Resolves with the text of a Chrome trace. */
  read(units: string | undefined): Promise<string>
}

/** null: the kernel has no roles (it runs on CUDA cores). Rejects as `kernel.compile` does. */
export async function tracedBuild(
  kernel: KtlKernel,
  args: RuntimeArguments,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<TracedBuild | null> {
  const { planned, plan } = kernel
  const { device } = args
  const generated = generateTraced(plan, planned.name)
  if (generated === null) return null
  const building = { arch: device.arch as TargetArch, kind: device.moduleFormat, device, signal }
  const artifact = await buildArtifact(planned, generated, building)
  const layout = generated.trace!
  const bytes = workspaceBytes(generated.recipe, kernel.call(args))
  const workspace = device.tensor('u32', [bytes / 4], 0)
  return {
    artifact,
    workspace,
    async read(units) {
      const used = layout.ctas * layout.streams * layout.stamps * 16
      // The region is the last one.
      const stamps = (await workspace.toBytes()).slice(bytes - used)
      return printTrace(document(readStamps(new BigUint64Array(stamps.buffer), layout), units))
    },
  }
}

/** The stamps, and of a virtual device's trace what they do not say: its units, and CTAs without stamps. */
function document(ctas: readonly StampedCta[], units: string | undefined) {
  const native = units === undefined ? null : parseTrace(units)
  const earliest = ctas.reduce((least, { nanoseconds }) => (nanoseconds < least ? nanoseconds : least), ctas[0]?.nanoseconds ?? 0n) // prettier-ignore
  const stamped = new Set(ctas.map(({ cta }) => cta))
  const kept = (native?.traceEvents ?? []).filter(({ pid, tid, name }) => !stamped.has(pid) || tid >= FIRST_UNIT || name.startsWith('process')) // prettier-ignore
  const events = ctas.flatMap(({ cta, clock, nanoseconds, slices, roles }): ChromeEvent[] => [
    ...(native ? [] : [named('process_name', cta, 0, `CTA ${cta}, which begins ${nanoseconds - earliest} ns after the first`)]),
    ...[...roles].map(([warp, role]) => named('thread_name', cta, warp, `${role} ${warp}`)),
    // Units of a virtual device have its time.
    ...slices.map((slice) => (native ? { ...slice, ts: slice.ts + clock } : slice)),
  ]) // prettier-ignore
  return { traceEvents: [...kept, ...events], otherData: { time: native ? MODELLED : MEASURED } }
}

const named = (name: 'thread_name' | 'process_name', pid: number, tid: number, text: string): ChromeEvent => ({
  name,
  ph: 'M',
  pid,
  tid,
  args: { name: text },
})
