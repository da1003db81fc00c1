/**
 * 402x–404x: operations and their arguments. Those up to 4029 are thrown by constructors; from 4030 on they are reasons
 * why well-formed arguments do not suit a kernel. Examples see `A` f16 [64, 32], `B` f16 [32, 48], `out` f32 [64, 48] of
 * one device, `kernels` and `kernel`, the best one, for them, `myKernel`, a kernel of
 * the user's that needs 64 bytes of workspace, and `program`, with `kernel double(X: f32[m, n]) -> Y: f32[m, n]`.
 */
import { code, entry, orList } from './entry.ts'

export interface Operand {
  readonly operand: string
  readonly expected: string
  readonly got: string
}

const GEMM = "new GemmArguments({ A, B, out, accumulatorType: 'f32' })"

export const operationErrors = {
  KTL4020: entry<Operand>({
    title: 'operand of the wrong rank',
    explain:
      'A is [L, M, K] or [M, K], B is [L, K, N] or [K, N], out is [L, M, N] or [M, N]: rank 3, or 2 without the batch axis.',
    wrong: { call: "new GemmArguments({ A: device.empty('f16', [128]), B, out, accumulatorType: 'f32' })" },
    right: { call: GEMM },
    word: ({ operand, expected, got }) => ({ message: `${operand} must be ${expected}, got ${got}` }),
  }),
  KTL4021: entry<
    Operand & { readonly axis: string; readonly left: string; readonly right: string; readonly shapes: string }
  >({
    title: 'extents disagree',
    explain: 'Operands that share an axis have one extent along it. The message names the axis and both operands.',
    wrong: { call: "new GemmArguments({ A, B: device.empty('f16', [40, 48]), out, accumulatorType: 'f32' })" },
    right: { call: GEMM },
    word: ({ axis, left, right, shapes }) => {
      const dimension = (text: string): string => text.replace(' ', `'s ${axis} dimension `)
      return { message: `${dimension(left)} must be equal to ${dimension(right)}`, notes: [shapes] }
    },
  }),
  KTL4022: entry<{ readonly what: string; readonly missing: readonly string[]; readonly known: readonly string[] }>({
    title: 'argument missing',
    explain: 'Every operand, and every scalar without a default, is passed by its name.',
    wrong: { call: 'new KernelArguments(program.kernels.double, { X: out })' },
    right: { call: 'new KernelArguments(program.kernels.double, { X: out, Y: out })' },
    word: ({ what, missing, known }) => ({
      message: `${what} needs ${orList(missing.map(code), 'and')}`,
      ...(known.length > missing.length && { help: `its arguments are ${known.map(code).join(', ')}` }),
    }),
  }),
  KTL4023: entry<{
    readonly what: string
    readonly name: string
    readonly known: readonly string[]
    readonly nearest: string | null
  }>({
    title: 'unknown argument',
    explain: 'An argument that nothing reads is a slip of the pen more often than not.',
    wrong: { call: 'new KernelArguments(program.kernels.double, { X: out, Y: out, alpha: 2 })' },
    right: { call: 'new KernelArguments(program.kernels.double, { X: out, Y: out })' },
    word: ({ what, name, known, nearest }) => ({
      message: `${what} has no argument ${code(name)}`,
      help: nearest
        ? `did you mean ${code(nearest)}?`
        : known.length > 0
          ? `its arguments are ${known.map(code).join(', ')}`
          : 'it takes none',
    }),
  }),
  KTL4024: entry<Operand>({
    title: 'argument of the wrong kind',
    explain: 'Operands are tensors (or what `fromTensorLike` takes); scalars are numbers or tensors of one element.',
    wrong: { call: "new EpilogueArguments('acc * alpha', { alpha: 'two' })" },
    right: { call: "new EpilogueArguments('acc * alpha', { alpha: 2 })" },
    word: ({ operand, expected, got }) => ({ message: `${code(operand)} must be ${expected}, got ${got}` }),
  }),
  KTL4026: entry<Operand>({
    title: 'epilogue output is not `out`',
    explain: 'The value named D (or the final expression) is stored to `out`. D may be bound too, to the same tensor.',
    wrong: {
      call: "new GemmArguments({ A, B, out, accumulatorType: 'f32', epilogue: new EpilogueArguments('D = acc * 2', { D: device.empty('f32', [64, 48]) }) })",
    },
    right: {
      call: "new GemmArguments({ A, B, out, accumulatorType: 'f32', epilogue: new EpilogueArguments('D = acc * 2', { D: out }) })",
    },
    word: ({ operand, expected, got }) => ({
      message: `${code(operand)} of the epilogue must be ${expected}, got ${got}`,
    }),
  }),
  KTL4027: entry<{ readonly name: string; readonly reason: string }>({
    title: 'not a kernel class',
    explain: 'Providers take classes that extend `Kernel` and have a static `generateKernels`.',
    wrong: { call: 'CudaProvider.register(Object)' },
    right: { call: 'CudaProvider.register(MyKernel)' },
    word: ({ name, reason }) => ({ message: `${code(name)} cannot be registered: ${reason}` }),
  }),
  KTL4028: entry<{ readonly name: string; readonly known: readonly string[] }>({
    title: 'unknown provider',
    explain: '`providers` limits discovery to some of the registered providers.',
    wrong: { call: "getKernels(new GemmArguments({ A, B, out }), { providers: ['cutlass'] })" },
    right: { call: "getKernels(new GemmArguments({ A, B, out }), { providers: ['ktl'] })" },
    word: ({ name, known }) => ({
      message: `provider ${code(name)} is not available`,
      help: `available are ${known.map(code).join(', ')}`,
    }),
  }),
  KTL4030: entry<{ readonly expected: string; readonly got: string }>({
    title: 'other kind of arguments',
    explain: 'A kernel computes one kind of operation; arguments that describe another one never suit it.',
    wrong: { call: 'kernel.supports(new ElementwiseArguments({ A: out, B: out, out }))' },
    right: { call: 'kernel.supports(new GemmArguments({ A, B, out }))' },
    word: ({ expected, got }) => ({ message: `expected ${expected}, got ${got}` }),
  }),
  KTL4031: entry<Operand>({
    title: 'operand of another dtype',
    explain:
      'A kernel is generated for the dtypes of its operands. f32 tensors meet tf32 kernels only with `allowTf32: true`.',
    wrong: {
      call: "kernel.supports(new GemmArguments({ A: device.empty('bf16', [64, 32]), B: device.empty('bf16', [32, 48]), out }))",
    },
    right: { call: 'kernel.supports(new GemmArguments({ A, B, out }))' },
    word: ({ operand, expected, got }) => ({
      message: `operand ${code(operand)} is unsupported: expected ${expected}, got ${got}`,
    }),
  }),
  KTL4032: entry<Operand>({
    title: 'operand in another memory order',
    explain:
      'The axis a kernel expects to be contiguous must have stride 1 (or extent 1). Orders a kernel takes are written ' +
      'in its declaration as alternatives.',
    wrong: {
      call: "kernel.supports(new GemmArguments({ A, B: device.empty('f16', [32, 48], { strides: [1, 32] }), out }))",
    },
    right: { call: 'kernel.supports(new GemmArguments({ A, B, out }))' },
    word: ({ operand, expected, got }) => ({
      message: `operand ${code(operand)} is unsupported: expected ${expected}, got ${got}`,
    }),
  }),
  KTL4033: entry<Operand>({
    title: 'operand not aligned',
    explain:
      'Kernels that use TMA or vector accesses need 16-byte aligned pointers and rows. Pad the row stride, or take a ' +
      'kernel for single elements: discovery offers one.',
    wrong: {
      call: "kernel.supports(new GemmArguments({ A: device.empty('f16', [64, 32], { strides: [33, 1] }), B, out }))",
    },
    right: {
      call: "kernel.supports(new GemmArguments({ A: device.empty('f16', [64, 32], { strides: [40, 1] }), B, out }))",
    },
    word: ({ operand, expected, got }) => ({
      message: `operand ${code(operand)} is unsupported: expected ${expected}, got ${got}`,
    }),
  }),
  KTL4034: entry<{ readonly expected: string; readonly got: string }>({
    title: 'other accumulator type',
    explain: '`accumulatorType` selects kernels that sum in that type.',
    wrong: { call: "kernel.supports(new GemmArguments({ A, B, out, accumulatorType: 'f16' }))" },
    right: { call: "kernel.supports(new GemmArguments({ A, B, out, accumulatorType: 'f32' }))" },
    word: ({ expected, got }) => ({ message: `expected accumulator type ${expected}, got ${got}` }),
  }),
  KTL4035: entry<{ readonly kernel: string }>({
    title: 'kernel without an epilogue slot',
    explain: 'Only a kernel that says `D = epilogue(…)` takes an epilogue argument.',
    wrong: {
      call: "getKernels(new KernelArguments(program.kernels.double, { X: out, Y: out, epilogue: new EpilogueArguments('acc + 1') }))",
    },
    right: { call: 'getKernels(new KernelArguments(program.kernels.double, { X: out, Y: out }))' },
    word: ({ kernel }) => ({ message: `${code(kernel)} has no epilogue slot` }),
  }),
  KTL4036: entry<{ readonly expected: string; readonly got: string }>({
    title: 'kernel of another epilogue',
    explain: 'A kernel is generated with its epilogue; scalars may change from call to call, its structure may not.',
    wrong: { call: "kernel.supports(new GemmArguments({ A, B, out, epilogue: new EpilogueArguments('relu(acc)') }))" },
    right: { call: "getKernels(new GemmArguments({ A, B, out, epilogue: new EpilogueArguments('relu(acc)') }))" },
    word: ({ expected, got }) => ({
      message: `the kernel was generated for ${expected}, got ${got}`,
      help: 'ask getKernels with these arguments',
    }),
  }),
  KTL4037: entry<{ readonly operand: string; readonly other: string; readonly reason: string }>({
    title: 'output overlaps another operand',
    explain:
      'An input may be the very same tensor as an output when it is read elementwise at the place that is written. ' +
      'Any other overlap would read what has been overwritten.',
    wrong: { call: "const S = device.empty('f16', [64, 64]); getKernels(new GemmArguments({ A: S, B: S, out: S }))" },
    right: {
      call: "const S = device.empty('f16', [64, 64]); getKernels(new GemmArguments({ A: S, B: S, out: device.empty('f16', [64, 64]) }))",
    },
    word: ({ operand, other, reason }) => ({
      message: `the memory of ${code(operand)} overlaps output ${code(other)}: ${reason}`,
    }),
  }),
  KTL4038: entry<{ readonly expected: string; readonly got: string }>({
    title: 'other target',
    explain: 'A kernel runs on the targets in its metadata.',
    wrong: { call: 'getKernels(new GemmArguments({ A, B, out }), { cc: 70 })' },
    right: { call: 'getKernels(new GemmArguments({ A, B, out }), { cc: 100 })' },
    word: ({ expected, got }) => ({ message: `the kernel runs on ${expected}, not on ${got}` }),
  }),
  KTL4039: entry<Operand>({
    title: 'strided output repeats elements',
    explain:
      'Two index tuples of an output must not name the same element: which value would it keep? Stride 0 is for inputs.',
    wrong: { call: "getKernels(new GemmArguments({ A, B, out: device.empty('f32', [64, 48], { strides: [0, 1] }) }))" },
    right: {
      call: "getKernels(new GemmArguments({ A, B, out: device.empty('f32', [64, 48], { strides: [64, 1] }) }))",
    },
    word: ({ operand, expected, got }) => ({ message: `output ${code(operand)}: expected ${expected}, got ${got}` }),
  }),
  KTL4040: entry<{ readonly expected: string; readonly got: string }>({
    title: 'artifact of another kernel',
    explain: 'An artifact holds one kernel, for one target. Passing it to another one would compute something else.',
    wrong: { call: 'kernel.run(new GemmArguments({ A, B, out }), { artifact: await kernels[1].compile() })' },
    right: { call: 'kernel.run(new GemmArguments({ A, B, out }), { artifact: await kernel.compile() })' },
    word: ({ expected, got }) => ({ message: `the artifact must be of ${expected}, got one of ${got}` }),
  }),
  KTL4041: entry<{ readonly expected: string; readonly got: string }>({
    title: 'workspace too small',
    explain: '`getWorkspaceSize(args)` says how many bytes a kernel needs; without `workspace` they come from a pool.',
    wrong: { call: "myKernel.run(new GemmArguments({ A, B, out }), { workspace: device.empty('u8', [63]) })" },
    right: { call: "myKernel.run(new GemmArguments({ A, B, out }), { workspace: device.empty('u8', [64]) })" },
    word: ({ expected, got }) => ({ message: `the workspace must have ${expected} bytes, got ${got}` }),
  }),
  KTL4042: entry<{ readonly what: string; readonly reasons: readonly string[]; readonly help?: string }>({
    title: 'no kernel supports the arguments',
    explain: 'Discovery found no instance. The notes say what each candidate failed on, most frequent first.',
    wrong: { call: "program.kernels.double({ X: out, Y: device.empty('f16', [64, 48]) })" },
    right: { call: "program.kernels.double({ X: out, Y: device.empty('f32', [64, 48]) })" },
    word: ({ what, reasons, help }) => ({
      message: `no kernel supports ${what}`,
      notes: reasons,
      ...(help && { help }),
    }),
  }),
  KTL4043: entry<{ readonly names: readonly string[] }>({
    title: 'operands on several devices',
    explain: 'All operands of one call live on one device.',
    wrong: { call: "new GemmArguments({ A: otherDevice.empty('f16', [64, 32]), B, out })" },
    right: { call: 'new GemmArguments({ A, B, out })' },
    word: ({ names }) => ({ message: `operands are on several devices: ${names.join(', ')}` }),
  }),
}
