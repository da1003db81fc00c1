/** Kernels that users bring: what a class must have, who finds its kernels, and what it cannot break. */
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import {
  BLASDesignMetadata, CudaProvider, countKernels, EpilogueArguments, explainKernels, GemmArguments, GemmOperandsMetadata, getKernels, Kernel,
  KernelMetadata, KtlProvider, loadSource, OK, openDevice, Provider, register, registerProvider, TensorAttributes, availableProviders, Artifact,
  compileKernel, launchKernel, Tensor, type GenerateOptions, type KernelClass, type KernelLaunchOptions, type Status,
} from '../../runtime/index.ts' // prettier-ignore
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'
import { scratchOf } from '../../runtime/kernels/launch.ts'

const device = new MemoryDevice()
const gemm = (fields: object = {}) =>
  new GemmArguments({
    A: device.empty('f64', [32, 32]),
    B: device.empty('f64', [32, 32]),
    out: device.empty('f64', [32, 32]),
    ...fields,
  })
const f64 = new TensorAttributes('f64', [0, 0, 1], 1)
const metadataOf = (name: string, kernelClass: KernelClass | string = 'Mine', tile = 32): KernelMetadata =>
  new KernelMetadata(
    name,
    kernelClass,
    80,
    new GemmOperandsMetadata(f64, f64, f64, 'f64'),
    new BLASDesignMetadata([tile, tile, 1], [1, 1, 1]),
  )

/** Supports everything and computes nothing. */
class Mine extends Kernel<GemmArguments, null> {
  supportsArguments(_: GemmArguments): Status {
    return OK
  }
  async compile(): Promise<null> {
    return null
  }
  launch(): void {}
  getWorkspaceSize(): number {
    return 0
  }
  static *generateKernels(_: GenerateOptions): Generator<Kernel> {
    yield new Mine(metadataOf('mine_32'))
    yield new Mine(metadataOf('mine_16', 'Mine', 16))
  }
}

/** A class with kernels of these names; `change` makes it another one. */
function named(names: readonly string[], change: Partial<Record<keyof Kernel, unknown>> = {}): KernelClass {
  class Named extends Mine {
    static override *generateKernels(): Generator<Kernel> {
      for (const name of names) yield new Named(metadataOf(name, Named))
    }
  }
  Object.assign(Named.prototype, change)
  return Named as never
}

const undo: (() => void)[] = []
afterEach(() => undo.splice(0).forEach((work) => work()))
const add = (kernelClass: KernelClass, provider = CudaProvider): void => void undo.push(provider.register(kernelClass))
const names = (list: readonly Kernel[]): string[] => list.map((kernel) => kernel.metadata.kernelName)
const users = (args: GemmArguments = gemm()): string[] =>
  names(getKernels(args)).filter((name) => !name.startsWith('ktl.'))

describe('the contract of a class is checked when it is registered', () => {
  const wrong: [unknown, string][] = [
    [Object, '`Object` cannot be registered: it does not extend Kernel'],
    [3, 'it does not extend Kernel'],
    [class extends Mine {}, 'its kernels name it in their metadata'],
    [class Empty extends (Kernel as never as new () => object) { static generateKernels() { return [] } }, 'it has no supportsArguments, no compile, no launch, no getWorkspaceSize'],
    [class Half extends (Kernel as never as new () => Mine) { override compile() { return Promise.resolve(null) } }, 'no static generateKernels'],
    [named(['a'], { estimate: 3 }), 'its estimate is no method'],
  ] // prettier-ignore
  test.each(wrong)('%o', async (kernelClass, reason) => {
    const error = await errorOf(() => CudaProvider.register(kernelClass as never))
    expect([error.code, error.message]).toEqual(['KTL4027', expect.stringContaining(reason)])
  })

  const broken: [string, () => unknown, string][] = [
    ['throws', () => { throw new Error('no tiles') }, 'no tiles'],
    ['gives no iterable', () => 3, 'not iterable'],
    ['gives what is no kernel', () => [{ metadata: metadataOf('a') }], 'generateKernels gave Object, not a Kernel'],
    ['gives a kernel without metadata', () => [new Mine({ kernelName: 'a' } as never)], 'a kernel has Object for its KernelMetadata'],
  ] // prettier-ignore
  test.each(broken)('generateKernels %s', async (_, generate, reason) => {
    class Broken extends Mine {
      static override generateKernels(): never {
        return generate() as never
      }
    }
    const error = await errorOf(() => CudaProvider.register(Broken))
    expect([error.code, error.message]).toEqual(['KTL4171', expect.stringContaining(reason)])
    expect(getKernels(undefined, { providers: ['cuda'] })).toHaveLength(0)
  })

  test('once only', async () => {
    add(Mine)
    expect((await errorOf(() => CudaProvider.register(Mine))).message).toContain('registered already')
  })
})

