/** KTL22xx: types. */
import type { Span } from '../ast.ts'
import { DTYPE_NAMES } from '../vocabulary.ts'
import { code, entry, orList } from './entry.ts'
import { SAME_DTYPE } from '../aliases.ts'
import { didYouMean } from './names.ts'

const gemm = (a: string, b: string, d: string, acc = ''): string =>
  `kernel f(A: ${a}[m, k], B: ${b}[k, n]) -> D: ${d}[m, n] {\n  acc${acc} = sum[k](A * B)\n  D = acc\n}\n`

/** A kernel of so many type parameters, each of six alternatives. */
const sumOfTypes = (n: number): string => {
  const letters = Array.from({ length: n }, (_, i) => String.fromCharCode(80 + i))
  const parameters = letters.map((T) => `${T}: f64 | f32 | f16 | bf16 | e4m3 | e5m2`).join(', ')
  const operands = letters.map((T) => `x${T}: ${T}[m]`).join(', ')
  return `kernel f<${parameters}>(${operands}) -> D: f32[m] {\n  D = ${letters.map((T) => `f32(x${T})`).join(' + ')}\n}\n`
}

export const types = {
  KTL2201: entry<{ name: string; candidates: readonly string[] }>({
    title: 'unknown type',
    explain: `A type is a dtype (${DTYPE_NAMES.join(' ')}) or a type parameter.`,
    wrong: { ktl: 'kernel f(A: fp16[m]) -> D: f16[m] { D = A }\n' },
    right: { ktl: 'kernel f(A: f16[m]) -> D: f16[m] { D = A }\n' },
    word: ({ name, candidates }, at) => ({
      message: `unknown type ${code(name)}`,
      label: 'not a dtype or type parameter',
      ...didYouMean(name, candidates, at, SAME_DTYPE.get(name)),
    }),
  }),
  KTL2203: entry<{ accumulator: string; left: string; right: string; legal: readonly string[] }>({
    title: 'illegal accumulator type',
    explain: 'Each contraction accumulates in one or two types; the first is the default.',
    wrong: { ktl: gemm('bf16', 'bf16', 'f32', ': f16') },
    right: { ktl: gemm('bf16', 'bf16', 'f32', ': f32') },
    word: ({ accumulator, left, right, legal }) => ({
      message: `${left} × ${right} does not accumulate in ${accumulator}`,
      label: 'accumulator',
      help: `it accumulates in ${orList(legal)}`,
    }),
  }),
  KTL2204: entry<{ from: string; to: string; output: string }>({
    title: 'float stored to an integer without a cast',
    explain: 'Float values round and saturate when they become integers, so the cast is written: `i8(x)`.',
    wrong: { ktl: gemm('f16', 'f16', 'i8') },
    right: { ktl: 'kernel f(A: f16[m, k], B: f16[k, n]) -> D: i8[m, n] { D = i8(sum[k](A * B)) }\n' },
    word: ({ from, to, output }) => ({
      message: `${code(output)} is ${to}, but the value is ${from}`,
      label: `${from} value`,
      help: `write the cast: ${code(`${to}(…)`)} rounds to nearest even and saturates`,
    }),
  }),
  KTL2205: entry<{ from: string; to: string; output: string; legal: readonly string[] }>({
    title: 'type that cannot be stored',
    explain:
      'Floats store to any float type; i32 stores to i32, i8, u8, f32, f16 and bf16. Anything else needs a written cast.',
    wrong: { ktl: gemm('i8', 'i8', 'f64') },
    right: { ktl: 'kernel f(A: i8[m, k], B: i8[k, n]) -> D: f64[m, n] { D = f64(sum[k](A * B)) }\n' },
    word: ({ from, to, output, legal }) => ({
      message: `a value of type ${from} cannot be stored to ${code(output)} of type ${to}`,
      label: from,
      notes: [`${from} stores to ${orList(legal)}`],
      help: `write a cast: ${code(`${to}(…)`)}`,
    }),
  }),
  KTL2206: entry<{ alternative: string; owner: string; reason: string | null }>({
    title: 'alternative without an instance',
    explain:
      'Choices that break a type rule are left out of the family. This alternative is left out of every one, so it has no effect.',
    severity: 'warning',
    wrong: { ktl: 'kernel f<T: f16 | u32>(A: T[m, k], B: i8[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }\n' },
    right: { ktl: 'kernel f<T: f16 | bf16>(A: T[m, k], B: i8[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }\n' },
    word: ({ alternative, owner, reason }) => ({
      message: `the alternative ${code(alternative)} of ${code(owner)} is in no instance`,
      label: 'never possible',
      ...(reason !== null && { notes: [reason] }),
      help: 'remove it',
    }),
  }),
  KTL2207: entry<{ kernel: string; reasons: readonly string[] }>({
    title: 'kernel without an instance',
    explain: 'Every combination of the alternatives breaks a type rule.',
    wrong: {
      ktl: 'kernel f<T: f16 | bf16, S: i32>(A: T[m, k], B: T[k, n]) -> D: f32[m, n] { acc: S = sum[k](A * B); D = acc }\n',
    },
    right: {
      ktl: 'kernel f<T: f16 | bf16, S: f32>(A: T[m, k], B: T[k, n]) -> D: f32[m, n] { acc: S = sum[k](A * B); D = acc }\n',
    },
    word: ({ kernel, reasons }) => ({
      message: `no choice of types makes an instance of ${code(kernel)}`,
      label: 'no instance',
      notes: reasons,
    }),
  }),
  KTL2208: entry<{ op: string; left: string; right: string }>({
    title: 'signed and unsigned integers together',
    explain:
      'Arithmetic mixes float types freely (it computes in f32, or f64) and takes integers beside floats as ' +
      'floats, but i32 and u32 have no common type: one of them needs a cast.',
    wrong: { ktl: 'kernel f(A: i32[m], B: u32[m]) -> D: i32[m] { D = A + B }\n' },
    right: { ktl: 'kernel f(A: i32[m], B: u32[m]) -> D: i32[m] { D = A + i32(B) }\n' },
    word: ({ op, left, right }) => ({
      message: `${code(op)} cannot combine ${left} and ${right}`,
      label: `${left} ${op} ${right}`,
      help: `cast one side: ${code(`${left}(…)`)}`,
    }),
  }),
  KTL2209: entry<{ name: string; got: string; expected: string }>({
    title: 'function of the wrong type',
    explain: 'Each function takes certain kinds of values: most take floats, logic takes bools.',
    wrong: { ktl: 'kernel f(A: bool[m]) -> D: f32[m] { D = exp(A) }\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = exp(A) }\n' },
    word: ({ name, got, expected }) => ({
      message: `${code(name)} takes ${expected}, not ${got}`,
      label: got,
    }),
  }),
  KTL2210: entry<{ got: string; where: string }>({
    title: 'condition that is not a bool',
    explain: '`&&`, `||`, `!` and the first argument of `select` take bools: comparisons give them.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = select(A, A, 0) }\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = select(A > 0, A, 0) }\n' },
    word: ({ got, where }) => ({
      message: `${where} takes a bool, not ${got}`,
      label: got,
      help: 'compare it: `x != 0`',
    }),
  }),
  KTL2211: entry<{ text: string; dtype: string }>({
    title: 'literal that does not fit',
    explain: 'A literal takes the type of the other side and must have a value there.',
    wrong: { ktl: 'kernel f(A: i32[m]) -> D: i32[m] { D = A + 3000000000 }\n' },
    right: { ktl: 'kernel f(A: i32[m]) -> D: i32[m] { D = A + 300000000 }\n' },
    word: ({ text, dtype }) => ({
      message: `${code(text)} is not a value of ${dtype}`,
      label: `does not fit ${dtype}`,
    }),
  }),
  KTL2212: entry<{ name: string }>({
    title: 'default value of a tensor',
    explain: 'Only scalars have default values.',
    wrong: { ktl: 'kernel f(A: f32[m] = 1) -> D: f32[m] { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[m], a: f32 = 1) -> D: f32[m] { D = A * a }\n' },
    word: ({ name }) => ({ message: `${code(name)} is a tensor and has no default`, label: 'default value' }),
  }),
  KTL2213: entry<{ name: string; first: string; other: string; firstSpan: Span | null }>({
    title: 'axis orders of different types',
    explain: 'The alternatives of an operand are orders in memory. For several types, use a type parameter.',
    wrong: { ktl: 'kernel f(A: f16[m, k] | bf16[k, m]) -> D: f32[m, k] { D = A }\n' },
    right: { ktl: 'kernel f<T: f16 | bf16>(A: T[m, k] | T[k, m]) -> D: f32[m, k] { D = A }\n' },
    word: ({ name, first, other, firstSpan }) => ({
      message: `the alternatives of ${code(name)} have types ${first} and ${other}`,
      label: other,
      ...(firstSpan && { labels: [{ span: firstSpan, text: first }] }),
      help: `declare a type parameter: ${code(`<T: ${first} | ${other}>`)}`,
    }),
  }),
  KTL2215: entry<{ got: string; operand: string; help: string }>({
    title: 'illegal axes of a scale or zero point',
    explain:
      'Scales and zero points have axes of the data, in the order of the data, each whole, in blocks (`k/32`) or left out: ' +
      '`e4m3[m, k] * ue8m0[m, k/32]`. An element stands for a block along each axis.',
    wrong: { ktl: 'kernel f(A: e4m3[m, k] * f32[k/32, m]) -> D: f32[m, k] { D = A }\n' },
    right: { ktl: 'kernel f(A: e4m3[m, k] * f32[m, k/32]) -> D: f32[m, k] { D = A }\n' },
    word: ({ got, operand, help }) => ({
      message: `${got} in a scale or zero point of ${code(operand)}`,
      label: got,
      help,
    }),
  }),
  KTL2216: entry<{ value: string; claimed: string; actual: string }>({
    title: 'value of another type than written',
    explain:
      '`x: f32 = …` states the type of a value. It chooses the accumulator of a contraction and converts nothing; a cast does.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] {\n  x: f16 = A * 2\n  D = x\n}\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] {\n  x = f16(A * 2)\n  D = x\n}\n' },
    word: ({ value, claimed, actual }) => ({
      message: `${code(value)} is written as ${claimed}, but its value is ${actual}`,
      label: `is ${actual}`,
      help: `write a cast: ${code(`${value} = ${claimed}(…)`)}`,
    }),
  }),
  KTL2217: entry<{ kernel: string; count: number; limit: number }>({
    title: 'too many choices of types',
    explain: 'The alternatives of all type parameters multiply. Each choice is checked, so their number has a limit.',
    wrong: { ktl: sumOfTypes(5) },
    right: { ktl: sumOfTypes(4) },
    word: ({ kernel, count: n, limit }) => ({
      message: `${code(kernel)} has ${n} choices of types, more than ${limit}`,
      label: 'too many type parameters',
      help: 'split the kernel, or leave alternatives out',
    }),
  }),
  KTL2218: entry<{ reason: string; help: string }>({
    title: 'illegal ragged axis',
    explain:
      '`ragged t by off as g`: the rows t of all groups lie one after another, and the i32 operand `off: i32[g]` holds where each ' +
      'group ends. `ragged m upto len as g`: each group has rows m of its own, and `len: i32[g]` says how many count. Operands ' +
      'with axis g are read at the group of the row.',
    wrong: {
      ktl: 'kernel f(A: bf16[t, k], B: bf16[g, k, n], off: f32[g]) -> D: bf16[t, n] ragged t by off as g { D = sum[k](A * B) }\n',
    },
    right: {
      ktl: 'kernel f(A: bf16[t, k], B: bf16[g, k, n], off: i32[g]) -> D: bf16[t, n] ragged t by off as g { D = sum[k](A * B) }\n',
    },
    word: ({ reason, help }) => ({ message: reason, label: 'ragged axis', help }),
  }),
  KTL2219: entry({
    title: 'skip0 that is not a factor',
    explain:
      '`skip0(beta) * C` is C scaled by beta, and C is not even read when beta is 0. Alone, skip0 means nothing.',
    wrong: { ktl: 'kernel f(A: f32[m], b: f32) -> D: f32[m] { D = A + skip0(b) }\n' },
    right: { ktl: 'kernel f(A: f32[m], b: f32) -> D: f32[m] { D = A + skip0(b) * A }\n' },
    word: () => ({
      message: '`skip0(…)` must be a factor of a product',
      label: 'not a factor',
      help: 'write `skip0(beta) * C`',
    }),
  }),
  KTL2220: entry<{ got: string }>({
    title: 'index that is no i32',
    explain:
      'Indices and extents are i32: axes, sizes, i32 scalars, elements of integer operands and what is computed from them.',
    wrong: { ktl: 'kernel f(A: f32[m], to: f32[m]) -> D: f32[m] { D = A[to] }\n' },
    right: { ktl: 'kernel f(A: f32[m], to: i32[m]) -> D: f32[m] { D = A[to] }\n' },
    word: ({ got }) => ({ message: `an index is i32, not ${got}`, label: got, help: 'declare it as i32' }),
  }),
  KTL2221: entry<{ divisor: string; op: string }>({
    title: 'divisor of an index that is not positive',
    explain:
      'Between integers that come from axes, sizes and integer operands, `/` and `%` are floor division and modulus by a positive number.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = A[m / 0] }\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = A[m / 2] }\n' },
    word: ({ divisor, op }) => ({
      message: `${code(op)} of an index takes a positive number, not ${divisor}`,
      label: `divisor ${divisor}`,
      help: 'divide by at least 1',
    }),
  }),
  KTL2222: entry<{ fn: string; axis: string; candidates: readonly string[] }>({
    title: 'group of an axis that is not ragged',
    explain: '`start(t)` and `length(t)` are the first row and the number of rows of a group of the ragged axis t.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = A * f32(m - start(m)) }\n' },
    right: {
      ktl: 'kernel f(A: f32[m] ragged m by off as g, off: i32[g]) -> D: f32[m] { D = A * f32(m - start(m)) }\n',
    },
    word: ({ fn, axis, candidates }, at) => ({
      message: `the axis ${code(axis)} is not ragged, so ${code(fn)} has no group`,
      label: 'no groups',
      ...(candidates.length > 0 ? didYouMean(axis, candidates, at) : { help: 'declare it: `ragged t by off as g`' }),
    }),
  }),
  KTL2223: entry<{ axis: string; previous: Span | null }>({
    title: 'axis that is ragged twice',
    explain:
      'What `ragged` says about an axis holds for the whole kernel, so it is said once, behind any operand that has the axis.',
    wrong: {
      ktl: 'kernel f(A: f32[t] ragged t by off as g, s: f32[g], off: i32[g]) -> D: f32[t] ragged t by off as g { D = A * s }\n',
    },
    right: { ktl: 'kernel f(A: f32[t] ragged t by off as g, s: f32[g], off: i32[g]) -> D: f32[t] { D = A * s }\n' },
    word: ({ axis, previous }) => ({
      message: `the groups of ${code(axis)} are given twice`,
      label: 'given again',
      ...(previous && { labels: [{ span: previous, text: 'first given here' }] }),
      help: 'remove one of them: it holds for all operands',
    }),
  }),
  KTL2224: entry<{ name: string; first: Span | null }>({
    title: 'alternatives with different scales',
    explain:
      'The alternatives of an operand are orders of its data in memory. Each is written with the same scale, zero point and blocks.',
    wrong: { ktl: 'kernel f(A: e4m3[m, k] * f32[m] | e4m3[k, m] * f32[k]) -> D: f32[m, k] { D = A }\n' },
    right: { ktl: 'kernel f(A: e4m3[m, k] * f32[m] | e4m3[k, m] * f32[m]) -> D: f32[m, k] { D = A }\n' },
    word: ({ name, first }) => ({
      message: `the alternatives of ${code(name)} differ in more than the order of the data`,
      label: 'another form',
      ...(first && { labels: [{ span: first, text: 'the first form' }] }),
      help: 'write the same scale, zero point and blocks',
    }),
  }),
  KTL2225: entry<{ operand: string; got: string; legal: readonly string[] }>({
    title: 'type that is no scale',
    explain: 'Scales are f32, f16, bf16, ue8m0 or ue4m3. `floor(…)`, for outputs, is of ue8m0.',
    wrong: { ktl: 'kernel f(A: e4m3[m, k] * e5m2[m, k/32]) -> D: f32[m, k] { D = A }\n' },
    right: { ktl: 'kernel f(A: e4m3[m, k] * ue8m0[m, k/32]) -> D: f32[m, k] { D = A }\n' },
    word: ({ operand, got, legal }) => ({
      message: `${got} is no type of a scale of ${code(operand)}`,
      label: got,
      help: `use ${orList(legal)}`,
    }),
  }),
  KTL2226: entry<{ operand: string; got: string; legal: readonly string[] }>({
    title: 'type that is no zero point',
    explain: 'Zero points have the type of the data, an integer type, or the type of the scale.',
    wrong: { ktl: 'kernel f(A: (u4[m, k] - bf16[m]) * f16[m]) -> D: f32[m, k] { D = A }\n' },
    right: { ktl: 'kernel f(A: (u4[m, k] - u4[m]) * f16[m]) -> D: f32[m, k] { D = A }\n' },
    word: ({ operand, got, legal }) => ({
      message: `${got} is no type of a zero point of ${code(operand)}`,
      label: got,
      help: `use ${orList(legal)}`,
    }),
  }),
  KTL2227: entry<{ operand: string; reason: string; help: string }>({
    title: 'stored form that no kernel writes',
    explain:
      'An output is stored in blocks along one axis, each with a scale of its own, `e4m3[m, n] * ue8m0[m, n/32]`, or with a scale that ' +
      'the caller gives, `e4m3[m, n] * f32`. Zero points and scales of a whole axis need the largest of all values first: ' +
      '`quantize()` computes them.',
    wrong: { ktl: 'kernel f(A: f32[m, n]) -> D: e4m3[m, n] * f32[m] { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[m, n]) -> D: e4m3[m, n] * f32[m, n/128] { D = A }\n' },
    word: ({ operand, reason, help }) => ({
      message: `${code(operand)} cannot be written in that form: ${reason}`,
      label: 'stored form',
      help,
    }),
  }),
  KTL2228: entry<{ axis: string; operand: string; candidates: readonly string[] }>({
    title: 'axis of a scale that the data lack',
    explain: 'The axes of a scale or zero point are axes of the data, or the group axis of a ragged one of them.',
    wrong: { ktl: 'kernel f(A: e4m3[m, k] * f32[n], B: f32[n]) -> D: f32[m, k, n] { D = A * B }\n' },
    right: { ktl: 'kernel f(A: e4m3[m, k] * f32[m], B: f32[n]) -> D: f32[m, k, n] { D = A * B }\n' },
    word: ({ axis, operand, candidates }, at) => ({
      message: `${code(operand)} has no axis ${code(axis)} for its scale`,
      label: 'not an axis of the data',
      ...didYouMean(axis, candidates, at),
    }),
  }),
  KTL2229: entry<{ operand: string; got: string }>({
    title: 'data that are not stored with a scale',
    explain: 'Data with a scale are floats of at most 32 bits or integers of at most 8, which f32 holds exactly.',
    wrong: { ktl: 'kernel f(A: f64[m, k] * f32[m]) -> D: f32[m, k] { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[m, k] * f32[m]) -> D: f32[m, k] { D = A }\n' },
    word: ({ operand, got }) => ({
      message: `${code(operand)} of type ${got} has no scale`,
      label: got,
      help: 'multiply by the scale in the body',
    }),
  }),
  KTL2230: entry<{ operand: string; got: string }>({
    title: 'illegal global scale',
    explain: 'The factor behind the scale is `f32`, one number for the tensor, or `f32[g]`, one for each group.',
    wrong: { ktl: 'kernel f(A: e2m1[m, k] * ue4m3[m, k/16] * f16) -> D: f32[m, k] { D = A }\n' },
    right: { ktl: 'kernel f(A: e2m1[m, k] * ue4m3[m, k/16] * f32) -> D: f32[m, k] { D = A }\n' },
    word: ({ operand, got }) => ({
      message: `${code(got)} is no global scale of ${code(operand)}`,
      label: 'global scale',
      help: 'write `* f32`, or `* f32[g]` for one of each group',
    }),
  }),
  KTL2231: entry<{ name: string; axis: string }>({
    title: 'blocks in the type of data',
    explain: 'Only scales and zero points stand for blocks, `k/32`; data have an element for every position.',
    wrong: { ktl: 'kernel f(A: f32[m, k/32]) -> D: f32[m, k] { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[m, k]) -> D: f32[m, k] { D = A }\n' },
    word: ({ name, axis }, { span }) => ({
      message: `${code(name)} is data, which are not in blocks`,
      label: 'blocks',
      ...(span && { fix: { description: `write ${code(axis)}`, span, replacement: axis } }),
    }),
  }),
}
