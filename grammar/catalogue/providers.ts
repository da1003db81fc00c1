/**
 * 417x: providers, kernels of users and metadata. Examples see what those of operations.ts see: `MyKernel`, a class of
 * kernels that lists none, and `myKernel`, one of it.
 */
import { code, count, entry } from './entry.ts'

const NAMED_AS_OURS =
  'class Copied extends MyKernel { static generateKernels() { return [new Copied(kernel.metadata), new ' +
  'Copied(kernel.metadata)] } }; CudaProvider.register(Copied)'
const NAMED_APART =
  'class Own extends MyKernel { static generateKernels() { return [new Own(new KernelMetadata({ ' +
  "...kernel.metadata, kernelName: 'own' }))] } }; CudaProvider.register(Own)()"

export const providerErrors = {
  KTL4170: entry<{ readonly reason: string }>({
    title: 'refused by a kernel',
    explain: 'A kernel that somebody brought does not take these arguments; the reason is its own.',
    wrong: { call: "Status.fail('All operands must be rank 3.')" },
    right: { call: 'Status.success()' },
    word: ({ reason }) => ({ message: reason }),
  }),
  KTL4171: entry<{ readonly name: string; readonly provider: string; readonly reason: string }>({
    title: 'kernel class failed while it listed its kernels',
    explain:
      '`generateKernels` gives an iterable of kernels, each with its own metadata. A class that fails is refused when ' +
      'it is registered; when it fails later, its kernels are left out and all others are found as ever.',
    wrong: {
      call: "class Broken extends MyKernel { static generateKernels() { throw new Error('no tiles') } }; CudaProvider.register(Broken)",
    },
    right: { call: 'class Quiet extends MyKernel {}; CudaProvider.register(Quiet)()' },
    word: ({ name, provider, reason }) => ({
      message: `the kernels of ${code(name)} (provider ${code(provider)}) are left out: ${reason}`,
    }),
  }),
  KTL4172: entry<{ readonly names: readonly string[]; readonly owner: string }>({
    title: 'kernel name taken',
    explain:
      'A kernel name stands for one kernel: caches, artifacts and logs go by it. Put what tells two kernels apart into their names.',
    wrong: { call: NAMED_AS_OURS },
    right: { call: NAMED_APART },
    word: ({ names, owner }) => ({
      message: `${count(names.length, 'kernel name')} taken by ${owner}: ${names.slice(0, 3).map(code).join(', ')}${names.length > 3 ? ', …' : ''}`,
    }),
  }),
  KTL4173: entry<{ readonly name: string; readonly method: string; readonly reason: string }>({
    title: 'kernel failed when it was asked',
    explain:
      '`supportsArguments` answers with a Status, `estimate` with a time, and neither throws. A kernel that fails is left out.',
    wrong: {
      call:
        "class Throwing extends MyKernel { supportsArguments() { throw new Error('no idea') } }; new " +
        'Throwing(kernel.metadata).supports(new GemmArguments({ A, B, out }))',
    },
    right: { call: 'myKernel.supports(new GemmArguments({ A, B, out }))' },
    word: ({ name, method, reason }) => ({ message: `${code(method)} of ${code(name)} failed: ${reason}` }),
  }),
  KTL4174: entry<{ readonly name: string }>({
    title: 'provider name taken',
    explain:
      '`getKernels({ providers })` finds providers by their names. A registered provider is in every search until it is taken back.',
    wrong: { call: "registerProvider(new Provider('cuda'))" },
    right: { call: "registerProvider(new Provider('mine'))()" },
    word: ({ name }) => ({ message: `there is a provider ${code(name)} already` }),
  }),
  KTL4175: entry<{ readonly what: string; readonly expected: string; readonly got: string }>({
    title: 'illegal metadata',
    explain: 'Metadata are checked when they are made, by constructors and by `fromJSON` alike.',
    wrong: { call: 'new BLASDesignMetadata([32, 32], [1, 1, 1])' },
    right: { call: 'new BLASDesignMetadata([32, 32, 1], [1, 1, 1])' },
    word: ({ what, expected, got }) => ({ message: `${code(what)} must be ${expected}, got ${got}` }),
  }),
  KTL4176: entry<{ readonly control: string; readonly design: string }>({
    title: 'performance control that the kernel has not',
    explain: '`tileOrder` is for tensor-core kernels, `maxSms` for those among them with static scheduling.',
    wrong: { call: 'new BLASDesignMetadata([32, 32, 1], [1, 1, 1]).supports(new PerformanceControls({ maxSms: 4 }))' },
    right: { call: "kernel.metadata.design.supports(new PerformanceControls({ tileOrder: 'm' }))" },
    word: ({ control, design }) => ({ message: `${code(control)} is nothing that ${design} can do` }),
  }),
}
