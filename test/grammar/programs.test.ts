import { describe, expect, test } from 'vitest'
import { axisNamesOf, type EpilogueDecl, type Expr, type Item } from '../../grammar/ast.ts'
import { parseEpilogue, parseProgram } from '../../grammar/parse.ts'
import { formatProgram, printEpilogue, printProgram } from '../../grammar/printer.ts'
import { renderDiagnostics } from '../../grammar/render.ts'
import { dedent } from './expect.ts'
import { withoutSpans } from './arbitraries.ts'
import { workOf } from '../work.ts'

function parse(text: string): readonly Item[] {
  const { program, diagnostics } = parseProgram({ name: 'a.ktl', text })
  expect(renderDiagnostics(diagnostics)).toBe('')
  return program.items
}
function parseString(text: string): EpilogueDecl {
  const { epilogue, diagnostics } = parseEpilogue({ name: '<epilogue>', text })
  expect(renderDiagnostics(diagnostics)).toBe('')
  return epilogue
}

/** `(+ a (* b c))` */
function show(e: Expr): string {
  const axes = (list: readonly { text: string }[] | null): string =>
    list === null ? '' : `[${list.map((a) => a.text).join(' ')}]`
  switch (e.kind) {
    case 'number':
      return e.text
    case 'reference':
      if (e.at === null) return e.name.text
      return `${e.name.text}[${e.at.map(show).join(' ')}]${e.outside === null ? '' : ` else ${e.outside.text}`}`
    case 'unary':
      return `(${e.op} ${show(e.operand)})`
    case 'binary':
      return `(${e.op} ${show(e.left)} ${show(e.right)})`
    case 'call':
      return `(${[e.callee.text, ...e.args.map(show)].join(' ')})`
    case 'reduce':
      return `(${e.fn.text}${axes(e.axes)} ${show(e.value)})`
    case 'size':
      return `(${e.fn} ${e.axis.text})`
    case 'slot':
      return `(epilogue ${show(e.value)})`
  }
}

/** The example of the language's description: one item of every kind. */
const TOUR = `
/// A GEMM whose epilogue is chosen at run time. \`l?\`: callers may leave the batch axis out.
kernel gemm<T: f16 | bf16, O: f16 | bf16 | f32>(
  A: T[l?, m, k] | T[l?, k, m],
  B: T[l?, k, n] | T[l?, n, k]
) -> D: O[l?, m, n] | O[l?, n, m] {
  acc: f32 = sum[k](A * B)
  D = epilogue(acc)
}

schedule gemm on sm_100 {
  mma 1cta | 2cta
  tile 64x64 | 128x64 | 128x128 | 128x256 | 256x128 | 256x256   // m x n of the MMA tile; k follows from the swizzle span
  cluster 1x1 | 2x1 | 1x2 | 2x2 | 4x1
  scheduler static | clc
  stages auto
}

/// Linear layer: \`bias\` has axis n, so it broadcasts along m.
kernel linear_gelu(A: bf16[m, k], B: bf16[k, n] | bf16[n, k], bias: bf16[n]) -> D: bf16[m, n] {
  acc = sum[k](A * B)
  D = gelu_tanh(acc + bias)
}

/// A reusable epilogue with two outputs and run-time scalars with defaults.
epilogue scale_residual(acc, C, alpha: f32 = 1, beta: f32 = 0) -> (D, F) {
  F = acc * alpha + C * beta
  D = relu(F)
}
kernel residual(A: f16[m, k], B: f16[k, n], C: f16[m, n], alpha: f32, beta: f32) -> (D: f16[m, n], F: f32[m, n]) {
  (D, F) = scale_residual(sum[k](A * B), C, alpha, beta)
}

/// Gated MLP: two accumulators share one A tile, one output.
kernel swiglu(A: bf16[m, k], Bg: bf16[k, f], Bu: bf16[k, f]) -> H: bf16[m, f] {
  H = silu(sum[k](A * Bg)) * sum[k](A * Bu)
}

kernel axpby(X: f32[i, j], Y: f32[i, j], a: f32, b: f32) -> Z: f32[i, j] { Z = a * X + b * Y }

kernel dgemm(A: f64[l?, m, k] | f64[l?, k, m], B: f64[l?, k, n] | f64[l?, n, k]) -> D: f64[l?, m, n] | f64[l?, n, m] {
  D = sum[k](A * B)
}
schedule dgemm on simt { tile 32x32 | 16x16 }
`

