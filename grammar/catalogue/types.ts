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
  KTL2202: entry<{ left: string; right: string; legal: readonly string[] }>({
    title: 'illegal contraction',
    explain: 'The machine multiplies certain pairs of types only. The message lists the pairs and their accumulators.',
    wrong: { ktl: gemm('f16', 'bf16', 'f32') },
    right: { ktl: gemm('bf16', 'bf16', 'f32') },
    word: ({ left, right, legal }) => ({
      message: `no contraction multiplies ${left} by ${right}`,
      label: `${left} × ${right}`,
      notes: [`legal pairs: ${legal.join(', ')}`],
      help: 'give both operands one of these types; a cast of an operand makes it no contraction',
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
    wrong: { ktl: 'kernel f<T: f16 | u32>(A: T[m, k], B: T[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }\n' },
    right: { ktl: 'kernel f<T: f16 | bf16>(A: T[m, k], B: T[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }\n' },
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
    wrong: { ktl: 'kernel f<T: f16 | bf16>(A: T[m, k], B: u32[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }\n' },
    right: { ktl: 'kernel f<T: f16 | bf16>(A: T[m, k], B: T[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }\n' },
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
  KTL2215: entry<{ got: string; operand: string }>({
    title: 'illegal block scale',
    explain:
      'Block scales have type ue8m0 or ue4m3 and the axes of the data, one of them divided by the block: `e4m3[m, k] * ue8m0[m, k/32]`.',
    wrong: { ktl: 'kernel f(A: e4m3[m, k] * f32[m, k/32], B: e4m3[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }\n' },
    right: {
      ktl: 'kernel f(A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[k, n] * ue8m0[k/32, n]) -> D: f32[m, n] { D = sum[k](A * B) }\n',
    },
    word: ({ got, operand }) => ({
      message: `${got} is not a block scale of ${code(operand)}`,
      label: 'scale',
      help: 'write `* ue8m0[m, k/32]` or `* ue4m3[m, k/16]`',
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
      '`D: T[t, n] ragged t by off as g`: the rows t of all groups lie one after another, the i32 operand `off: ' +
      'i32[g]` holds where each group ends, and the operands of a group are chosen by axis g.',
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
}
