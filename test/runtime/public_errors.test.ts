/** Whatever is handed to the public API, it throws nothing but KtlErrors: properties over random values, and named cases. */
import * as fs from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import fc, { type Arbitrary } from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { probeAddon } from '../../runtime/addon/load.ts'
import * as ktl from '../../runtime/index.ts'
import { FULL } from '../cases_of.ts'
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'

const hasAddon = probeAddon().addon !== null
const device: ktl.Device = hasAddon ? await ktl.openDevice('virtual-sm100') : new MemoryDevice()
const other = new MemoryDevice()
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ktl-test-'))
afterAll(async () => {
  await device.close()
  fs.rmSync(folder, { recursive: true, force: true })
})

const t = device.tensor('f16', [8, 8], 1)
const x = device.tensor('f32', [1], [1])
const out = device.empty('f16', [8, 8])
const args = new ktl.GemmArguments(t, t, out)
const kernel = ktl.getKernels(args, { limit: 1 })[0] as ktl.KtlKernel
const { kernels } = ktl.loadSource({
  name: 'a.ktl',
  text: 'kernel scale(X: f32[n], a: f32) -> Y: f32[n] { Y = a * X }',
})
const scale = kernels.scale!
const file = ktl.writeSafetensors({ x: { data: Float32Array.of(1), shape: [1] } })

/** Fields of all the objects that the API takes. */
const FIELDS = [
  'A', 'B', 'out', 'X', 'Y', 'a', 'acc', 'C', 'D', '__proto__', 'constructor', 'toString', 'length', 'kind', 'name', 'text', 'source', 'family',
  'operands', 'kernels', 'epilogue', 'bindings', 'accumulatorType', 'allowTf32', 'performance', 'device', 'dtype', 'type', 'shape', 'dims', 'strides',
  'stride', 'offset', 'data', 'values', 'dataSync', 'pointer', 'bits', 'cc', 'providers', 'where', 'design', 'tileShape', 'tensors', 'limit',
  'metadataFilter', 'signal', 'stream', 'artifact', 'workspace', 'grid', 'block', 'cluster', 'params', 'uses', 'sharedMemBytes', 'address', 'box',
  'swizzle', 'elementStrides', 'flags', 'arch', 'timeoutMs', 'names', 'at', 'align', 'checks', 'seed', 'order', 'threads', 'tileOrder', 'maxSms',
  'kernelName', 'kernelClass', 'minCc', 'targets', 'clusterShape', 'warps', 'stages', 'divisibility', 'outputs', 'scalars', 'formats', 'jobs', 'sources',
] // prettier-ignore

const ours: Arbitrary<unknown> = fc.constantFrom<unknown>(
  t, x, out, args, device, other, kernel, { family: scale.family }, kernel.metadata, kernel.metadata.design, device.defaultStream, Symbol('s'), () => 1, file,
  ktl.GemmArguments, new Uint8Array(3), Float32Array.of(1, 2), new Map([[1, 2]]), new Date(0), Object.create(null), new Proxy({}, {}),
) // prettier-ignore
const plain: Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, undefined, NaN, -1, 0, 1, 1.5, 2 ** 40, -0, 1e300, Infinity, 5n, -5n, true, '', 'x', '__proto__', 'f32', 'f16', 'acc', 'sm_100a', 100),
  fc.string({ maxLength: 6 }),
  fc.constantFrom<unknown>([], [1], [8, 8], [8, 1], [[1, 2], [3, 4]], [[1], []], [null], ['a'], [Symbol('s')], [-1], [1.5], Array(20).fill(1)),
) // prettier-ignore
const { value } = fc.letrec<{ value: unknown; fields: unknown }>((tie) => ({
  value: fc.oneof({ depthSize: 'small', withCrossShrink: true }, plain, ours, tie('fields'), fc.array(tie('value'), { maxLength: 3 })),
  fields: fc.dictionary(fc.constantFrom(...FIELDS), tie('value'), { maxKeys: 5 }),
})) // prettier-ignore

type Call = (a: never, b: never) => unknown
const as = <T>(value: unknown): T => value as T

