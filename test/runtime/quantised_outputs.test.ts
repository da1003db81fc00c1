/**
 * Outputs that tensor cores quantise: bytes of scales and data are those of compiler/stored/quantise.ts, whatever the values are. They
 * come in beside a product that is 0, so that the test says each of them.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { encode } from '../../compiler/codec.ts'
import { uniform } from '../../compiler/evaluate/generate.ts'
import type { QuantisedForm } from '../../compiler/stored/quantise.ts'
import {
  getKernels,
  KernelArguments,
  loadSource,
  openDevice,
  ScaledOperand,
  type Device,
  type Tensor,
} from '../../runtime/index.ts'
import { FULL as EVERY } from '../cases_of.ts'
import { blockIndices, blockShape, quantise } from '../compiler/quantise_whole.ts'

/** Rows of all lanes, and last blocks of 16 columns. */
const [M, N, K] = [72, 144, 64]

const TIES = [256, 1.0625, 1.1875, -1.0625, 17, 19, -21, 0.0029296875, 2 ** -10, -(2 ** -10), 3 * 2 ** -10, 0.5, 1.5, 2.5, -0.5, -1.5] // prettier-ignore

/** A row for each thing that a block may hold; what lies between are numbers of many magnitudes. */
function valuesOf(): Float32Array {
  const next = uniform(5)
  const values = Float32Array.from({ length: M * N }, () => (next() - 0.5) * 2 ** Math.floor(next() * 24 - 12))
  const row = (i: number, of: (column: number) => number): void => {
    for (let j = 0; j < N; j++) values[i * N + j] = of(j)
  }
  row(0, () => 0)
  row(1, (j) => (j % 2 ? -0 : 0))
  row(2, (j) => (j - 70) * 2 ** -149)
  row(3, (j) => (j === 5 ? Infinity : j - 60))
  row(4, (j) => (j === 20 ? -Infinity : j === 40 ? Infinity : j / 3))
  row(5, (j) => (j === 33 ? NaN : j - 100))
  row(6, (j) => (j % 32 === 0 ? TIES[0]! : TIES[j % TIES.length]!))
  row(7, (j) => (j % 2 ? 3.4028234663852886e38 : -1))
  row(8, (j) => (j === 143 ? NaN : j))
  row(9, (j) => (j >= 128 ? 0 : 2 ** -126 * j))
  row(10, (j) => (j === 7 ? 2 ** -149 : 0))
  row(11, (j) => (j % 16 === 3 ? -0 : 448 * (1 - 2 ** -(j % 24))))
  row(71, (j) => (j === 0 ? NaN : j === 64 ? Infinity : 1e-30))
  return values
}
const VALUES = valuesOf()

/** Blocks of 128 columns leave no registers for an operand of every element: here are factors of rows and of columns. */
const ROWS = Float32Array.from(
  { length: M },
  (_, i) => [0, -0, 2 ** -149, Infinity, NaN, 1, 2 ** -130, 3e38, -Infinity, 448, 127][i] ?? 1.5 ** (i - 40),
)
const COLUMNS = Float32Array.from({ length: N }, (_, j) =>
  j === 143 ? NaN : j % 7 === 0 ? -0 : TIES[j % TIES.length]! / 256,
)
const PRODUCTS = Float32Array.from({ length: M * N }, (_, i) => ROWS[Math.floor(i / N)]! * COLUMNS[i % N]!)

interface Form extends QuantisedForm {
  readonly block: number
  /** The decoding multiplier, or a constant of its own. */
  readonly global?: number
  readonly norm?: number
}

const form = (data: Form['data'], scale: Form['scale'], block: number, rest: Partial<Form> = {}): Form => ({
  data,
  scale,
  block,
  rounding: 'up',
  ...rest,
})

const nameOf = ({ data, scale, block, rounding, global, norm }: Form): string => {
  const of = `${scale}[m, n/${block}]`
  const isGlobal = global !== undefined || norm !== undefined
  return `${data}[m, n] * ${rounding === 'down' ? `floor(${of})` : of}${isGlobal ? ' * f32' : ''}`
}

const FORMS: readonly Form[] = [
  form('e4m3', 'ue8m0', 32),
  form('e4m3', 'ue8m0', 32, { rounding: 'down' }),
  form('e4m3', 'f32', 16),
  form('e4m3', 'ue4m3', 16, { global: 0.3 }),
  form('e4m3', 'ue4m3', 8, { norm: 7.25 }),
  form('e5m2', 'ue8m0', 16, { rounding: 'down' }),
  form('e5m2', 'f32', 32),
  form('e5m2', 'ue4m3', 32),
  form('i8', 'f32', 32),
  form('i8', 'ue8m0', 8),
  form('i8', 'ue4m3', 16),
]
/** Warps of SM90 hold more columns. */
const WIDE: readonly Form[] = [
  form('e4m3', 'f32', 128),
  form('e4m3', 'ue8m0', 64),
  form('i8', 'f32', 128),
  form('e5m2', 'f32', 64),
]

type Kind = 'sm100' | 'sm90' | 'sm80'

const FULL = 'X * (sum[k](A * B) + 1)'
const GATED = 'X * ((sum[k](A * B) + 1) * (sum[k](A * U) + 1))'
const OUTER = '(sum[k](A * B) + 1) * R * C'

