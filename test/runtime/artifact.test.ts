import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { KtlError } from '../../grammar/diagnostics.ts'
import { Artifact, type ArtifactInfo } from '../../runtime/artifacts/artifact.ts'
import { errorOf } from './errors.ts'

const info: ArtifactInfo = {
  ktl: '0.1.0',
  toolkit: '13.0.88',
  kernelName: 'ktl.gemm',
  targets: ['sm_100a', 'sm_103a'],
  signature: { A: ['f16', 'mk', 'vector'] },
  recipe: {
    entry: 'gemm',
    threads: 192,
    cluster: [1, 1, 1],
    sharedMemBytes: 1024,
    grid: { kind: 'elements', outputs: ['D'], perCta: 256, limit: 4 },
    params: [
      {
        kind: 'tensorMap',
        name: 'mapA',
        operand: 'A',
        dtype: 'f16',
        axes: ['k', 'm'],
        box: [64, 128],
        swizzle: '128B',
      },
      { kind: 'pointer', operand: 'D', storage: 'float', isConst: false },
      { kind: 'extent', axis: 'k' },
    ],
  },
  sourceMap: [{ cudaLine: 3, ktl: { start: 0, end: 4 }, role: 'mma', note: null }],
  source: { name: 'gemm.ktl', text: 'kernel …' },
  resources: [],
}
const text = (value: string) => new TextEncoder().encode(value)
const artifact = new Artifact(info, [
  { name: 'cuda', target: null, bytes: text('__global__ void gemm() {}') },
  { name: 'ptx', target: 'sm_100a', bytes: text('.version 9.0') },
  { name: 'ptx', target: 'sm_103a', bytes: text('.version 9.1') },
  { name: 'cubin', target: 'sm_100a', bytes: Uint8Array.of(0x7f, 0x45, 0, 255) },
])
const file = artifact.serialize()

/** A file with another header and right checksums. */
function forge(change: (header: Record<string, any>) => unknown): Uint8Array {
  const length = Buffer.from(file).readUInt32LE(8)
  const header = JSON.parse(Buffer.from(file.subarray(44, 44 + length)).toString())
  const changed = Buffer.from(JSON.stringify(change(header) ?? header))
  const prefix = Buffer.alloc(12)
  Buffer.from(file).copy(prefix, 0, 0, 8)
  prefix.writeUInt32LE(changed.length, 8)
  const digest = createHash('sha256').update(changed).digest()
  return new Uint8Array(Buffer.concat([prefix, digest, changed, file.subarray(44 + length)]))
}

test('round trip of a kernel that launches itself', async () => {
  const own = Artifact.deserialize(new Artifact({ ...info, recipe: null }, []).serialize())
  expect(own.info.recipe).toBeNull()
  expect((await errorOf(() => own.recipe)).code).toBe('KTL4040')
})

test('round trip', () => {
  const back = Artifact.deserialize(file)
  expect(back.info).toEqual(info)
  expect(back.cuda).toBe('__global__ void gemm() {}')
  expect(back.ptx()).toBe('.version 9.0')
  expect(back.ptx('sm_103a')).toBe('.version 9.1')
  expect(back.section('cubin', 'sm_103a')).toBeNull()
  expect([...back.section('cubin', 'sm_100a')!]).toEqual([0x7f, 0x45, 0, 255])
  expect(back.serialize()).toEqual(file)
})