const KERNEL_CLASSES: Readonly<Record<string, string>> = {
  convolution: `
    kernel conv2d(X: bf16[b, h, w, c], W: bf16[f, r, s, c], bias: bf16[f], stride: i32, pad: i32) -> Y: bf16[b, p, q, f] {
      Y = relu(sum[r, s, c]((X[b, p * stride + r - pad, q * stride + s - pad, c] else 0) * W) + bias)
    }`,
  attention: `
    kernel attention(
      Q: bf16[b, h, m, d],
      K: bf16[b, hk, n, d],
      V: bf16[b, hk, n, e],
      scale: f32,
      cap: f32
    ) -> (O: bf16[b, h, m, e], L: f32[b, h, m]) {
      S = cap * tanh(sum[d](Q * K[b, h / (size(h) / size(hk)), n, d]) * scale / cap)
      S2 = select(n <= m + size(n) - size(m), S, -inf)
      O = sum[n](softmax[n](S2) * V[b, h / (size(h) / size(hk)), n, e])
      L = logsumexp[n](S2)
    }`,
  'row statistics': `
    kernel layer_norm(X: bf16[m, c], g: bf16[c], eps: f32) -> Y: bf16[m, c] {
      Y = (X - mean[c](X)) * rsqrt(var[c](X) + eps) * g
    }`,
  'a paged, quantised cache': `
    kernel scores(Q: bf16[b, m, d], K: e4m3[p, w, d] * f32[p], page: i32[b, c]) -> S: f32[b, m, n] {
      axis n = size(c) * 64
      S = sum[d](Q * K[page[b, n / 64], n % 64, d])
    }`,
  'grouped, scattered': `
    kernel grouped(
      A: e4m3[t, k] * f32[t, k/128] ragged t by off as g,
      B: e4m3[g, k, n] * f32[g, k/128, n/128],
      off: i32[g],
      to: i32[t]
    ) -> D: bf16[r, n] {
      D[to[t], n] = sum[k](A * B)
    }`,
  'padded groups': `
    kernel padded(A: bf16[g, m, k] ragged m upto len as g, B: bf16[g, k, n], len: i32[g]) -> D: bf16[g, m, n] {
      D = sum[k](A * B)
    }`,
  'block-scaled, quantised twice': `
    kernel mx(
      A: e4m3[m, k] * ue8m0[m, k/32],
      B: e4m3[k, n] * ue8m0[k/32, n]
    ) -> (D: e4m3[m, n] * ue8m0[m, n/32], T: e4m3[m, n] * floor(ue8m0[m/32, n])) {
      D = sum[k](A * B)
      T = sum[k](A * B)
    }`,
}

