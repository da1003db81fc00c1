/** Builds that time themselves, what is read from their stamps, and how it is drawn. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { generateTraced, pipelineOf, type TraceLayout } from '../../codegen/index.ts'
import { GemmArguments, getKernels, KtlKernel, openDevice } from '../../runtime/index.ts'
import { parseTrace, printTrace } from '../../runtime/timeline/chrome.ts'
import { timelineHtml } from '../../runtime/timeline/html.ts'
import { ticksOf, timelineOf } from '../../runtime/timeline/model.ts'
import { readStamps } from '../../runtime/timeline/stamps.ts'
import { timelineSvg } from '../../runtime/timeline/svg.ts'
import { tracedBuild } from '../../runtime/timeline/traced.ts'
import { folder, ktl } from './cli.ts'
import { command } from './command.ts'

const K_TILES = 6

/** All tiles of k in one CTA. */
function wholeK(design: object): boolean {
  const { splits = 1, parts = 1 } = design as { splits?: number; parts?: number }
  return splits * parts === 1
}

/** A tile of a GEMM with 6 tiles of k, traced, and the untraced result beside its own. */
async function traced(name: 'virtual-sm100' | 'virtual-sm90', kind: 'sm100' | 'sm90' | 'sm80') {
  const device = await openDevice(name, { checks: 'full' })
  const [A, B] = [device.tensor('f16', [64, 64 * K_TILES], 1), device.tensor('f16', [64 * K_TILES, 64], 1)]
  const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 64]) })
  const kernel = getKernels(args, { metadataFilter: ({ design }) => design.kind === kind && wholeK(design), cc: kind === 'sm80' ? 80 : undefined })[0] as KtlKernel // prettier-ignore
  const build = (await tracedBuild(kernel, args))!
  const run = await kernel.run(args, { artifact: build.artifact, workspace: build.workspace, trace: true })
  const values = [...(await args.out.toArray())]
  const trace = await build.read(run.trace)
  const depth = pipelineOf(kernel.plan)!.domain.depth
  await device.close()
  return { run, values, trace, kernel, kTiles: (64 * K_TILES) / depth, timeline: timelineOf(trace, 'a GEMM') }
}

describe.each([
  ['virtual-sm100', 'sm100', ['tma', 'mma', 'epilogue'], 'MMA'],
  ['virtual-sm90', 'sm90', ['producer', 'consumer'], 'MMA'],
  ['virtual-sm90', 'sm80', ['worker'], 'MMA'],
] as const)('a traced build on %s, %s', (device, kind, roles, product) => {
  const made = traced(device, kind)

  test('computes what the kernel does, without findings', async () => {
    const { run, values } = await made
    expect(run.findings).toEqual([])
    expect(new Set(values)).toEqual(new Set([64 * K_TILES]))
  })

  test('has a row for each role that did something, and each tile of k in it', async () => {
    const { timeline, kTiles } = await made
    for (const role of roles) expect(timeline.rows.map(({ name }) => name.replace(/ \d+$/, ''))).toContain(role)
    const multiplying = timeline.rows.find(({ slices }) => slices.some(({ name }) => name === product))!
    const products = multiplying.slices.filter(({ name }) => name === product)
    expect(products.length % kTiles).toBe(0)
    expect(products.length).toBeGreaterThan(0)
    for (const { slices } of timeline.rows) for (const { start, end } of slices) expect(end).toBeGreaterThan(start)
  })

  test('says the stage and phase of what goes through the ring', async () => {
    const { timeline, kernel, kTiles } = await made
    const slots = pipelineOf(kernel.plan)!.rings.find(
      ({ name }) => name === (kind === 'sm80' ? 'fill' : 'stage'),
    )!.slots
    const loads = timeline.rows.flatMap(({ isUnit, slices }) => (isUnit ? [] : slices)).filter(({ name, ring }) => name === 'load A' && ring !== null) // prettier-ignore
    expect(loads.slice(0, kTiles).map(({ slot }) => slot)).toEqual(Array.from({ length: kTiles }, (_, i) => i % slots))
    if (kind !== 'sm80') expect(loads.map(({ phase }) => phase)).toEqual(loads.map((_, i) => Math.floor(i / slots) % 2)) // prettier-ignore
  })

  test('stamps and units have one time: nothing is multiplied before it is issued', async () => {
    const { timeline } = await made
    const unit = timeline.rows.find(({ name }) => name === 'tensor core')!
    const issued = timeline.rows.flatMap(({ isUnit, slices }) => (isUnit ? [] : slices.filter(({ name }) => name === product))) // prettier-ignore
    expect(unit.slices[0]!.start).toBeGreaterThanOrEqual(Math.min(...issued.map(({ start }) => start)))
    expect(timeline.time).toBe('modelled cycles of the virtual device')
  })
})

