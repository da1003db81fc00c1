/**
 * Products of operands in stored forms, and outputs that are quantised as they are stored: each form that tensor cores of SM90 take,
 * with extents that end inside of blocks, rows that are padded, and sums of nothing.
 */
import type { CaseOperand, DeviceCase } from '../../runtime/selftest/case.ts'
import { scheduled } from './scheduled.ts'

type Extents = readonly [m: number, n: number, k: number]
type Tile = readonly [number, number]
type Rest = Partial<Pick<DeviceCase, 'scalars' | 'inputs' | 'operands'>>

/** Name of the kernel: one for each text. */
const names = new Map<string, string>()
function named(text: string): string {
  if (!names.has(text)) names.set(text, `stored${names.size}`)
  return names.get(text)!
}

/** `text`: operands and outputs, and the equations behind `=>`. */
function stored(name: string, text: string, tile: Tile, [m, n, k]: Extents, rest: Rest = {}): DeviceCase {
  const [signature, body] = text.split(' => ') as [string, string]
  const kernel = named(text)
  return {
    name: `stored: ${name}`,
    kernel,
    source: `kernel ${kernel}${signature} {\n  ${body}\n}\n`,
    types: {},
    design: { kind: 'sm90', tile },
    extents: { m, n, k },
    operands: {},
    inputs: 'integers',
    ...rest,
  }
}

const product = (a: string, b: string, d = 'bf16[m, n]', body = 'D = sum[k](A * B)'): string =>
  `(A: ${a}, B: ${b}) -> D: ${d} => ${body}`
/** A product whose output is in a stored form. */
const into = (d: string): string => product('bf16[m, k]', 'bf16[n, k]', d)
const gated = (a: string, b: (name: string) => string, d: string): string =>
  `(A: ${a}, ${b('G')}, ${b('U')}) -> D: ${d} => D = relu(sum[k](A * G)) * sum[k](A * U)`

const ROWS = product('e4m3[m, k] * f32[m]', 'e4m3[n, k] * f32[n]')
const BLOCKS = product('e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n/128, k/128]')
const MXFP8 = product('e4m3[m, k] * ue8m0[m, k/32]', 'e4m3[n, k] * ue8m0[n, k/32]')
const DEEP: Extents = [150, 200, 336]
/** Its rows of 8 bits reach TMA. */
const ALIGNED: Extents = [150, 208, 336]
const WHOLE: Extents = [256, 256, 512]
const padded = (padding: number): CaseOperand => ({ padding })