const constructors: Readonly<Record<string, Call>> = {
  'GemmArguments of fields': (a) => new ktl.GemmArguments(a),
  'GemmArguments of tensors': (a, b) => new ktl.GemmArguments(a, b, out),
  'GemmArguments with an option': (a, b) => new ktl.GemmArguments({ A: t, B: t, out, epilogue: a, performance: b }),
  'GemmArguments with an accumulator': (a, b) => new ktl.GemmArguments(t, t, out, a, b),
  ElementwiseArguments: (a) => new ktl.ElementwiseArguments(a),
  'ElementwiseArguments of tensors': (a, b) => new ktl.ElementwiseArguments(t, a, b),
  KernelArguments: (a, b) => new ktl.KernelArguments(a, b),
  'KernelArguments of a kernel': (a, b) => new ktl.KernelArguments(scale, a, b),
  'KernelArguments of operands': (a, b) => new ktl.KernelArguments(scale, { X: a, Y: x, a: b }),
  EpilogueArguments: (a, b) => new ktl.EpilogueArguments(a, b),
  'EpilogueArguments of a text': (a, b) => new ktl.GemmArguments({ A: t, B: t, out, epilogue: new ktl.EpilogueArguments('acc * alpha + C', { alpha: a, C: b }) }),
  'EpilogueArguments without names': (a) => new ktl.EpilogueArguments('acc', a),
  PerformanceControls: (a) => new ktl.PerformanceControls(a),
  KernelMetadata: (a) => new ktl.KernelMetadata(a),
  'KernelMetadata of parts': (a, b) => new ktl.KernelMetadata('k', a, 80, b, kernel.metadata.design),
  TensorAttributes: (a) => new ktl.TensorAttributes(a),
  'TensorAttributes of parts': (a, b) => new ktl.TensorAttributes('f32', a, b),
  OperandsMetadata: (a, b) => new ktl.OperandsMetadata(a, b),
  GemmOperandsMetadata: (a) => new ktl.GemmOperandsMetadata(a),
  BLASDesignMetadata: (a, b) => new ktl.BLASDesignMetadata(a, b),
  Sm100DesignMetadata: (a, b) => new ktl.Sm100DesignMetadata(a, b, true, true),
  Sm90DesignMetadata: (a, b) => new ktl.Sm90DesignMetadata(a, b, 'cooperative', true),
  Sm80DesignMetadata: (a, b) => new ktl.Sm80DesignMetadata(a, b),
  SimtDesignMetadata: (a, b) => new ktl.SimtDesignMetadata(a, b),
  EpilogueMetadata: (a) => new ktl.EpilogueMetadata(a),
  'KernelMetadata.fromJSON': (a) => ktl.KernelMetadata.fromJSON(a),
  'OperandsMetadata.fromJSON': (a) => ktl.OperandsMetadata.fromJSON(a),
  'BLASDesignMetadata.fromJSON': (a) => ktl.BLASDesignMetadata.fromJSON(a),
  'EpilogueMetadata.fromJSON': (a) => ktl.EpilogueMetadata.fromJSON(a),
  layoutString: (a) => ktl.layoutString(a),
  Provider: (a) => new ktl.Provider(a),
} // prettier-ignore

const loaders: Readonly<Record<string, Call>> = {
  loadKtl: (a) => ktl.loadKtl(typeof a === 'string' ? as(`/nonexistent/${a}`) : a),
  'loadKtl of a text': (a, b) => ktl.loadKtl({ source: a, name: b }),
  loadSource: (a) => ktl.loadSource(a),
  'loadSource of a text': (a, b) => ktl.loadSource({ name: a, text: b }),
  register: (a) => ktl.register(a)(),
  loadNpy: (a) => ktl.loadNpy(typeof a === 'string' ? as(`/nonexistent/${a}`) : a),
  loadSafetensors: (a, b) => ktl.loadSafetensors(typeof a === 'string' ? as(`/nonexistent/${a}`) : a, b),
  readNpy: (a) => ktl.readNpy(a),
  writeNpy: (a) => ktl.writeNpy(a),
  readSafetensors: (a) => ktl.readSafetensors(a),
  'readSafetensors with options': (a) => ktl.readSafetensors(file, a),
  writeSafetensors: (a, b) => ktl.writeSafetensors(a, b),
  saveNpy: (a, b) => ktl.saveNpy(typeof a === 'string' ? as('/dev/null/x') : a, b),
  saveSafetensors: (a, b) => ktl.saveSafetensors('/dev/null/x', a, b),
  toStoredArray: (a) => ktl.toStoredArray(a),
  'Artifact.deserialize': (a) => ktl.Artifact.deserialize(a),
  'ArtifactFolder.open': (a) => ktl.ArtifactFolder.open(typeof a === 'string' ? as(`/nonexistent/${a}`) : a),
  registerArtifacts: (a) => ktl.registerArtifacts(typeof a === 'string' ? as(`/nonexistent/${a}`) : a),
  buildArtifacts: (a, b) => ktl.buildArtifacts(Array.isArray(a) ? as([]) : a, '/dev/null/x', b),
  fromTensorLike: (a, b) => ktl.fromTensorLike(device, a, b),
  'device.tensor': (a, b) => device.tensor('f32', a, b),
  'device.tensor of values': (a, b) => device.tensor('f32', [2], a, b),
  'device.empty': (a, b) => device.empty(a, [2], b),
  'device.malloc': (a) => device.free(device.malloc(8, a)),
  'device.free': (a) => device.free(a),
  'device.read': (a, b) => device.read(a, b),
  'device.write': (a, b) => device.write(a, b),
  'device.memset': (a, b) => device.memset(x.pointer, a, 1, b),
  'device.tensorMap': (a) => device.tensorMap(a),
  'device.loadModule': (a, b) => device.loadModule(a, b),
  'device.capture': (a, b) => device.capture(typeof a === 'function' ? as(() => {}) : a, b),
  'stream.enqueue': (a, b) => device.defaultStream.enqueue<unknown>(typeof a === 'function' ? as(() => 1) : a, b),
  'event.record': (a) => device.createEvent().record(a),
  'tensor.view': (a, b) => t.view(a, b),
  'tensor.reshape': (a) => t.reshape(a),
  'tensor.permute': (a) => t.permute(a),
  'tensor.slice': (a, b) => t.slice(a, b),
  'tensor.as': (a) => t.as(a),
  'tensor.copyFrom': (a) => out.copyFrom(a),
  'tensor.recordUse': (a) => out.recordUse(a),
  'tensor.overlaps': (a) => out.overlaps(a),
} // prettier-ignore