describe('names are unique', () => {
  test('within a class, among classes, among providers; and ktl. is ours', async () => {
    const taken = async (kernelClass: KernelClass) => {
      const error = await errorOf(() => CudaProvider.register(kernelClass))
      expect(error.code).toBe('KTL4172')
      return error.message
    }
    expect(await taken(named(['twice', 'twice']))).toContain(
      '1 kernel name taken by another kernel of `Named`: `twice`',
    )
    expect(await taken(named(['ktl.gemm']))).toContain('taken by ktl')
    add(Mine)
    expect(await taken(named(['mine_32', 'mine_16', 'other']))).toContain(
      '2 kernel names taken by `Mine` (provider `cuda`)',
    )
    const lab = new Provider('lab')
    add(named(['mine_32']), lab)
    expect((await errorOf(() => registerProvider(lab))).code).toBe('KTL4172')
    expect(users()).toEqual(['mine_32', 'mine_16'])
  })

  test('names that depend on the call: the first one counts, explainKernels tells of the other', () => {
    class Late extends Mine {
      static override *generateKernels({ args }: GenerateOptions): Generator<Kernel> {
        if (args) yield* ['mine_32', 'ktl.mine'].map((name) => new Late(metadataOf(name, Late)))
      }
    }
    add(Mine)
    add(Late)
    expect(
      getKernels(gemm())
        .filter((kernel) => kernel.metadata.kernelName === 'mine_32')
        .map((kernel) => kernel.constructor),
    ).toEqual([Mine])
    const taken = explainKernels(gemm()).reasons.filter(({ code }) => code === 'KTL4172')
    expect(taken.map(({ reason }) => reason)).toEqual([
      '1 kernel name taken by `Mine`, so that one of `Late` (provider `cuda`) is left out: `mine_32`',
      expect.stringContaining('taken by ktl, whose kernels begin with `ktl.`, so that one of `Late`'),
    ])
  })

  test('a program is registered once', async () => {
    const text = 'kernel mine(A: f64[m, k], B: f64[k, n]) -> D: f64[m, n] { D = sum[k](A * B) }'
    const program = loadSource({ name: 'one.ktl', text })
    undo.push(register(program))
    const again = [program, loadSource({ name: 'two.ktl', text: `// the same\n${text}` })]
    for (const same of again) expect((await errorOf(() => KtlProvider.register(same))).code).toBe('KTL4172')
    undo.push(KtlProvider.register(loadSource({ name: 'three.ktl', text: text.replace('(A * B)', '(A * B) * 2') })))
    undo.pop()!()
    undo.pop()!()
    undo.push(KtlProvider.register(program))
    expect(names(getKernels(gemm())).filter((name) => name.startsWith('ktl.mine_')).length).toBeGreaterThan(0)
  })
})