describe('stamps', () => {
  const layout: TraceLayout = {
    region: 'r',
    ctas: 2,
    streams: 2,
    stamps: 4,
    events: [{ name: 'wait full', kind: 'wait', role: 'mma', ring: 'stage' }],
  }
  const words = (at: number, ...values: bigint[]): BigUint64Array => {
    const all = new BigUint64Array(2 * 2 * 4 * 2)
    all.set(values, at)
    return all
  }

  test('of a GPU: cycles since the first stamp of the CTA, slot and phase', () => {
    const place = (3n << 16n) | (1n << 32n)
    const [cta] = readStamps(words(0, 1000n, 77n, 1010n, place, 1050n, place | 0x8000n), layout)
    expect(cta).toMatchObject({ cta: 0, clock: 1000, nanoseconds: 77n, cut: false })
    expect([...cta!.roles]).toEqual([[0, 'mma']])
    expect(cta!.slices).toEqual([
      { name: 'wait full', ph: 'X', pid: 0, tid: 0, ts: 10, dur: 40, args: { kind: 'wait', role: 'mma', ring: 'stage', slot: 3, phase: 1 } },
    ]) // prettier-ignore
  })

  test('a full stream is said to be cut; an end without a start is none', () => {
    const [cta] = readStamps(words(0, 5n, 5n, 6n, 0x8000n, 7n, 0n, 8n, 0x8000n), layout)
    expect([cta!.cut, cta!.slices.length]).toEqual([true, 1])
  })
})

test('a kernel on CUDA cores has no roles to trace', async () => {
  const device = await openDevice('virtual-sm90')
  const x = device.tensor('f64', [8, 8], 1)
  const args = new GemmArguments({ A: x, B: x, out: device.empty('f64', [8, 8]) })
  const kernel = (Array.from(getKernels(args)) as KtlKernel[]).find(({ plan }) => plan.kind === 'simt')!
  expect(generateTraced(kernel.plan, 'name')).toBe(null)
  expect(await tracedBuild(kernel, args)).toBe(null)
  await device.close()
})

const trace = printTrace({
  traceEvents: [
    { name: 'thread_name', ph: 'M', pid: 0, tid: 2, args: { name: 'mma <2>' } },
    { name: 'wait', ph: 'X', pid: 0, tid: 2, ts: 0, dur: 90 },
    { name: 'MMA', ph: 'X', pid: 0, tid: 2, ts: 90, dur: 10, args: { kind: 'multiply', ring: 'stage', slot: 1, phase: 0 } }, // prettier-ignore
    { name: 'elsewhere', ph: 'X', pid: 1, tid: 2, ts: 0, dur: 500 },
  ],
  otherData: { time: 'cycles' },
})

