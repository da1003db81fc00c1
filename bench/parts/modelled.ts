/**
 * GEMMs that fill a B200 badly, as the cost model has them: its first choice, held against the first one among whole tiles of k whose widths
 * are multiples of 32. And what share of its time the tensor cores of a virtual SM100 multiply, in products of 8192 x 8192 x 8192 with scales that they read
 * themselves. Modelled (native/src/virtual/timing.h), never measured: one cluster computes 2 tiles of k = 8192, then 3; the third tile
 * takes what every tile takes in the steady state, and the whole product as many waves of them as its tiles need on all SMs.
 */
import {
  GemmArguments,
  KernelArguments,
  KtlKernel,
  openDevice,
  ScaledOperand,
  swizzleScales,
  type Device,
} from '../../runtime/index.ts'
import { getKernels, loadSource } from '../../runtime/index.ts'
import { onPaper } from '../../runtime/bench/suite/open.ts'
import { withoutTuning } from '../../runtime/discovery/ranking/tuning.ts'
import type { Sm100DesignMetadata } from '../../runtime/index.ts'
import type { Measurement } from '../measure.ts'

/** Of a B200. */
const SMS = 148
const EXTENT = 8192

interface Product {
  readonly name: string
  readonly form: 'e4m3' | 'e2m1'
  readonly scale: 'ue8m0' | 'ue4m3'
  readonly block: 16 | 32
  /** Products that the tensor core of an SM adds up in a cycle (8192 of 8 bits: 2250 TFLOP/s of 16 bits at 1.86 GHz, twice that of 8). */
  readonly rate: number
}

const PRODUCTS: readonly Product[] = [
  { name: 'mxfp8', form: 'e4m3', scale: 'ue8m0', block: 32, rate: 8192 },
  { name: 'nvfp4', form: 'e2m1', scale: 'ue4m3', block: 16, rate: 16384 },
]
/** Tile of a pair of CTAs, and how many CTAs of a cluster there are along m and n. */
const TILE = [256, 192] as const
const CLUSTER = [4, 2] as const

/** Few tiles for the device, or a last wave of few; m x n x k. */
const BADLY_FILLED: readonly (readonly [number, number, number])[] = [
  [1464, 3072, 24312], [1263, 984, 16176], [176, 9048, 9552], [592, 5544, 6344], [1536, 1536, 1536], [128, 128, 65536], [256, 256, 16384], [433, 176, 19520],
] // prettier-ignore

export async function modelledPart(): Promise<Measurement[]> {
  return [...(await ranked()), ...(await scaled())]
}

async function ranked(): Promise<Measurement[]> {
  const device = await openDevice('virtual-sm100')
  const measurements: Measurement[] = []
  for (const [m, n, k] of BADLY_FILLED) {
    const paper = onPaper(device)
    const args = new GemmArguments({
      A: await paper('bf16', [m, k], [k, 1], 'A'),
      B: await paper('bf16', [k, n], [1, k], 'B'),
      out: await paper('bf16', [m, n], [n, 1], null),
    })
    const kernels = withoutTuning(() => getKernels(args, { where: { design: { kind: 'sm100' } } })) as readonly unknown[] as readonly KtlKernel[]
    const [first] = kernels
    const plain = kernels.find(({ metadata }) => isPlain(metadata.design as Sm100DesignMetadata))!
    const [value, goal] = [first!, plain].map((kernel) => kernel.estimate(args).microseconds)
    const note = first === plain ? 'the same' : first!.metadata.kernelName
    measurements.push({ part: 'modelled', what: `bf16 ${m}x${n}x${k}, cost model; goal: before`, value: value!, unit: 'µs', goal: Number(goal!.toPrecision(3)), note })
  }
  await device.close()
  return measurements
} // prettier-ignore

/** A design from before parts of k, widths of every 16 columns and pairs with exchanged roles. */
const isPlain = ({ parts, tileShape: [, n], operands, use2ctaMma }: Sm100DesignMetadata): boolean =>
  parts === 1 && n % 32 === 0 && !(operands === 'ba' && use2ctaMma)

async function scaled(): Promise<Measurement[]> {
  const ctas = CLUSTER[0] * CLUSTER[1]
  const device = await openDevice('virtual-sm100', { smCount: ctas })
  const measurements: Measurement[] = []
  for (const product of PRODUCTS) {
    const [two, three] = [await cycles(device, product, 2), await cycles(device, product, 3)]
    const steady = three.cycles - two.cycles
    const macs = (three.macs - two.macs) / ctas
    const rows = (CLUSTER[0] / 2) * TILE[0]
    const columns = CLUSTER[1] * TILE[1]
    const clusters = Math.floor(SMS / ctas)
    const waves = Math.ceil((Math.ceil(EXTENT / rows) * Math.ceil(EXTENT / columns)) / clusters)
    const whole = two.cycles + (waves - 2) * steady
    const busy = EXTENT ** 3 / SMS / product.rate
    const what = `${product.name} ${EXTENT}³, modelled`
    const note = three.name
    const percent = (share: number): number => 100 * share
    measurements.push(
      { part: 'modelled', what: `${what}: a tile of k = ${EXTENT} in the steady state`, value: steady, unit: 'cycles', goal: null, note },
      { part: 'modelled', what: `${what}: tensor cores busy in the steady state`, value: percent(macs / product.rate / steady), unit: '%', goal: null },
      { part: 'modelled', what: `${what}: ${waves} waves on ${SMS} SMs`, value: whole, unit: 'cycles', goal: Math.floor(busy / 0.85) },
      { part: 'modelled', what: `${what}: share of the tensor cores of ${SMS} SMs`, value: percent(busy / whole), unit: '%', goal: null },
    ) // prettier-ignore
  }
  await device.close()
  return measurements
}

/** Of one cluster that computes so many tiles, one after the other. */
async function cycles(
  device: Device,
  { name, form, scale, block }: Product,
  tiles: number,
): Promise<{ readonly cycles: number; readonly macs: number; readonly name: string }> {
  const [m, n, k] = [(CLUSTER[0] / 2) * TILE[0], CLUSTER[1] * TILE[1] * tiles, EXTENT]
  const schedule = `mma 2cta; tile ${TILE.join('x')}; cluster ${CLUSTER.join('x')}`
  const text = `kernel ${name}(A: ${form}[m, k] * ${scale}[m, k/${block}], B: ${form}[n, k] * ${scale}[n, k/${block}]) -> D: bf16[m, n] {
  D = sum[k](A * B)
}
schedule ${name} on sm_100 { ${schedule} }`
  const operand = async (rows: number): Promise<ScaledOperand> => {
    const scales = device.tensor(
      scale,
      [rows, k / block],
      Array.from({ length: (rows * k) / block }, () => 1),
    )
    const tiled = await swizzleScales(scales, { outer: 0 })
    return new ScaledOperand(device.empty(form, [rows, k]), tiled, { mode: [1, block], swizzle: '32x4x4' })
  }
  const D = device.empty('bf16', [m, n])
  const family = loadSource({ name: `${name}.ktl`, text }).kernels[name]!
  const args = new KernelArguments(family, { A: await operand(m), B: await operand(n), D })
  const [kernel] = getKernels(args, { limit: 1 })
  const { stats } = (await kernel!.run(args, { checks: 'none' }))!
  return { cycles: stats.modelledCycles, macs: stats.tensorMacs, name: kernel!.metadata.kernelName }
}
