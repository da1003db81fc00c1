/** What `ktl run` and `ktl inspect` do with a device, in the page: texts are theirs. */
import type { TargetArch } from '../../compiler/instance.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import { renderDiagnostics } from '../../grammar/render.ts'
import { runOn } from '../../runtime/cli/commands/run.ts'
import { pairs } from '../../runtime/cli/options.ts'
import { Output } from '../../runtime/cli/output.ts'
import { traceInstance } from '../../runtime/cli/timeline.ts'
import { openDevice, type DeviceSpec } from '../../runtime/devices/open.ts'
import { virtualDeviceFor } from '../../runtime/devices/virtual.ts'
import { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { timelineHtml } from '../../runtime/timeline/html.ts'
import { timelineOf } from '../../runtime/timeline/model.ts'
import { compileCached } from '../../runtime/toolchain/cached.ts'
import { kernelOf } from '../compile.ts'
import type { DeviceQuestion, Ran } from '../stages.ts'
import { choiceOf, instanceOf } from './choose.ts'
import { NotPrepared } from './prepared.ts'
import { takePrinted } from './process.ts'

export async function runQuestion(question: DeviceQuestion): Promise<Ran> {
  takePrinted()
  try {
    return await answerOf(question)
  } catch (error) {
    if (error instanceof NotPrepared) return { text: error.message }
    if (error instanceof KtlError) return { text: takePrinted() + renderDiagnostics(error.diagnostics, { color: false }) }
    throw error
  }
} // prettier-ignore

async function answerOf({ call, source, kernel, target, dims }: DeviceQuestion): Promise<Ran> {
  const family = kernelOf({ source, kernel })
  const instance = instanceOf(family, target, { withRoles: call === 'timeline' })
  const { signal } = new AbortController()
  const given = pairs('--dims', 'm=128,n=128')(dims)
  if (call === 'ptx') {
    const { image } = await compileCached(instance.generated.cuda, { arch: target, kind: 'ptx' })
    return { text: new TextDecoder().decode(image) }
  }
  if (call === 'timeline') {
    const { trace, title } = await traceInstance(instance, { target, dims: given }, signal)
    return { page: timelineHtml(timelineOf(trace, `${title}: ${target}`)) }
  }
  const options = { ...choiceOf(instance), dims: given, seed: 1, inputs: 'normal', checks: 'full', show: true } as const
  const open = () => openDevice(deviceOf(target))
  await runOn(open, family, () => [new KtlKernel(instance)], options, { out: new Output(), signal })
  return { text: takePrinted() }
}

const deviceOf = (target: TargetArch): DeviceSpec => virtualDeviceFor([target]) as DeviceSpec