const queries: Readonly<Record<string, Call>> = {
  // Without arguments it counts all there are, fewest for sm_80; discovery_space.test.ts does that as well.
  getKernels: (a) => (a === undefined && !FULL ? 0 : ktl.getKernels(a, { limit: 1, cc: 80 }).length),
  'getKernels with options': (a) => ktl.getKernels(args, unfiltered(a)).length,
  'getKernels where': (a) => ktl.getKernels(args, { where: a }).length,
  explainKernels: (a, b) => String(ktl.explainKernels(a, b)),
  'explainKernels with options': (a) => String(ktl.explainKernels(args, a)),
  deviceSupports: (a, b) => ktl.deviceSupports(a, b),
  expectArguments: (a, b) => ktl.expectArguments(a, b),
  registerProvider: (a) => ktl.registerProvider(a)(),
  'CudaProvider.register': (a) => ktl.CudaProvider.register(a)(),
  randomValues: (a, b) => ktl.randomValues(a, b, 1, 'normal'),
  explainCode: (a) => ktl.explainCode(a),
  raise: (a) => ktl.raise(a),
  'kernel.supports': (a) => kernel.supports(a),
  'kernel.getWorkspaceSize': (a) => kernel.getWorkspaceSize(a),
  'kernel.estimate': (a) => kernel.estimate(a),
  'kernel.launch': (a, b) => kernel.launch(a, b),
  'kernel.prepare': (a, b) => kernel.prepare(a, b),
  'kernel.run': (a, b) => (a === args ? null : kernel.run(a, b)),
  'kernels.NAME': (a, b) => scale(a, b),
  'kernels.NAME.getInstances': (a) => scale.getInstances(a).next(),
}

/** A filter of the caller may throw what it likes. */
const unfiltered = (options: unknown): never =>
  typeof options === 'object' && options !== null && 'metadataFilter' in options ? as({ ...options, metadataFilter: undefined }) : as(options) // prettier-ignore

/** Fails with what is thrown if that is no KtlError. */
async function onlyKtlErrors(call: Call, a: unknown, b: unknown): Promise<void> {
  try {
    await call(as(a), as(b))
  } catch (error) {
    if (!(error instanceof ktl.KtlError)) throw error
    expect(error.code).not.toBe('KTL9001')
  }
}

describe.each(Object.entries({ constructors, loaders, queries }))('%s', (group, calls) => {
  const skipped = group !== 'constructors' && !hasAddon
  test.skipIf(skipped).each(Object.entries(calls))('%s', async (_, call) => {
    const anything = fc.asyncProperty(value, value, (a, b) => onlyKtlErrors(call, a, b))
    await fc.assert(anything, { numRuns: 100, seed: Number(process.env.KTL_SEED ?? 1) })
  })
})

