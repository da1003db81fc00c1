/** Every sample is checked, run, and says what its comments promise. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { emitModule } from '../../codegen/typescript/module.ts'
import { loadKtl } from '../../runtime/programs/program.ts'
import { part } from '../cases_of.ts'
import { ROOT } from '../root.ts'
import { ktl } from '../runtime/cli.ts'

const SAMPLES = path.join(ROOT, 'samples')
const files = readdirSync(SAMPLES)

/** As a user would: `node --import tsx samples/NAME.ts`, against the built package. */
function run(file: string): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', file], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  expect([status, stderr]).toEqual([0, ''])
  return stdout
}

const OUTPUT: Readonly<Record<string, RegExp>> = {
  gemm: /^\d+ kernels support this call\nktl\.gemm_sm100_.*\nFloat32Array\(4\) \[ /,
  lora: /low-rank update 0\nsum over heads 64/,
  dgemm: /Float64Array\(6\) \[ 4, 6, 12, 14, 20, 22 \]/,
  elementwise: /Float32Array\(6\) \[ 3, -6, 9, -12, 15, -18 \]\nFloat32Array\(2\) \[ 1.5, 3 \]/,
  linear: /Float32Array\(4\) \[ 1.953125, 1.8203125, /,
  residual: /\[ 8, 0, -8, -16 \]\n.*\[ 8, 0, 0, 0 \]\n.*\[ 16, 8, 0, -8 \]/,
  swiglu: /^PASS {2}max error /,
  scaled: /^PASS mxfp8\nPASS nvfp4\nPASS fp8_blocks\nPASS u4_weights\nPASS quantised\ndequantised \[ 24, 64 \]\n$/,
  conv2d: /^corner 16 0\nmiddle 36 16\n$/,
  rows: /^Float32Array\(6\) \[ 4, 5, 0, 0, 0, 1 \]\nFloat32Array\(8\) \[\s*0, 0, 2, 3,\s*4, 5, 4, 5\s*\]\n$/,
  grouped:
    /^ends .*\[ 3, 3, 6 \] rows .*\[ 1, 3, 5, 0, 2, 4 \]\ngrouped \[ 16, 16, 16, 48, 48, 48 \]\nexperts 0\ngated 56\nreturned \[ 0, 448, 896, 1344, 1792, 2240 \]\ngradients \[ 48, 0, 144 \]\n$/,
  norm_gemm: /^PASS {2}max error /,
  norms: /rms .*\[\s*1, -1, 1, -1,\s*1, {2}1, 1, {2}1\s*\]\nlayer [^]*softmax 0.25\nloss 1.3863\n$/,
  attention: /^PASS {2}max error /,
  paged: /^means 2 2\n$/,
}

test('every .ktl file has a program beside it, and the other way round', () => {
  const stems = (extension: string): string[] => files.filter((name) => name.endsWith(extension)).map((name) => path.basename(name, extension))
  expect(stems('.ts').filter((name) => name !== 'demo').sort()).toEqual(stems('.ktl').sort())
  expect(Object.keys(OUTPUT).sort()).toEqual(stems('.ktl').sort())
}) // prettier-ignore

test('every .ktl file is right, without warnings', async () => {
  const { status, stderr } = await ktl([
    'check',
    ...files.filter((name) => name.endsWith('.ktl')).map((name) => `samples/${name}`),
  ])
  // What a computed operand costs is a note.
  const said = [...stderr.matchAll(/^(\S+?):\d+:\d+: (\w+ KTL\d+)/gm)].map(([, file, what]) => `${file} ${what}`)
  expect([status, said]).toEqual([0, ['samples/conv2d.ktl note KTL2306', 'samples/norm_gemm.ktl note KTL2306']])
})

/** Their kernels run in docs, in tutorials or by `ktl run`, and what they call others call, too. */
const COMBINED = ['scaled', 'lora', 'residual', 'swiglu', 'dgemm', 'attention']
const KEPT = Object.keys(OUTPUT).filter((name) => !COMBINED.includes(name))

test.each(part(Object.entries(OUTPUT), COMBINED, KEPT))('samples/%s.ts', (name, output) => {
  expect(run(`samples/${name}.ts`)).toMatch(output)
})

describe('generated modules', () => {
  test.each(readdirSync(path.join(SAMPLES, 'generated')))(
    'samples/generated/%s is what `ktl build` writes',
    async (name) => {
      const source = `samples/${path.basename(name, '.ts')}.ktl`
      const { checked } = await loadKtl(path.join(ROOT, source))
      const program = { ...checked, source: { ...checked.source, name: source } }
      expect(readFileSync(path.join(SAMPLES, 'generated', name), 'utf8')).toBe(emitModule(program))
    },
  )
})

test('the demo ends with PASS and stays below 45 lines', () => {
  const { status, stdout } = spawnSync(process.execPath, [path.join(ROOT, 'dist/samples/demo.js')], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  expect(status).toBe(0)
  const lines = stdout.trimEnd().split('\n')
  expect(lines.length).toBeLessThan(45)
  expect(lines.at(-1)).toMatch(/^PASS {2}max error /)
  for (const label of ['kernel', 'why first', 'resources', 'compile', 'run', 'findings']) {
    expect(stdout).toMatch(new RegExp(`^${label} +\\S`, 'm'))
  }
})