describe('programs', () => {
  test('the tour of the language prints as it is written, but for blank lines and spacing', () => {
    const { program } = parseProgram({ name: 'tour.ktl', text: TOUR })
    const tidy = (text: string): string => text.replace(/\s+/g, ' ')
    expect(tidy(printProgram(program))).toBe(tidy(TOUR.trimStart()))
    expect(program.items.map((item) => item.kind)).toEqual([
      'kernel', 'schedule', 'kernel', 'epilogue', 'kernel', 'kernel', 'kernel', 'kernel', 'schedule',
    ]) // prettier-ignore
  })

  test('a kernel as a tree', () => {
    expect(withoutSpans(parse('approx kernel f<T: f16>(A: T[l?, m] | T[m, l], a: f32 = -1) -> D: T[l?, m] {\n  D = A\n}'))).toMatchObject([
      {
        kind: 'kernel',
        name: { text: 'f' },
        doc: null,
        accuracy: 'approx',
        typeParams: [{ name: { text: 'T' }, alternatives: [{ text: 'f16' }] }],
        params: [
          {
            name: { text: 'A' },
            alternatives: [
              { dtype: { text: 'T' }, axes: [{ name: { text: 'l' }, optional: true, divisor: null }, { name: { text: 'm' }, optional: false }], scale: null },
              { dtype: { text: 'T' }, axes: [{ name: { text: 'm' } }, { name: { text: 'l' }, optional: false }] },
            ],
            defaultValue: null,
            ragged: null,
          },
          { name: { text: 'a' }, alternatives: [{ dtype: { text: 'f32' }, axes: null }], defaultValue: { text: '-1', value: -1, integer: true } },
        ],
        outputs: [{ name: { text: 'D' } }],
        body: [{ kind: 'equation', tuple: false, doc: null, targets: [{ name: { text: 'D' }, at: null, dtype: null }] }],
      },
    ]) // prettier-ignore
  })

  const canonical: readonly (readonly [string, string])[] = [
    ['kernel f()->D:f32[m]{}', 'kernel f() -> D: f32[m] {}'],
    ['precise kernel f(a:f32=2.5)->(D:f32[m],F:f32[m]){D=a;;F=a;}', 'precise kernel f(a: f32 = 2.5) -> (D: f32[m], F: f32[m]) {\n  D = a\n  F = a\n}'],
    ['kernel f\n(A: f32\n[m])\n->\nD: f32[m]\n{\nD\n=\n A\n}'.replace('D\n=\n A', 'D = A'), 'kernel f(A: f32[m]) -> D: f32[m] {\n  D = A\n}'],
    ['kernel f(A: f32[m]) -> D: f32[m] {\n  D = A\n    + A\n    * A\n    ^ A\n}', 'kernel f(A: f32[m]) -> D: f32[m] {\n  D = A + A * A^A\n}'],
    ['kernel f(A: f32[m]) -> D: f32[m] {\n  D = clamp(\n    A,\n    0,\n    1\n  )\n}', 'kernel f(A: f32[m]) -> D: f32[m] {\n  D = clamp(A, 0, 1)\n}'],
    ['kernel f(A: f32[m]) -> D: f32[m] {\r\n  x = A\r\n  D = x\r\n}\r\n', 'kernel f(A: f32[m]) -> D: f32[m] {\n  x = A\n  D = x\n}'],
    ['kernel f(A: f32[kernel, size, by]) -> D: f32[on] { D = sum[size, by](A) + size(return) }', 'kernel f(A: f32[kernel, size, by]) -> D: f32[on] {\n  D = sum[size, by](A) + size(return)\n}'],
    ['kernel f(A: e4m3[m, k] * ue8m0[m, k/32], B: e2m1[k, n]*ue4m3[k/16, n]) -> D: bf16[m, n] { D = sum[k](A * B) }', 'kernel f(A: e4m3[m, k] * ue8m0[m, k/32], B: e2m1[k, n] * ue4m3[k/16, n]) -> D: bf16[m, n] {\n  D = sum[k](A * B)\n}'],
    ['kernel f(A: bf16[t, k], B: bf16[g, k, n], off: i32[g]) -> D: bf16[t, n] ragged t by off as g { D = sum[k](A * B) }', 'kernel f(A: bf16[t, k], B: bf16[g, k, n], off: i32[g]) -> D: bf16[t, n] ragged t by off as g {\n  D = sum[k](A * B)\n}'],
    ['kernel f(X: f32[r, c], g: f32[c], eps: f32) -> Y: f32[r, c] { ss = sum[c](X * X); Y = X * rsqrt(ss / size(c) + eps) * g }', 'kernel f(X: f32[r, c], g: f32[c], eps: f32) -> Y: f32[r, c] {\n  ss = sum[c](X * X)\n  Y = X * rsqrt(ss / size(c) + eps) * g\n}'],
    ['kernel f(A: f32[m, n]) -> (D: f32[m, n], amax: f32[m]) { D = A; amax[m] = max[n](abs(D)) }', 'kernel f(A: f32[m, n]) -> (D: f32[m, n], amax: f32[m]) {\n  D = A\n  amax[m] = max[n](abs(D))\n}'],
    ['epilogue e(acc, bias[n], s: f32[m], t: f16 = .5) -> D { return acc * s + bias * t }', 'epilogue e(acc, bias[n], s: f32[m], t: f16 = .5) -> D {\n  return acc * s + bias * t\n}'],
    ['epilogue e(acc) -> (D, F) { F = acc; return (relu(F), F) }', 'epilogue e(acc) -> (D, F) {\n  F = acc\n  return relu(F), F\n}'],
    ['schedule f on sm_100a { cluster 2x1x1\n | 4x1x1 | auto\nreassociate; stages 3 | 4 }', 'schedule f on sm_100a {\n  cluster 2x1x1 | 4x1x1 | auto\n  reassociate\n  stages 3 | 4\n}'],
    ['kernel conv2d(X: bf16[b, h, w, c], W: bf16[f, r, s, c], bias: bf16[f], stride: i32, pad: i32) -> Y: bf16[b, p, q, f] {\n  Y = relu(sum[r,s,c]((X[b,p*stride+r-pad, q*stride + s - pad, c]else 0) * W) + bias)\n}', 'kernel conv2d(X: bf16[b, h, w, c], W: bf16[f, r, s, c], bias: bf16[f], stride: i32, pad: i32) -> Y: bf16[b, p, q, f] {\n  Y = relu(sum[r, s, c]((X[b, p * stride + r - pad, q * stride + s - pad, c] else 0) * W) + bias)\n}'],
    ['kernel f(A: e2m1[m, k]*ue4m3[m,k/16]*f32, B: e4m3[k, n] * f32[k/128, n/128], C: e4m3[k, n] * f32[n]) -> D: f32[m] {}', 'kernel f(\n  A: e2m1[m, k] * ue4m3[m, k/16] * f32,\n  B: e4m3[k, n] * f32[k/128, n/128],\n  C: e4m3[k, n] * f32[n]\n) -> D: f32[m] {}'],
    ['kernel f(W: ( u4[k, n]-u4[k/128, n] )*f16[k/128, n], V: i4[n, k] * bf16[n, k/64] | i4[k, n]*bf16[k/64, n], T: e4m3[g, k] * f32[g, k/128] * f32[g]) -> (D: e4m3[m, n] * floor( ue8m0[m, n/32] ), F: e2m1[m, n] * ue4m3[m, n/16] * f32) {}', 'kernel f(\n  W: (u4[k, n] - u4[k/128, n]) * f16[k/128, n],\n  V: i4[n, k] * bf16[n, k/64] | i4[k, n] * bf16[k/64, n],\n  T: e4m3[g, k] * f32[g, k/128] * f32[g]\n) -> (D: e4m3[m, n] * floor(ue8m0[m, n/32]), F: e2m1[m, n] * ue4m3[m, n/16] * f32) {}'],
    ['kernel moe(A: bf16[t, k] ragged t by off as g, B: bf16[g, k, n], off: i32[g], to: i32[t], C: bf16[g, m, k] ragged m upto len as g, len: i32[g]) -> D: f32[r, n] { D[to[t], n] = sum[k](A * B) }', 'kernel moe(\n  A: bf16[t, k] ragged t by off as g,\n  B: bf16[g, k, n],\n  off: i32[g],\n  to: i32[t],\n  C: bf16[g, m, k] ragged m upto len as g,\n  len: i32[g]\n) -> D: f32[r, n] {\n  D[to[t], n] = sum[k](A * B)\n}'],
    ['kernel rms_norm(X: bf16[m, c], g: bf16[c], eps: f32) -> Y: bf16[m, c] { Y = X * rsqrt(mean[c](X * X) + eps) * g }', 'kernel rms_norm(X: bf16[m, c], g: bf16[c], eps: f32) -> Y: bf16[m, c] {\n  Y = X * rsqrt(mean[c](X * X) + eps) * g\n}'],
    ['kernel f(Q: bf16[h, m, d], K: bf16[p, w, d], page: i32[b, c]) -> L: f32[b, h, m] {\n/// The group.\naxis j=size(h)/size(hk)\nS = sum[d](Q * K[page[b, n/64], n%64, d])\nS2 = select(n-start(n) <= m-start(m)+length(n)-length(m), S, -inf)\nL = logsumexp[n](S2)\n}', 'kernel f(Q: bf16[h, m, d], K: bf16[p, w, d], page: i32[b, c]) -> L: f32[b, h, m] {\n  /// The group.\n  axis j = size(h) / size(hk)\n  S = sum[d](Q * K[page[b, n / 64], n % 64, d])\n  S2 = select(n - start(n) <= m - start(m) + length(n) - length(m), S, -inf)\n  L = logsumexp[n](S2)\n}'],
    ['kernel f(start: f32[else], length: i32, floor: f32[axis], axis0: f32[inf, upto]) -> D: f32[else] { D = start * floor(start[else]) + length + axis0[inf, upto]\n  + axis0[(inf), u + 1] + sum[nan](start) }', 'kernel f(start: f32[else], length: i32, floor: f32[axis], axis0: f32[inf, upto]) -> D: f32[else] {\n  D = start * floor(start[else]) + length + axis0[inf, upto] + axis0[(inf), u + 1] + sum[nan](start)\n}'],
    ['schedule f,g\n,h on simt { tile 4x4 }', 'schedule f, g, h on simt {\n  tile 4x4\n}'],
    ['/// Notes on it.\nschedule f on simt {}', '/// Notes on it.\nschedule f on simt {}'],
  ] // prettier-ignore
  test.each(canonical)('%s', (input, expected) => {
    const { program, diagnostics } = parseProgram({ name: 'a.ktl', text: input })
    expect(renderDiagnostics(diagnostics)).toBe('')
    expect(printProgram(program)).toBe(`${expected}\n`)
  })

  test('stored forms, reads and ragged axes as trees', () => {
    const [item] = withoutSpans(
      parse(
        'kernel f(A: (u4[k, n] - u4[n]) * f16[k/128, n] * f32[g], B: e4m3[m] * f32 ragged m upto len as g) -> D: e4m3[m] * floor(ue8m0[m/32]) ' +
          '{\n  axis j = size(m)\n  D[to[m], j] = A[m, by, j % 2] else -inf\n}',
      ),
    )
    const name = (text: string) => ({ kind: 'reference', name: { text }, at: null, outside: null })
    expect(item).toMatchObject({
      params: [
        {
          alternatives: [
            {
              dtype: { text: 'u4' },
              zero: { kind: 'partType', dtype: { text: 'u4' }, axes: [{ name: { text: 'n' } }], floor: false },
              scale: { dtype: { text: 'f16' }, axes: [{ divisor: 128 }, { divisor: null }] },
              global: { dtype: { text: 'f32' }, axes: [{ name: { text: 'g' } }] },
            },
          ],
        },
        {
          alternatives: [{ zero: null, scale: null, global: { dtype: { text: 'f32' }, axes: null, floor: false } }],
          ragged: { axis: { text: 'm' }, form: 'upto', by: { text: 'len' }, as: { text: 'g' } },
        },
      ],
      outputs: [{ alternatives: [{ scale: { dtype: { text: 'ue8m0' }, floor: true }, global: null }], ragged: null }],
      body: [
        { kind: 'axisStatement', axis: { text: 'j' }, value: { kind: 'size', fn: 'size' }, doc: null },
        {
          targets: [{ name: { text: 'D' }, at: [{ name: { text: 'to' }, at: [name('m')] }, name('j')] }],
          value: {
            at: [name('m'), name('by'), { kind: 'binary', op: '%' }],
            outside: { kind: 'number', text: '-inf', value: -Infinity, integer: false },
          },
        },
      ],
    })
  })

  test('the names of an annotation, and none of a read', () => {
    const namesIn = (text: string): (string | undefined)[] | null | undefined => {
      const [statement] = parseString(text).body
      const value = statement?.kind === 'expressionStatement' ? statement.value : null
      return value?.kind === 'reference' ? (axisNamesOf(value)?.map((axis) => axis.text) ?? null) : undefined
    }
    expect(namesIn('bias[m, by]')).toEqual(['m', 'by'])
    expect(namesIn('bias')).toBe(null)
    expect(namesIn('bias[m, n + 1]')).toBe(null)
    expect(namesIn('bias[to[m]]')).toBe(null)
  })

  test.each(Object.entries(KERNEL_CLASSES))('%s is read, and formatted as it is', (_, text) => {
    const { diagnostics, text: formatted } = formatProgram({ name: 'a.ktl', text: dedent(text).trimStart() })
    expect(renderDiagnostics(diagnostics)).toBe('')
    expect(formatted).toBe(dedent(text).trimStart() + '\n')
  })

  test('spans are those of the text, parentheses of the operands included', () => {
    const text = 'kernel f(A: f16[m, k/32]) -> D: f32[m] {\n  D = -(A + 1) * exp(A)^2\n}'
    const [item] = parse(text)
    const found: string[] = []
    JSON.stringify(item, (_, node) => {
      if (node?.kind !== undefined) found.push(`${node.kind}: ${text.slice(node.span.start, node.span.end)}`)
      return node
    })
    expect(found.slice(1)).toEqual([
      'name: f', 'operand: A: f16[m, k/32]', 'name: A', 'tensorType: f16[m, k/32]', 'typeName: f16', 'axis: m', 'name: m',
      'axis: k/32', 'name: k', 'operand: D: f32[m]', 'name: D', 'tensorType: f32[m]', 'typeName: f32', 'axis: m', 'name: m',
      'equation: D = -(A + 1) * exp(A)^2', 'target: D', 'name: D', 'binary: -(A + 1) * exp(A)^2', 'unary: -(A + 1)',
      'binary: A + 1', 'reference: A', 'name: A', 'number: 1', 'binary: exp(A)^2', 'call: exp(A)', 'name: exp',
      'reference: A', 'name: A', 'number: 2',
    ]) // prettier-ignore
    expect(found[0]).toBe(`kernel: ${text}`)
  })
})