describe('what a class does wrong harms nobody else', () => {
  const before = names(getKernels(gemm()))

  test('a class that fails on a call: its kernels are left out, and why', () => {
    class Picky extends Mine {
      static override *generateKernels({ args }: GenerateOptions): Generator<Kernel> {
        yield new Picky(metadataOf('picky', Picky))
        if (args) throw new Error('I cannot go on')
      }
    }
    add(Mine)
    add(Picky)
    expect(names(getKernels(gemm()))).toEqual([...before, 'mine_32', 'mine_16'])
    expect(explainKernels(gemm()).reasons).toContainEqual(
      expect.objectContaining({
        code: 'KTL4171',
        reason: 'the kernels of `Picky` (provider `cuda`) are left out: I cannot go on',
      }),
    )
    const none = getKernels(gemm({ epilogue: new EpilogueArguments('relu(acc)') }), { providers: ['cuda'] })
    expect([none.length, none.why]).toEqual([0, expect.stringContaining('I cannot go on')])
  })

  const failing: [keyof Kernel, unknown, string][] = [
    ['supportsArguments', () => { throw new Error('oops') }, '`supportsArguments` of `failing` failed: oops'],
    ['supportsArguments', () => undefined, 'it gave undefined, not a Status'],
    ['supportsArguments', () => true, 'it gave true, not a Status'],
    ['supports', () => { throw new Error('oops') }, '`supports` of `failing` failed: oops'],
  ] // prettier-ignore
  test.each(failing)('%s %o', (method, body, reason) => {
    add(named(['failing'], { [method]: body }))
    const list = getKernels(gemm(), { providers: ['cuda'] })
    expect([list.length, list.why]).toEqual([0, expect.stringContaining(reason)])
    expect(list.why).toContain('KTL4173')
    expect(names(getKernels(gemm()))).toEqual(before)
  })

  const estimates: [unknown, string][] = [
    [() => { throw new Error('no clock') }, 'it failed (no clock)'],
    [() => ({ microseconds: NaN, text: '' }), 'it gave NaN microseconds'],
    [() => undefined, 'no estimate: behind'],
  ] // prettier-ignore
  test.each(estimates)('an estimate %o', (estimate, reason) => {
    add(named(['unranked'], { estimate }))
    const last = getKernels(gemm()).at(-1)!
    expect([last.metadata.kernelName, last.rankReason]).toEqual(['unranked', expect.stringContaining(reason)])
  })

  test('an estimate that is one ranks the kernel', () => {
    add(named(['fast'], { estimate: () => ({ microseconds: 0.001, boundBy: 'launch', text: '1 ns modelled' }) }))
    expect(getKernels(gemm())[0]!.metadata.kernelName).toBe('fast')
  })

  test('the caller’s own filter is the caller’s: its error comes through', () => {
    add(Mine)
    const metadataFilter = (): never => {
      throw new RangeError('mine')
    }
    expect(() => getKernels(gemm(), { providers: ['cuda'], metadataFilter })).toThrow(RangeError)
  })

  test('a class that forgets the filter is filtered all the same', () => {
    add(Mine)
    expect(
      names(getKernels(gemm(), { providers: ['cuda'], metadataFilter: (m) => m.design.tileShape[0] === 16 })),
    ).toEqual(['mine_16'])
    expect(
      names(getKernels(undefined, { providers: ['cuda'], where: { design: { tileShape: [32, 32, 1] } } })),
    ).toEqual(['mine_32'])
    expect(countKernels({ providers: ['cuda'] }).instances).toBe(2)
  })
})

