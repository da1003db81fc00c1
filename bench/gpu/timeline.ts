/**
 * What the roles of one kernel do when, by their own time stamps: the kernel that docs/timelines.md reads aloud, one CTA with eight
 * tiles of k. The first launch finds instructions and descriptors in no cache; those after it find them.
 *   node dist/bench/timeline.js --out FOLDER [--device cuda]
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import {
  getKernels, KernelArguments, KtlKernel, loadSource, openDevice, type Device,
} from '../../runtime/index.ts' // prettier-ignore
import { median } from '../../runtime/bench/statistics.ts'
import { EventTimer } from '../../runtime/bench/timer.ts'
import type { DeviceSpec } from '../../runtime/devices/open.ts'
import { tracedBuild } from '../../runtime/timeline/traced.ts'

const FILE = 'samples/linear.ktl'
const [M, N, K] = [128, 256, 512]
/** Launches before the last, whose stamps are kept. */
const WARM = 20
/** That are timed. */
const LAUNCHES = 200

const { values: options } = parseArgs({
  options: { out: { type: 'string', default: '.' }, device: { type: 'string', default: 'cuda' } },
})

/** linear_gelu in one tile, consumers together. */
function chosen(device: Device): { kernel: KtlKernel; args: KernelArguments } {
  const family = loadSource({ name: FILE, text: readFileSync(FILE, 'utf8') }).kernels['linear_gelu']!
  const ones = (...shape: number[]) => device.tensor('bf16', shape, 1)
  const args = new KernelArguments(family, { A: ones(M, K), B: ones(K, N), bias: ones(N), D: device.empty('bf16', [M, N]) }) // prettier-ignore
  const where = { design: { kind: 'sm90', tileShape: [M, N, 64], clusterShape: [1, 1, 1] } } as object
  const kernel = getKernels(args, { where }).find((one) => one instanceof KtlKernel && !one.metadata.kernelName.includes('pingpong')) // prettier-ignore
  if (!(kernel instanceof KtlKernel)) throw new Error(`no kernel of one tile of ${M}x${N}`)
  return { kernel, args }
}

const device = await openDevice(options.device as DeviceSpec)
try {
  const { kernel, args } = chosen(device)
  mkdirSync(options.out, { recursive: true })
  const { artifact, workspace, read } = (await tracedBuild(kernel, args))!
  const isVirtual = options.device.startsWith('virtual')
  for (const [name, launches] of isVirtual
    ? ([['modelled', 1]] as const)
    : ([
        ['cold', 1],
        ['warm', WARM],
      ] as const)) {
    let trace: string | undefined
    // Each launch writes its stamps from the same place on.
    for (let i = 0; i < launches; i++) ({ trace } = await kernel.run(args, { artifact, workspace, trace: true }))
    const D = (await args.tensors['D']!.toArray()) as ArrayLike<number>
    writeFileSync(path.join(options.out, `${name}.json`), await read(trace))
    console.log(`${name}: ${kernel.metadata.kernelName} on ${device.name}, ${artifact.info.toolkit}, D[0] = ${D[0]}`)
  }
  if (!isVirtual) {
    // What the stamps cost, from an L2 without the operands.
    const timer = new EventTimer(device)
    const own = await kernel.compile(args)
    const ways = { plain: { artifact: own }, traced: { artifact, workspace } }
    for (const [name, chosen] of Object.entries(ways)) {
      const times = await timer.roundOf(
        () => void kernel.launch(args, { ...chosen, assumeSupportedArgs: true }),
        LAUNCHES,
      )
      console.log(`${name}: median ${(median(times) * 1000).toFixed(2)} µs of ${LAUNCHES} launches`)
    }
    timer.close()
  }
} finally {
  await device.close()
}