describe('drawing', () => {
  const timeline = timelineOf(trace, 'a & b')

  test('a trace is read back as it was written', () => {
    expect(printTrace(parseTrace(trace))).toBe(trace)
    expect(timeline).toMatchObject({
      end: 100,
      kinds: ['multiply', 'wait'],
      rows: [{ name: 'mma <2>', isUnit: false }],
    })
  })

  test.each([
    ['svg', timelineSvg(timeline)],
    ['html', timelineHtml(timeline)],
  ])('%s escapes names, says each slice, and asks no other host', (_, text) => {
    expect(text).toContain('a &amp; b')
    expect(text).toContain('mma &lt;2&gt;')
    expect(text).toContain('MMA, stage 1, phase 0: 90 to 100 (10)')
    expect(text.replaceAll('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:|src=|@import|url\(/)
  })

  test('two stand below one another on one scale; with one the picture is what it was', () => {
    const half = { ...timeline, title: 'measured', end: 50 }
    const [svg, html] = [timelineSvg([timeline, half]), timelineHtml([timeline, half])]
    expect(timelineSvg([timeline])).toBe(timelineSvg(timeline))
    for (const drawn of [svg, html]) expect(drawn.match(/MMA, stage 1, phase 0: 90 to 100/g)).toHaveLength(2)
    // The same cycles have the same place in both.
    const places = [...svg.matchAll(/<rect x="([\d.]+)" y="\d+" width="([\d.]+)"[^>]*><title>MMA/g)]
    expect(places.map(([, x, width]) => [x, width])).toEqual([places[0]!.slice(1), places[0]!.slice(1)])
    expect(svg).toContain('>measured</text>')
    expect(html.match(/<div class="timeline">/g)).toHaveLength(2)
  })

  test('the page has an ink for each ground: what frames it has colours of its own', () => {
    const style = timelineHtml(timeline)
      .split('\n')
      .find((line) => line.startsWith('<style>'))!
    const grounds = [...style.matchAll(/body \{([^}]*)\}/g)].map(([, rule]) => rule)
    expect(grounds).toHaveLength(2)
    for (const rule of grounds) expect(rule).toMatch(/background: #\w+; color: #\w+/)
  })

  test('round times on the axis', () => {
    expect(ticksOf(13_700, 8)).toEqual([0, 2000, 4000, 6000, 8000, 10_000, 12_000])
    expect(ticksOf(1, 8)).toEqual([0, 1])
  })
})

describe('the command line', () => {
  const INSPECT = ['inspect', 'samples/linear.ktl', '--kernel', 'linear_gelu', '--stage', 'timeline', '--dims', 'm=64,n=64,k=128'] // prettier-ignore

  test('inspect --stage timeline draws a run; the format is that of --format, or of the name', async () => {
    const { status, stdout } = await command(INSPECT)
    expect([status, stdout.slice(0, 4)]).toEqual([0, '<svg'])
    expect(stdout).toMatch(/load A, stage 1, phase 0: \d+ to \d+/)
    const file = path.join(folder, 'timeline.html')
    expect((await ktl([...INSPECT, '--out', file])).status).toBe(0)
    expect(readFileSync(file, 'utf8')).toMatch(/^<!doctype html>[^]*wait acc_full/)
  })

  test('inspect --below draws a trace of another run below its own', async () => {
    const file = path.join(folder, 'measured.json')
    writeFileSync(file, trace)
    const { status, stdout } = await command([...INSPECT, '--below', file])
    expect([status, stdout]).toEqual([0, expect.stringContaining('>measured.json</text>')])
    expect(stdout).toContain('MMA, stage 1, phase 0: 90 to 100 (10)')
    writeFileSync(file, trace.replace('"ts":90', '"ts":"90"'))
    const refused = await command([...INSPECT, '--below', file])
    expect([refused.status, refused.stderr]).toEqual([2, expect.stringMatching(/KTL4103[^]*ts is not a number/)])
    const asJson = await command([...INSPECT, '--below', file, '--format', 'json'])
    expect([asJson.status, asJson.stderr]).toEqual([2, expect.stringContaining('--format svg or html')])
  })

  test('run --trace of a name that ends with .svg is a picture', async () => {
    const file = path.join(folder, 'run.svg')
    const ended = await command(['run', 'samples/gemm.ktl', '--dims', 'm=64,n=64,k=64', '--trace', file])
    expect(ended.stdout).toContain('build     traced: roles write time stamps\n')
    expect([ended.status, readFileSync(file, 'utf8').slice(0, 4)]).toEqual([0, '<svg'])
  })
})