describe('by name', () => {
  test('an epilogue operand called __proto__, as JSON.parse makes one', async () => {
    const bindings = JSON.parse('{ "__proto__": 2 }') as Record<string, number>
    expect((await errorOf(() => new ktl.EpilogueArguments('acc * __proto__', bindings))).code).toBe('KTL2003')
    expect((await errorOf(() => new ktl.EpilogueArguments('acc', bindings))).code).toBe('KTL2024')
    expect((await errorOf(() => new ktl.GemmArguments(as({ ...bindings, A: t })))).code).toBe('KTL4024')
  })

  test.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', '__defineGetter__'])('no kernel names anything %s: KTL2003', async (name) => {
    for (const text of [
      `kernel f(${name}: f32[n]) -> Y: f32[n] { Y = ${name} }`,
      `kernel f(X: f32[${name}]) -> Y: f32[${name}] { Y = X }`,
      `kernel f(X: f32[n], ${name}: f32) -> Y: f32[n] { Y = X * ${name} }`,
      `kernel f(X: f32[n]) -> Y: f32[n] { ${name} = X; Y = ${name} }`,
      `kernel ${name}(X: f32[n]) -> Y: f32[n] { Y = X }`,
    ]) expect((await errorOf(() => ktl.loadSource({ name: 'a.ktl', text }))).code, text).toBe('KTL2003')
    for (const text of [`acc + ${name}`, `${name} = acc; D = ${name}`, `def f(accum, ${name}): return accum`])
      expect((await errorOf(() => new ktl.EpilogueArguments(text, {}))).code, text).toBe('KTL2003')
  }) // prettier-ignore

  test.each([
    ['mish(acc)', 'KTL2004'],
    ['x = relu(acc); D = relu(x, 1, 2)', 'KTL2016'],
    ['def f(accum): return rleu(accum)', 'KTL2004'],
  ])('a call that is wrong whatever the operands are, fails at once: %s', async (text, code) => {
    expect((await errorOf(() => new ktl.EpilogueArguments(text))).code).toBe(code)
  })

  test.each([
    ['null for bindings', () => new ktl.EpilogueArguments('acc', as(null)), 'KTL4015'],
    ['null for a tensor map', () => device.tensorMap(as(null)), 'KTL4015'],
    ['null for options of getKernels', () => ktl.getKernels(args, as(null)), 'KTL4015'],
    ['null for arguments of explainKernels', () => ktl.explainKernels(as(null)), 'KTL4024'],
    ['a stream that is none', () => kernel.run(args, { stream: as({}) }), 'KTL4015'],
    ['a signal that is none', () => kernel.run(args, { signal: as(true) }), 'KTL4015'],
  ] as const)('%s: %s', async (_, call, code) => expect((await errorOf(call)).code).toBe(code))
})

test('an array with a `then` is no promise', async () => {
  const file = path.join(folder, 'x.npy')
  await ktl.saveNpy(file, { data: Float32Array.of(1, 2), shape: [2], then: () => {} } as ktl.HostArray)
  expect([...(await ktl.loadNpy(file)).data]).toEqual([1, 2])
})

describe('files that cannot be read: KTL6072 with the cause', () => {
  const load = { loadNpy: ktl.loadNpy, loadSafetensors: ktl.loadSafetensors, loadKtl: ktl.loadKtl }
  const missing = path.join(folder, 'missing')
  describe.each(Object.entries(load))('%s', (_, load) => {
    test.each([
      ['missing', missing, 'ENOENT', 'no such file'],
      ['missing, by URL', pathToFileURL(missing), 'ENOENT', 'no such file'],
      ['a folder', folder, 'EISDIR', 'it is a folder'],
      ['below a file', '/etc/passwd/x', 'ENOTDIR', 'a part of the path is no folder'],
      ['no file', new URL('http://localhost/x'), 'ERR_INVALID_URL_SCHEME', 'must be of scheme file'],
    ] as const)('%s', async (_, file, cause, reason) => {
      const error = await errorOf(() => load(file))
      expect([error.code, (error.cause as NodeJS.ErrnoException).code]).toEqual(['KTL6072', cause])
      expect(error.message).toContain(reason)
    })

    test('a device without an end', async () => {
      const error = await errorOf(() => load('/dev/zero'))
      expect([error.code, error.message]).toEqual(['KTL6072', expect.stringContaining('it is a device')])
    })
  })

  test('a .ktl file is not read beyond what may be one', async () => {
    const file = path.join(folder, 'large.ktl')
    fs.writeFileSync(file, '')
    fs.truncateSync(file, 2 ** 33)
    expect((await errorOf(() => ktl.loadKtl(file))).code).toBe('KTL1020')
  })
})
