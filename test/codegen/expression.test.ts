import { describe, expect, test } from 'vitest'
import { DEVICE_FUNCTION_NAMES, printDeviceFunctions } from '../../codegen/cuda/device_functions.ts'
import {
  emitExpression,
  emitExpressions,
  literal,
  loadConversion,
  storeConversion,
} from '../../codegen/cuda/expression.ts'
import { cudaIdentifier, Mangler } from '../../codegen/cuda/mangle.ts'
import { commentText, SourceBuilder } from '../../codegen/cuda/source_builder.ts'
import type { ComputeType, Node } from '../../compiler/ir/tensor.ts'
import { ProgramBuilder } from './programs.ts'

const p = new ProgramBuilder(['m', 'n'], { C: { dtype: 'f32', axes: ['m', 'n'] }, X: { dtype: 'i32', axes: ['m', 'n'] } }, { alpha: 'f32', beta: 'f32' }) // prettier-ignore
const leaf = (node: Node): string | null => ('operand' in node ? `v_${node.operand}` : null)
const [C, X, alpha, beta] = [p.input('C'), p.input('X'), p.scalar('alpha'), p.scalar('beta')]

function emit(node: Node, accuracy: 'default' | 'approx' = 'default'): { lines: string[]; functions: string[] } {
  const functions = new Set<string>()
  const { statements, value } = emitExpression(node, leaf, { functions, accuracy })
  return { lines: [...statements, value], functions: [...functions] }
}

describe('expressions', () => {
  test('short formulas stay in one expression with the parentheses they need', () => {
    const sum = p.apply('add', p.apply('mul', alpha, C), beta)
    expect(emit(sum).lines).toEqual(['const float add_0 = v_alpha * v_C + v_beta;', 'add_0'])
    const nested = p.apply('sub', alpha, p.apply('sub', C, p.apply('div', beta, p.apply('add', C, alpha))))
    expect(emit(nested).lines[0]).toBe('const float sub_0 = v_alpha - (v_C - v_beta / (v_C + v_alpha));')
    const chain = p.apply('sub', p.apply('sub', alpha, C), beta)
    expect(emit(chain).lines[0]).toBe('const float sub_0 = v_alpha - v_C - v_beta;')
    const negated = p.apply('neg', p.apply('neg', p.constant(-2)))
    expect(emit(negated).lines[0]).toBe('const float neg_0 = -(-(-2.0f));')
    const chosen = p.apply('select', p.apply('lt', C, p.constant(0)), p.apply('neg', C), p.apply('select', p.apply('ge', C, alpha), alpha, C)) // prettier-ignore
    expect(emit(chosen).lines[0]).toBe('const float select_0 = v_C < 0.0f ? -v_C : (v_C >= v_alpha ? v_alpha : v_C);')
  })

  test('shared values and function calls are computed once', () => {
    const shared = p.apply('add', C, beta)
    const { lines, functions } = emit(p.apply('mul', p.apply('gelu', shared), p.apply('relu', shared)))
    expect(lines).toEqual([
      'const float add_0 = v_C + v_beta;',
      'const float gelu_1 = ktl_gelu_f32(add_0);',
      'const float relu_2 = ktl_relu_f32(add_0);',
      'const float mul_3 = gelu_1 * relu_2;',
      'mul_3',
    ])
    expect(functions).toEqual(['ktl_gelu_f32', 'ktl_relu_f32'])
    const both = emitExpressions([p.apply('neg', shared), shared], leaf, { functions: new Set() })
    expect(both).toEqual({ statements: ['const float add_0 = v_C + v_beta;', 'const float neg_1 = -add_0;'], values: ['neg_1', 'add_0'] }) // prettier-ignore
  })

  test('a map of emitted values carries them from one expression to the next, with distinct names', () => {
    const context = { functions: new Set<string>(), emitted: new Map<Node, string>() }
    const F = p.apply('exp', C)
    expect(emitExpression(F, leaf, context).value).toBe('exp_0')
    expect(emitExpression(p.apply('exp', F), leaf, context)).toEqual({ statements: ['const float exp_1 = ktl_exp_f32(exp_0);'], value: 'exp_1' }) // prettier-ignore
  })

  test('skip0 is a condition around its operand, and names inside it do not leak', () => {
    const product = p.skip0(p.apply('mul', beta, alpha), p.apply('exp', C))
    expect(emit(p.apply('add', product, p.apply('exp', C))).lines).toEqual([
      'const float mul_0 = v_beta * v_alpha;',
      'float skip0_1 = 0.0f;',
      'if (mul_0 != 0.0f) {',
      '  const float exp_2 = ktl_exp_f32(v_C);',
      '  skip0_1 = mul_0 * exp_2;',
      '}',
      'const float exp_3 = ktl_exp_f32(v_C);',
      'const float add_4 = skip0_1 + exp_3;',
      'add_4',
    ])
  })

  test('types: conversions, wrapping integers, casts, small powers, approximate forms', () => {
    expect(emit(p.apply('mul', X, alpha)).lines[0]).toBe('const float mul_0 = __int2float_rn(v_X) * v_alpha;')
    expect(emit(p.apply('mul', X, X)).lines[0]).toBe('const int mul_0 = ktl_mul_i32(v_X, v_X);')
    expect(emit(p.cast('f16', C)).lines[0]).toBe('const float as_f16_0 = ktl_f16_to_f32(ktl_f32_to_f16(v_C));')
    expect(emit(p.cast('i8', C)).lines[0]).toBe('const int as_i8_0 = ktl_saturate_i8(__float2int_rn(v_C));')
    expect(emit(p.apply('pow', p.apply('add', C, alpha), p.constant(2))).lines).toEqual([
      'const float add_0 = v_C + v_alpha;',
      'const float pow_1 = add_0 * add_0;',
      'pow_1',
    ])
    expect(emit(p.apply('pow', C, p.constant(2.5))).lines[0]).toBe('const float pow_0 = powf(v_C, 2.5f);')
    expect(emit(p.apply('silu', C), 'approx').functions).toEqual(['ktl_silu_approx'])
    expect(() => emit(p.size('m'))).toThrow('no CUDA text was provided for size')
  })
})

