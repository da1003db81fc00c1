/** What the page of the playground makes by itself, held against the command; and links to programs. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { TargetArch } from '../../compiler/instance.ts'
import { check, make } from '../../playground/compile.ts'
import { hashOf, sharedIn } from '../../playground/share.ts'
import { instancesOf } from '../../runtime/cli/instances.ts'
import { FamilySpace } from '../../runtime/discovery/space/space.ts'
import { loadSource } from '../../runtime/programs/program.ts'
import { FULL } from '../cases_of.ts'
import { ROOT } from '../root.ts'

const SAMPLES = readdirSync(path.join(ROOT, 'samples')).filter((name) => name.endsWith('.ktl'))
const sample = (name: string): string => readFileSync(path.join(ROOT, 'samples', name), 'utf8')
const LINEAR = sample('linear.ktl')

describe('the instance is that of `ktl inspect`', () => {
  test.each(['sm_100a', 'sm_90a', 'sm_80'] as const)('%s', (target: TargetArch) => {
    for (const name of ['linear.ktl', 'attention.ktl', 'rows.ktl', 'swiglu.ktl']) {
      const source = sample(name)
      const [kernel] = Object.values(loadSource({ name, text: source }).kernels)
      const [first] = instancesOf(new FamilySpace(kernel!.family, false), { target })
      expect(make({ stage: 'cuda', source, kernel: '', target, dims: '' }).text).toBe(first!.generated.cuda)
    }
  })
})

test('lines of CUDA say what they come from', () => {
  const { text, origins } = make({ stage: 'cuda', source: LINEAR, kernel: '', target: 'sm_90a', dims: '' })
  expect(origins).toHaveLength(text.split('\n').length)
  const texts = new Set(origins!.flatMap((span) => (span ? [LINEAR.slice(span.start, span.end)] : [])))
  expect([...texts]).toEqual(['gelu_tanh(acc + bias)'])
})

test('every example is checked, and evaluated at the extents that are proposed', { timeout: 60_000 }, () => {
  const wrong = SAMPLES.flatMap((name) => {
    const source = sample(name)
    const { kernels } = check(source)
    // Others of a file differ in what they store, in the main.
    return kernels.slice(0, FULL ? kernels.length : 1).flatMap(({ name: kernel, dims }) => {
      const { text } = make({ stage: 'evaluate', source, kernel, target: 'sm_100a', dims })
      return text.startsWith('The reference evaluator') ? [] : [`${name}, ${kernel}: ${text}`]
    })
  })
  expect(wrong).toEqual([])
})

test('mistakes are texts', () => {
  const question = { stage: 'tensor', kernel: '', target: 'sm_100a', dims: '' } as const
  expect(make({ ...question, source: 'kernel f(' }).text).toMatch(/KTL1\d{3}/)
  expect(make({ ...question, source: LINEAR, kernel: 'other' }).text).toContain('KTL4105')
  expect(make({ ...question, source: LINEAR, stage: 'evaluate', dims: 'm=1' }).text).toContain('KTL4106')
  expect(make({ ...question, source: LINEAR, stage: 'evaluate', dims: 'm=99999,n=99999,k=64' }).text).toContain('KTL4103') // prettier-ignore
})

describe('links', () => {
  const shared = { source: `// é ✓\n${LINEAR}`, kernel: 'linear_gelu', target: 'sm_80', dims: 'm=1' }

  test('give back what was put in', async () => {
    const hash = await hashOf(shared)
    expect(hash).toMatch(/^#program=[\w-]+$/)
    expect(await sharedIn(hash)).toEqual(shared)
    expect(await sharedIn('#other')).toBeNull()
  })

  test('that are broken are said', async () => {
    const hash = await hashOf(shared)
    const bomb = await hashOf({ ...shared, source: 'x'.repeat(3 << 20) })
    for (const broken of [hash.slice(0, -9), '#program=', '#program=!', '#program=aaaa', bomb])
      await expect(sharedIn(broken)).rejects.toThrow('this link is broken')
  })
})