describe('precedence', () => {
  const table: readonly (readonly [string, string])[] = [
    ['a + b * c', '(+ a (* b c))'],
    ['a - b - c', '(- (- a b) c)'],
    ['a / b / c', '(/ (/ a b) c)'],
    ['a ^ b ^ c', '(^ a (^ b c))'],
    ['a ** b ** c', '(^ a (^ b c))'],
    ['-a ^ 2', '(- (^ a 2))'],
    ['a ^ -b', '(^ a (- b))'],
    ['a ^ -b ^ c', '(^ a (- (^ b c)))'],
    ['a ^ -b * c', '(* (^ a (- b)) c)'],
    ['-a * b', '(* (- a) b)'],
    ['a * -b + c', '(+ (* a (- b)) c)'],
    ['- - a', '(- (- a))'],
    ['!a && b', '(&& (! a) b)'],
    ['a || b && c', '(|| a (&& b c))'],
    ['a < b && c >= d', '(&& (< a b) (>= c d))'],
    ['a + 1 == b * 2', '(== (+ a 1) (* b 2))'],
    ['(a < b) == (c < d)', '(== (< a b) (< c d))'],
    ['(a + b) * c', '(* (+ a b) c)'],
    ['max(a, b) + max[n](a)', '(+ (max a b) (max[n] a))'],
    ['bias[m] * s[l, n]', '(* bias[m] s[l n])'],
    ['select(acc > 0, acc, 1e-2 * acc)', '(select (> acc 0) acc (* 1e-2 acc))'],
    ['size(c)', '(size c)'],
    ['start(by) + length( t )', '(+ (start by) (length t))'],
    ['start + start * length(a + b)', '(+ start (* start (length (+ a b))))'],
    ['a % b * c / d % e', '(% (/ (* (% a b) c) d) e)'],
    ['a + b % c', '(+ a (% b c))'],
    ['X[m - 1, n] else -inf', 'X[(- m 1) n] else -inf'],
    ['X[m - 1] else 0 ^ 2 - 1', '(- (^ X[(- m 1)] else 0 2) 1)'],
    ['-X[m] else -1 - 1', '(- (- X[m] else -1) 1)'],
    ['K[page[b, n / 64] else 0, n % 64, else]', 'K[page[b (/ n 64)] else 0 (% n 64) else]'],
    ['inf - nan', '(- inf nan)'],
    ['softmax[n](S)', '(softmax[n] S)'],
    ['f16(acc)', '(f16 acc)'],
    ['f()', '(f)'],
  ]
  test.each(table)('%s', (text, expected) => {
    const [statement] = parseString(text).body
    expect(statement?.kind === 'expressionStatement' && show(statement.value)).toBe(expected)
  })
})

