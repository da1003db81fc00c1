/** KTL10xx: syntax. */
import { code, count, entry, orList } from './entry.ts'
import type { Span } from '../ast.ts'

/** Takes what the statements use. */
const kernel = (statements: string): string => {
  const operands = ['A', 'B'].filter((name) => new RegExp(`\\b${name}\\b`).test(statements))
  return `kernel f(${operands.map((name) => `${name}: f32[m]`).join(', ')}) -> D: f32[m] {\n${statements.replace(/^/gm, '  ')}\n}\n`
}

/** A program whose D is `depth` parentheses deep. */
const nested = (depth: number): string => kernel(`D = ${'('.repeat(depth)}A${')'.repeat(depth)}`)
const manyOperands = (n: number): string => {
  const names = Array.from({ length: n - 1 }, (_, i) => `a${i}`)
  return `kernel f(${names.map((name) => `${name}: f32[m]`).join(', ')}) -> D: f32[m] {\n  D = ${names.join(' + ')}\n}\n`
}
const manyTerms = (n: number): string => kernel(`D = A${' + A'.repeat(n - 1)}`)

export const syntax = {
  KTL1001: entry<{ text: string; hint?: string }>({
    title: 'character that is not part of the language',
    explain:
      'ktl is written in ASCII: names, numbers, operators and brackets. Anything else may stand in comments ' +
      'only, which begin with `//` (in epilogue strings also with `#`).',
    wrong: { ktl: kernel('D = A @ B') },
    right: { ktl: kernel('D = A * B') },
    word: ({ text, hint }) => ({ message: `unexpected ${text}`, label: 'not part of the language', help: hint }),
  }),
  KTL1002: entry<{ text: string }>({
    title: 'malformed number',
    explain:
      'Numbers are written `2`, `0.5`, `.5`, `1e-3`. A name cannot begin with a digit, and a number carries no suffix.',
    wrong: { ktl: kernel('D = A * 1.5f') },
    right: { ktl: kernel('D = A * 1.5') },
    word: ({ text }) => {
      const number = /^(?:\d+\.?\d*|\.\d+)(?:e\d+)?(?=[a-zA-Z_]+$)/.exec(text)?.[0]
      return {
        message: `${code(text)} is not a number`,
        label: 'malformed number',
        help:
          number === undefined ? 'write numbers as 2, 0.5 or 1e-3' : `write ${code(number)}: numbers carry no suffix`,
      }
    },
  }),
  KTL1003: entry<{ expected: string; found: string; help?: string }>({
    title: 'unexpected token',
    explain:
      'The text does not follow the grammar (grammar/ktl.ebnf). The message says what could have stood at this place.',
    wrong: { ktl: kernel('D = A + * B') },
    right: { ktl: kernel('D = A + B') },
    word: ({ expected, found, help }) => ({
      message: `expected ${expected}, found ${found}`,
      ...(help !== undefined && { help }),
    }),
  }),
  KTL1004: entry<{ word: string }>({
    title: 'keyword used as a name',
    explain:
      'Keywords, and the numbers `inf` and `nan`, cannot name kernels, operands, parameters or variables. They may name axes.',
    wrong: { ktl: 'kernel f(by: f32[m]) -> D: f32[m] { D = by }\n' },
    right: { ktl: 'kernel f(A: f32[by]) -> D: f32[by] { D = A }\n' },
    word: ({ word }) => ({
      message: `${code(word)} is a keyword and cannot be used as a name here`,
      label: 'keyword',
      help: `choose another name, for example ${code(`${word}_`)}`,
    }),
  }),
  KTL1005: entry<{ open: string; close: string; at: number }>({
    title: 'bracket that is never closed',
    explain:
      'Every `(`, `[` and `{` needs its partner. A `{` ends at the latest before the next kernel, epilogue or schedule.',
    wrong: { ktl: kernel('D = (A + B') },
    right: { ktl: kernel('D = (A + B)') },
    word: ({ open, close, at }) => ({
      message: `this ${code(open)} is never closed`,
      label: 'opened here',
      fix: { description: `add ${code(close)}`, span: { start: at, end: at }, replacement: close },
    }),
  }),
  KTL1006: entry<{ close: string }>({
    title: 'closing bracket without an opening one',
    explain: 'A `)`, `]` or `}` closes a bracket that was opened before it, in the right order.',
    wrong: { ktl: kernel('D = A + B)') },
    right: { ktl: kernel('D = A + B') },
    word: ({ close }, { span }) => ({
      message: `this ${code(close)} closes nothing`,
      label: 'no matching bracket',
      ...(span && { fix: { description: `remove ${code(close)}`, span, replacement: '' } }),
    }),
  }),
  KTL1007: entry<{ operator: string }>({
    title: 'line that ends with an operator',
    explain:
      'A newline ends a statement unless the next line begins with a binary operator, `|`, `->`, `,` or a ' +
      'closing bracket. Begin the next line with the operator, or put the expression in parentheses, where ' +
      'newlines are blanks.',
    wrong: { ktl: kernel('D = A +\n  B') },
    right: { ktl: kernel('D = A\n  + B') },
    word: ({ operator }) => ({
      message: `the line ends with ${code(operator)}, and a newline ends the statement`,
      label: 'right operand missing',
      help: `begin the next line with ${code(operator)}, or put the expression in parentheses`,
    }),
  }),
  KTL1008: entry<{ first: string; second: string; firstSpan: Span }>({
    title: 'comparison of a comparison',
    explain: 'Comparisons do not chain: `a < b < c` would compare a bool with c. Write `a < b && b < c`.',
    wrong: { ktl: kernel('D = select(0 < A < 1, A, B)') },
    right: { ktl: kernel('D = select(0 < A && A < 1, A, B)') },
    word: ({ first, second, firstSpan }) => ({
      message: `comparisons do not chain: ${code(second)} after ${code(first)}`,
      label: 'second comparison',
      labels: [{ span: firstSpan, text: 'first comparison' }],
      help: 'join two comparisons with `&&`, or use parentheses',
    }),
  }),
  KTL1009: entry<{ text: string }>({
    title: 'schedule value outside a schedule',
    explain: '`128x64`, `2x1` and `2cta` are values of schedule entries and nothing else.',
    wrong: { ktl: kernel('D = A * 16x16') },
    right: { ktl: `${kernel('D = A * 16')}schedule f on simt { tile 16x16 }\n` },
    word: ({ text }) => ({
      message: `${code(text)} has a meaning in schedules only`,
      label: 'schedule value',
      help: /x/.test(text) ? `for a product write ${code(text.split('x').join(' * '))}` : undefined,
    }),
  }),
  KTL1010: entry<{ owner: 'kernel' | 'epilogue' | 'string' }>({
    title: 'expression that is not assigned',
    explain:
      'In kernels and declared epilogues every statement is an equation, `name = expression`. Only the last ' +
      'statement of an epilogue string may be a bare expression: it is the output.',
    wrong: { ktl: kernel('A + B') },
    right: { ktl: kernel('D = A + B') },
    word: ({ owner }) => ({
      message: 'the value of this expression goes nowhere',
      label: 'not assigned',
      help:
        owner === 'string'
          ? 'only the last statement may be a bare expression: assign this one, `x = …`'
          : 'assign it to an output or a new name: `D = …`',
    }),
  }),
  KTL1011: entry({
    title: '`return` in a kernel',
    explain: 'Kernels assign to their outputs by name. `return` belongs to epilogues.',
    wrong: { ktl: kernel('return A + B') },
    right: { ktl: kernel('D = A + B') },
    word: () => ({
      message: '`return` stands in epilogues only',
      label: 'in a kernel',
      help: 'assign to the output by its name: `D = …`',
    }),
  }),
  KTL1012: entry({
    title: '`**` for power',
    explain: 'Power is written `^`. `**` is read in epilogue strings only, for the sake of Python users.',
    wrong: { ktl: kernel('D = A ** 2') },
    right: { ktl: kernel('D = A^2') },
    word: (_, { span }) => ({
      message: 'power is written `^`',
      label: 'not an operator of ktl',
      ...(span && { fix: { description: 'use `^`', span, replacement: '^' } }),
    }),
  }),
  KTL1013: entry<{ name: string; count: number }>({
    title: 'reduction of several values',
    explain:
      'A reduction `sum[k](x)` takes one value. Without `[axes]`, `min` and `max` are elementwise functions of two.',
    wrong: { ktl: 'kernel f(A: f32[m, k], B: f32[m, k]) -> D: f32[m] { D = sum[k](A, B) }\n' },
    right: { ktl: 'kernel f(A: f32[m, k], B: f32[m, k]) -> D: f32[m] { D = sum[k](A + B) }\n' },
    word: ({ name, count: n }) => ({
      message: `the reduction ${code(name)} takes one value, not ${n}`,
      label: `${count(n, 'value')} given`,
      help: `write ${code(`${name}[axis](value)`)}`,
    }),
  }),
  KTL1014: entry<{ text: string }>({
    title: 'number out of range',
    explain: 'Digits must mean a finite number in double precision, below about 1.8e308. Infinity is written `inf`.',
    wrong: { ktl: kernel('D = A * 1e999') },
    right: { ktl: kernel('D = A * 1e30') },
    word: ({ text }) => ({ message: `${code(text)} is larger than any f64`, label: 'not finite' }),
  }),
  KTL1015: entry<{ returnSpan: Span }>({
    title: 'statement after `return`',
    explain: '`return` ends an epilogue. What follows could never have an effect.',
    wrong: { epilogue: 'def f(acc):\n  return acc\n  D = acc\n' },
    right: { epilogue: 'def f(acc):\n  D = acc\n  return D\n' },
    word: ({ returnSpan }) => ({
      message: 'nothing can follow `return`',
      label: 'never reached',
      labels: [{ span: returnSpan, text: 'the epilogue ends here' }],
    }),
  }),
  KTL1016: entry({
    title: 'empty epilogue',
    explain:
      'An epilogue string is an expression, statements, or a `def`. For no epilogue at all, leave the argument out.',
    wrong: { epilogue: '  ' },
    right: { epilogue: 'acc' },
    word: () => ({ message: 'the epilogue is empty', help: 'write an expression of `acc`, such as `relu(acc)`' }),
  }),
  KTL1017: entry({
    title: 'floor division',
    explain: '`//` is Python’s floor division, which ktl does not have. In `.ktl` files `//` begins a comment.',
    wrong: { epilogue: 'def f(acc):\n  return acc // 2\n' },
    right: { epilogue: 'def f(acc):\n  return floor(acc / 2)\n' },
    word: () => ({
      message: 'there is no floor division',
      label: 'not an operator of ktl',
      help: 'write `floor(a / b)`',
    }),
  }),
  KTL1018: entry<{ left: number }>({
    title: 'more errors than are shown',
    explain: 'After a number of errors the rest is counted only. Fix the first ones and try again.',
    severity: 'note',
    wrong: { call: "loadKtl({ source: 'kernel\\n'.repeat(60) })" },
    right: { call: "loadKtl({ source: 'kernel f(A: f32[m]) -> D: f32[m] { D = A }\\n' })" },
    word: ({ left }) => ({ message: `${count(left, 'more error')} not shown` }),
  }),
  KTL1019: entry<{ text: string }>({
    title: 'integer that is not exact',
    explain:
      'Integer literals must be below 2^53, where every integer is exact. Write a larger number with an exponent.',
    wrong: { ktl: kernel('D = A * 9007199254740993') },
    right: { ktl: kernel('D = A * 9.007199254740993e15') },
    word: ({ text }) => ({
      message: `the integer ${code(text)} is too large to be exact`,
      label: 'above 2^53',
      help: 'write it as a decimal number with an exponent',
    }),
  }),
  KTL1020: entry<{ size: number; limit: number }>({
    title: 'source too large',
    explain: 'A source may have 1 MiB (1,048,576 characters).',
    wrong: { call: "loadKtl({ source: '// a comment\\n'.repeat(100_000) })" },
    right: { call: "loadKtl({ source: '// a comment\\n'.repeat(50_000) })" },
    word: ({ size, limit }) => ({
      message: `the source has ${size} characters; the limit is ${limit}`,
      help: 'split it into several files',
    }),
  }),
  KTL1021: entry<{ limit: number }>({
    title: 'nesting too deep',
    explain: 'Brackets and prefix operators may nest 200 deep. Name intermediate values to flatten an expression.',
    wrong: { ktl: nested(201) },
    right: { ktl: nested(199) },
    word: ({ limit }) => ({
      message: `nesting is deeper than ${limit}`,
      label: 'too deep here',
      help: 'give intermediate values names',
    }),
  }),
  KTL1022: entry<{ count: number; limit: number }>({
    title: 'too many operands',
    explain: 'A kernel may have 64 inputs and outputs together, an epilogue 64 parameters.',
    wrong: { ktl: manyOperands(65) },
    right: { ktl: manyOperands(64) },
    word: ({ count: n, limit }) => ({ message: `${n} operands; the limit is ${limit}`, label: 'one too many' }),
  }),
  KTL1023: entry<{ count: number; limit: number }>({
    title: 'too many axes',
    explain: 'An operand may have 8 axes, and a read of it as many indices.',
    wrong: { ktl: 'kernel f(A: f32[a, b, c, d, e, f, g, h, i]) -> D: f32[a] { D = sum[b, c, d, e, f, g, h, i](A) }\n' },
    right: { ktl: 'kernel f(A: f32[a, b, c, d, e, f, g, h]) -> D: f32[a] { D = sum[b, c, d, e, f, g, h](A) }\n' },
    word: ({ count: n, limit }) => ({ message: `${n} axes; the limit is ${limit}`, label: 'one too many' }),
  }),
  KTL1024: entry<{ limit: number }>({
    title: 'expressions too large',
    explain: 'The expressions of one kernel or epilogue may have 4,096 nodes (names, literals, operators) together.',
    wrong: { ktl: manyTerms(2050) },
    right: { ktl: manyTerms(2048) },
    word: ({ limit }) => ({
      message: `the expressions of this kernel or epilogue have more than ${limit} nodes`,
      label: 'the limit is passed in this expression',
    }),
  }),
  KTL1025: entry<{ expected: readonly string[]; found: string; suggestion: string | null }>({
    title: 'not the beginning of an item',
    explain: 'A file is a sequence of kernels, epilogues and schedules; nothing else stands outside their braces.',
    wrong: { ktl: 'kernal f(A: f32[m]) -> D: f32[m] { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = A }\n' },
    word: ({ expected, found, suggestion }, { span }) => ({
      message: `expected ${orList(expected.map(code))}, found ${found}`,
      label: 'an item begins here',
      ...(suggestion !== null && {
        help: `did you mean ${code(suggestion)}?`,
        ...(span && { fix: { description: `write ${code(suggestion)}`, span, replacement: suggestion } }),
      }),
    }),
  }),
  KTL1026: entry<{ name: string | null; from: number; join: boolean }>({
    title: '`else` that is not behind a read with indices',
    explain:
      '`X[i, j] else 0` is a read that gives 0 where its indices leave `X`. `else` stands directly behind the `]`; a ' +
      'choice between two values is written `select(condition, a, b)`.',
    wrong: { ktl: kernel('D = A else 0') },
    right: { ktl: kernel('D = select(A > 0, A, 0)') },
    word: ({ name, from, join }, { span }) => ({
      message: join
        ? '`else` stands on the line of its read'
        : name === null
          ? '`else` stands behind a read with indices only'
          : `${code(name)} is read at its own axes, none of which leaves it`,
      label: join ? 'a newline ends the statement' : 'not behind `]`',
      ...(!join && { help: 'give the read indices, `X[m - 1] else 0`; a choice is written `select(condition, a, b)`' }),
      ...(span && {
        fix: join
          ? { description: 'join the lines', span: { start: from, end: span.start }, replacement: ' ' }
          : { description: 'remove `else`', span: { start: from, end: span.end }, replacement: '' },
      }),
    }),
  }),
  KTL1027: entry<{ dtype: string }>({
    title: 'scale without data',
    explain:
      'A stored form begins with the data and their axes, `e4m3[m, k] * ue8m0[m, k/32]`. A scalar is stored as it is.',
    wrong: { ktl: 'kernel f(A: f32[m], s: e4m3 * f32) -> D: f32[m] { D = A * s }\n' },
    right: { ktl: 'kernel f(A: e4m3[m] * f32) -> D: f32[m] { D = A }\n' },
    word: ({ dtype }) => ({
      message: `${code(dtype)} without axes is a scalar, which has no scale`,
      label: 'no data to scale',
      help: `give the data their axes, such as ${code(`${dtype}[m, k]`)}`,
    }),
  }),
  KTL1028: entry<{ dtype: string }>({
    title: '`floor` of what is not a scale',
    explain:
      '`floor(ue8m0[m, k/32])` is a scale with axes, which an output rounds down to a power of two. Data, zero points and ' +
      'the global scale have no such choice.',
    wrong: { ktl: 'kernel f(A: floor(f16[m])) -> D: f16[m] { D = A }\n' },
    right: { ktl: 'kernel f(A: f16[m, n]) -> D: e4m3[m, n] * floor(ue8m0[m, n/32]) { D = A }\n' },
    word: ({ dtype }) => ({
      message: `${code(dtype)} is not a scale here, and only scales take \`floor\``,
      label: 'not a scale',
      help: 'the scale follows the data: `e4m3[m, n] * floor(ue8m0[m, n/32])`',
    }),
  }),
  KTL1029: entry<{ zero: Span }>({
    title: 'zero points without a scale',
    explain: 'Zero points belong to a scale: `(u4[k, n] - u4[k/128, n]) * f16[k/128, n]`.',
    wrong: { ktl: 'kernel f(A: (u8[m, n] - u8[n])) -> D: f32[m, n] { D = A }\n' },
    right: { ktl: 'kernel f(A: u8[m, n], zero: u8[n]) -> D: f32[m, n] { D = f32(A) - f32(zero) }\n' },
    word: ({ zero }) => ({
      message: 'the zero points have no scale',
      label: 'no scale follows',
      labels: [{ span: zero, text: 'the zero points' }],
      help: 'add the scale: `(u4[k, n] - u4[k/128, n]) * f16[k/128, n]`',
    }),
  }),
  KTL1030: entry<{ global: Span | null }>({
    title: 'factor too many in a stored form',
    explain:
      'Data have at most one scale with axes and, behind it, one global scale: `data * scale * f32`, or `f32[g]` with one for ' +
      'each group.',
    wrong: { ktl: 'kernel f(A: e4m3[m, k] * f32 * ue8m0[m, k/32]) -> D: f32[m, k] { D = A }\n' },
    right: { ktl: 'kernel f(A: e4m3[m, k] * ue8m0[m, k/32] * f32) -> D: f32[m, k] { D = A }\n' },
    word: ({ global }) => ({
      message: 'nothing can follow the global scale',
      label: 'one factor too many',
      ...(global && { labels: [{ span: global, text: 'the global scale' }] }),
      help: 'write the data, the scale with axes, the global scale: `e2m1[m, k] * ue4m3[m, k/16] * f32`',
    }),
  }),
  KTL1031: entry({
    title: '`ragged` without `by` or `upto`',
    explain:
      '`ragged t by off as g`: groups g lie behind one another along t, and `off[g]` says where each ends. ' +
      '`ragged m upto len as g`: every group has rows of its own, of which `len[g]` count.',
    wrong: { ktl: 'kernel f(A: f32[t, n], s: f32[g], off: i32[g]) -> D: f32[t, n] ragged t as g { D = A * s }\n' },
    right: {
      ktl: 'kernel f(A: f32[t, n], s: f32[g], off: i32[g]) -> D: f32[t, n] ragged t by off as g { D = A * s }\n',
    },
    word: () => ({
      message: 'the ragged axis does not say where its groups end',
      label: 'expected `by` or `upto`',
      help: 'write `ragged t by off as g` for groups behind one another, `ragged m upto len as g` for padded ones',
    }),
  }),
  KTL1032: entry<{ axis: string }>({
    title: 'axis without an extent',
    explain: '`axis j = size(h) / size(hk)` gives the extent of an axis that no operand declares.',
    wrong: { ktl: kernel('axis j\nD = A') },
    right: { ktl: kernel('D = A') },
    word: ({ axis }) => ({
      message: `the axis ${code(axis)} has no extent`,
      label: 'no `=` and value',
      help: `write ${code(`axis ${axis} = size(m) / 2`)}; axes of operands are not declared again`,
    }),
  }),
  KTL1033: entry<{ name: string; reduction: boolean }>({
    title: 'empty list of indices',
    explain:
      'A read has one index for each axis of its operand, and a reduction names the axes that it runs over. Without ' +
      'brackets an operand is read at its own axes.',
    wrong: { ktl: kernel('D = A[]') },
    right: { ktl: kernel('D = A') },
    word: ({ name, reduction }, { span }) => ({
      message: `the brackets of ${code(name)} are empty`,
      label: reduction ? 'no axis' : 'no index',
      ...(reduction && { help: `name the axes that it runs over: ${code(`${name}[k](value)`)}` }),
      ...(!reduction && span && { fix: { description: 'remove the brackets', span, replacement: '' } }),
    }),
  }),
  KTL1034: entry<{ axis: string }>({
    title: 'axis statement outside a kernel',
    explain: 'Kernels give extents of axes, `axis j = size(h) / size(hk)`. Epilogues have the axes of their kernel.',
    wrong: { epilogue: 'axis j = 4; acc' },
    right: { epilogue: 'acc' },
    word: ({ axis }) => ({
      message: `an epilogue cannot give ${code(axis)} an extent`,
      label: 'in an epilogue',
      help: 'move the statement into the kernel',
    }),
  }),
  KTL1035: entry<{ name: string }>({
    title: 'reduction over an expression',
    explain: 'A reduction `sum[k](x)` runs over axes, which have names. Indices with operators belong to reads.',
    wrong: { ktl: 'kernel f(A: f32[m, k]) -> D: f32[m] { D = sum[k / 2](A) }\n' },
    right: { ktl: 'kernel f(A: f32[m, k]) -> D: f32[m] { D = sum[k](A) }\n' },
    word: ({ name }) => ({
      message: `${code(name)} runs over axes, and this is an expression`,
      label: 'not the name of an axis',
      help: `write ${code(`${name}[axis](value)`)}`,
    }),
  }),
}
