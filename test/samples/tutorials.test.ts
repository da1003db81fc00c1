/** The tutorials run as they are written, against the built package, and print what their READMEs say and their notebooks show. */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { outputsThere } from '../../docs/make/notebooks.ts'
import { FULL } from '../cases_of.ts'
import { ROOT } from '../root.ts'

const FOLDER = path.join(ROOT, 'samples/tutorials')
const NAMES = [
  '01-basic-gemm',
  '02-fused-epilogues',
  '03-bring-your-own-kernel',
  '04-host-latency',
  '05-block-scaled',
  '06-grouped',
] as const

/** Without times, counts and the hashes in names of kernels. */
const shapeOf = (text: string): string => text.replaceAll(/_[a-z]?[0-9a-f]{12,}/g, '_#').replaceAll(/ *[\d.]+/g, '#')

function run(name: (typeof NAMES)[number]): string {
  const file = `samples/tutorials/${name}/main.ts`
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', file], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  expect([status, stderr]).toEqual([0, ''])
  expect(shapeOf(outputsThere(name).join(''))).toBe(shapeOf(stdout))
  return stdout
}
const readme = (name: string): string => readFileSync(path.join(FOLDER, name, 'README.md'), 'utf8')

test('every folder has a program and prose that says how to run it', () => {
  expect(readdirSync(FOLDER).sort()).toEqual([...NAMES])
  for (const name of NAMES) {
    expect(existsSync(path.join(FOLDER, name, 'main.ts'))).toBe(true)
    expect(readme(name)).toContain(`npx tsx samples/tutorials/${name}/main.ts`)
  }
})

// It looks through every kernel there is, which takes a minute: runtime/discovery_space.test.ts does so, too.
const basicGemm = () => {
  const out = run('01-basic-gemm')
  expect(out).toContain('problem {"M":128,"N":256,"K":64,"L":2}')
  const counts = [...out.matchAll(/^(\d+) /gm)].map((match) => Number(match[1]))
  const [everything, supporting, blackwell, pairs, complex] = counts as [number, number, number, number, number]
  expect(out).toMatch(/^\d+ kernels for compute capability 100$/m)
  expect(everything).toBeGreaterThanOrEqual(600_000)
  expect(supporting).toBeGreaterThanOrEqual(1_000)
  expect(blackwell).toBeLessThan(supporting)
  expect(out).toContain(`${blackwell} with Sm100DesignMetadata, ${supporting} with BLASDesignMetadata`)
  expect([pairs > 0, pairs < blackwell, complex > pairs, complex < everything]).toEqual([true, true, true, true])
  expect(out).toMatch(/^ {2}ktl\.gemm_sm100_ttt_Af16_Bf16_outf32_accf32_/m)
  expect(out).toContain(
    'supports f16: true\nsupports bf16: false: KTL4031 operand `A` is unsupported: expected f16, got bf16',
  )
  expect(readme('01-basic-gemm')).toContain('KTL4031 operand `A` is unsupported: expected f16, got bf16')
  expect(out).toContain('workspace: 0 bytes')
  expect(out).toContain('run: all 65536 elements are exact')
  expect(out).toContain('run with artifact, stream and workspace: all 65536 elements are exact')
  expect(out).toMatch(/say so: true$/m)
}
if (FULL) test('basic GEMM', { timeout: 180_000 }, basicGemm)

