/** The whole space of designs: what is counted, found and ranked is what planning says, choice by choice. */
import { expect, test, vi } from 'vitest'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { resolveType } from '../../compiler/family.ts'
import { countKernels, GemmArguments, getKernels, KernelMetadata, KtlKernel, KtlProvider as ktlProvider, loadSource } from '../../runtime/index.ts' // prettier-ignore
import { callOf, type Call } from '../../runtime/discovery/calls/call.ts'
import { Output, type Json } from '../../runtime/cli/output.ts'
import { createProgram } from '../../runtime/cli/program.ts'
import { bestAlignment } from '../../runtime/discovery/providers/ktl_provider.ts'
import { PlannedInstance } from '../../runtime/discovery/space/planned.ts'
import { libraryKernels } from '../../runtime/programs/library.ts'
import { FULL, sampled } from '../cases_of.ts'
import { MemoryDevice } from './memory_device.ts'

/** How often an instance was planned. */
const planned = vi.hoisted(() => ({ calls: 0 }))
vi.mock('../../compiler/targets/index.ts', async (original) => {
  const targets = await original<typeof import('../../compiler/targets/index.ts')>()
  const planInstance: typeof targets.planInstance = (instance) => (planned.calls++, targets.planInstance(instance))
  return { ...targets, planInstance }
})

const device = new MemoryDevice()

/** A count of one takes as long as all else here: the full test has those of sm_103a, whose kernels are nearly those of sm_100a, and of sm_90a. */
const TARGETS = FULL ? (['sm_100a', 'sm_103a', 'sm_90a', 'sm_80'] as const) : (['sm_100a', 'sm_80'] as const)

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
  for (const [a, b, outs, accumulators] of sampled(sampled(PAIRS))) {
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
    expect(found.length).toBeLessThanOrEqual(1200)
    const supported = new Set<string>()
    for (const space of ktlProvider.spaces) {
      if (space.operation?.operation !== 'gemm') continue
      const { A, B, out: D } = space.operation
      const typed = (name: string): string => space.family.operands.find((operand) => operand.name === name)!.dtype
      for (const types of space.family.typeChoices) {
        if ([A, B, D].map((name) => resolveType(typed(name), types)).join() !== [a, b, out].join()) continue
        for (const orders of space.orderChoices(types)) {
          // Operands of the contraction are read as they are aligned; the output may always be stored element by element.
          const best = bestAlignment(space, orders, callOf(space.family, space.operation, args) as Call)
          for (const backend of space.backends('sm_100a', { types, alignment: best })) {
            for (const alignment of space.alignments(backend, 'sm_100a', types, { ...best, [D]: 'vector' })) {
              for (const planned of space.find(backend, 'sm_100a', { types, orders, alignment }, null).instances)
                if (new KtlKernel(planned).supports(args).ok) supported.add(planned.name)
            }
          }
        }
      }
    }
    expect(found.toSorted()).toEqual([...supported].sort())
  }
}, 120_000)

test('counting by classes is counting one by one, on seeded choices of every kernel and target', () => {
  const random = seeded(11)
  for (const target of FULL ? TARGETS : (['sm_80'] as const)) {
    for (const space of ktlProvider.spaces) {
      const counted = space.counted(target)
      for (let i = 0; i < (FULL ? 3 : 1); i++) {
        const { backend, choice, instances, rejections } = counted[random(counted.length)]!
        const found = space.find(backend, target, choice, null)
        // Reasons name dtypes, which a class does not.
        const codes = (list: typeof rejections) =>
          list.reduce<Record<string, number>>((sums, { rejection, count }) => ({ ...sums, [rejection.code]: (sums[rejection.code] ?? 0) + count }), {}) // prettier-ignore
        expect([instances, codes(rejections)]).toEqual([found.instances.length, codes(found.rejections)])
      }
    }
  }
}, 300_000)

test('more instances than any library of this kind, and a second count costs nothing', () => {
  const cc = FULL ? 100 : 80
  const { target, instances, byRejection } = countKernels({ cc })
  expect(target).toBe(FULL ? 'sm_100a' : 'sm_80')
  expect(instances).toBeGreaterThanOrEqual(FULL ? 400_000 : 20_000)
  if (FULL) {
    expect(byRejection).toHaveProperty('KTL4516')
    const other = countKernels({ cc: 103 })
    expect(other.instances).toBeLessThan(instances)
    expect(other.byRejection).toHaveProperty('KTL4519')
    for (const older of [90, 80]) expect(countKernels({ cc: older }).instances).toBeLessThan(instances)
  }
  const before = planned.calls
  countKernels({ cc })
  expect(planned.calls).toBe(before)
}, 30_000)

test('ktl count --json: a record for each target', async () => {
  const counts: Record<string, unknown>[] = []
  class Records extends Output {
    override record(kind: string, fields: Readonly<Record<string, Json | undefined>>): void {
      counts.push({ kind, ...fields })
    }
    override line(): void {}
  }
  const program = createProgram({ out: new Records(), signal: new AbortController().signal }, () => {})
  await program.parseAsync(['count', '--json', ...(FULL ? [] : ['--target', 'sm_80'])], { from: 'user' })
  expect(counts.map(({ target }) => target)).toEqual(FULL ? TARGETS : ['sm_80'])
  for (const count of counts) {
    expect(Object.keys(count)).toEqual(['kind', 'target', 'instances', 'byRejection'])
    expect(count['instances']).toBeGreaterThan(100)
  }
}, 120_000)