test.each<[ComputeType, number, string]>(
  [
  ['f32', 1, '1.0f'], ['f32', 0.1, '0.1f'], ['f32', -0, '-0.0f'], ['f32', 1e30, '1e+30f'], ['f32', 16777217, '16777216.0f'],
  ['f32', 0.044715, '0.044715f'], ['f32', Infinity, '__uint_as_float(0x7f800000u)'], ['f32', NaN, '__uint_as_float(0x7fffffffu)'],
  ['f64', 0.1, '0.1'], ['f64', 3, '3.0'], ['i32', -5, '-5'], ['i32', -2147483648, '-2147483647 - 1'], ['u32', 4294967295, '4294967295u'], ['bool', 1, 'true'],
] /* prettier-ignore */,
)('literal of %s %d', (type, value, text) => expect(literal(type, value).text).toBe(text))

test('storage conversions name the functions they need', () => {
  const functions = new Set<string>()
  expect(storeConversion('bf16', 'f64', 'x', functions)).toBe('ktl_f32_to_bf16(ktl_f64_to_f32_odd(x))')
  expect(storeConversion('f32', 'i32', 'x', functions)).toBe('__int2float_rn(x)')
  expect(storeConversion('f32', 'f32', 'x', functions)).toBe('x')
  expect(storeConversion('u8', 'i32', 'x', functions)).toBe('(unsigned char)ktl_saturate_u8(x)')
  expect(loadConversion('e4m3', 'p[i]', functions)).toBe('ktl_e4m3_to_f32(p[i])')
  expect(loadConversion('i8', 'p[i]', functions)).toBe('(int)p[i]')
  expect([...functions]).toEqual(['ktl_f64_to_f32_odd', 'ktl_f32_to_bf16', 'ktl_saturate_u8', 'ktl_e4m3_to_f32'])
})

test('device functions are printed once, after those they call', () => {
  const texts = printDeviceFunctions(['ktl_silu_f32', 'ktl_gelu_f32', 'powf'])
  const names = texts.map((text) => /ktl_\w+(?=\()/.exec(text)![0])
  expect(new Set(names).size).toBe(names.length)
  for (const [i, text] of texts.entries())
    for (const called of text.match(/ktl_\w+(?=\()/g)!) expect(names.slice(0, i + 1)).toContain(called)
  expect(new Set(DEVICE_FUNCTION_NAMES).size).toBe(DEVICE_FUNCTION_NAMES.length)
})

test('user names are mangled, comments neutralised', () => {
  const mangler = new Mangler()
  expect(mangler.name('op', 'int')).toBe('op_int')
  expect(mangler.name('op', 'int')).toBe('op_int')
  expect(mangler.name('op_a', 'b')).not.toBe(mangler.name('op', 'a_b'))
  expect(mangler.name('op', 'é*/')).toMatch(/^op_\w+$/)
  expect(cudaIdentifier('ktl.gemm_sm100')).toBe('ktl__gemm_sm100')
  expect(cudaIdentifier('9 lives')).toMatch(/^[A-Za-z_]\w*$/)
  expect(commentText('a */ b \\\nint x; ??/ é')).toBe('a * / b / int x; ? ?/')
})

test('the source builder indents and maps lines', () => {
  const span = { start: 3, end: 7 }
  const out = new SourceBuilder().line('a').block('if (x)', () => {}, { role: 'mma' })
  out.block('', () => out.line('b\n\nc', { ktl: span, note: 'n' }))
  expect(out.toString()).toBe('a\nif (x) {\n}\n{\n  b\n\n  c\n}\n')
  expect(out.sourceMap).toEqual([
    { cudaLine: 2, ktl: null, role: 'mma', note: null },
    ...[5, 6, 7].map((cudaLine) => ({ cudaLine, ktl: span, role: null, note: 'n' })),
  ])
})
