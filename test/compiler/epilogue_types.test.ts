import { expect, test } from 'vitest'
import { bindKernel } from '../../compiler/bind.ts'
import type { BoundEpilogue } from '../../compiler/epilogue.ts'
import { gemmSlot, typeEpilogue, type Slot } from '../../compiler/epilogue_types.ts'
import { printTensorProgram } from '../../compiler/ir/print_tensor.ts'
import { codeOf, epilogue, family, GEMM, scalar, tensor } from './helpers.ts'

/** With a count of how often the compiler looks at its text. */
function counted(bound: BoundEpilogue): { bound: BoundEpilogue; reads: () => number } {
  let reads = 0
  const { declaration } = bound
  return { bound: { ...bound, get declaration() { return (reads++, declaration) } }, reads: () => reads } // prettier-ignore
}

test('kernels that look the same from inside their slots share the typed epilogue', () => {
  const { bound, reads } = counted(epilogue('acc * alpha + C', { alpha: scalar, C: tensor('f16', 'm', 'n') }))
  const first = typeEpilogue(bound, gemmSlot('f32', 'f16'))
  const once = reads()
  expect(once).toBeGreaterThan(0)
  expect(typeEpilogue(bound, gemmSlot('f32', 'f16'))).toBe(first)
  const other = GEMM.replace('f16 | bf16', 'e4m3 | e5m2')
  for (const kernel of [family(GEMM), family(other)]) bindKernel(kernel, {}, bound)
  expect(reads()).toBe(once)
  bindKernel(family(GEMM), { types: { T: 'f16', O: 'f32' } }, bound)
  expect(reads()).toBe(2 * once)
})

test('one result goes into kernels that name their axes and operands differently', () => {
  const text = `kernel f(C: f16[t, c], W: f16[c, f]) -> out: f16[t, f] { out = epilogue(sum[c](C * W)) }`
  const bound = { ...epilogue('F = acc + C; D = F; return D, F', { C: tensor('f32', 'n'), F: tensor('f32', 'm', 'n') }) }
  const program = bindKernel(family(text), {}, bound)
  expect(program.operands.map(({ name, axes }) => `${name}[${axes}]`)).toEqual(['C[t,c]', 'W[c,f]', 'C_[f]', 'out[t,f]', 'F[t,f]'])
  expect(printTensorProgram(program)).toContain('C_')
}) // prettier-ignore

test('what the value in the slot is computed by counts as the kernel’s', () => {
  const slot = (text: string): ((body: string) => string) => {
    const kernel = family(text)
    return (body) => codeOf(() => bindKernel(kernel, {}, epilogue(body, {})))
  }
  const gemm = slot('kernel f(A: f16[m, k], B: f16[k, n]) -> D: f32[m, n] { D = epilogue(sum[k](A * B)) }')
  expect(gemm('acc / max[n](acc)')).toBe('none')
  expect(gemm('x: f32 = acc; D = x')).toBe('none')
  expect(gemm('x: f16 = acc; D = x')).toBe('KTL2216')
  const rows = slot('kernel f(X: f32[m, n]) -> D: f32[m] { D = epilogue(sum[n](X)) }')
  expect(rows('relu(acc)')).toBe('none')
  expect(rows('max[m](acc)')).toBe('none')
})

test('a slot by itself: accumulator, output and axes are all there is', () => {
  const slot: Slot = gemmSlot('i32', 'i8')
  const { value, outputs, operands } = typeEpilogue(epilogue('F = acc * 2; D = i8(F); return D, F', { F: tensor('f32', 'm', 'n') }), slot)
  expect([value.kind, value.type, value.axes]).toEqual(['cast', 'i32', ['l', 'm', 'n']])
  expect(outputs.map(({ operand, value }) => [operand, value.type])).toEqual([['F', 'i32']])
  expect(operands.map(({ name, axes }) => [name, axes])).toEqual([['F', ['l', 'm', 'n']]])
  expect(codeOf(() => typeEpilogue(epilogue('f32(acc)'), slot))).toBe('KTL2204')
}) // prettier-ignore
