/** KTL20xx: names and axes. */
import type { Span } from '../ast.ts'
import { FORMULAS, SAME_DTYPE, SAME_FUNCTION } from '../aliases.ts'
import { suggest } from '../suggest.ts'
import { FUNCTION_NAMES } from '../vocabulary.ts'
import { code, count, entry, orList, type Place, type Wording } from './entry.ts'

/** Help and fix for a misspelt name, or one that is `known` to be another's. */
export function didYouMean(
  name: string,
  candidates: readonly string[],
  { span }: Place,
  known?: string,
): Pick<Wording, 'help' | 'fix'> {
  const found = known ?? suggest(name, candidates)
  if (found === null)
    return candidates.length > 0 && candidates.length <= 12 ? { help: `known: ${candidates.join(', ')}` } : {}
  return {
    help: `did you mean ${code(found)}?`,
    ...(span && { fix: { description: `write ${code(found)}`, span, replacement: found } }),
  }
}

/** A kernel whose epilogue calls another one, and so on, so many times. */
function chainOfEpilogues(n: number): string {
  const declarations = Array.from({ length: n }, (_, i) => {
    const inner = i === 0 ? 'x' : `e${i - 1}(x)`
    return `epilogue e${i}(x) -> D { D = ${inner} + 1 }`
  })
  return [...declarations, `kernel f(A: f32[m]) -> D: f32[m] { D = e${n - 1}(A) }`, ''].join('\n')
}

const list = (axes: readonly string[]): string => `[${axes.join(', ')}]`
const elsewhere = (span: Span | null, text: string): Pick<Wording, 'labels'> =>
  span === null ? {} : { labels: [{ span, text }] }

const GEMM = 'kernel f(A: f16[m, k], B: f16[k, n]) -> D: f32[m, n]'

