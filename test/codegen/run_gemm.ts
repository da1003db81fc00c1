/** Compiles one design of a GEMM, for SM100, SM90 or SM80, and runs it on the virtual device, against a plain loop over integers. */
import { pipelineOf, planInstance, printProgram } from '../../codegen/index.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import type { Design } from '../../compiler/targets/index.ts'
import type { Sm100Design } from '../../compiler/targets/sm100/design.ts'
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { openDevice, type Device, type ExecutionOptions, type Tensor } from '../../runtime/index.ts'
import type { Finding } from '../../runtime/addon/findings.ts'
import { planLaunches, workspaceBytes, zeroedBytes } from '../../runtime/kernels/plan_launch.ts'
import { bound, design, verified } from '../compiler/support.ts'
import { GENERATED } from '../native/device.ts'

export interface WideCase {
  /** Default: f16. */
  readonly a?: DTypeName
  /** Default: like `a`. */
  readonly b?: DTypeName
  readonly out?: DTypeName
  readonly accumulator?: 'f32' | 'f16' | 'i32' | 'f64'
  readonly tile: readonly [number, number]
  readonly design?: Partial<Sm100Design>
  /** Runs on SM90. */
  readonly sm90?: Partial<Sm90Design>
  /** The SM80 kernel, on SM90, or on SM100. */
  readonly sm80?: Partial<Sm80Design>
  readonly on?: 'sm_90a' | 'sm_100a'
  /** Memory orders where they are not the logical ones, innermost last: `{ A: 'lkm' }`. */
  readonly orders?: Readonly<Record<string, string>>
  /** Operands whose rows are packed without regard to 16 bytes. */
  readonly unaligned?: readonly string[]
  /** Those of them of which copies with aligned rows are made first. */
  readonly repacked?: readonly string[]
  /** Those of them whose rows are whole words of 4 bytes. */
  readonly words?: readonly string[]
  /** A second B: D = A B + 2 A B2. */
  readonly gated?: boolean
  readonly extents?: Partial<Record<'l' | 'm' | 'n' | 'k', number>>
  readonly smCount?: number
  /** Breaks the tile program of an SM80 kernel. */
  readonly edit?: (program: TileProgram) => TileProgram
}

export interface WideResult {
  readonly findings: readonly string[]
  readonly wrong: number
  /** The first wrong element. */
  readonly first: string | null
}

const AXES: Readonly<Record<string, readonly string[]>> = {
  A: ['l', 'm', 'k'],
  B: ['l', 'k', 'n'],
  B2: ['l', 'k', 'n'],
  D: ['l', 'm', 'n'],
}

/** Every product and partial sum is a small integer, exact in every dtype and order of sums. */
export async function runWide(c: WideCase, schedules: readonly ExecutionOptions[]): Promise<WideResult[]> {
  const { a = 'f16', b = a, out = 'f32', unaligned = [], repacked = [], words = [] } = c
  const accumulator = c.accumulator ?? (a === 'i8' || a === 'u8' ? 'i32' : a === 'f64' ? 'f64' : 'f32')
  const extents: Record<string, number> = { l: 2, m: 208, n: 272, k: 200, ...c.extents }
  const operand = (name: string, dtype: DTypeName, x: string, y: string): string =>
    `${name}: ${dtype}[l, ${x}, ${y}] | ${dtype}[l, ${y}, ${x}]`
  const inputs = [
    operand('A', a, 'm', 'k'),
    operand('B', b, 'k', 'n'),
    ...(c.gated ? [operand('B2', b, 'k', 'n')] : []),
  ]
  const body = c.gated ? 'D = sum[k](A * B) + sum[k](A * B2) * 2' : `acc: ${accumulator} = sum[k](A * B)\n  D = acc`
  const program = bound(`kernel g(${inputs.join(', ')}) -> ${operand('D', out, 'm', 'n')} {\n  ${body}\n}`, {
    orders: Object.fromEntries(Object.entries(c.orders ?? {}).map(([name, axes]) => [name, [...axes]])),
    divisibility: Object.fromEntries(
      unaligned.map((name) => [
        name,
        repacked.includes(name)
          ? ('repacked' as const)
          : words.includes(name)
            ? ('word' as const)
            : ('element' as const),
      ]),
    ),
  })
  const target = c.on ?? (c.sm90 || c.sm80 ? 'sm_90a' : 'sm_100a')
  const plan = planInstance({ program, target, design: designOf(c, 128 / DTYPES[a].storageBytes) })
  const lowered = 'kind' in plan ? pipelineOf(plan) : null
  if (!lowered) throw new Error(`not planned: ${JSON.stringify(plan)}`)
  verified(lowered)
  const kernel = printProgram(c.edit ? c.edit(lowered) : lowered, 'ktl.wide')

  const device = await openDevice(target === 'sm_90a' ? 'virtual-sm90' : 'virtual-sm100', { smCount: c.smCount ?? 8 })
  try {
    const module = await device.compileCuda(kernel.cuda, { arch: target, flags: GENERATED })
    const made = Object.fromEntries(
      program.operands.map(({ name, dtype, role, order }) => {
        const values = role === 'input' ? integers(product(AXES[name]!.map((x) => extents[x]!)), dtype, name) : null
        return [
          name,
          { tensor: allocate(device, name, dtype, order, extents, !unaligned.includes(name), values), values },
        ]
      }),
    )
    const operands = Object.fromEntries(
      Object.entries(made).map(([name, { tensor }]) => [name, { tensor, axes: AXES[name]! }]),
    )
    const bindings = { operands, extents, scalars: {}, tileGroup: 2 }
    const scratch = device.empty('u8', [Math.max(1, workspaceBytes(kernel.recipe, bindings))])
    // Never cleared again: launches leave zeros.
    const zeros = device.tensor('u8', [Math.max(1, zeroedBytes(kernel.recipe, bindings))], 0)
    const memory = { workspace: scratch.pointer, zeroed: zeros.pointer }
    const launches = planLaunches(kernel.recipe, { ...bindings, ...memory }, device)
    const expected = plainLoop(extents, made['A']!.values!, made['B']!.values!, made['B2']?.values ?? null)
    const results: WideResult[] = []
    for (const schedule of schedules) {
      const D = made['D']!.tensor
      await device.write(D.pointer, new Uint8Array(spanBytes(D)).fill(0xcd))
      await device.write(scratch.pointer, new Uint8Array(scratch.byteLength).fill(0xcd))
      const findings: Finding[] = []
      for (const { entry, ...launch } of launches)
        findings.push(
          ...(await module.function(entry).launch({ ...launch, ...schedule, uses: [D, scratch, zeros] })).findings,
        )
      results.push({
        findings: findings.map((f) => `${f.code} ${f.message}`),
        ...compare(await D.toArray(), expected, out),
      })
    }
    return results
  } finally {
    await device.close()
  }
}