const SCALES: readonly DeviceCase[] = [
  stored('one scale for each tensor', product('e4m3[m, k] * f32', 'e5m2[n, k] * f32'), [128, 128], DEEP, {
    scalars: { 'A.global': 0.5, 'B.global': -3 },
  }),
  stored('rows', ROWS, [128, 128], DEEP),
  stored('rows, one position along each axis', ROWS, [128, 128], [1, 8, 16]),
  stored('rows, sums of nothing', ROWS, [128, 128], [70, 24, 0], { operands: { A: padded(16), B: padded(16) } }),
  stored('rows of f16 with a bias', '(A: e4m3[m, k] * f16[m], B: e4m3[n, k] * bf16[n], bias: f32[n]) -> D: f16[m, n] => D = relu(sum[k](A * B) + bias)', [64, 128], DEEP, {
    operands: { D: padded(8) },
  }),
  stored('rows of i8', product('i8[m, k] * f32[m]', 'i8[n, k] * f32[n]'), [128, 128], DEEP),
  stored('rows of i8, any numbers', product('i8[m, k] * f32[m]', 'i8[n, k] * f32[n]'), [128, 128], [131, 72, 80], { inputs: 'normal' }),
  stored('rows, B along n', product('bf16[m, k] * f32[m]', 'bf16[k, n] * f32[n]'), [128, 128], DEEP),
  stored('1x128 by 128x128', BLOCKS, [128, 128], DEEP),
  stored('1x128 by 128x128, whole tiles', BLOCKS, [128, 128], WHOLE),
  stored('1x128 by 128x128, two blocks of rows', BLOCKS, [256, 128], [300, 136, 272]),
  stored('1x128 by 128x128, wide tiles', BLOCKS, [128, 256], [130, 264, 272]),
  stored('1x128 by 128x128, one warpgroup', BLOCKS, [64, 128], [65, 130, 144]),
  stored('1x128 by 128x128, blocks that tiles split', BLOCKS, [128, 192], [129, 400, 400]),
  stored('1x128 by 128x128, sums of nothing', BLOCKS, [128, 128], [70, 24, 0], { operands: { A: padded(16), B: padded(16) } }),
  stored('1x128 by 128x128, less than a block', BLOCKS, [128, 128], [3, 8, 16]),
  stored('1x128 by 128x128, scales in padded rows', BLOCKS, [128, 128], DEEP, {
    operands: { A: padded(16), B: padded(32), 'A.scale': padded(3), 'B.scale': padded(1), D: padded(8) },
  }),
  stored('1x128 by 128x128, scales along m', BLOCKS, [128, 128], DEEP, {
    operands: { 'A.scale': { order: ['k', 'm'], padding: 2 }, 'B.scale': { order: ['k', 'n'] } },
  }),
  stored('1x128 by 128x128, any numbers', BLOCKS, [128, 128], DEEP, { inputs: 'normal' }),
  stored('1x128 by 1x128', product('e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n, k/128]'), [128, 128], DEEP),
  stored('1x128 by rows', product('e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n]'), [128, 128], DEEP),
  stored('rows by 128x128, a global scale', product('e4m3[m, k] * f32[m]', 'e5m2[n, k] * f32[n/128, k/128] * f32'), [128, 128], DEEP, { scalars: { 'B.global': 0.75 } }),
  stored('1x64 by 1x128: sums of 64', product('e4m3[m, k] * f32[m, k/64]', 'e4m3[n, k] * f32[n, k/128]'), [128, 128], DEEP),
  stored('mxfp8', MXFP8, [128, 128], DEEP),
  stored('mxfp8, sums of nothing', MXFP8, [128, 128], [70, 24, 0], { operands: { A: padded(16), B: padded(16) } }),
  stored('mxfp8, rows that no vector copies', MXFP8, [128, 128], [67, 37, 99], { operands: { D: padded(1) } }),
  stored('mxfp8, any numbers', MXFP8, [128, 128], DEEP, { inputs: 'normal' }),
  stored('mxfp8, B along n', product('e5m2[m, k] * ue8m0[m, k/32]', 'e4m3[k, n] * ue8m0[k/32, n]'), [128, 128], DEEP),
  stored('scales of ue4m3 and f16', product('e4m3[m, k] * ue4m3[m, k/32]', 'e4m3[n, k] * f16[n/16, k/64]', 'f32[m, n]'), [128, 128], DEEP),
  stored('blocks of i8', product('i8[m, k] * f32[m, k/128]', 'i8[n, k] * bf16[n/128, k/64]'), [128, 128], DEEP),
  stored('blocks of bf16', product('bf16[m, k] * f32[m, k/64]', 'bf16[n, k] * f32[n/4, k/16]'), [128, 128], DEEP),
  stored('blocks of f16, B along n', product('f16[m, k] * f32[m, k/32]', 'f16[k, n] * f32[k/64, n/128]', 'f16[m, n]'), [128, 128], DEEP),
  stored('two scaled weights, rows', gated('e4m3[m, k] * f32[m]', (name) => `${name}: e4m3[n, k] * f32[n]`, 'bf16[m, n]'), [128, 128], DEEP),
  stored('two scaled weights, 128x128', gated('e4m3[m, k] * f32[m, k/128]', (name) => `${name}: e4m3[n, k] * f32[n/128, k/128]`, 'f32[m, n]'), [128, 64], DEEP),
  stored('batches', '(A: e4m3[l, m, k] * f32[l, m, k/128], B: e4m3[n, k] * f32[n/128, k/128]) -> D: bf16[l, m, n] => D = sum[k](A * B)', [128, 128], [70, 72, 144]),
] // prettier-ignore

