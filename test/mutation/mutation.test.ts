import { expect, test } from 'vitest'
import type { Verdict } from '../../bench/mutation/judge.ts'
import { DEMO, SM80_SHARES, SM90_COOPERATIVE, SM90_MEETING, SM90_SCALED } from '../../bench/mutation/kernels.ts'
import { isKilled, mutateNamed, scoreOf } from '../../bench/mutation/run.ts'
import { mutantsOf, type SiteClass } from '../../bench/mutation/sites.ts'

const PTX = `\t.loc\t1 210 7
\t.loc\t1 56 26, function_name $L__info_string12, inlined_at 1 211 9
\tmbarrier.try_wait.parity.shared::cta.b64 p, [%r32], %r410;
\t.loc\t1 283 11
\t@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r278], %r266;
\tadd.s32 \t%r1, %r2, %r3;
\tfence.proxy.async.shared::cta;`

test('each mutant differs from the original in the line of its instruction alone', () => {
  const original = PTX.split('\n')
  for (const { ptx, ptxLine } of mutantsOf(PTX)) {
    const changed = ptx.split('\n').flatMap((line, i) => (line === original[i] ? [] : [i + 1]))
    expect(changed).toEqual([ptxLine])
  }
})

test('the changes of each kind of instruction', () => {
  const line = (m: { ptx: string; ptxLine: number }): string => m.ptx.split('\n')[m.ptxLine - 1]!
  expect(mutantsOf(PTX).map((m) => [m.class, m.change, m.cudaLine, line(m)])).toEqual([
    ['wait', 'never waits', 211, '\tsetp.eq.u32 p, 0, 0;'],
    ['wait', 'tries once', 211, '\tmbarrier.try_wait.parity.shared::cta.b64 p, [%r32], %r410; setp.eq.u32 p, 0, 0;'],
    ['expect_tx', 'plain arrive', 283, '\t@%p1 mbarrier.arrive.shared::cta.b64 _, [%r278];'],
    ['expect_tx', 'half the bytes', 283, '\t{ .reg .b32 mutated; shr.u32 mutated, %r266, 1; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r278], mutated; }'], // prettier-ignore
    ['expect_tx', 'twice the bytes', 283, '\t{ .reg .b32 mutated; shl.b32 mutated, %r266, 1; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r278], mutated; }'], // prettier-ignore
    ['expect_tx', 'removed', 283, '\t'],
    ['proxy fence', 'removed', 283, '\t'],
  ])
})

// One experiment; the tests below read it.
let experiment: Promise<readonly Verdict[]> | undefined
const verdictsOf = async (...classes: SiteClass[]): Promise<Verdict[]> => {
  experiment ??= mutateNamed(DEMO).then(({ verdicts }) => verdicts)
  return (await experiment).filter(({ mutant }) => classes.includes(mutant.class))
}
const survivors = (verdicts: readonly Verdict[]): string[] =>
  verdicts.filter((v) => !isKilled(v)).map(({ mutant }) => `${mutant.instruction} (${mutant.note}): ${mutant.change}`)

test('no wait and no expect_tx of the demo kernel can be broken unnoticed', async () => {
  const waits = await verdictsOf('wait')
  const notes = waits.map(({ mutant }) => `${mutant.role}: ${mutant.note}`)
  expect(new Set(notes)).toEqual(
    new Set(['epilogue: wait acc_full', 'tma: wait empty', 'mma: wait acc_empty', 'mma: wait full']),
  )
  expect(survivors(waits)).toEqual([])
  const expectations = await verdictsOf('expect_tx')
  expect(expectations).toHaveLength(4)
  expect(survivors(expectations)).toEqual([])
})

test('no commit, arrive, init, CTA barrier or bulk wait either', async () => {
  const verdicts = await verdictsOf('commit', 'arrive', 'init', 'cta barrier', 'bulk wait', 'bulk commit', 'tmem wait')
  expect(verdicts.length).toBeGreaterThanOrEqual(25)
  expect(survivors(verdicts)).toEqual([])
})

test('no fence between roles, and none to the async proxy', async () => {
  expect(survivors(await verdictsOf('proxy fence', 'init fence'))).toEqual([])
  // Those around alloc and dealloc, which are synchronous, belong to no role's handshake.
  const handshakes = ['epilogue: wait acc_full', 'epilogue: TMEM load', 'mma: wait acc_empty']
  const fences = await verdictsOf('tmem fence')
  const between = fences.filter(({ mutant }) => handshakes.includes(`${mutant.role}: ${mutant.note}`))
  expect(between).toHaveLength(handshakes.length)
  expect(survivors(between)).toEqual([])
})

test('the published kill rates hold, with and without mbarrier.init', async () => {
  await verdictsOf()
  const verdicts = await experiment!
  const rate = (of: readonly Verdict[]): number => scoreOf(of).killed / of.length
  expect(rate(verdicts)).toBeGreaterThanOrEqual(45 / 53)
  expect(rate(verdicts.filter(({ mutant }) => mutant.class !== 'init'))).toBeGreaterThanOrEqual(29 / 37)
})

test('nothing that carries a tile of an SM90 kernel from role to role can be removed unnoticed', async () => {
  const classes: SiteClass[] = ['arrive', 'expect_tx', 'bulk wait', 'bulk commit', 'proxy fence', 'wgmma commit', 'cta barrier']
  const { verdicts } = await mutateNamed(SM90_COOPERATIVE, { classes })
  const places = new Set(verdicts.map(({ mutant }) => `${mutant.role}: ${mutant.note}`))
  for (const place of ['consumer: arrive staged', 'producer: arrive stored', 'producer: staging slot is free', 'consumer: fence for the async proxy']) {
    expect(places).toContain(place)
  }
  expect(survivors(verdicts)).toEqual([])
}) // prettier-ignore

test('nothing that carries scales, or frees the slots that warps have read themselves, can be removed unnoticed', async () => {
  const classes: SiteClass[] = ['arrive', 'expect_tx', 'wgmma fence', 'wgmma commit', 'wgmma wait', 'proxy fence']
  const { verdicts } = await mutateNamed(SM90_SCALED, { classes })
  const places = new Set(verdicts.map(({ mutant }) => `${mutant.role}: ${mutant.note}`))
  for (const place of ['producer: arrive full behind copies', 'consumer: release empty'])
    expect(places).toContain(place)
  expect(survivors(verdicts)).toEqual([])
})

test('no part of k that finishes a share can go on without the others unnoticed', async () => {
  const { verdicts } = await mutateNamed(SM80_SHARES, { classes: ['parts of k'] })
  expect(verdicts.map(({ mutant }) => mutant.note)).toContain('wait for all parts')
  expect(survivors(verdicts)).toEqual([])
})

test('no part of k that waits for the others can go on without them unnoticed, nor their threads without each other', async () => {
  const { verdicts } = await mutateNamed(SM90_MEETING, { classes: ['parts of k', 'cta barrier'] })
  const places = new Set(verdicts.map(({ mutant }) => `${mutant.class}, ${mutant.role}: ${mutant.note}`))
  for (const place of ['parts of k, consumer: wait for all parts', 'cta barrier, consumer: role barrier'])
    expect(places).toContain(place)
  expect(survivors(verdicts)).toEqual([])
})