test('fused epilogues', () => {
  const out = run('02-fused-epilogues')
  const exact = ['function of several outputs', 'alpha 2, beta 0, no compilation', 'alpha 0.5, beta -1, no compilation', 'row and column bias in a string',
    's[m]', 'a named epilogue, alpha by default', 'select, minus and a square', 'a docstring and a power'] // prettier-ignore
  for (const what of exact) expect(out).toContain(`${what}: exact`)
  expect(out).toContain('aux store: Aux is what was computed on the way: true')
  expect(out).toContain('the artifact is the same: true')
  expect(out).toMatch(/^transports: \{"C":"\w+","Aux":"\w+","D":"\w+"\}$/m)
  // One diagnostic for each mistake, with the code that the table in the README has.
  const blocks = out.split('\n--- ').slice(1)
  const said = blocks.map((block) => [block.slice(0, block.indexOf('\n')), /error (KTL\d{4})/.exec(block)![1]])
  const table = [...readme('02-fused-epilogues').matchAll(/^\| (.*?) +\| (KTL\d{4}) \|$/gm)]
  expect(said).toEqual(table.map(([, what, code]) => [what!.replaceAll('`', ''), code]))
  expect(said).toHaveLength(11)
  expect(out).toContain('11 mistakes:')
  expect(out).toContain('help: did you mean `gelu`?')
})

test('bring your own kernel', () => {
  const out = run('03-bring-your-own-kernel')
  expect(out).toContain('16 kernels of F64GemmKernel:')
  const letters = ['t', 'n'].flatMap((a) => ['t', 'n'].flatMap((b) => ['t', 'n'].map((d) => a + b + d)))
  const listed = out.split('\n').slice(1, 17).map((line) => line.trim()) // prettier-ignore
  expect(listed).toEqual(
    [32, 16].flatMap((tile) => letters.map((layout) => `F64GemmKernel_tile${tile}x${tile}_${layout}`)),
  )
  expect(out).toMatch(/^\d+ kernels support the arguments, of which 2 are ours:$/m)
  for (const tile of [32, 16]) {
    const name = `F64GemmKernel_tile${tile}x${tile}_ttt`
    expect(out).toContain(`${name}, a kernel of provider cuda`)
    expect(out).toContain(`${name}: workspace 0 bytes\n  verified: all elements are exact`)
  }
  expect(out).toContain('rank 2: All operands must be rank 3.')
  expect(out).toContain('tiles of 16 rows: 1\ntiles of 256 rows: 0\ntaken back: 0')
  expect(out).toMatch(
    /f64_gemm in ktl: 16 instances, the best one here is\n {2}ktl\.f64_gemm_sm80_ttt_\S+\n {2}verified/,
  )
})

if (FULL)
  test('host latency', () => {
    const out = run('04-host-latency')
    const times: Record<string, number> = Object.fromEntries(
      [...out.matchAll(/^(.+?) +([\d.]+) µs$/gm)].map(([, what, time]) => [what, Number(time)]),
    )
    expect(Object.keys(times)).toEqual([
    'arguments made anew', 'discovery, best first', 'supports', 'launch, checked', 'launch, assumeSupportedArgs', 'prepared.launch',
    '20 prepared launches', 'the same as a graph',
  ]) // prettier-ignore
    // Which is cheaper, and that it is: test/runtime/host_work.test.ts, by work, which does not depend on the machine.
    expect(Object.values(times).every((time) => time > 0)).toBe(true)
    expect(out).toContain('results: exact, by graph and rebound')
    expect(out).toMatch(/^compile: [\d.]+ ms the first time .*, [\d.]+ ms afterwards$/m)
  })

test('block-scaled products', () => {
  const out = run('05-block-scaled')
  expect(out).toContain('A: data e4m3 [96,256], scales f32 [96,2], mode [1,128]\nfirst scale: exact')
  expect(out).toMatch(/^hidden: sm90, tile \d+x128x128$/m)
  expect(out).toMatch(/^last: sm90, /m)
  expect(out).toContain('hidden against plain loops: all 36864 elements are right')
  expect(out).toContain('last against plain loops: all 12288 elements are right')
  expect(out).toContain('fp8 against f32: within 6 %')
})

// samples/grouped.ts has these kernels, too.
const grouped = () => {
  const out = run('06-grouped')
  expect(out).toContain('groups end at 16, 48, 48, 80, 96')
  for (const [name, count] of [['grouped', 12_288], ['gathered', 12_288], ['returned', 6144], ['gradient', 40_960]] as const)
    expect(out).toContain(`${name}: all ${count} elements are right`)
} // prettier-ignore
if (FULL) test('grouped', grouped)