describe('providers', () => {
  test('are listed, searched and limited by name', async () => {
    const lab = new Provider('lab')
    lab.register(Mine)
    expect([availableProviders(), users()]).toEqual([['ktl', 'cuda'], []])
    expect((await errorOf(() => getKernels(gemm(), { providers: ['lab'] }))).code).toBe('KTL4028')
    undo.push(registerProvider(lab))
    expect([availableProviders(), users()]).toEqual([
      ['ktl', 'cuda', 'lab'],
      ['mine_32', 'mine_16'],
    ])
    expect(names(getKernels(gemm(), { providers: ['lab'] }))).toEqual(['mine_32', 'mine_16'])
    expect(names(getKernels(gemm(), { providers: ['cuda'] }))).toEqual([])
    expect(names(getKernels(gemm(), { providers: [KtlProvider] })).every((name) => name.startsWith('ktl.'))).toBe(true)
    expect(getKernels(gemm(), { providers: [lab] })[0]!.metadata.provider).toBe('lab')
    expect((await errorOf(() => registerProvider(new Provider('lab')))).code).toBe('KTL4174')
    expect((await errorOf(() => registerProvider({ name: 'x' } as never))).code).toBe('KTL4027')
    undo.pop()!()
    expect([availableProviders(), users()]).toEqual([['ktl', 'cuda'], []])
  })

  test('may list kernels by themselves, and are told what is wanted', () => {
    const asked: GenerateOptions[] = []
    class Shelf extends Provider {
      override *generateKernels(options: GenerateOptions): Generator<Kernel> {
        asked.push(options)
        yield new Mine(metadataOf('from_the_shelf'))
      }
    }
    undo.push(registerProvider(new Shelf('shelf')))
    const args = gemm({ epilogue: null })
    expect(users(args)).toEqual(['from_the_shelf'])
    expect(asked[0]).toMatchObject({ cc: 100, epilogueArguments: null, args })
  })

  test('that of ktl lists its kernels as any provider does', () => {
    const wanted = { cc: 100, epilogueArguments: null, metadataFilter: () => true }
    const listed = [...KtlProvider.generateKernels({ ...wanted, args: gemm() })]
    expect(names(listed).sort()).toEqual(names(getKernels(gemm(), { providers: [KtlProvider] })).sort())
    const { value } = KtlProvider.generateKernels({ ...wanted, args: null }).next()
    expect(value).toBeInstanceOf(Kernel)
    const epilogueArguments = new EpilogueArguments('relu(acc)')
    expect([...KtlProvider.generateKernels({ ...wanted, args: null, epilogueArguments })]).toEqual([])
    expect(
      [...KtlProvider.generateKernels({ ...wanted, args: gemm({ epilogue: epilogueArguments }), epilogueArguments })]
        .length,
    ).toBeGreaterThan(0)
    expect([...KtlProvider.generateKernels({ ...wanted, cc: 70, args: gemm() })]).toEqual([])
  })

  test('a provider that fails is one that has nothing', () => {
    class Gone extends Provider {
      override generateKernels(): never {
        throw new Error('the shelf is gone')
      }
    }
    undo.push(registerProvider(new Gone('gone')))
    expect(users()).toEqual([])
    expect(String(explainKernels(gemm()))).toContain('(provider `gone`) are left out: the shelf is gone')
  })
})

