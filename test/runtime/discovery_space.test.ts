/** The whole space of designs: what is counted, found and ranked is what planning says, choice by choice. */
import { expect, test } from 'vitest'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { resolveType } from '../../compiler/family.ts'
import { countKernels, GemmArguments, getKernels, KtlKernel, KtlProvider as ktlProvider } from '../../runtime/index.ts'
import { callOf, type Call } from '../../runtime/discovery/call.ts'
import { bestAlignment } from '../../runtime/discovery/ktl_provider.ts'
import { MemoryDevice } from './memory_device.ts'

const device = new MemoryDevice()

/** Numbers below `n`, always the same ones. */
function seeded(seed: number): (n: number) => number {
  let state = seed
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * n)
  }
}

/** A matrix in a seeded memory order, its rows now and then padded, odd or not. */
function matrix(dtype: DTypeName, [rows, columns]: readonly [number, number], random: (n: number) => number) {
  const pad = [0, 0, 16, 3][random(4)]!
  const strides = random(2) === 0 ? [columns + pad, 1] : [1, rows + pad]
  return device.empty(dtype, [rows, columns], { strides })
}

const PAIRS: readonly (readonly [DTypeName, DTypeName, readonly DTypeName[], ('f32' | 'f16' | 'i32' | 'f64')[]])[] = [
  ['f16', 'f16', ['f16', 'bf16', 'f32', 'e4m3'], ['f32', 'f16']],
  ['bf16', 'bf16', ['f16', 'f32', 'e5m2'], ['f32']],
  ['e4m3', 'e5m2', ['f16', 'f32', 'e4m3'], ['f32', 'f16']],
  ['i8', 'u8', ['i32', 'i8', 'f32'], ['i32']],
  ['tf32', 'tf32', ['f32', 'f16'], ['f32']],
  ['f64', 'f64', ['f64'], ['f64']],
]

test('seeded queries: every kernel of the space that supports the arguments is found, and no other', () => {
  const random = seeded(7)
  for (const [a, b, outs, accumulators] of PAIRS) {
    const [m, n, k] = [1 + random(300), 16 * (1 + random(12)), 8 * (1 + random(40))]
    const out = outs[random(outs.length)]!
    const args = new GemmArguments({
      A: matrix(a, [m, k], random),
      B: matrix(b, [k, n], random),
      out: matrix(out, [m, n], random),
      accumulatorType: accumulators[random(accumulators.length)]!,
    })
    const found = getKernels(args).map((kernel) => kernel.metadata.kernelName)
    expect(found.length).toBeGreaterThan(0)
    expect(found.length).toBeLessThanOrEqual(1050)
    const supported = new Set<string>()
    for (const space of ktlProvider.spaces) {
      if (space.operation?.operation !== 'gemm') continue
      const { A, B, out: D } = space.operation
      const typed = (name: string): string => space.family.operands.find((operand) => operand.name === name)!.dtype
      for (const types of space.family.typeChoices) {
        if ([A, B, D].map((name) => resolveType(typed(name), types)).join() !== [a, b, out].join()) continue
        for (const orders of space.orderChoices()) {
          // Operands of the contraction are read as they are aligned; the output may always be stored element by element.
          const best = bestAlignment(space, orders, callOf(space.family, space.operation, args) as Call)
          for (const backend of space.backends('sm_100a', { types, alignment: best })) {
            for (const alignment of space.alignments(backend, { ...best, [D]: 'vector' })) {
              for (const planned of space.find(backend, 'sm_100a', { types, orders, alignment }, null).instances)
                if (new KtlKernel(planned).supports(args).ok) supported.add(planned.name)
            }
          }
        }
      }
    }
    expect(found.toSorted()).toEqual([...supported].sort())
  }
}, 60_000)

test('counting by classes is counting one by one, on seeded choices of every kernel and target', () => {
  const random = seeded(11)
  for (const target of ['sm_100a', 'sm_103a'] as const) {
    for (const space of ktlProvider.spaces) {
      const counted = space.counted(target)
      for (let i = 0; i < 4; i++) {
        const { backend, choice, instances, rejections } = counted[random(counted.length)]!
        const found = space.find(backend, target, choice, null)
        const codes = (list: typeof rejections) => list.map(({ rejection, count }) => [rejection.code, count])
        expect([instances, codes(rejections)]).toEqual([found.instances.length, codes(found.rejections)])
      }
    }
  }
}, 60_000)

test('more instances than any library of this kind, and a second count costs nothing', () => {
  const { target, instances, byRejection } = countKernels({ cc: 100 })
  expect(target).toBe('sm_100a')
  expect(instances).toBeGreaterThanOrEqual(400_000)
  expect(byRejection).toHaveProperty('KTL4516')
  const other = countKernels({ cc: 103 })
  expect(other.instances).toBeLessThan(instances)
  expect(other.byRejection).toHaveProperty('KTL4519')
  expect(countKernels({ cc: 90 }).instances).toBeLessThan(other.instances)
  const start = performance.now()
  countKernels({ cc: 100 })
  expect(performance.now() - start).toBeLessThan(100)
}, 30_000)

test('without arguments: every instance by its place in the order of declaration, names unique over a seeded sample', () => {
  const every = getKernels()
  expect(every.length).toBe(countKernels().instances)
  const random = seeded(3)
  const places = new Set(Array.from({ length: 60 }, () => random(every.length)))
  const names = [...places].flatMap((place) => [every[place]!, every[Math.min(place + 1, every.length - 1)]!])
  const distinct = new Set(names.map((kernel) => kernel.metadata.kernelName))
  expect(distinct.size).toBe(new Set(names).size)
  // All designs of whole choices, in one go.
  const choices = ktlProvider.spaces[0]!.counted('sm_100a').slice(0, 6)
  const whole = choices.flatMap(
    ({ backend, choice }) => ktlProvider.spaces[0]!.find(backend, 'sm_100a', choice, null).instances,
  )
  expect(new Set(whole.map(({ name }) => name)).size).toBe(whole.length)
}, 30_000)

test('tcgen05 of i8 is of sm_100a alone: sm_103a falls back on mma.sync', () => {
  const args = new GemmArguments({
    A: device.empty('i8', [256, 64]),
    B: device.empty('i8', [64, 256], { strides: [1, 64] }),
    out: device.empty('i32', [256, 256]),
  })
  const [first] = getKernels(args)
  expect([first!.metadata.design.kind, first!.metadata.targets]).toEqual(['sm100', ['sm_100a']])
  expect(new Set(getKernels(args, { cc: 'sm_103a' }).map(({ metadata }) => metadata.design.kind))).toEqual(
    new Set(['sm80', 'simt']),
  )
})
