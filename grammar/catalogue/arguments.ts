/** 40xx: tensors, values, launches: what a caller of the API can get wrong. */
import { DTYPE_NAMES } from '../vocabulary.ts'
import { entry } from './entry.ts'

/** Most argument errors say the same three things. */
export interface Mismatch {
  /** The call or object at fault: `device.tensor`, `copyFrom`, `parameter 2 of add`. */
  readonly what: string
  readonly expected: string
  readonly got: string
}

export const argumentErrors = {
  KTL4001: entry<Mismatch>({
    title: 'wrong number of values',
    explain:
      'Arrays passed to a tensor are its values in logical order, whatever its strides, so there must be exactly one ' +
      'for each element. `{ bits }` is the raw storage: all its bytes, or one code for each element.',
    wrong: { call: "device.tensor('f32', [2, 3], [1, 2, 3, 4, 5])" },
    right: { call: "device.tensor('f32', [2, 3], [1, 2, 3, 4, 5, 6])" },
    word: ({ what, expected, got }) => ({ message: `${what} takes ${expected}, got ${got}` }),
  }),
  KTL4002: entry<Omit<Mismatch, 'what'>>({
    title: 'illegal shape',
    explain: 'A shape is an array of up to 8 extents, each an integer of at least 0. `[]` is a tensor of one element.',
    wrong: { call: "device.empty('f32', [2, -1])" },
    right: { call: "device.empty('f32', [2, 0])" },
    word: ({ expected, got }) => ({ message: `illegal shape: expected ${expected}, got ${got}` }),
  }),
  KTL4003: entry<Omit<Mismatch, 'what'>>({
    title: 'illegal strides',
    explain:
      'Strides count elements, one for each axis, and are not negative. 0 repeats an element along an axis and is ' +
      'for inputs only; strides larger than needed leave padding. Types of 4 and 6 bits are packed, and each row starts on a byte.',
    wrong: { call: "device.empty('f32', [2, 3], { strides: [3] })" },
    right: { call: "device.empty('f32', [2, 3], { strides: [8, 1] })" },
    word: ({ expected, got }) => ({ message: `illegal strides: expected ${expected}, got ${got}` }),
  }),
  KTL4004: entry<Mismatch>({
    title: 'unknown dtype',
    explain:
      `The dtypes are ${DTYPE_NAMES.join(' ')}. ` +
      'Tensors of other libraries are taken by their own names (float16, int8, …) where a dtype of ktl matches.',
    wrong: { call: "device.empty('float24', [4])" },
    right: { call: "device.empty('f32', [4])" },
    word: ({ what, expected, got }) => ({ message: `${what}: unknown dtype ${got}, expected ${expected}` }),
  }),
  KTL4005: entry<Mismatch>({
    title: 'illegal view',
    explain:
      'Views share the memory of their tensor and must lie within it. `reshape` needs axes that are adjacent in ' +
      'memory; `as` needs a contiguous last axis when the element size changes.',
    wrong: { call: "device.empty('f32', [4]).slice([2, 9])" },
    right: { call: "device.empty('f32', [4]).slice([2, 4])" },
    word: ({ what, expected, got }) => ({ message: `${what}: expected ${expected}, got ${got}` }),
  }),
  KTL4006: entry<{ readonly what: string; readonly state: string }>({
    title: 'used after free',
    explain: 'Freeing a tensor releases the memory of all its views; closing a device releases everything it owns.',
    wrong: { call: "const t = device.empty('f32', [4]); t.free(); t.slice([0, 2])" },
    right: { call: "const t = device.empty('f32', [4]); t.slice([0, 2]); t.free()" },
    word: ({ what, state }) => ({ message: `${what} ${state}` }),
  }),
  KTL4007: entry<Mismatch>({
    title: 'not a value',
    explain:
      'Values are flat arrays of numbers (or booleans). Nested arrays, strings and bigints are refused; stored bit ' +
      'patterns go in as `{ bits }`.',
    wrong: { call: "device.tensor('f32', [2], ['1', '2'])" },
    right: { call: "device.tensor('f32', [2], [1, 2])" },
    word: ({ what, expected, got }) => ({ message: `${what} takes ${expected}, got ${got}` }),
  }),
  KTL4008: entry<{ readonly got: string; readonly reason: string }>({
    title: 'not a tensor',
    explain:
      'Operands are tensors of ktl, typed arrays with a shape `{ data, shape }`, tensors of onnxruntime or ' +
      'transformers.js `{ data, dims, type }`, ndarrays, tensors of tfjs, or a device pointer `{ pointer, dtype, ' +
      'shape }`, or nested numbers `[[1, 2], [3, 4]]`. A flat list has no shape.',
    wrong: { call: 'fromTensorLike(device, [1, 2, 3])' },
    right: { call: 'fromTensorLike(device, { data: Float32Array.of(1, 2, 3), shape: [3] })' },
    word: ({ got, reason }) => ({
      message: `${got} is not a tensor: ${reason}`,
      help: 'pass a tensor of ktl or `{ data: typedArray, shape }`',
    }),
  }),
  KTL4009: entry<{ readonly what: string; readonly expected: string; readonly got: string }>({
    title: 'wrong device',
    explain:
      'A kernel runs on tensors, maps, modules and streams of its own device; copy by `toArray` and `device.tensor`.',
    wrong: { call: 'fromTensorLike(device, otherDevice.empty("f32", [1]))' },
    right: { call: 'fromTensorLike(device, device.empty("f32", [1]))' },
    word: ({ what, expected, got }) => ({ message: `${what} belongs to device ${got}, not to ${expected}` }),
  }),
  KTL4010: entry<Mismatch>({
    title: 'kernel parameter does not match',
    explain:
      'Launch parameters are converted by the sizes the kernel declares: integers and bigints to 1, 2, 4 or 8 bytes, ' +
      'tensors to 8-byte pointers, tensor maps to 128 bytes, `{ f32: x }` and its like to their own size, a ' +
      'Uint8Array is the raw bytes of one parameter. A number with a fraction does not say its format: write it.',
    wrong: { call: 'fn.launch({ grid: 1, block: 32, params: [0.5] })' },
    right: { call: 'fn.launch({ grid: 1, block: 32, params: [{ f32: 0.5 }] })' },
    word: ({ what, expected, got }) => ({ message: `${what}: expected ${expected}, got ${got}` }),
  }),
  KTL4011: entry<Mismatch>({
    title: 'illegal launch',
    explain:
      'Grid, block and cluster are one to three integers of at least 1; a block has at most 1024 threads, a cluster ' +
      'at most 16 CTAs, and the grid is a multiple of the cluster in every dimension.',
    wrong: { call: 'fn.launch({ grid: 1, block: 2048, params: [{ f32: 0.5 }] })' },
    right: { call: 'fn.launch({ grid: 2, block: 1024, params: [{ f32: 0.5 }] })' },
    word: ({ what, expected, got }) => ({ message: `launch: ${what} must be ${expected}, got ${got}` }),
  }),
  KTL4012: entry<{ readonly field: string; readonly expected: string; readonly got: string }>({
    title: 'illegal tensor map',
    explain:
      'A tensor map is checked as the CUDA driver checks it: 1 to 5 dimensions of 1 to 2^32, addresses and strides in ' +
      'multiples of 16 bytes, a box of 1 to 256 in every dimension whose rows are multiples of 16 bytes and no longer ' +
      'than the span of the swizzle.',
    wrong: { call: "device.tensorMap({ dtype: 'f16', address, dims: [64, 64], strides: [120], box: [64, 8] })" },
    right: { call: "device.tensorMap({ dtype: 'f16', address, dims: [64, 64], strides: [128], box: [64, 8] })" },
    word: ({ field, expected, got }) => ({ message: `tensor map: ${field} must be ${expected}, got ${got}` }),
  }),
  KTL4013: entry<{ readonly name: string; readonly known: readonly string[] }>({
    title: 'no such kernel in the module',
    explain: 'Names are those of the PTX. A kernel that is not `extern "C"` has its mangled C++ name there.',
    wrong: { call: "module.function('ad')" },
    right: { call: "module.function('add')" },
    word: ({ name, known }) => ({
      message: `the module has no kernel \`${name}\``,
      help: known.length ? `it has ${known.map((k) => `\`${k}\``).join(', ')}` : 'it has no kernel at all',
    }),
  }),
  KTL4014: entry<Mismatch>({
    title: 'illegal device memory',
    explain: 'Sizes are integers of at least 0, alignments powers of two, and pointers bigints that `malloc` returned.',
    wrong: { call: 'device.free(1n)' },
    right: { call: 'device.free(device.malloc(256))' },
    word: ({ what, expected, got }) => ({ message: `${what}: expected ${expected}, got ${got}` }),
  }),
  KTL4015: entry<Mismatch>({
    title: 'illegal option',
    explain: 'The value of an option is checked where it is given; the message lists what it takes.',
    wrong: { call: "openDevice('virtual-sm100', { checks: 'all' })" },
    right: { call: "openDevice('virtual-sm100', { checks: 'full' })" },
    word: ({ what, expected, got }) => ({ message: `${what} must be ${expected}, got ${got}` }),
  }),
  KTL4016: entry<Mismatch>({
    title: 'launch recipe and arguments do not match',
    explain: 'The kernel was built for other operands, axes or memory orders than the ones it is launched with.',
    wrong: { call: 'packParameters(recipe, { operands: {}, extents: {}, scalars: {} })' },
    right: {
      call: "packParameters(recipe, { operands: { D: { tensor, axes: ['n'] } }, extents: { n: 4 }, scalars: {} })",
    },
    word: ({ what, expected, got }) => ({ message: `${what}: expected ${expected}, got ${got}` }),
  }),
}
