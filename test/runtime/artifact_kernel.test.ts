/** Artifacts that are passed to kernels: those of the kernel run, all others are refused with the reason. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { KtlError } from '../../grammar/diagnostics.ts'
import { Artifact, KernelArguments, KtlKernel, loadSource, openDevice, type Device } from '../../runtime/index.ts'
import type { ArtifactInfo, Json } from '../../runtime/artifacts/artifact.ts'
import { errorOf } from './errors.ts'

const program = loadSource({
  name: 'kernels.ktl',
  text: `kernel scale(X: f32[m, n], s: f32) -> Y: f32[m, n] { Y = X * s }
kernel amax(X: f32[m, n]) -> a: f32[m] { a[m] = max[n](abs(X)) }
schedule scale on simt { tile 32x32 | 16x16 }
`,
})

let device: Device
let [kernel, other, reducing]: KtlKernel[] = []
let artifact: Artifact
beforeAll(async () => {
  device = await openDevice('virtual-sm100')
  ;[kernel, other] = [...program.kernels.scale!.getInstances()] as [KtlKernel, KtlKernel]
  ;[reducing] = [...program.kernels.amax!.getInstances()] as [KtlKernel]
  artifact = Artifact.deserialize((await kernel.compile()).serialize())
})
afterAll(() => device?.close())

const scaling = (dtype: 'f32' | 'f16' = 'f32') => {
  const [X, Y] = [device.tensor(dtype, [2, 3], [1, 2, 3, 4, 5, 6]), device.empty('f32', [2, 3])]
  return new KernelArguments(program.kernels.scale!, { X, Y, s: 2 })
}
const changed = (change: Partial<ArtifactInfo>, sections = artifact.sections): Artifact =>
  Artifact.deserialize(new Artifact({ ...artifact.info, ...change }, sections).serialize())

test('one that was deserialised runs like the one that was compiled', async () => {
  const args = scaling()
  await kernel!.run(args, { artifact })
  expect([...(await args.tensors['Y']!.toArray())]).toEqual([2, 4, 6, 8, 10, 12])
  expect(kernel!.supportsArtifact(artifact, device)).toMatchObject({ ok: true })
  kernel!.prepare(args, artifact).launch()
  await device.synchronize()
})

describe('refused, each with what differs', () => {
  const signature = (change: (value: any) => void): Json => {
    const copy = structuredClone(artifact.info.signature) as any
    change(copy)
    return copy
  }
  const text = (value: string): Uint8Array => new TextEncoder().encode(value)

  test.each<[string, () => Artifact, RegExp]>([
    ['the kernel', () => changed({ kernelName: 'ktl.other' }), /must be of ktl\.scale\S+, got one of ktl\.other/],
    ['the target', () => changed({}, artifact.sections.map((s) => (s.target ? { ...s, target: 'sm_90a' } : s))), /as ptx for sm_100a, got one of ptx for sm_90a/],
    ['the format', () => changed({}, [{ name: 'cubin', target: 'sm_100a', bytes: text('ELF') }]), /as ptx for sm_100a, got one of cubin for sm_100a/],
    ['no image', () => changed({}, artifact.sections.slice(0, 1)), /got one of CUDA text only/],
    ['a dtype', () => changed({ signature: signature((s) => (s.operands[0].dtype = 'f16')) }), /"dtype":"f32".*got one of one with .*"dtype":"f16"/],
    ['an order', () => changed({ signature: signature((s) => s.operands[0].order.reverse()) }), /"order":\["m","n"\].*"order":\["n","m"\]/],
    ['a scalar less', () => changed({ signature: signature((s) => (s.scalars = [])) }), /"name":"s".*got one of one with null/],
    ['an operand more', () => changed({ signature: signature((s) => s.operands.push({ name: 'Z' })) }), /a kernel with/],
    ['the program', () => changed({ ktl: '0.0.9', signature: signature((s) => (s.program += '// other')) }), /another program under the same name \(made by ktl 0\.0\.9\)/],
    ['no signature', () => changed({ signature: null }), /a kernel with/],
  ])('%s', async (_, make, message) => {
    const wrong = make()
    expect(kernel!.supportsArtifact(wrong, device)).toMatchObject({ ok: false, code: 'KTL4040' })
    const uses = [
      () => kernel!.run(scaling(), { artifact: wrong }),
      () => kernel!.run(scaling(), { artifact: wrong, assumeSupportedArgs: true }),
      () => kernel!.launch(scaling(), { artifact: wrong }),
      () => kernel!.prepare(scaling(), wrong),
    ]
    for (const use of uses) {
      const error = await errorOf(use)
      expect([error.code, error.message]).toEqual(['KTL4040', expect.stringMatching(message)])
    }
  }) // prettier-ignore

  test('another design of the same kernel, another kernel, other arguments', async () => {
    expect((await errorOf(() => other!.run(scaling(), { artifact }))).code).toBe('KTL4040')
    const X = device.tensor('f32', [2, 3], 1)
    const amax = new KernelArguments(program.kernels.amax!, { X, a: device.empty('f32', [2]) })
    expect((await errorOf(() => reducing!.run(amax, { artifact }))).code).toBe('KTL4040')
    expect((await errorOf(() => kernel!.run(amax, { artifact }))).code).toBe('KTL4030')
    expect((await errorOf(() => kernel!.run(scaling('f16'), { artifact, assumeSupportedArgs: true }))).code).toBe(
      'KTL4031',
    )
  })
})

test('whatever a recipe says, running it gives a result or a KtlError', async () => {
  const { recipe } = artifact.info
  const rule = recipe!.params.find(({ kind }) => kind === 'pointer')!
  const number = fc.oneof(fc.nat(2000), fc.constantFrom(0, 1, -1, 2 ** 31, 0.5))
  const copied = fc.record({
    operand: fc.constantFrom('Y', 'X', 'none'),
    inner: fc.constantFrom('n', 'none'),
    piece: number,
  })
  const edit = fc.oneof(
    fc.record({ threads: number }),
    fc.record({ sharedMemBytes: number }),
    fc.record({ entry: fc.constantFrom(recipe!.entry, 'missing', '', 'a b') }),
    fc.record({ cluster: fc.tuple(fc.nat(4), fc.nat(2), fc.constant(1)), fallbackCluster: fc.tuple(fc.nat(2), fc.constant(1), fc.constant(1)) }),
    fc.record({ grid: fc.record({ kind: fc.constant('elements'), outputs: fc.constantFrom(['Y'], ['X'], ['none'], []), perCta: number, limit: fc.nat(3) }) }),
    fc.record({ grid: fc.record({ kind: fc.constant('rows'), copied: fc.array(copied, { maxLength: 2 }), perCta: number, limit: fc.nat(3) }) }),
    fc.record({ params: fc.shuffledSubarray([...recipe!.params, rule]) }),
    fc.record({ params: fc.constant([...recipe!.params, { kind: 'workspace', region: 'none', storage: 'float' }]) }),
    fc.record({ workspace: fc.array(fc.record({ name: fc.constant('w'), elementBytes: number, extents: fc.constant([]) }), { maxLength: 2 }) }),
    fc.record({ next: fc.constant({ ...recipe!, next: recipe! }) }),
  ) // prettier-ignore
  await fc.assert(
    fc.asyncProperty(edit, async (change) => {
      try {
        const forged = changed({ recipe: { ...recipe!, ...change } as never })
        await kernel!.run(scaling(), { artifact: forged, instructionBudget: 100_000 })
      } catch (error) {
        if (!(error instanceof KtlError)) throw error
      }
    }),
    { numRuns: 300 },
  )
})

test('whatever the PTX is, loading it gives a KtlError', async () => {
  const ptx = artifact.ptx()!
  const edit = fc.tuple(fc.nat(ptx.length), fc.nat(40), fc.string({ maxLength: 20 }))
  await fc.assert(
    fc.asyncProperty(edit, async ([from, length, inserted]) => {
      const text = ptx.slice(0, from) + inserted + ptx.slice(from + length)
      const sections = artifact.sections.map((s) => (s.name === 'ptx' ? { ...s, bytes: Buffer.from(text) } : s))
      try {
        await kernel!.run(scaling(), { artifact: changed({}, sections), instructionBudget: 100_000 })
      } catch (error) {
        if (!(error instanceof KtlError)) throw error
      }
    }),
    { numRuns: 200 },
  )
})
