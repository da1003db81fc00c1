/** The pictures of the docs, made of what the compiler and the virtual devices say of two GEMMs. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { TileProgram } from '../../../compiler/ir/pipe.ts'
import { targetOf } from '../../../compiler/targets/index.ts'
import { getKernels, KernelArguments, KtlKernel, loadSource, openDevice } from '../../../runtime/index.ts'
import { timelineOf } from '../../../runtime/timeline/model.ts'
import { timelineSvg } from '../../../runtime/timeline/svg.ts'
import { tracedBuild } from '../../../runtime/timeline/traced.ts'
import { memoryMap } from './memory_map.ts'
import { pipeline } from './pipeline.ts'

const ROOT = path.join(import.meta.dirname, '../../..')
const SOURCE = { name: 'samples/linear.ktl', text: readFileSync(path.join(ROOT, 'samples/linear.ktl'), 'utf8') }

/** Of the SM90 kernel below, by bench/gpu/timeline.ts. */
const MEASURED = path.join(ROOT, 'bench/results/timeline_h200.trace')

const KERNELS = [
  { file: 'sm100', device: 'virtual-sm100', kind: 'sm100', tile: [128, 128, 64], m: 128, text: 'SM100, tile 128x128' },
  { file: 'sm90', device: 'virtual-sm90', kind: 'sm90', tile: [128, 256, 64], m: 128, text: 'SM90, cooperative, tile 128x256' },
] as const // prettier-ignore

/** SVG texts by their names. `timelines`: of runs, which need nvcc; what nvcc compiles otherwise gives other ones. */
export async function pictures(timelines: boolean): Promise<Readonly<Record<string, string>>> {
  const made: Record<string, string> = {}
  for (const { file, device: name, kind, tile, m, text } of KERNELS) {
    const device = await openDevice(name)
    try {
      const { kernel, args } = chosen(device, kind, tile, m)
      const program = targetOf(kernel.plan).pipeline!(kernel.plan) as TileProgram
      made[`memory-${file}`] = memoryMap(`Shared memory of linear_gelu: ${text}`, program)
      made[`pipeline-${file}`] = pipeline(`Roles and barriers of linear_gelu: ${text}`, program)
      if (!timelines) continue
      const { artifact, workspace, read } = (await tracedBuild(kernel, args))!
      const { trace } = await kernel.run(args, { artifact, workspace, trace: true })
      const timeline = timelineOf(await read(trace), `One CTA of linear_gelu, k = 512: ${text}`)
      made[`timeline-${file}`] = timelineSvg(timeline)
      if (kind !== 'sm90') continue
      const measured = timelineOf(readFileSync(MEASURED, 'utf8'), 'The same kernel on an H200, its 20th launch')
      const modelled = { ...timeline, title: 'One CTA of linear_gelu on the virtual SM90' }
      made[`timeline-${file}-measured`] = timelineSvg([modelled, measured])
    } finally {
      await device.close()
    }
  }
  return made
}

type Opened = Awaited<ReturnType<typeof openDevice>>

/** One tile of k = 512, so that the ring of stages turns. */
function chosen(device: Opened, kind: string, tileShape: readonly number[], m: number) {
  const [n, k] = [tileShape[1]!, 512]
  const A = device.tensor('bf16', [m, k], 1)
  const B = device.tensor('bf16', [k, n], 1)
  const bias = device.tensor('bf16', [n], 1)
  const family = loadSource(SOURCE).kernels['linear_gelu']!
  const args = new KernelArguments(family, { A, B, bias, D: device.empty('bf16', [m, n]) })
  const where = { design: { kind, tileShape, clusterShape: [1, 1, 1] } } as object
  const kernel = getKernels(args, { where }).find((found) => found instanceof KtlKernel && !found.metadata.kernelName.includes('pingpong')) // prettier-ignore
  if (!(kernel instanceof KtlKernel)) throw new Error(`no ${kind} kernel of tile ${tileShape.join('x')}`)
  return { kernel, args }
}