describe('kernels in CUDA C++ of users, as artifacts', async () => {
  const machine = await openDevice('virtual-sm100')
  afterAll(() => machine.close())
  const CUDA = `extern "C" __global__ void scale(const double* a, double* d, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) d[i] = FACTOR * a[i];
}`
  let scratch: Tensor | undefined
  class Scale extends Mine {
    override compile(args?: GemmArguments): Promise<never> {
      return compileKernel(this, CUDA, args!, { flags: ['-DFACTOR=3'] }) as never
    }
    override launch(...given: unknown[]): void {
      const [{ A, out }, { artifact, stream, workspace }] = given as [GemmArguments, KernelLaunchOptions<Artifact>]
      scratch = workspace
      const params = [A, out, A.elementCount]
      return launchKernel(artifact!, machine, { entry: 'scale', grid: 1, block: 64, params, stream }) as never
    }
    override getWorkspaceSize(): number {
      return 256
    }
  }
  const kernel = new Scale(metadataOf('scale', Scale))
  const args = new GemmArguments(
    machine.tensor('f64', [4, 4], 2),
    machine.tensor('f64', [4, 4], 1),
    machine.empty('f64', [4, 4]),
  )

  test('compile, serialise, run; the workspace comes from a pool', async () => {
    const artifact = (await kernel.compile(args)) as unknown as Artifact
    expect([artifact.kernelName, artifact.cuda, artifact.info.recipe]).toEqual(['scale', CUDA, null])
    const copy = Artifact.deserialize(artifact.serialize())
    expect(await kernel.run(args, { artifact: copy as never })).toMatchObject({ findings: [] })
    expect([...(await args.out.toArray())]).toEqual(Array(16).fill(6))
    expect(scratch!.byteLength).toBe(256)
  })

  test('scratch memory may have more bytes than an axis has elements', () => {
    const shapes: (readonly number[])[] = []
    const empty = (_: string, shape: readonly number[]) => {
      shapes.push(shape)
      return { byteLength: shape.reduce((a, b) => a * b, 1) }
    }
    const stream = { device: { empty } } as never
    expect(scratchOf(stream, 5e9).byteLength).toBeGreaterThanOrEqual(5e9)
    expect(shapes.flat().every((extent) => extent < 2 ** 31)).toBe(true)
    expect(scratchOf(stream, 4e9).byteLength).toBeGreaterThanOrEqual(5e9)
    expect(shapes).toHaveLength(1)
  })

  test('launches of a stream are in order, also the first of an artifact', async () => {
    const artifact = (await compileKernel(kernel, `${CUDA}\n// anew`, machine, { flags: ['-DFACTOR=2'] })) as Artifact
    const [x, y, z] = [machine.tensor('f64', [4], [1, 2, 3, 4]), machine.empty('f64', [4]), machine.empty('f64', [4])]
    const launch = (from: Tensor, to: Tensor) =>
      launchKernel(artifact, machine, { entry: 'scale', grid: 1, block: 32, params: [from, to, 4] })
    await Promise.all([launch(x, y), launch(y, z)])
    expect([...(await z.toArray())]).toEqual([4, 8, 12, 16])
  })

  test('a graph of them', async () => {
    const artifact = await compileKernel(kernel, CUDA, machine, { flags: ['-DFACTOR=2'] })
    const [x, y] = [machine.tensor('f64', [4], [1, 2, 3, 4]), machine.empty('f64', [4])]
    const launch = (from: Tensor, to: Tensor) =>
      launchKernel(artifact, machine, { entry: 'scale', grid: 1, block: 32, params: [from, to, 4] })
    await launch(x, y)
    const graph = machine.capture(() => void [launch(x, y), launch(y, x)])
    graph.launch()
    graph.launch()
    expect([...(await x.toArray())]).toEqual([16, 32, 48, 64])
    graph.free()
  })

  test('wrong text, entry and target are errors', async () => {
    expect((await errorOf(() => compileKernel(kernel, 'not CUDA', machine))).code).toBe('KTL6002')
    expect(
      (await errorOf(() => launchKernel(undefined, machine, { entry: 'scale', grid: 1, block: 1, params: [] }))).code,
    ).toBe('KTL4022')
    const artifact = await compileKernel(kernel, CUDA, machine, { flags: ['-DFACTOR=1'] })
    expect(
      (await errorOf(() => launchKernel(artifact, machine, { entry: 'skale', grid: 1, block: 1, params: [] }))).code,
    ).toBe('KTL4013')
    expect(
      (
        await errorOf(() =>
          launchKernel(new Artifact(artifact.info, []), machine, { entry: 'scale', grid: 1, block: 1, params: [] }),
        )
      ).code,
    ).toBe('KTL4040')
  })

  test('an artifact of another kernel is refused', async () => {
    const artifact = (await new Scale(metadataOf('other', Scale)).compile(args)) as never
    expect((await errorOf(() => kernel.run(args, { artifact }))).code).toBe('KTL4040')
  })

  test('findings of the device are an error of run', async () => {
    class Astray extends Scale {
      override compile(): Promise<never> {
        return compileKernel(this, CUDA.replace('if (i < n)', ''), machine, { flags: ['-DFACTOR=1'] }) as never
      }
    }
    const error = await errorOf(() => new Astray(metadataOf('astray', Astray)).run(args))
    expect(error.code).toMatch(/^KTL50/)
  })
})