describe('epilogue strings', () => {
  const table: readonly (readonly [string, EpilogueDecl['spelling'], string])[] = [
    ['relu(acc*alpha+C)', 'expression', 'relu(acc * alpha + C)'],
    ['acc % 2 + C[m] % bias[m, n]', 'expression', 'acc % 2 + C[m] % bias[m, n]'],
    ['select(n <= m, s, -inf)', 'expression', 'select(n <= m, s, -inf)'],
    ['acc + table[id[m], n % 64] else 0', 'expression', 'acc + (table[id[m], n % 64] else 0)'],
    ['def f(acc): return acc % 2', 'def', 'def f(acc):\n    return acc % 2'],
    ['  acc # as it is', 'expression', 'acc'],
    ['acc\n  + bias // per column', 'expression', 'acc + bias'],
    ['F = acc * alpha; D = relu(F)', 'statements', 'F = acc * alpha\nD = relu(F)'],
    ['\nF = acc\n\nrelu(F)\n', 'statements', 'F = acc\nrelu(F)'],
    ['x = acc; -x', 'statements', 'x = acc\n(-x)'],
    ['F = acc; return relu(F), F', 'statements', 'F = acc\nreturn relu(F), F'],
    ['amax[m] = max[n](abs(acc)); acc', 'statements', 'amax[m] = max[n](abs(acc))\nacc'],
    ['def f(acc): return relu(acc)', 'def', 'def f(acc):\n    return relu(acc)'],
    ['# first\ndef f(acc): D = acc; return D', 'def', 'def f(acc):\n    D = acc\n    return D'],
    [
      `
def example_epilogue(accum, alpha, C, beta, aux, bias):
    F = alpha * accum + (beta * C + aux)
    E = relu(F + 1) + bias
    D = E + F
    return D, F
`,
      'def',
      'def example_epilogue(accum, alpha, C, beta, aux, bias):\n    F = alpha * accum + (beta * C + aux)\n    E = relu(F + 1) + bias\n    D = E + F\n    return D, F',
    ],
    [
      `def f(accum: Tensor, alpha: float = 1.0,
           C: "torch.Tensor[m, n]" = 0, *rest) -> Tuple[Tensor, Tensor]:
    """Scales,
    then adds."""
    D: Tensor = (accum ** 2  # squared
                 + alpha)
    F = D \\
      * C
    return (D, F)`.replace(', *rest', ''),
      'def',
      'def f(accum, alpha = 1.0, C = 0):\n    D = accum^2 + alpha\n    F = D * C\n    return D, F',
    ],
    ["def f(acc): 'doc'; return acc", 'def', 'def f(acc):\n    return acc'],
    ['def f(acc):\n\tD = -acc\n\treturn D', 'def', 'def f(acc):\n    D = -acc\n    return D'],
  ]
  test.each(table)('%s', (text, spelling, expected) => {
    const epilogue = parseString(text)
    expect(epilogue.spelling).toBe(spelling)
    expect(printEpilogue(epilogue)).toBe(expected)
  })

  test('a def string keeps its name and its parameters, the accumulator first', () => {
    const { name, params } = parseString('def f(accum, alpha=1.5): return accum * alpha')
    expect(name?.text).toBe('f')
    expect(params.map((p) => [p.name.text, p.defaultValue?.value])).toEqual([['accum', undefined], ['alpha', 1.5]]) // prettier-ignore
  })
})

