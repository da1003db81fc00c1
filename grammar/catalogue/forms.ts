/** 4044 to 4049: operands in stored forms and reads at computed indices. */
import { code, entry } from './entry.ts'

const MX = "loadSource({ name: 'mx.ktl', text: 'kernel mx(A: e4m3[m, k] * ue8m0[m, k/32]) -> D: f32[m, k] { D = A }' })"
const MX_ROWS =
  "loadSource({ name: 'mx.ktl', text: 'kernel mx(A: e4m3[m, k] * ue8m0[k/32]) -> D: f32[m, k] { D = A }' })"
const data = "device.tensor('e4m3', [4, 64], 1)"
const scale = "device.tensor('ue8m0', [4, 2], 1)"
const D = "D: device.empty('f32', [4, 64])"
const SHIFT = (read: string): string =>
  `loadSource({ name: 'shift.ktl', text: 'kernel shift(X: f32[n], step: i32) -> Y: f32[m] { Y = ${read} }' }).kernels.shift`
const LOOP =
  "loadSource({ name: 'loop.ktl', text: 'kernel loop(X: f32[n], step: i32) -> Y: f32[n] { Y = X[n / step] }' }).kernels.loop"
const X = "X: device.tensor('f32', [8], 1)"

export const formErrors = {
  KTL4044: entry<{ readonly operand: string; readonly expected: string; readonly got: string }>({
    title: 'operand in another stored form',
    explain:
      'A ScaledOperand has data, scales, zero points and a global scale. Its mode says for each axis of the data how many positions ' +
      "share a scale, or 'all'; the scale tensor has the other axes, with one element for each block. A kernel takes the form that it declares.",
    wrong: {
      call: `${MX}.kernels.mx.getKernels({ A: new ScaledOperand(${data}, ${scale}, { mode: [1, 64] }), ${D} })`,
    },
    right: {
      call: `${MX}.kernels.mx.getKernels({ A: new ScaledOperand(${data}, ${scale}, { mode: [1, 32] }), ${D} })`,
    },
    word: ({ operand, expected, got }) => ({ message: `${code(operand)} must be ${expected}, got ${got}` }),
  }),
  KTL4045: entry<{ readonly operand: string; readonly expected: string; readonly got: string }>({
    title: 'scales without a form in tiles',
    explain:
      'Block-scaled instructions read tiles of 128 x 4 scales: bytes, 4 of them along the axis in blocks and 128 along another one. ' +
      'Other scales are plain tensors, with any strides.',
    wrong: {
      call: `${MX_ROWS}.kernels.mx.getKernels({ A: new ScaledOperand(${data}, device.tensor('ue8m0', [512], 1), { mode: ['all', 32], swizzle: '32x4x4' }), ${D} })`,
    },
    right: {
      call: `${MX}.kernels.mx.getKernels({ A: new ScaledOperand(${data}, device.tensor('ue8m0', [512], 1), { mode: [1, 32], swizzle: '32x4x4' }), ${D} })`,
    },
    word: ({ operand, expected, got }) => ({
      message: `${code(operand)} in tiles must be ${expected}, got ${got}`,
      help: 'pass a plain tensor: `unswizzleScales(scale, …)`',
    }),
  }),
  KTL4046: entry<{ readonly operand: string; readonly axis: string; readonly expected: string; readonly got: string }>({
    title: 'index outside of its operand',
    explain:
      'Where an index without look-up goes is known from extents and scalars, and checked when the arguments are made. `else` after ' +
      'the read gives a value for what is outside.',
    wrong: { call: `${SHIFT('X[m + step]')}.getKernels({ ${X}, step: 1, Y: device.empty('f32', [8]) })` },
    right: { call: `${SHIFT('X[m + step] else 0')}.getKernels({ ${X}, step: 1, Y: device.empty('f32', [8]) })` },
    word: ({ operand, axis, expected, got }) => ({
      message: `axis ${code(axis)} of ${code(operand)} takes ${expected}, got ${got}`,
      help: 'write `else 0` behind the read, or pass other extents',
    }),
  }),
  KTL4047: entry<{ readonly sign: string; readonly got: string }>({
    title: 'divisor of an index is not positive',
    explain: 'Between index values `/` is floor division and `%` its remainder. Both need a divisor of at least 1.',
    wrong: { call: `${LOOP}.getKernels({ ${X}, step: 0, Y: device.empty('f32', [8]) })` },
    right: { call: `${LOOP}.getKernels({ ${X}, step: 2, Y: device.empty('f32', [8]) })` },
    word: ({ sign, got }) => ({
      message: `an index is divided (${code(sign)}) by ${got}`,
      help: 'pass a scalar or extents that make it at least 1',
    }),
  }),
  KTL4048: entry<{ readonly operand: string; readonly expected: string; readonly got: string }>({
    title: 'whole number on the device',
    explain:
      'Scalars may be tensors with one element, which the kernel reads: graphs then see new values. Whole numbers may not, because ' +
      'positions and extents depend on them, which are checked before the launch.',
    wrong: { call: `${LOOP}.getKernels({ ${X}, step: device.tensor('i32', [1], 2), Y: device.empty('f32', [8]) })` },
    right: { call: `${LOOP}.getKernels({ ${X}, step: 2, Y: device.empty('f32', [8]) })` },
    word: ({ operand, expected, got }) => ({
      message: `scalar ${code(operand)} must be ${expected}, got ${got}`,
      help: 'read the tensor before the call',
    }),
  }),
}