/** `text`: of the value; `forms`: the outputs D, E, … of it. */
async function check(device: Device, kind: Kind, forms: readonly Form[], text = FULL): Promise<void> {
  const names = forms.map((_, i) => String.fromCharCode('D'.charCodeAt(0) + i))
  const outputs = forms.map((one, i) => `${names[i]}: ${nameOf(one)}`)
  const ones = new Float32Array(N * K).fill(1)
  const operands: Readonly<Record<string, readonly [type: string, make: () => Tensor]>> = {
    A: ['f16[m, k]', () => device.tensor('f16', [M, K], new Float32Array(M * K))],
    B: ['f16[n, k]', () => device.tensor('f16', [N, K], ones)],
    U: ['f16[n, k]', () => device.tensor('f16', [N, K], ones)],
    X: ['f32[m, n]', () => device.tensor('f32', [M, N], VALUES)],
    R: ['f32[m]', () => device.tensor('f32', [M], ROWS)],
    C: ['f32[n]', () => device.tensor('f32', [N], COLUMNS)],
  }
  const used = Object.entries(operands).filter(([name]) => new RegExp(`\\b${name}\\b`).test(text))
  const source = `kernel f(${used.map(([name, [type]]) => `${name}: ${type}`).join(', ')}) -> (${outputs.join(', ')}) {
  x = ${text}
  ${names.map((name) => `${name} = x`).join('\n  ')}
}`
  const inputs = Object.fromEntries(used.map(([name, [, make]]) => [name, make()]))
  const made = forms.map(
    ({ data, scale, block, global, norm, rounding }) =>
      new ScaledOperand(device.empty(data, [M, N]), device.empty(scale, blockShape([M, N], [1, block])), {
        mode: [1, block],
        rounding: rounding === 'down' ? 'floor' : 'up',
        ...(global !== undefined && { globalScale: global }),
        ...(norm !== undefined && { normConstant: norm }),
      }),
  )
  const { kernels } = loadSource({ name: 'f.ktl', text: source })
  const bindings = Object.fromEntries(made.map((operand, i) => [names[i], operand]))
  const args = new KernelArguments(kernels['f']!, { ...inputs, ...bindings })
  const cc = { sm100: 100, sm90: 90, sm80: 80 }[kind]
  const [kernel] = getKernels(args, { cc, limit: 1, metadataFilter: ({ design }) => design.kind === kind })
  expect(kernel, `a kernel for ${kind}`).toBeDefined()
  await kernel!.run(args, { order: 'random', seed: 3, checks: 'full' })
  const values = text === OUTER ? PRODUCTS : VALUES
  for (const [i, one] of forms.entries()) {
    const { data, scale, block, rounding, global, norm } = one
    const factor = norm ?? (global === undefined ? 1 : Math.fround(1 / Math.fround(global)))
    const count = blockShape([M, N], [1, block]).reduce((x, y) => x * y)
    const expected = quantise({ data, scale, rounding }, values, blockIndices([M, N], [1, block]), count, factor)
    const stored = made[i]!
    // Which NaN a scale of f32 is, nothing says.
    const scales =
      scale === 'f32'
        ? differences(await stored.scale!.toArray(), expected.scale)
        : differences(await stored.scale!.toBytes(), encode(scale, expected.scale) as Uint8Array)
    expect(scales, `scales of ${nameOf(one)}`).toEqual([])
    expect(
      differences(await stored.data.toBytes(), encode(data, expected.data) as Uint8Array),
      `data of ${nameOf(one)}`,
    ).toEqual([])
  }
  for (const tensor of [...Object.values(inputs), ...made.flatMap(({ data, scale }) => [data, scale!])]) tensor.free()
}

/** The first few. */
function differences(got: ArrayLike<number>, wanted: ArrayLike<number>): string[] {
  expect(got.length).toBe(wanted.length)
  const at = Array.from(wanted, (_, i) => i).filter((i) => !Object.is(got[i], wanted[i]))
  return at.slice(0, 8).map((i) => `${i}: ${got[i]}, not ${wanted[i]}`)
}

const SETS: readonly (readonly [Kind, 'virtual-sm90' | 'virtual-sm100', readonly Form[]])[] = [
  ['sm90', 'virtual-sm90', [...FORMS, ...WIDE]],
  ['sm100', 'virtual-sm100', FORMS],
  ['sm80', 'virtual-sm90', FORMS.filter(({ data }) => data === 'i8')],
]

describe.each(SETS)('%s', { timeout: 60_000 }, (kind, spec, forms) => {
  let device: Device
  beforeAll(async () => {
    device = await openDevice(spec)
  })
  afterAll(() => device.close())

  // SM90 and SM100 share the steps: where not all runs, each of the common forms is on one of them.
  const turn = kind === 'sm90' ? 0 : 1
  const met = forms.filter((one) => EVERY || kind === 'sm80' || WIDE.includes(one) || FORMS.indexOf(one) % 2 === turn)
  test.each(met.map((one) => [nameOf(one), one] as const))('%s', (_, one) =>
    check(device, kind, [one], one.block > 32 ? OUTER : FULL),
  )
  test('two outputs of one value', () => check(device, kind, forms.slice(0, 2)))
  test('of two products', () => check(device, kind, [forms[0]!], GATED))
})