describe('damage is refused', () => {
  test('any flipped bit', async () => {
    for (let i = 0; i < file.length; i++) {
      const damaged = file.slice()
      damaged[i]! ^= 1 << (i % 8)
      expect((await errorOf(() => Artifact.deserialize(damaged))).code, `byte ${i}`).toBe('KTL6010')
    }
  })

  test('any cut, and anything appended', async () => {
    for (let length = 0; length < file.length; length += 7) {
      expect((await errorOf(() => Artifact.deserialize(file.subarray(0, length)))).code).toBe('KTL6010')
    }
    const longer = new Uint8Array([...file, 0])
    expect((await errorOf(() => Artifact.deserialize(longer))).message).toContain('1 bytes follow')
  })

  test.each<[string, string, (header: Record<string, any>) => unknown]>([
    ['KTL6011', 'unknown artifact format 2, this version reads 1', (h) => ({ format: 2, other: h.ktl })],
    ['KTL6011', 'IR version 99', (h) => ({ ...h, ir: 99 })],
    ['KTL6012', 'unknown artifact target "sm_999a"', (h) => ({ ...h, targets: ['sm_999a'] })],
    ['KTL6010', 'header.format is missing', () => ({})],
    ['KTL6010', 'header is not an object', () => []],
    ['KTL6010', 'header.recipe.threads', (h) => void (h.recipe.threads = 4096)],
    ['KTL6010', 'header.recipe.params[0].kind', (h) => void (h.recipe.params[0].kind = 'file')],
    ['KTL6010', 'header.recipe.params[0].dtype', (h) => void (h.recipe.params[0].dtype = '__proto__')],
    ['KTL6010', 'header.recipe.params[2].axis is missing', (h) => void delete h.recipe.params[2].axis],
    ['KTL6010', 'header.sections[0].bytes', (h) => void (h.sections[0].bytes = -1)],
    ['KTL6010', 'is cut short', (h) => void (h.sections[3].bytes = 2 ** 39)],
    ['KTL6010', 'header.recipe.entry', (h) => void (h.recipe.entry = 'a; b')],
    ['KTL6010', 'at most 16 CTAs', (h) => void (h.recipe.cluster = [16, 16, 1])],
    ['KTL6010', 'header.recipe.fallbackCluster', (h) => void (h.recipe.fallbackCluster = 4)],
    ['KTL6010', 'box is not of the rank', (h) => void h.recipe.params[0].box.pop()],
    [
      'KTL6010',
      'is not a region',
      (h) => void h.recipe.params.push({ kind: 'workspace', region: 'w', storage: 'float' }),
    ],
    [
      'KTL6010',
      'header.recipe.next.workspace[0].elementBytes',
      (h) => void (h.recipe.next = { ...h.recipe, workspace: [{ name: 'w', elementBytes: 0, extents: [] }] }),
    ],
    [
      'KTL6010',
      'not the end of 64 launches',
      (h) => void (h.recipe = Array.from({ length: 65 }).reduce((next: object) => ({ ...h.recipe, next }), h.recipe)),
    ],
    ['KTL6010', 'sourceMap[0].ktl is not a place', (h) => void (h.sourceMap[0].ktl.end = 9)],
    ['KTL6010', 'sections[2] is not the only one', (h) => void (h.sections[2].target = 'sm_100a')],
    ['KTL6010', 'sections[0].sha256', (h) => void (h.sections[0].sha256 = 'x')],
    ['KTL6010', 'header.sections[0].name', (h) => void (h.sections[0].name = '../../etc/passwd')],
  ])('%s: %s', async (code, message, change) => {
    const error = await errorOf(() => Artifact.deserialize(forge(change)))
    expect(error.code).toBe(code)
    expect(error.message).toContain(message)
  })

  test('fields that the format does not have are dropped', () => {
    expect(Artifact.deserialize(forge((h) => ({ ...h, path: '/etc/passwd', __proto__: null }))).info).toEqual(info)
  })

  test('nesting without end', async () => {
    const depth = 100_000
    const deep = Buffer.from(`{"format":1,"signature":${'['.repeat(depth)}${']'.repeat(depth)}}`)
    const prefix = Buffer.alloc(12)
    Buffer.from(file).copy(prefix, 0, 0, 8)
    prefix.writeUInt32LE(deep.length, 8)
    const bytes = Buffer.concat([prefix, createHash('sha256').update(deep).digest(), deep])
    expect((await errorOf(() => Artifact.deserialize(bytes))).code).toBe('KTL6010')
    expect((await errorOf(() => Artifact.deserialize('text' as never))).code).toBe('KTL6010')
  })

  test('random bytes and random headers throw KtlError or give an artifact that serialises again', () => {
    const check = (bytes: Uint8Array): void => {
      try {
        expect(Artifact.deserialize(bytes).serialize()).toBeInstanceOf(Uint8Array)
      } catch (error) {
        if (!(error instanceof KtlError)) throw error
      }
    }
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), check))
    const edit = fc.tuple(fc.array(fc.nat(), { minLength: 1, maxLength: 5 }), fc.jsonValue())
    fc.assert(
      fc.property(edit, ([steps, value]) => {
        check(
          forge((header) => {
            let node: any = header
            for (const step of steps.slice(0, -1)) {
              const child = node[Object.keys(node)[step % Object.keys(node).length]!]
              if (typeof child !== 'object' || child === null || Object.keys(child).length === 0) break
              node = child
            }
            const keys = Object.keys(node)
            node[keys[steps.at(-1)! % keys.length]!] = value
          }),
        )
      }),
      { numRuns: 2000 },
    )
  })
})
