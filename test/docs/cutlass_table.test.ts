/** The table in docs/api.md of the CUTLASS API: what it names in ktl exists. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import * as ktl from '../../runtime/index.ts'
import { ROOT } from '../root.ts'
import { MemoryDevice } from '../runtime/memory_device.ts'

const HEADING = '## The CUTLASS API, call by call'
const page = readFileSync(path.join(ROOT, 'docs/api.md'), 'utf8')
const section = page.slice(page.indexOf(HEADING)).split('\n## ')[0]!
const rows = section
  .split('\n')
  .filter((line) => line.startsWith('| ') && !/^\| -+/.test(line))
  .slice(1)
  .map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  )

const device = new MemoryDevice()
const [A, B, out] = [device.empty('f16', [64, 32]), device.empty('f16', [32, 48]), device.empty('f32', [64, 48])]
const epilogue = new ktl.EpilogueArguments('relu(acc * alpha)', { alpha: 2 })
const args = new ktl.GemmArguments({ A, B, out, epilogue })
const kernel = ktl.getKernels(args)[0]!
/** What the small names of the table are examples of. */
const INSTANCES: Readonly<Record<string, object>> = {
  args,
  epilogue,
  kernel,
  device,
  metadata: kernel.metadata,
  artifact: ktl.Artifact.prototype,
  prepared: ktl.PreparedLaunch.prototype,
  provider: ktl.CudaProvider,
}

test('there is a table, of three columns', () => {
  expect(rows.length).toBeGreaterThan(35)
  for (const row of rows) expect(row).toHaveLength(3)
})

test.each(rows.filter(([, ours]) => ours !== '–'))('%s', (_, ours) => {
  const names = [...ours!.matchAll(/`(\w+)(?:\.(\w+))?/g)]
  expect(names.length).toBeGreaterThan(0)
  for (const [, name, member] of names) {
    const owner = INSTANCES[name!] ?? (ktl as unknown as Record<string, object>)[name!]
    expect(owner, name).toBeDefined()
    // Members of classes are static, or of their instances.
    const places = [owner!, (owner as { prototype?: object }).prototype ?? {}]
    if (member !== undefined)
      expect(
        places.some((place) => member in place),
        `${name}.${member}`,
      ).toBe(true)
  }
})

test('what has no twin is said to have none', () => {
  const none = rows.filter(([, ours]) => ours === '–')
  expect(none.map(([theirs]) => theirs)).toEqual([expect.stringContaining('use_tvm_ffi')])
  for (const [, , why] of none) expect(why).not.toBe('')
})

test('every class of arguments, operands and metadata is in it', () => {
  const mirrored = Object.keys(ktl).filter((name) => /^[A-Z]\w*(Arguments|Operand|Constraints|Attributes|Metadata|Controls|Artifact|Provider|Kernel|Status)$/.test(name))
  const listed = new Set(rows.flatMap(([, ours]) => [...ours!.matchAll(/`(\w+)/g)].map(([, name]) => name!)))
  expect(mirrored.length).toBeGreaterThan(20)
  expect(mirrored.filter((name) => !listed.has(name))).toEqual([])
}) // prettier-ignore
