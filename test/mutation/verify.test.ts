/** The measurement of the verifier (bench/verify.ts) in small. */
import { mkdtempSync, rmSync, appendFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { FieldValues } from '../../bench/verify/fields.ts'
import { PROGRAMS_TO_CHANGE } from '../../bench/verify/kernels.ts'
import { changesOf, type Mutant } from '../../bench/verify/mutants.ts'
import { reasonOf } from '../../bench/verify/reasons.ts'
import { reportOf } from '../../bench/verify/report.ts'
import { Verdicts } from '../../bench/verify/verdicts.ts'
import { judge, sampled, toJudge } from '../../bench/verify/work.ts'
import { pipelineOf, planInstance } from '../../codegen/index.ts'
import { GOLDEN_CASES } from '../codegen/golden_cases.ts'

/** Of what it takes to say that an output is one thing and not another, a program has nothing twice. */
const MEANING = ['source.operands[].dtype', 'source.operands[].blocks', 'source.operands[].blocks[]']
const NAMES = [
  'sm100 1cta',
  'sm90 ping-pong 128x128',
  'sm90 1x128 by 128x128',
  'sm90 mxfp8',
  'sm90 into 1x32',
  'sm90 groups exchanged',
  'sm90 rows that are looked up',
  'sm90 fused behind k in two stages',
  'sm80 f16',
  'sm80 f32 in parts',
  'sm80 1x64 by 1x32 of i8',
]
const programs = NAMES.map((name) => {
  const plan = planInstance(GOLDEN_CASES.find((one) => one.name === name)!.instance())
  if (!('kind' in plan)) throw new Error(plan.reason)
  return pipelineOf(plan)!
})
const values = new FieldValues(programs)

test.each(NAMES)('%s: the verifier notices nearly every change, and why it misses the others is known', (name) => {
  const { mutants } = changesOf(programs[NAMES.indexOf(name)]!, 'ktl.changed', values)
  expect(mutants.length).toBeGreaterThan(250)
  const different = mutants.filter((mutant) => mutant.noticed || reasonOf(mutant) === null)
  const missed = different.filter(({ noticed }) => !noticed).map(({ subject }) => subject)
  expect(missed.filter((subject) => !MEANING.includes(subject))).toEqual([])
  expect(missed.length / different.length).toBeLessThan(0.03)
  expect(mutants.filter(({ noticed }) => noticed).length / mutants.length).toBeGreaterThan(0.88)
})

test('changes that leave the code as it is are no mutants, and those that make the same code are one', () => {
  const { mutants, others } = changesOf(programs.at(-2)!, 'ktl.changed', values)
  expect(new Set(mutants.map(({ code }) => code)).size).toBe(mutants.length)
  expect(new Set(others.map(({ why }) => why))).toEqual(new Set(['text', 'code', 'mutant', 'none']))
})

test('a part of the texts goes to the device, which says what it sees of each; a second run begins behind them', async () => {
  const kernel = PROGRAMS_TO_CHANGE.find(({ name }) => name === 'sm80 heads')!
  const folder = mkdtempSync(join(tmpdir(), 'ktl-verdicts-'))
  try {
    const file = join(folder, 'state.jsonl')
    const first = new Verdicts(file)
    // One of a hundred and twenty in this order.
    const options = { seed: 1, sample: 40, part: 7, of: 120, deadline: Infinity }
    await judge(kernel, { ...options, known: new Set(), onVerdict: (code, noticed) => first.add(kernel.name, code, noticed) })
    expect(first.of(kernel.name).size).toBeGreaterThan(0)
    appendFileSync(file, '{"schema":1,"ker')
    const again = new Verdicts(file)
    expect(again.of(kernel.name)).toEqual(first.of(kernel.name))
    const more: string[] = []
    await judge(kernel, { ...options, known: new Set(again.of(kernel.name).keys()), onVerdict: (code) => more.push(code) })
    expect(more).toEqual([])
  } finally {
    rmSync(folder, { recursive: true })
  }
}, 120_000) // prettier-ignore

test('what the verifier misses is judged, and as many others as the sample has; the order is that of the seed', () => {
  const mutant = (i: number): Mutant => ({
    kind: 'field', subject: 'x', oneSlot: false, synchronous: false, oneSubtile: false, place: `${i}`, code: `${i}`, noticed: i % 4 > 0, print: () => { throw new Error('not printed') },
  })
  const mutants = Array.from({ length: 100 }, (_, i) => mutant(i))
  const kernel = PROGRAMS_TO_CHANGE[0]!
  const judged = toJudge(kernel, mutants, { seed: 1, sample: 20 })
  const chosen = sampled(kernel, mutants, { seed: 1, sample: 20 })
  expect(chosen.size).toBe(20)
  expect(new Set(judged.map(({ code }) => code))).toEqual(new Set([...chosen, ...mutants.filter(({ noticed }) => !noticed).map(({ code }) => code)]))
  expect(toJudge(kernel, mutants, { seed: 1, sample: 20 })).toEqual(judged)
  expect(toJudge(kernel, mutants, { seed: 2, sample: 20 })).not.toEqual(judged)
}) // prettier-ignore

test('the report: shares of all, and without those that a rule calls equivalent and no run has shown to differ', () => {
  const base = { oneSlot: false, synchronous: false, oneSubtile: false, code: '', kernel: 'k', sampled: true, print: () => { throw new Error('not printed') } }
  const report = reportOf(
    [
      { ...base, kind: 'deleted', subject: 'wait', place: 'a', noticed: true, device: 'KTL5005' },
      { ...base, kind: 'deleted', subject: 'commit', place: 'b', noticed: true, device: null },
      { ...base, kind: 'doubled', subject: 'wait', place: 'c', noticed: false, device: null },
      { ...base, kind: 'doubled', subject: 'cta_sync', place: 'd', noticed: false, device: 'values' },
      { ...base, kind: 'field', subject: 'wait.barrier', place: 'e', noticed: false, device: undefined, sampled: false },
    ],
    [{ kind: 'field', subject: 'quiet', why: 'text', noticed: false }],
    'again',
  )
  expect(report).toContain('Noticed by one or the other: 60.0 % of all mutants; 75.0 % without the 1 that are equivalent')
  expect(report).toContain('but for 1, which count as missed')
  expect(report).toMatch(/all +5 +40\.0 % +60\.0 % +1 +50\.0 % +75\.0 % +1 +4 +50\.0 % +25\.0 %/)
  expect(report).toMatch(/waits, fences and meetings that come twice hold what one holds +1 +doubled wait 1/)
}) // prettier-ignore
