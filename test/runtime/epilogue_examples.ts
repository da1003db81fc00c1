/** What the tests of epilogue strings share: small GEMMs of whole numbers, run and held against the evaluator. */
import { afterAll, beforeAll, expect } from 'vitest'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import {
  EpilogueArguments, GemmArguments, getKernels, KtlKernel, openDevice, verify, type Device, type RuntimeArguments, type Tensor,
} from '../../runtime/index.ts' // prettier-ignore

export type Bindings = Record<string, Tensor | number>

/** The element's place and its accumulator. */
export interface At {
  readonly acc: number
  readonly l: number
  readonly m: number
  readonly n: number
}

export let device: Device

/** Opens `device` for the tests of the file that calls it: hooks belong to the file during which they are named. */
export function onDevice(): void {
  beforeAll(async () => void (device = await openDevice('virtual-sm100')))
  afterAll(() => device?.close())
}

const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1)

/** Whole numbers from -3 to 3: every product and sum of a small GEMM is exact. */
export function whole(dtype: DTypeName, shape: number[], seed = 1, strides?: number[]): Tensor {
  const low = dtype === 'u8' || dtype === 'u32' ? 0 : 3
  const values = Float64Array.from({ length: sizeOf(shape) }, (_, i) => (((i + seed) * 7919) % 7) - low)
  return device.tensor(dtype, shape, values, strides ? { strides } : {})
}

/** An output full of NaN, or of what an integer makes of it. */
export const blank = (dtype: DTypeName, shape: number[], strides?: number[]): Tensor =>
  device.tensor(dtype, shape, Number.NaN, strides ? { strides } : {})

/** 0 for -0. */
export const values = async (tensor: Tensor): Promise<number[]> => Array.from(await tensor.toArray(), (x) => x + 0)

export interface Problem {
  readonly shape: readonly [l: number, m: number, n: number, k: number]
  readonly A: Tensor
  readonly B: Tensor
  readonly out: Tensor
}

/** A batched f16 GEMM with an f32 output unless told otherwise; `l` 0: without a batch axis. */
export function problem(
  [l, m, n, k]: Problem['shape'] = [0, 20, 24, 16],
  dtypes: { A?: DTypeName; B?: DTypeName; out?: DTypeName } = {},
): Problem {
  const batch = l > 0 ? [l] : []
  const A = whole(dtypes.A ?? 'f16', [...batch, m, k], 1)
  const B = whole(dtypes.B ?? dtypes.A ?? 'f16', [...batch, k, n], 2)
  return { shape: [l, m, n, k], A, B, out: blank(dtypes.out ?? 'f32', [...batch, m, n]) }
}

export function gemm({ A, B, out }: Problem, text: string, bindings: Bindings = {}): GemmArguments {
  return new GemmArguments({ A, B, out, epilogue: new EpilogueArguments(text, bindings) })
}

export function best(args: RuntimeArguments): KtlKernel {
  const list = getKernels(args, { limit: 1 })
  const [kernel] = list
  if (kernel instanceof KtlKernel) return kernel
  throw new Error(list.why ?? 'not a kernel of ktl')
}

/** Runs the best kernel; every output must be as the evaluator has it, and the device must have nothing to say. */
export async function checked(args: RuntimeArguments): Promise<void> {
  const { run, check } = await verify(best(args), args)
  expect(run.findings).toEqual([])
  expect(check.worst && { ...check.worst, pass: check.pass }).toMatchObject({ pass: true })
}

/** f(acc, l, m, n) of each element of A B, by plain loops; 0 for -0. */
export async function each({ shape: [batch, M, N, K], A, B }: Problem, f: (at: At) => number): Promise<number[]> {
  const [a, b] = [await A.toArray(), await B.toArray()]
  const found: number[] = []
  for (let l = 0; l < Math.max(1, batch); l++) {
    for (let m = 0; m < M; m++) {
      for (let n = 0; n < N; n++) {
        let acc = 0
        for (let k = 0; k < K; k++) acc += a[(l * M + m) * K + k]! * b[(l * K + k) * N + n]!
        found.push(f({ acc, l, m, n }) + 0)
      }
    }
  }
  return found
}

/** Runs an epilogue and expects these values in `out`. */
export async function expectOut(p: Problem, text: string, bindings: Bindings, f: (at: At) => number): Promise<void> {
  const expected = await each(p, f)
  await checked(gemm(p, text, bindings))
  expect(await values(p.out)).toEqual(expected)
}