function designOf(c: WideCase, tileK: number): Design {
  if (c.sm80) return { kind: 'sm80', warps: 'auto', tile: [...c.tile, tileK], operands: 'ab', stages: 'auto', ...c.sm80 }
  if (c.sm90) return { kind: 'sm90', consumers: 'cooperative', tile: [...c.tile, tileK], cluster: [1, 1, 1], parts: 1, operands: 'ab', stages: 'auto', ...c.sm90 }
  return design(c.tile, { cluster: [c.design?.use2ctaMma ? 2 : 1, 1, 1], ...c.design })
} // prettier-ignore

const product = (extents: readonly number[]): number => extents.reduce((a, b) => a * b, 1)
const spanBytes = ({ shape, strides, dtype }: Tensor): number =>
  (shape.reduce((end, extent, i) => end + (extent - 1) * strides[i]!, 0) + 1) * DTYPES[dtype].storageBytes

/** -2 … 2, or 0 … 4 where there is no sign. */
function integers(count: number, dtype: DTypeName, name: string): Float32Array {
  let state = name.length * 7919 + name.charCodeAt(0)
  const lowest = dtype === 'u8' ? 0 : -2
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return ((state >>> 16) % 5) + lowest
  })
}

function allocate(
  device: Device, name: string, dtype: DTypeName, order: readonly string[], extents: Readonly<Record<string, number>>,
  aligned: boolean, values: Float32Array | null,
): Tensor {
  const strides: Record<string, number> = {}
  let next = 1
  for (const axis of [...order].reverse()) {
    strides[axis] = next
    next *= extents[axis]!
    if (aligned) next = Math.ceil(next / 16) * 16
  }
  const shape = AXES[name]!.map((axis) => extents[axis]!)
  const layout = { strides: AXES[name]!.map((axis) => strides[axis]!) }
  return values ? device.tensor(dtype, shape, values, layout) : device.empty(dtype, shape, layout)
} // prettier-ignore

function plainLoop(extents: Readonly<Record<string, number>>, a: Float32Array, b: Float32Array, b2: Float32Array | null): Float64Array {
  const [l, m, n, k] = ['l', 'm', 'n', 'k'].map((axis) => extents[axis]!) as [number, number, number, number]
  const sums = new Float64Array(l * m * n)
  for (let z = 0; z < l; z++) {
    for (let i = 0; i < m; i++) {
      for (let q = 0; q < k; q++) {
        const x = a[(z * m + i) * k + q]!
        for (let j = 0; j < n; j++) sums[(z * m + i) * n + j]! += x * (b[(z * k + q) * n + j]! + 2 * (b2?.[(z * k + q) * n + j] ?? 0))
      }
    }
  }
  return sums
} // prettier-ignore

/** Largest finite value, and how far a stored integer of these sizes may be from the sum. */
const STORED: Partial<Record<DTypeName, readonly [number, number, number]>> = {
  bf16: [-Infinity, Infinity, 2 ** -8], e4m3: [-448, 448, 2 ** -4], e5m2: [-57344, 57344, 2 ** -3], i8: [-128, 127, 0], u8: [0, 255, 0],
} // prettier-ignore

function compare(got: ArrayLike<number>, expected: Float64Array, out: DTypeName): Pick<WideResult, 'wrong' | 'first'> {
  const [low, high, relative] = STORED[out] ?? [-Infinity, Infinity, 0]
  let wrong = 0
  let first: string | null = null
  for (const [i, sum] of expected.entries()) {
    const want = Math.min(high, Math.max(low, sum))
    if (Math.abs(got[i]! - want) <= Math.abs(want) * relative) continue
    wrong++
    first ??= `element ${i}: ${got[i]} instead of ${want}`
  }
  return { wrong, first }
}