export const names = {
  KTL2001: entry<{ name: string; candidates: readonly string[] }>({
    title: 'unknown name',
    explain: 'A name in an expression must be an operand, a scalar, an axis, or a value that was assigned above.',
    wrong: { ktl: `${GEMM} { D = sum[k](A * C) }\n` },
    right: { ktl: `${GEMM} { D = sum[k](A * B) }\n` },
    word: ({ name, candidates }, at) => ({
      message: `unknown name ${code(name)}`,
      label: 'not declared',
      ...didYouMean(name, candidates, at),
    }),
  }),
  KTL2002: entry<{ name: string; what: string; previous: Span | null }>({
    title: 'name declared twice',
    explain: 'Kernels, epilogues, operands, parameters and type parameters each need a name of their own.',
    wrong: { ktl: 'kernel f(A: f32[m], A: f32[m]) -> D: f32[m] { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[m], B: f32[m]) -> D: f32[m] { D = A + B }\n' },
    word: ({ name, what, previous }) => ({
      message: `${what} ${code(name)} is declared twice`,
      label: 'declared again',
      ...elsewhere(previous, 'first declared here'),
    }),
  }),
  KTL2003: entry<{
    name: string
    role: 'function' | 'reduction' | 'dtype' | 'keyword' | 'accumulator' | 'property of every object'
  }>({
    title: 'reserved name',
    explain:
      'Names of functions, dtypes and keywords are reserved, but for axes. Nothing can have the name of a property that every ' +
      'JavaScript object has (`constructor`, `toString`, `__proto__`): arguments are passed as fields of objects.',
    wrong: { ktl: 'kernel f(exp: f32[m]) -> D: f32[m] { D = exp }\n' },
    right: { ktl: 'kernel f(x: f32[exp]) -> D: f32[exp] { D = x }\n' },
    word: ({ name, role }) => ({
      message: `${code(name)} is the name of a ${role}`,
      label: 'reserved',
      help: `choose another name, for example ${code(`${name}_`)}`,
    }),
  }),
  KTL2004: entry<{ name: string; candidates: readonly string[] }>({
    title: 'unknown function',
    explain:
      `Functions are ${FUNCTION_NAMES.join(' ')}, dtypes (casts), and the epilogues of this file. ` +
      'What numpy and PyTorch call otherwise gets the name, or a formula, that ktl has for it.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = where(A > 0, A, 0) }\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = select(A > 0, A, 0) }\n' },
    word: ({ name, candidates }, at) => {
      const span = at.span && { start: at.span.start, end: at.span.start + name.length }
      const formula = FORMULAS.get(name)
      const known = SAME_FUNCTION.get(name) ?? SAME_DTYPE.get(name)
      return {
        message: `unknown function ${code(name)}`,
        label: 'not a function',
        ...(formula ? { help: `write ${code(formula)}` } : didYouMean(name, candidates, { ...at, span }, known)),
      }
    },
  }),
  KTL2005: entry<{ axis: string; candidates: readonly string[] }>({
    title: 'unknown axis',
    explain:
      'An axis in `sum[k]`, `size(k)`, `ragged` or an annotation must be an axis of some operand, or one that `axis j = …` adds.',
    wrong: { ktl: `${GEMM} { D = sum[q](A * B) }\n` },
    right: { ktl: `${GEMM} { D = sum[k](A * B) }\n` },
    word: ({ axis, candidates }, at) => ({
      message: `unknown axis ${code(axis)}`,
      label: 'no operand has this axis',
      ...didYouMean(axis, candidates, at),
    }),
  }),
  KTL2006: entry<{ axis: string; output: string }>({
    title: 'output axis of unknown extent',
    explain:
      'The extent of an axis comes from the inputs, or from an output along whose positions the body computes: `D = A[m / 2]` with D[m]. An output axis that neither an input nor the body has would only repeat values.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m, n] { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[m], B: f32[n]) -> D: f32[m, n] { D = A * B }\n' },
    word: ({ axis, output }) => ({
      message: `axis ${code(axis)} of ${code(output)} is an axis of no input`,
      label: 'extent unknown',
      help: `give an input the axis ${code(axis)}, or leave it out of ${code(output)}`,
    }),
  }),
  KTL2007: entry<{ axes: readonly string[]; target: string; targetSpan: Span | null }>({
    title: 'implicit reduction',
    explain:
      'A value has axes that the output lacks. ktl never sums silently: write the reduction, `sum[k](…)`, or give the output the axis.',
    wrong: { ktl: `${GEMM} { D = A * B }\n` },
    right: { ktl: `${GEMM} { D = sum[k](A * B) }\n` },
    word: ({ axes, target, targetSpan }) => ({
      message: `the value has ${axes.length === 1 ? 'axis' : 'axes'} ${orList(axes.map(code), 'and')}, which ${code(target)} lacks`,
      label: 'a reduction must be written',
      ...elsewhere(targetSpan, 'assigned to this'),
      help: `reduce it: ${code(`sum${list(axes)}(…)`)}`,
    }),
  }),
  KTL2008: entry<{ name: string; what: string }>({
    title: 'unused name',
    explain: 'An operand, parameter or value has no use. Callers would have to pass it for nothing.',
    severity: 'warning',
    wrong: { ktl: 'kernel f(A: f32[m], B: f32[m]) -> D: f32[m] { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[m], B: f32[m]) -> D: f32[m] { D = A + B }\n' },
    word: ({ name, what }) => ({
      message: `${what} ${code(name)} is never used`,
      label: 'unused',
      help: 'use it or remove it',
    }),
  }),
  KTL2009: entry<{ name: string }>({
    title: 'unused type parameter',
    explain: 'A type parameter that no operand uses multiplies the instances of the kernel without changing any.',
    severity: 'warning',
    wrong: { ktl: 'kernel f<T: f16 | f32>(A: f32[m]) -> D: f32[m] { D = A }\n' },
    right: { ktl: 'kernel f<T: f16 | f32>(A: T[m]) -> D: T[m] { D = A }\n' },
    word: ({ name }) => ({
      message: `type parameter ${code(name)} is never used`,
      label: 'unused',
      help: 'use it or remove it',
    }),
  }),
  KTL2010: entry<{ name: string; previous: Span | null }>({
    title: 'second assignment',
    explain: 'Every name is assigned once. Equations state what a value is; they do not change it.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] {\n  D = A\n  D = D * 2\n}\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] {\n  x = A\n  D = x * 2\n}\n' },
    word: ({ name, previous }) => ({
      message: `${code(name)} is assigned a second time`,
      label: 'assigned again',
      ...elsewhere(previous, 'first assigned here'),
      help: 'give the new value a name of its own',
    }),
  }),
  KTL2011: entry<{ output: string }>({
    title: 'output without an equation',
    explain: 'Every output needs one equation that says what it is.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> (D: f32[m], F: f32[m]) { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> (D: f32[m], F: f32[m]) {\n  D = A\n  F = -A\n}\n' },
    word: ({ output }) => ({
      message: `the output ${code(output)} is never assigned`,
      label: 'no equation',
      help: `add ${code(`${output} = …`)}`,
    }),
  }),
  KTL2012: entry<{ name: string; declared: Span | null }>({
    title: 'assignment to an input',
    explain: 'Inputs are read only. To update a tensor in place, pass the same tensor as input and as output.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] {\n  A = 2\n  D = A\n}\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] {\n  x = 2\n  D = A * x\n}\n' },
    word: ({ name, declared }) => ({
      message: `${code(name)} is an input and cannot be assigned`,
      label: 'assigned here',
      ...elsewhere(declared, 'declared as an input'),
    }),
  }),
  KTL2013: entry<{ name: string; assigned: Span | null }>({
    title: 'use before assignment',
    explain: 'Equations are read from top to bottom; a value is known below the equation that names it.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] {\n  D = x * 2\n  x = A\n}\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] {\n  x = A\n  D = x * 2\n}\n' },
    word: ({ name, assigned }) => ({
      message: `${code(name)} is used before it is assigned`,
      label: 'not known yet',
      ...elsewhere(assigned, 'assigned only here'),
      help: 'move the equation up',
    }),
  }),
  KTL2014: entry<{ targets: number; values: number; callee: string | null }>({
    title: 'tuple of the wrong size',
    explain: 'A tuple on the left takes the outputs of one epilogue, as many as it has and in their order.',
    wrong: {
      ktl: `epilogue two(acc) -> (D, F) {\n  D = acc\n  F = -acc\n}\nkernel f(A: f32[m]) -> D: f32[m] { D = two(A) }\n`,
    },
    right: {
      ktl: `epilogue two(acc) -> (D, F) {\n  D = acc\n  F = -acc\n}\nkernel f(A: f32[m]) -> (D: f32[m], F: f32[m]) { (D, F) = two(A) }\n`,
    },
    word: ({ targets, values, callee }) => ({
      message: `${count(targets, 'name')} on the left, ${count(values, 'value')} on the right`,
      label:
        callee === null ? 'a tuple takes the outputs of an epilogue' : `${code(callee)} has ${count(values, 'output')}`,
    }),
  }),
  KTL2015: entry<{ name: string; min: number; max: number; got: number; declared: Span | null }>({
    title: 'wrong number of arguments for an epilogue',
    explain: 'An epilogue is called with its parameters in order; those with defaults may be left out at the end.',
    wrong: { ktl: 'epilogue e(acc, C) -> D { D = acc + C }\nkernel f(A: f32[m]) -> D: f32[m] { D = e(A) }\n' },
    right: { ktl: 'epilogue e(acc, C = 1) -> D { D = acc + C }\nkernel f(A: f32[m]) -> D: f32[m] { D = e(A) }\n' },
    word: ({ name, min, max, got, declared }) => ({
      message: `${code(name)} takes ${min === max ? count(max, 'argument') : `${min} to ${max} arguments`}, got ${got}`,
      label: count(got, 'argument'),
      ...elsewhere(declared, 'declared here'),
    }),
  }),
  KTL2016: entry<{ name: string; usage: string; got: number }>({
    title: 'wrong number of arguments for a function',
    explain: 'Each function of the language takes a fixed number of arguments.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = clamp(A, 0) }\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = clamp(A, 0, 1) }\n' },
    word: ({ name, usage, got }) => ({
      message: `${code(name)} does not take ${count(got, 'argument')}`,
      label: count(got, 'argument'),
      help: `write ${code(usage)}`,
    }),
  }),
  KTL2017: entry<{ name: string; axes: readonly string[]; previousAxes: readonly string[]; previous: Span | null }>({
    title: 'annotations that disagree',
    explain: 'All uses of a name in an epilogue string must carry the same axes.',
    wrong: { epilogue: 'acc * s[m] + s[n]' },
    right: { epilogue: 'acc * s[m] + s[m]' },
    word: ({ name, axes, previousAxes, previous }) => ({
      message: `${code(name)} is annotated ${list(axes)} here and ${list(previousAxes)} before`,
      label: list(axes),
      ...elsewhere(previous, list(previousAxes)),
    }),
  }),
  KTL2018: entry<{ name: string; missing: readonly string[]; extra: readonly string[]; first: Span | null }>({
    title: 'axis orders with different axes',
    explain: 'Further alternatives of an operand are memory orders of the same tensor: the same axes in another order.',
    wrong: { ktl: 'kernel f(A: f32[m, k] | f32[m, n]) -> D: f32[m, k] { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[m, k] | f32[k, m]) -> D: f32[m, k] { D = A }\n' },
    word: ({ name, missing, extra, first }) => ({
      message: `the alternatives of ${code(name)} have different axes`,
      label: [
        ...(missing.length > 0 ? [`${orList(missing.map(code), 'and')} missing`] : []),
        ...(extra.length > 0 ? [`${orList(extra.map(code), 'and')} not in the first`] : []),
      ].join('; '),
      ...elsewhere(first, 'the logical order'),
    }),
  }),
  KTL2019: entry<{ axis: string; name: string }>({
    title: 'axis repeated in one operand',
    explain: 'The axes of an operand, target or reduction are different from each other.',
    wrong: { ktl: 'kernel f(A: f32[m, m]) -> D: f32[m] { D = sum[m](A) }\n' },
    right: { ktl: 'kernel f(A: f32[m, k]) -> D: f32[m] { D = sum[k](A) }\n' },
    word: ({ axis, name }) => ({ message: `axis ${code(axis)} appears twice in ${code(name)}`, label: 'again' }),
  }),
  KTL2020: entry<{ axis: string; name: string; optional: boolean; other: string; previous: Span | null }>({
    title: 'axis that is optional in one place only',
    explain:
      'Write `l?` in every operand that has the axis, inputs and outputs: callers leave it out of all of them, or of single inputs.',
    wrong: { ktl: 'kernel f(A: f32[l?, m]) -> D: f32[l, m] { D = A }\n' },
    right: { ktl: 'kernel f(A: f32[l?, m]) -> D: f32[l?, m] { D = A }\n' },
    word: ({ axis, name, optional, other, previous }) => ({
      message: `axis ${code(axis)} is ${optional ? 'optional' : 'required'} in ${code(name)} but ${optional ? 'required' : 'optional'} in ${code(other)}`,
      label: optional ? 'optional' : 'required',
      ...elsewhere(previous, optional ? 'required' : 'optional'),
      help: `write ${code(`${axis}?`)} in both, or in neither`,
    }),
  }),
  KTL2021: entry<{ reason: 'twice' | 'nested' | 'epilogue' | 'local'; previous: Span | null }>({
    title: 'misplaced epilogue slot',
    explain: '`epilogue(acc)` stands at most once in a kernel, as the whole right side of an output’s equation.',
    wrong: { ktl: `${GEMM} { D = epilogue(sum[k](A * B)) * 2 }\n` },
    right: { ktl: `${GEMM} { D = epilogue(sum[k](A * B)) }\n` },
    word: ({ reason, previous }) => ({
      message: {
        twice: 'a kernel has one epilogue slot',
        nested: 'the epilogue slot must be the whole right side of the equation',
        epilogue: 'an epilogue cannot contain the epilogue slot',
        local: 'the epilogue slot must be assigned to an output',
      }[reason],
      label: {
        twice: 'second slot',
        nested: 'part of an expression',
        epilogue: 'in an epilogue',
        local: 'not an output',
      }[reason],
      ...elsewhere(previous, 'first slot'),
      help: 'write `D = epilogue(x)` once, where D is an output',
    }),
  }),
  KTL2022: entry<{ name: string | null }>({
    title: 'epilogue without a result',
    explain:
      'The output of an epilogue string is its final bare expression, what it returns, or else the variable `D`.',
    wrong: { epilogue: 'x = acc * 2' },
    right: { epilogue: 'D = acc * 2' },
    word: ({ name }) => ({
      message: `the epilogue${name === null ? '' : ` ${code(name)}`} has no result`,
      label: 'no final expression and no `D`',
      help: 'end with an expression, or assign `D = …`',
    }),
  }),
  KTL2023: entry<{ name: string; candidates: readonly string[] }>({
    title: 'name in an epilogue string that is not bound',
    explain:
      'Each name in an epilogue string other than `acc` (or the first parameter of `def`) is bound by EpilogueArguments.',
    wrong: { call: "new EpilogueArguments('acc * alpha', {})" },
    right: { call: "new EpilogueArguments('acc * alpha', { alpha: 2 })" },
    word: ({ name, candidates }, at) => ({
      message: `${code(name)} is not bound to a tensor or number`,
      label: 'no binding',
      ...(suggest(name, candidates) === null
        ? { help: `pass it: ${code(`{ ${name}: … }`)}` }
        : didYouMean(name, candidates, at)),
    }),
  }),
  KTL2024: entry<{ name: string; candidates: readonly string[] }>({
    title: 'binding that the epilogue does not use',
    explain: 'Each binding must be a name of the epilogue. One that is not is most often misspelt.',
    wrong: { call: "new EpilogueArguments('relu(acc)', { alpha: 2 })" },
    right: { call: "new EpilogueArguments('relu(acc * alpha)', { alpha: 2 })" },
    word: ({ name, candidates }) => ({
      message: `the epilogue does not use ${code(name)}`,
      help: candidates.length > 0 ? `it uses ${orList(candidates.map(code), 'and')}` : 'it takes no arguments',
    }),
  }),
  KTL2025: entry({
    title: 'epilogue without an accumulator parameter',
    explain: 'The first parameter of an epilogue is the accumulator.',
    wrong: { epilogue: 'def f():\n  return 1\n' },
    right: { epilogue: 'def f(acc):\n  return acc\n' },
    word: () => ({ message: 'the epilogue has no parameter for the accumulator', help: 'name it first: `(acc, …)`' }),
  }),
  KTL2026: entry<{ target: string; axes: readonly string[]; declared: readonly string[]; declaredAt: Span | null }>({
    title: 'target axes that differ from the declaration',
    explain: 'Axes written on the left of an equation must be those of the output.',
    wrong: { ktl: 'kernel f(A: f32[m, n]) -> D: f32[m] { D[n] = max[n](A) }\n' },
    right: { ktl: 'kernel f(A: f32[m, n]) -> D: f32[m] { D[m] = max[n](A) }\n' },
    word: ({ target, axes, declared, declaredAt }) => ({
      message: `${code(target)} has axes ${list(declared)}, not ${list(axes)}`,
      label: list(axes),
      ...elsewhere(declaredAt, 'declared here'),
    }),
  }),
  KTL2027: entry<{ name: string; cycle: readonly string[] }>({
    title: 'recursive epilogue',
    explain: 'Epilogues are inlined where they are called, so none can call itself, directly or through others.',
    wrong: { ktl: 'epilogue e(acc) -> D { D = e(acc) }\nkernel f(A: f32[m]) -> D: f32[m] { D = e(A) }\n' },
    right: { ktl: 'epilogue e(acc) -> D { D = relu(acc) }\nkernel f(A: f32[m]) -> D: f32[m] { D = e(A) }\n' },
    word: ({ name, cycle }) => ({
      message: `the epilogue ${code(name)} calls itself`,
      label: 'recursive call',
      ...(cycle.length > 1 && { notes: [`by way of ${cycle.map(code).join(' → ')}`] }),
    }),
  }),
  KTL2028: entry<{ name: string; what: 'kernel' | 'operand' | 'value' }>({
    title: 'name that cannot be called',
    explain: 'Only functions, dtypes (casts) and epilogues can be called. A kernel is called from TypeScript.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = A(2) }\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] { D = A * 2 }\n' },
    word: ({ name, what }) => ({
      message: `${code(name)} is ${what === 'operand' ? 'an' : 'a'} ${what} and cannot be called`,
      label: 'not a function',
      ...(what !== 'kernel' && { help: 'products are written with `*`' }),
    }),
  }),
  KTL2029: entry<{ name: string; what: string }>({
    title: 'brackets behind something that has no elements',
    explain:
      'In a kernel `X[i, j]` reads the tensor operand X at indices; a value that was computed, as `acc` in an epilogue ' +
      'string, is used as it is.',
    wrong: { ktl: 'kernel f(A: f32[m], b: f32) -> D: f32[m] { D = A + b[m] }\n' },
    right: { ktl: 'kernel f(A: f32[m], b: f32[m]) -> D: f32[m] { D = A + b[m] }\n' },
    word: ({ name, what }, { span }) => ({
      message: `${code(name)} is ${what} and is not read at indices`,
      label: 'not an operand with axes',
      ...(span && { fix: { description: 'remove the brackets', span, replacement: name } }),
    }),
  }),
  KTL2030: entry<{ name: string }>({
    title: 'returned name that is not bound to a tensor',
    explain:
      'The slot’s output goes to `out`: the final bare expression, or else `D`. Every other name that an ' +
      'epilogue string returns is an output of its own and must be bound to a tensor.',
    wrong: { call: "new EpilogueArguments('F = acc * 2; D = relu(F); return D, F', {})" },
    right: { call: "new EpilogueArguments('F = acc * 2; D = relu(F); return D, F', { F: tensor })" },
    word: ({ name }) => ({
      message: `${code(name)} is returned but not bound to a tensor`,
      label: 'an output needs a tensor',
      help: `pass it: ${code(`{ ${name}: tensor }`)}`,
    }),
  }),
  KTL2031: entry<{ name: string; slot: string }>({
    title: 'bound value that is not returned',
    explain:
      'An epilogue string without `return` returns its final expression or `D` only. A further output is written by returning it.',
    wrong: { call: "new EpilogueArguments('F = acc * 2; D = relu(F)', { F: tensor })" },
    right: { call: "new EpilogueArguments('F = acc * 2; D = relu(F); return D, F', { F: tensor })" },
    word: ({ name, slot }) => ({
      message: `${code(name)} is bound to a tensor and assigned, but not returned`,
      label: 'not an output',
      help: `add ${code(`return ${slot}, ${name}`)}`,
    }),
  }),
  KTL2032: entry<{ limit: string }>({
    title: 'epilogues nested too deep',
    explain:
      'Epilogues are inlined where they are called; calls within calls go to a fixed depth, and the inlined body counts towards the size of the kernel.',
    wrong: { ktl: chainOfEpilogues(33) },
    right: { ktl: chainOfEpilogues(32) },
    word: ({ limit }) => ({
      message: `the inlined epilogues exceed ${limit}`,
      label: 'this call',
      help: 'write fewer or smaller epilogues',
    }),
  }),
  KTL2033: entry<{ name: string; shape: readonly number[]; expected: string }>({
    title: 'epilogue operand whose shape does not fit',
    explain:
      'Operands of an epilogue string bind by position: their shape aligns at the right with the output [l, m, ' +
      'n], and an extent of 1 broadcasts. `[N]` is one value per column, `[M, 1]` per row, `[L, 1, 1]` per ' +
      'batch. An annotation such as `bias[m]` states the axes instead.',
    wrong: {
      call: "const bias = device.empty('f32', [64]); new GemmArguments({ A, B, out, epilogue: new EpilogueArguments('acc + bias', { bias }) })",
    },
    right: {
      call: "const bias = device.empty('f32', [64]); new GemmArguments({ A, B, out, epilogue: new EpilogueArguments('acc + bias[m]', { bias }) })",
    },
    word: ({ name, shape, expected }) => ({
      message: `${code(name)} has shape ${list(shape.map(String))}, which does not fit`,
      label: 'operand',
      help: `expected ${expected}`,
    }),
  }),
  KTL2034: entry<{ name: string | null }>({
    title: 'returned expression without a name',
    explain:
      'One bare expression goes to `out`. Further outputs are returned by name, because the name says which tensor they go to.',
    wrong: { epilogue: 'return relu(acc), acc * 2' },
    right: { epilogue: 'F = acc * 2\nreturn relu(acc), F' },
    word: () => ({
      message: 'only one returned value may be without a name',
      label: 'which tensor?',
      help: 'assign it to a name and return that',
    }),
  }),
  KTL2035: entry<{ name: string; axes: readonly string[]; got: number }>({
    title: 'wrong number of indices',
    explain:
      'A read or a scatter has one index for each declared axis of the operand. Optional axes may all be left out. Without ' +
      'brackets an operand is read at its own axes.',
    wrong: { ktl: 'kernel f(A: f32[m, k]) -> D: f32[m] { D = A[m] }\n' },
    right: { ktl: 'kernel f(A: f32[m, k]) -> D: f32[m] { D = A[m, 0] }\n' },
    word: ({ name, axes, got }) => ({
      message: `${code(name)} has ${count(axes.length, 'axis').replace(/axiss$/, 'axes')}, not ${got}`,
      label: count(got, 'index').replace(/indexs$/, 'indices'),
      help: `write one index for each of ${list(axes)}`,
    }),
  }),
  KTL2036: entry<{ text: string; why: string }>({
    title: 'expression that is no index',
    explain:
      'An index is a sum of terms: axes, integers, i32 scalars, `size(axis)`, reads of integer operands, and products, quotients ' +
      'and remainders of these by something without axes. From it the compiler knows which elements a tile reads.',
    wrong: { ktl: 'kernel f(A: f32[m], s: f32[m]) -> D: f32[m] { D = A[m * m] * s }\n' },
    right: { ktl: 'kernel f(A: f32[m], to: i32[m]) -> D: f32[m] { D = A[to[m]] }\n' },
    word: ({ text, why }) => ({
      message: `${code(text)} is no index: ${why}`,
      label: 'not an index',
      help: 'compute it before, and pass it as an i32 operand',
    }),
  }),
  KTL2038: entry<{ name: string; what: 'operand' | 'value' }>({
    title: 'axis hidden by a name',
    explain:
      'An axis name in an expression is its index. An operand or value of the same name hides it: the name then means the ' +
      'operand or value.',
    severity: 'note',
    wrong: { ktl: 'kernel f(A: f32[m], m: f32) -> D: f32[m] { D = A * m }\n' },
    right: { ktl: 'kernel f(A: f32[m], s: f32) -> D: f32[m] { D = A * s }\n' },
    word: ({ name, what }) => ({
      message: `${code(name)} is the ${what}, not the index along axis ${code(name)}`,
      label: `the ${what}`,
      help: `rename the ${what} if the index is meant`,
    }),
  }),
  KTL2039: entry<{ name: string; dtype: string }>({
    title: 'axis hidden where an index is needed',
    explain:
      'An operand hides the axis of its name. Where only the index along the axis makes sense, the operand needs another name.',
    wrong: { ktl: 'kernel f(A: f32[m], m: f32) -> D: f32[m] { D = A[m + 0] * m }\n' },
    right: { ktl: 'kernel f(A: f32[m], s: f32) -> D: f32[m] { D = A[m + 0] * s }\n' },
    word: ({ name, dtype }) => ({
      message: `${code(name)} is an operand of type ${dtype}, which is no index`,
      label: 'the operand, not the axis',
      help: `rename the operand ${code(name)}, for example ${code(`${name}_`)}, so that the axis can be named`,
    }),
  }),
  KTL2040: entry<{ axis: string; operand: string | null; previous: Span | null }>({
    title: 'axis that has an extent already',
    explain:
      '`axis j = …` gives an extent to an axis that no operand has. The extent of an operand’s axis is that of the tensor.',
    wrong: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] {\n  axis m = 4\n  D = A\n}\n' },
    right: { ktl: 'kernel f(A: f32[m]) -> D: f32[m] {\n  axis j = 4\n  D = A * f32(sum[j](j))\n}\n' },
    word: ({ axis, operand, previous }) => ({
      message: `the extent of ${code(axis)} is known${operand === null ? '' : ` from ${code(operand)}`}`,
      label: 'extent given again',
      ...elsewhere(previous, operand === null ? 'first given here' : 'declared here'),
      help: 'remove the statement, or name another axis',
    }),
  }),
  KTL2041: entry<{ axis: string; why: string }>({
    title: 'extent that the arguments do not determine',
    explain:
      'The extent of `axis j = …` is an integer that is known before the launch: of i32 scalars, integers and `size(axis)` of axes whose ' +
      'extents are known above.',
    wrong: { ktl: 'kernel f(A: f32[m], c: i32[m]) -> D: f32[m] {\n  axis j = c[0]\n  D = A * f32(sum[j](j))\n}\n' },
    right: { ktl: 'kernel f(A: f32[m], c: i32) -> D: f32[m] {\n  axis j = c\n  D = A * f32(sum[j](j))\n}\n' },
    word: ({ axis, why }) => ({
      message: `the extent of ${code(axis)} is not known before the launch: ${why}`,
      label: 'extent',
      help: 'compute it from scalars and sizes',
    }),
  }),
  KTL2042: entry<{ reason: string; help: string }>({
    title: 'illegal scatter',
    explain:
      '`D[to[t], n] = …` stores each element where one integer operand says, along one axis of an output; along the others the ' +
      'element stays where it is.',
    wrong: { ktl: 'kernel f(A: f32[t, n], to: i32[t]) -> D: f32[d, n] { D[to[t], n + 1] = A }\n' },
    right: { ktl: 'kernel f(A: f32[t, n], to: i32[t]) -> D: f32[d, n] { D[to[t], n] = A }\n' },
    word: ({ reason, help }) => ({ message: reason, label: 'scatter', help }),
  }),
  KTL2043: entry<{ group: string; axis: string }>({
    title: 'reduction over the groups of rows',
    explain:
      'A row of a ragged axis lies in one group, so a value that varies along the rows has one group for each: there is nothing to reduce. ' +
      'A sum over the rows comes first.',
    wrong: {
      ktl: 'kernel f(A: f32[t] ragged t by off as g, s: f32[g], off: i32[g]) -> D: f32[t] { D = sum[g](A * s) }\n',
    },
    right: {
      ktl: 'kernel f(A: f32[t] ragged t by off as g, s: f32[g], off: i32[g]) -> D: f32[g] { D = sum[t](A) * s }\n',
    },
    word: ({ group, axis }) => ({
      message: `each position of ${code(axis)} has one position of ${code(group)}, its group`,
      label: 'nothing to reduce',
      help: `sum over ${code(axis)}`,
    }),
  }),
}