test('filters over all instances plan classes of choices, not instances, and make a kernel when it is looked at', () => {
  let seen = 0
  // Of the target that is counted soonest, where not all runs.
  const [cc, kind] = FULL ? ([100, 'sm100'] as const) : ([80, 'sm80'] as const)
  const { instances, target } = countKernels({ cc })
  const before = planned.calls
  const made = vi.spyOn(PlannedInstance.prototype, 'metadata', 'get')
  const metadataFilter = ({ design }: KernelMetadata): boolean => ++seen > 0 && design.kind === kind && design.tileShape[0] === 256
  const filtered = getKernels(undefined, { metadataFilter, cc })
  expect(seen).toBe(instances)
  const choices = ktlProvider.spaces.reduce((sum, space) => sum + space.counted(target).filter((choice) => choice.instances > 0).length, 0)
  if (FULL) expect(choices).toBeLessThan(instances / 50)
  // One or two of each choice, for what its instances have in common.
  const calls = planned.calls - before
  expect([calls > 0, calls <= 2 * choices]).toEqual([true, true])
  expect(made).not.toHaveBeenCalled()
  expect(filtered.at(-1)!.metadata.design).toMatchObject({ kind, tileShape: [256, expect.any(Number), expect.any(Number)] })
  expect(made).toHaveBeenCalledOnce()
  made.mockRestore()
  const where = { design: { kind, tileShape: [256, null, null] } } as const
  expect([getKernels(undefined, { where, cc }).length, countKernels({ where, cc }).instances]).toEqual([filtered.length, filtered.length])
}, 120_000) // prettier-ignore

if (FULL)
  test('where counts', () => {
    const where = { design: { operands: 'ba' }, operands: { A: { dtype: 'f16' }, out: { dtype: 'f32' } } } as const
    // gemm and gemm_acc16: 18 designs, 8 orders, 2 ways to store; for gemm alone 12 of parts of k, and in 4 orders 23 of 64 rows and 8 to 120 columns.
    expect(countKernels({ where }).instances).toBe(((2 * 18 + 12) * 8 + 23 * 4) * 2)
  })

test('all of the library is in the count and in the list', () => {
  const where = { design: { kind: 'simt' } } as const
  const names = new Set([...getKernels(undefined, { where, cc: 80 })].map((kernel) => (kernel as KtlKernel).planned.space.family.name))
  expect([...names]).toEqual(Object.keys(libraryKernels()))
  expect(countKernels({ where, cc: 80 }).instances).toBe(getKernels(undefined, { where, cc: 80 }).length)
}) // prettier-ignore

test.each(TARGETS)('what filters see on %s is the metadata of the kernels, on seeded choices', (target) => {
  const random = seeded(5)
  const { kernels } = loadSource({ name: 'a.ktl', text: 'kernel mine(A: f16[m, k], B: f16[k, n], C: f32[m, n]) -> D: f32[m, n] { D = sum[k](A * B) + C }' })
  // What the whole space of SM100 has is counted in the full test: here some kernels are, and the one of a user.
  const library = ktlProvider.spaces.filter((_, i) => FULL || target === 'sm_80' || i % 9 === 0)
  for (const space of [...library, ktlProvider.spaceOf(kernels.mine!.family)]) {
    const counted = space.counted(target)
    for (let i = 0; i < Math.min(FULL ? 12 : 6, counted.length); i++) {
      const one = counted[random(counted.length)]!
      const { instances } = space.find(one.backend, target, one.choice, null)
      const seen: KernelMetadata[] = []
      space.rows(target, one)?.passing(null, (metadata) => seen.push(metadata) > 0)
      expect(seen.length).toBe(instances.length)
      for (let j = 0; j < Math.min(8, seen.length); j++) {
        const at = random(seen.length)
        expect(seen[at]).toEqual(instances[at]!.metadata)
        expect(seen[at]).toBeInstanceOf(KernelMetadata)
        expect(Object.isFrozen(seen[at])).toBe(true)
      }
    }
  }
}, 120_000) // prettier-ignore

test('without arguments: every instance by its place in the order of declaration, names unique over a seeded sample', () => {
  const [cc, arch] = FULL ? ([100, 'sm_100a'] as const) : ([80, 'sm_80'] as const)
  const every = getKernels(undefined, { cc })
  expect(every.length).toBe(countKernels({ cc }).instances)
  const random = seeded(3)
  const places = new Set(Array.from({ length: 60 }, () => random(every.length)))
  const names = [...places].flatMap((place) => [every[place]!, every[Math.min(place + 1, every.length - 1)]!])
  const distinct = new Set(names.map((kernel) => kernel.metadata.kernelName))
  expect(distinct.size).toBe(new Set(names).size)
  // All designs of whole choices, in one go.
  const choices = ktlProvider.spaces[0]!.counted(arch).slice(0, 6)
  const whole = choices.flatMap(
    ({ backend, choice }) => ktlProvider.spaces[0]!.find(backend, arch, choice, null).instances,
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
