/**
 * The tile program and CUDA text of every form of kernel, as recorded in test/golden/lowering: some whole, the others as hashes.
 * `npx vitest run test/codegen/golden.test.ts -u` records them anew; with GOLDEN_TEXT=FOLDER, the text of all is written there.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { generatePlan, pipelineOf, planInstance, type Instance, type Plan } from '../../codegen/index.ts'
import { printTileProgram } from '../../compiler/ir/print_pipe.ts'
import { ALIGNMENT_SLACK } from '../../compiler/targets/tensor_core/plan.ts'
import { verified } from '../compiler/support.ts'
import { GOLDEN_CASES, type GoldenCase } from './golden_cases.ts'

const GOLDEN = join(import.meta.dirname, '../golden/lowering')
const HASHES = 'sha256.json'

function planned(instance: Instance): Plan {
  const plan = planInstance(instance)
  if (!('kind' in plan)) throw new Error(`${plan.code} ${plan.reason}`)
  return plan
}

/** Null: kernels for the CUDA cores have no tile program. */
function tileText(plan: Plan): string | null {
  const program = pipelineOf(plan)
  return program && printTileProgram(verified(program))
}

/** By file name. */
function textsOf(name: string, plan: Plan): Record<string, string> {
  const stem = name.replaceAll(/[^a-z0-9]+/g, '_')
  const tile = tileText(plan)
  return { [`${stem}.cu`]: generatePlan(plan, 'ktl.golden').cuda, ...(tile !== null && { [`${stem}.tile`]: tile }) }
}

const made = new Map<GoldenCase, { plan: Plan; texts: Record<string, string> }>()
function lowered(golden: GoldenCase): { plan: Plan; texts: Record<string, string> } {
  const known = made.get(golden)
  if (known) return known
  const plan = planned(golden.instance())
  const one = { plan, texts: textsOf(golden.name, plan) }
  made.set(golden, one)
  return one
}

test.each(GOLDEN_CASES)('$name', async (golden) => {
  const { plan, texts } = lowered(golden)
  expect(plan).toMatchObject(golden.plan)
  for (const [file, text] of Object.entries(texts)) {
    expect(text.length).toBeGreaterThan(0)
    if (golden.whole) await expect(text).toMatchFileSnapshot(join(GOLDEN, file))
  }
})

test.each(GOLDEN_CASES)('$name: its shared memory ends where the plan says', (golden) => {
  const { plan } = lowered(golden)
  const program = pipelineOf(plan)
  if (program === null) return
  const slots = (name: string): number => program.rings.find((ring) => ring.name === name)!.slots
  const ends = [
    ...program.buffers.map((b) => b.offset + b.slots * b.slotBytes * (b.per?.count ?? 1)),
    ...program.barriers.map((b) => b.offset + 8 * slots(b.ring) * (b.per?.count ?? 1)),
    ...(program.tmem ? [program.tmem.slotOffset + 4] : []),
  ]
  expect(plan.smemBytes).toBe(ALIGNMENT_SLACK + Math.max(...ends))
  expect(program.launch.sharedMemBytes).toBe(plan.smemBytes)
})

test('hashes of the others', async () => {
  const files = GOLDEN_CASES.filter(({ whole }) => !whole).flatMap((golden) => Object.entries(lowered(golden).texts))
  const hashes = files.map(([file, text]) => [file, createHash('sha256').update(text).digest('hex')] as const)
  expect(new Set(hashes.map(([file]) => file)).size).toBe(hashes.length)
  const sorted = Object.fromEntries(hashes.sort(([x], [y]) => (x < y ? -1 : 1)))
  await expect(`${JSON.stringify(sorted, null, 2)}\n`).toMatchFileSnapshot(join(GOLDEN, HASHES))
})

test('no recorded file is left over', () => {
  const recorded = GOLDEN_CASES.filter(({ whole }) => whole).flatMap((golden) => Object.keys(lowered(golden).texts))
  // Files that are new are written after the tests.
  const files = existsSync(GOLDEN) ? readdirSync(GOLDEN) : []
  expect(files.filter((file) => file !== HASHES && !recorded.includes(file))).toEqual([])
})

afterAll(() => {
  const folder = process.env['GOLDEN_TEXT']
  if (!folder) return
  mkdirSync(folder, { recursive: true })
  for (const { texts } of made.values())
    for (const [file, text] of Object.entries(texts)) writeFileSync(join(folder, file), text)
})