/** Tiles that three warpgroups share: sums of all columns of a part, or of half of them. */
const three = (name: string, columns: number, b: string, [m, n, k]: Extents): DeviceCase =>
  scheduled(
    `stored: three warpgroups, ${name}`,
    `three${columns}`,
    { kind: 'sm90', tile: [192, columns] },
    `tile 192x${columns}`,
    `(A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * ${b}) -> D: bf16[m, n] { D = sum[k](A * B) }`,
    { m, n, k },
  )
const THREE: readonly DeviceCase[] = [
  three('1x128 by 128x128', 128, 'f32[n/128, k/128]', [200, 264, 272]),
  three('1x128 by 1x128', 160, 'f32[n, k/128]', [200, 328, 272]),
]

const BOTH_COPIES =
  '(A: bf16[m, k], B: bf16[n, k]) -> (D: e4m3[m, n] * ue8m0[m, n/32], T: e4m3[m, n] * ue8m0[m/32, n]) => x = sum[k](A * B)\n  D = x\n  T = x'

const OUTPUTS: readonly DeviceCase[] = [
  stored('into mxfp8', into('e4m3[m, n] * ue8m0[m, n/32]'), [128, 128], ALIGNED),
  stored('into mxfp8, rows that TMA does not store', into('e4m3[m, n] * ue8m0[m, n/32]'), [128, 128], DEEP),
  stored('into mxfp8, a short last block', into('e4m3[m, n] * ue8m0[m, n/32]'), [128, 128], [131, 50, 72]),
  stored('into mxfp8, sums of nothing', into('e4m3[m, n] * ue8m0[m, n/32]'), [128, 128], [70, 40, 0], { operands: { A: padded(8), B: padded(8) } }),
  stored('into mxfp8 of OCP', into('e5m2[m, n] * floor(ue8m0[m, n/32])'), [128, 128], DEEP),
  stored('into 1x128', into('e4m3[m, n] * f32[m, n/128]'), [128, 128], ALIGNED),
  stored('into 1x128, rows that TMA does not store', into('e4m3[m, n] * f32[m, n/128]'), [128, 128], DEEP),
  stored('into 1x128, padded', into('e4m3[m, n] * f32[m, n/128]'), [128, 128], [129, 300, 200], { operands: { D: padded(4), 'D.scale': padded(3) } }),
  stored('into 1x128 of i8', into('i8[m, n] * f32[m, n/128]'), [128, 128], DEEP),
  stored('into 1x64, any numbers', into('e4m3[m, n] * f32[m, n/64]'), [128, 128], DEEP, { inputs: 'normal' }),
  stored('into blocks of 16 with a global scale', into('e4m3[m, n] * ue4m3[m, n/16] * f32'), [128, 128], DEEP, { scalars: { 'D.global': 0.375, 'D.norm': 0 } }),
  stored('into blocks of 16 with a constant', into('e4m3[m, n] * ue4m3[m, n/16] * f32'), [64, 128], DEEP, { scalars: { 'D.global': 0.5, 'D.norm': 2.5 } }),
  stored('into 1x8', into('e5m2[m, n] * f32[m, n/8]'), [128, 128], [100, 60, 72]),
  stored('into blocks of 32 rows', into('e4m3[m, n] * ue8m0[m/32, n]'), [128, 128], ALIGNED),
  stored('into blocks of 128 rows', into('e4m3[m, n] * f32[m/128, n]'), [128, 128], [300, 208, 336], { inputs: 'normal' }),
  stored('into blocks of 16 rows with a constant', into('e5m2[m, n] * ue4m3[m/16, n] * f32'), [64, 128], DEEP, { scalars: { 'D.global': 0.5, 'D.norm': 2.5 } }),
  stored('into blocks of 8 rows, i8, a short last block', into('i8[m, n] * f32[m/8, n]'), [128, 64], [131, 50, 72]),
  stored('both copies at once', BOTH_COPIES, [128, 128], ALIGNED),
  stored('both copies, two blocks of rows', BOTH_COPIES, [256, 128], [300, 136, 272]),
  stored('both copies, gated', '(A: bf16[m, k], G: bf16[n, k], U: bf16[n, k]) -> (D: e4m3[m, n] * ue8m0[m, n/32], T: e4m3[m, n] * ue8m0[m/32, n]) => x = relu(sum[k](A * G)) * sum[k](A * U)\n  D = x\n  T = x', [128, 64], ALIGNED),
  stored('into nvfp4', into('e2m1[m, n] * ue4m3[m, n/16] * f32'), [128, 128], ALIGNED, { scalars: { 'D.global': 0.5, 'D.norm': 2.5 } }),
  stored('into mxfp4, rows that end in a byte', into('e2m1[m, n] * ue8m0[m, n/32]'), [128, 64], [131, 51, 72]),
  stored('into mxfp6', into('e3m2[m, n] * ue8m0[m, n/32]'), [128, 128], ALIGNED),
  stored('into mxfp6, rows that end in a byte', into('e2m3[m, n] * ue8m0[m, n/32]'), [128, 64], [131, 51, 72]),
  stored('into i4', into('i4[m, n] * f32[m, n/32]'), [64, 64], [100, 60, 72]),
  stored('into nvfp4 and fp8 by columns', '(A: bf16[m, k], B: bf16[n, k]) -> (D: e2m1[m, n] * ue4m3[m, n/16], T: e4m3[m, n] * ue8m0[m/32, n]) => x = sum[k](A * B)\n  D = x\n  T = x', [128, 128], ALIGNED),
  stored('two outputs of one sum', '(A: bf16[m, k], B: bf16[n, k]) -> (D: e4m3[m, n] * ue8m0[m, n/32], F: i8[m, n] * f32[m, n/64], G: bf16[m, n]) => x = sum[k](A * B)\n  D = x\n  F = x\n  G = x', [128, 128], ALIGNED),
  stored('from blocks into blocks', product('e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n/128, k/128]', 'e4m3[m, n] * f32[m, n/128]', 'D = relu(sum[k](A * B))'), [128, 128], ALIGNED),
  stored('into 1x128 beside operands', '(A: bf16[m, k], B: bf16[n, k], C: bf16[m, n], bias: f32[n], w: f32[m]) -> D: e4m3[m, n] * f32[m, n/128] => D = (sum[k](A * B) + bias + C) * w', [128, 128], ALIGNED),
  stored('from blocks into blocks beside operands', '(A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[n, k/128], C: bf16[m, n], bias: f32[n], w: f32[m]) -> D: e4m3[m, n] * f32[m, n/128] => D = (sum[k](A * B) + bias + C) * w', [128, 128], ALIGNED),
  stored('gated into blocks', gated('e4m3[m, k] * f32[m, k/128]', (name) => `${name}: e4m3[n, k] * f32[n/128, k/128]`, 'e4m3[m, n] * f32[m, n/128]'), [64, 128], [100, 136, 272]),
] // prettier-ignore

/** By mma.sync: of rows that TMA does not take. */
const older = (name: string, text: string, tile: Tile, extents: Extents): DeviceCase => {
  const one = stored(`${name}, by mma.sync`, text, tile, extents)
  const kernel = `${one.kernel}older`
  const source = one.source!.replace(one.kernel, kernel)
  return {
    ...one,
    kernel,
    source: `${source}schedule ${kernel} on sm_80 {\n  tile ${tile.join('x')}\n}\n`,
    design: { kind: 'sm80', tile },
  }
}

const OLDER: readonly DeviceCase[] = [
  older('blocks of i8', product('i8[m, k] * f32[m, k/128]', 'i8[n, k] * bf16[n/128, k/64]'), [64, 64], [150, 203, 339]),
] // prettier-ignore

/** Of SM90, where they do not say otherwise; other devices run kernels of theirs. */
export const STORED_CASES: readonly DeviceCase[] = [...SCALES, ...THREE, ...OUTPUTS, ...OLDER].map((one) =>
  one.source!.includes('[l, ') ? { ...one, extents: { l: 2, ...one.extents } } : one,
)