test('doc comments belong to the item or equation below, other comments are kept aside', () => {
  const text = dedent(`
    // free
    /// One.
    ///  two
    kernel f(A: f32[m]) -> D: f32[m] {
      /// The result.
      D = A // trailing
      /// of nothing
    }
    /// Apart.

    /// Of e.
    epilogue e(acc) -> D { D = acc }
  `)
  const { program } = parseProgram({ name: 'a.ktl', text })
  const [kernel, epilogue] = program.items
  expect(kernel?.kind === 'kernel' && [kernel.doc, kernel.body[0]?.kind === 'equation' && kernel.body[0].doc]).toEqual([
    'One.\n two',
    'The result.',
  ])
  expect(epilogue?.kind === 'epilogue' && epilogue.doc).toBe('Of e.')
  expect(program.comments.map(({ text: t, doc, ownLine }) => [t, doc, ownLine])).toEqual([
    [' free', false, true],
    [' trailing', false, false],
    [' of nothing', true, true],
    [' Apart.', true, true],
  ])
})

test('parsing takes work in proportion, and not much for each character', () => {
  const parse = (times: number): number => workOf(() => void parseProgram({ name: 'a.ktl', text: TOUR.repeat(times) }))
  parse(1)
  const [once, eight] = [parse(1), parse(8)]
  expect(eight / once).toBeLessThan(8.5)
  // 21 calls of functions when this was written; how long they take is measured in bench/.
  expect(once / TOUR.length).toBeLessThan(32)
})
