/** The CUDA text is a function of the pipeline program alone, and of all of it. */
import { expect, test } from 'vitest'
import { FieldValues } from '../../bench/verify/fields.ts'
import { operationChanges } from '../../bench/verify/operations.ts'
import { pipelineOf, planInstance, printProgram, type Instance, type TensorProgram } from '../../codegen/index.ts'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import { bound } from '../compiler/support.ts'
import { GOLDEN_CASES } from './golden_cases.ts'

/** Fields that no text shows, and what they are for. */
const INFORMATIONAL: readonly (readonly [RegExp, string])[] = [
  [/^buffers\[\]\.align$/, 'the verifier: of offsets'],
  [/^buffers\[\]\.over$/, 'the verifier: regions that may overlap'],
  [/^(tma_load|load_atoms)\.depth\.axis$/, 'the verifier: the tensor map has it'],
  [/^tma_load\.tile\.swizzle$/, 'the verifier: the tensor map has it'],
  [/^source\.operands\[\]\.divisibility$/, 'the verifier: of what is read in vectors'],
  [/^source\.(operands|scalars)\[\]\.fromEpilogue$/, 'callers'],
  [/^source\.axes\[\]\.ragged$/, 'the verifier: the domain has it'],
  [/^source\.operands\[\]\.stored$/, 'callers: stores have it'],
  [/^source\.(operands|scalars)\[\]\.partOf$/, 'callers'],
  [/^load_scales\.barrier$/, 'the verifier: an arrival of its own follows'],
  [/^(part_scales\.part|add_part)\.of$/, 'the verifier: each part is summed once'],
  [/^node\.\w+\.axes\[\]$/, 'typing: operands have the same'],
  [/^node\.(input|scalar|const|size|axis|skip0)\.span\.(start|end)$/, 'source map: of the outermost'],
  [/^node\.(input|scalar)\.span$/, 'source map: parts of operands have none'],
]

const golden = (name: string): Instance => GOLDEN_CASES.find((one) => one.name === name)!.instance()
const lowered = (instance: Instance): TileProgram | null => {
  const plan = planInstance(instance)
  if (!('kind' in plan)) throw new Error(`${plan.code} ${plan.reason}`)
  return plan.kind === 'simt' ? null : pipelineOf(plan)
}

/** What no recorded kernel has: short forms, scalars by pointer, sizes, gathers along m. */
function furtherPrograms(): Instance[] {
  const further = bound(`kernel further(A: f16[l?, m, k], B: f16[l?, k, n], s: f32, r: f16[n], t: i32) -> (D: f16[l?, m, n], average: f32[m]) {
  x = sum[k](A * B)
  D = x / s * r + size(k) + 1
  average = mean[l, n](tanh(x) * 2)
}`) // prettier-ignore
  const byPointer = further.scalars.map((scalar) => ({ ...scalar, pointer: true }))
  const gathered = bound('kernel gathered(A: bf16[m, k], B: bf16[k, n]) -> D: bf16[m, n] { D = sum[k](A * B) }', {
    orders: { A: ['k', 'm'] },
    divisibility: { A: 'element', B: 'element' },
  })
  const as = (name: string, program: TensorProgram): Instance => ({ ...golden(name), program })
  return [
    ...['sm90 cooperative 128x256', 'sm80 f16', 'sm100 1cta'].map((name) =>
      as(name, { ...further, accuracy: 'approx', scalars: byPointer }),
    ),
    ...['sm90 cooperative 256x128', 'sm100 1cta'].map((name) => as(name, gathered)),
  ]
}

const programs = [...GOLDEN_CASES.map(({ instance }) => instance()), ...furtherPrograms()].flatMap(
  (instance) => lowered(instance) ?? [],
)

/** Null: it cannot be printed. */
function printed(program: TileProgram): string | null {
  try {
    return JSON.stringify(printProgram(program, 'ktl.changed'))
  } catch {
    return null
  }
}

test('a program prints as its copy does', () => {
  for (const program of programs) expect(printed(structuredClone(program)) === printed(program)).toBe(true)
})

test('each field changes the text or the recipe, but for those that are informational', () => {
  const values = new FieldValues(programs)
  const [shown, hidden] = [new Set<string>(), new Map<string, string>()]
  for (const program of programs) {
    const text = printed(program)
    const tries = new Map<string, number>()
    for (const { field, at, change, apply } of values.changesOf(program)) {
      const count = tries.get(field) ?? 0
      // Of many alike, the first few.
      if (shown.has(field) || count === 4 || INFORMATIONAL.some(([pattern]) => pattern.test(field))) continue
      tries.set(field, count + 1)
      if (printed(apply()) === text) hidden.set(field, `${at}: ${change}`)
      else shown.add(field)
    }
  }
  expect([...hidden].filter(([field]) => !shown.has(field))).toEqual([])
  expect(shown.size).toBeGreaterThan(300)
})

test('informational fields exist, and do not change it', () => {
  const values = new FieldValues(programs)
  const found = new Set<RegExp>()
  for (const program of programs.filter((_, i) => i % 8 === 0 || i > programs.length - 6)) {
    const text = printed(program)
    for (const { field, apply } of values.changesOf(program)) {
      const entry = INFORMATIONAL.find(([pattern]) => pattern.test(field))
      if (!entry || found.has(entry[0])) continue
      found.add(entry[0])
      expect(printed(apply()) === text, field).toBe(true)
    }
  }
  expect(INFORMATIONAL.filter(([pattern]) => !found.has(pattern))).toEqual([])
})

test.each([
  'sm90 ping-pong 128x128',
  'sm90 k split in 4',
  'sm90 rows copied for ping-pong',
  'sm90 1x128 by 128x128, halves',
  'sm90 into 1x32',
  'sm80 shifted rows',
  'sm80 elements ahead of sub-tiles',
  'sm100 cluster 4x2 of pairs fallback clc',
])('each operation of %s that is missing or comes twice changes the text', (name) => {
  const program = lowered(golden(name))!
  const text = printed(program)
  for (const { change, at, apply } of operationChanges(program))
    if (change !== 'swapped') expect(printed(apply()) === text, `${at} ${change}`).toBe(false)
})
