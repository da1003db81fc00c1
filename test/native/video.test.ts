import { expect, test } from 'vitest'
import { TestDevice, compileToPtx, differences } from './device.ts'

// SIMD video instructions against the semantics of PTX ISA 9.7.18.2, written out element by element.

const OPS: Record<string, (a: number, b: number) => number> = {
  vadd: (a, b) => a + b,
  vsub: (a, b) => a - b,
  vavrg: (a, b) => Math.floor((a + b + (a + b >= 0 ? 1 : 0)) / 2),
  vabsdiff: (a, b) => Math.abs(a - b),
  vmin: Math.min,
  vmax: Math.max,
}
const COMPARISONS: Record<string, (a: number, b: number) => boolean> = {
  eq: (a, b) => a === b, ne: (a, b) => a !== b, lt: (a, b) => a < b, le: (a, b) => a <= b, gt: (a, b) => a > b, ge: (a, b) => a >= b,
} // prettier-ignore
const TYPES = ['u32', 's32'] as const
interface Form {
  readonly name: string
  readonly bits: number
  readonly f: (a: number, b: number) => number
  readonly d: string
  readonly a: string
  readonly b: string
  readonly end: string
}
const FORMS: Form[] = [16, 8].flatMap((bits) =>
  TYPES.flatMap((a) =>
    TYPES.flatMap((b) => [
      ...Object.entries(OPS).flatMap(([op, f]) =>
        TYPES.flatMap(
          (d) =>
          ['', '.sat', '.add'].map((end): Form => ({ name: `${op}${32 / bits}.${d}.${a}.${b}${end}`, bits, f, d, a, b, end })), // prettier-ignore
        ),
      ),
      ...Object.entries(COMPARISONS).flatMap(
        ([op, f]) =>
        ['', '.add'].map((end): Form => ({ name: `vset${32 / bits}.${a}.${b}.${op}${end}`, bits, f: (x, y) => Number(f(x, y)), d: 'u32', a, b, end })), // prettier-ignore
      ),
    ]),
  ),
)
const gpu = new TestDevice(
  compileToPtx(`extern "C" __global__ void k(unsigned* out, const unsigned* A, const unsigned* B, const unsigned* C) {
  unsigned a = A[threadIdx.x], b = B[threadIdx.x], c = C[threadIdx.x], d;
  ${FORMS.map(({ name }, i) => `asm volatile("${name} %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); out[${i * 32} + threadIdx.x] = d;`).join('\n')}
}`),
)

test('pairs and quads', async () => {
  let state = 5
  const words = () => Uint32Array.from({ length: 32 }, (_, i) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) ^ (i % 3 === 0 ? 0x80ff7f00 : 0)) // prettier-ignore
  const [A, B, C] = [words(), words(), words()]
  B.set(A.subarray(0, 4))
  const out = gpu.allocate(FORMS.length * 128)
  const { findings } = await gpu.run('k', [out, gpu.upload(A), gpu.upload(B), gpu.upload(C)])
  expect(findings).toEqual([])
  const got = gpu.read(out, FORMS.length * 32, Uint32Array)
  FORMS.forEach(({ name, bits, f, d, a, b, end }, i) => {
    const expected = Uint32Array.from({ length: 32 }, (_, lane) => {
      let whole = end === '.add' ? C[lane]! : 0
      for (let e = 0; e < 32 / bits; ++e) {
        const part = (word: number, type: string) => {
          const raw = (word >>> (e * bits)) & (2 ** bits - 1)
          return type === 's32' && raw >= 2 ** (bits - 1) ? raw - 2 ** bits : raw
        }
        let t = f(part(A[lane]!, a), part(B[lane]!, b))
        const [low, high] = d === 's32' ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1]
        if (end === '.sat') t = Math.min(high, Math.max(low, t))
        whole += end === '.add' ? t : ((t & (2 ** bits - 1)) >>> 0) * 2 ** (e * bits)
      }
      return whole
    })
    expect(differences(got.subarray(i * 32, i * 32 + 32), expected), name).toEqual([])
  })
})
