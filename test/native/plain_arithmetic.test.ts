import { expect, test } from 'vitest'
import { TestDevice, compileToPtx, f32Bits, f32Of } from './device.ts'

// Arithmetic as nvcc compiles it from plain CUDA C++.

const source = String.raw`
#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef unsigned u32; typedef unsigned long long u64;

extern "C" __global__ void integers(u32* o, const u32* x, const u32* y) {
  int i = threadIdx.x; u32 a = x[i], b = y[i]; int sa = a, sb = b; u32 r, *p = o + i;
#define PUT(e) { *p = (u32)(e); p += 32; }
  PUT(a + b) PUT(a - b) PUT(a * b) PUT(__umulhi(a, b)) PUT(__mulhi(sa, sb))
  PUT(a / b) PUT(a % b) PUT(sa / sb) PUT(sa % sb)
  PUT(a << (b & 31)) PUT(a >> (b & 31)) PUT(sa >> (b & 31))
  PUT(__popc(a)) PUT(__clz(a)) PUT(__brev(a)) PUT(__ffs(a)) PUT(abs(sa))
  PUT(min(a, b)) PUT(max(a, b)) PUT(min(sa, sb)) PUT(max(sa, sb))
  PUT(__byte_perm(a, b, 0x5140)) PUT(__funnelshift_l(a, b, 7)) PUT(__funnelshift_r(a, b, 40))
  PUT(__dp4a(sa, sb, 5)) PUT(__dp4a(a, b, 5u)) PUT(__sad(sa, sb, 1u)) PUT(__usad(a, b, 1u))
  PUT((u64(a) * b + 3) >> 16) PUT((long long)sa * sb >> 20)
  asm("bfe.u32 %0, %1, 5, 11;" : "=r"(r) : "r"(a)); PUT(r)
  asm("bfe.s32 %0, %1, 5, 11;" : "=r"(r) : "r"(a)); PUT(r)
  asm("bfi.b32 %0, %1, %2, 4, 9;" : "=r"(r) : "r"(a), "r"(b)); PUT(r)
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(r) : "r"(a), "r"(b), "r"(0x0f0f3355)); PUT(r)
  asm("{.reg .u32 lo; add.cc.u32 lo, %1, %2; addc.u32 %0, 0, 0;}" : "=r"(r) : "r"(a), "r"(b)); PUT(r)
  asm("{.reg .u32 lo; sub.cc.u32 lo, %1, %2; subc.u32 %0, 7, 0;}" : "=r"(r) : "r"(a), "r"(b)); PUT(r)
  asm("bfind.s32 %0, %1;" : "=r"(r) : "r"(a)); PUT(r)
  asm("fns.b32 %0, %1, 0, 2;" : "=r"(r) : "r"(a)); PUT(r)
  asm("add.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r)
}
extern "C" __global__ void floats(float* o, const float* x, const float* y) {
  int i = threadIdx.x; float a = x[i], b = y[i], *p = o + i;
#define PUTF(e) { *p = (e); p += 32; }
  PUTF(a + b) PUTF(a - b) PUTF(a * b) PUTF(a / b) PUTF(sqrtf(fabsf(a))) PUTF(fmaf(a, b, 0.5f))
  PUTF(__fadd_rz(a, b)) PUTF(__fadd_ru(a, b)) PUTF(__fadd_rd(a, b)) PUTF(__fmul_rz(a, b)) PUTF(__fmul_ru(a, b)) PUTF(__fmul_rd(a, b))
  PUTF(__fdiv_rz(a, b)) PUTF(__frcp_rn(b)) PUTF(fminf(a, b)) PUTF(fmaxf(a, b)) PUTF(a > b ? a : -b) PUTF(truncf(a)) PUTF(floorf(a)) PUTF(rintf(a))
  PUTF(exp2f(a * 0.01f)) PUTF(__log2f(fabsf(b))) PUTF(rsqrtf(fabsf(b))) PUTF(copysignf(a, b)) PUTF((float)((double)a * b + 1.0 / 3))
  PUTF(__saturatef(a)) PUTF((float)exp((double)a * 0.01)) PUTF(tanhf(a * 0.1f)) PUTF(sinf(a))
}
extern "C" __global__ void conversions(u32* o, const float* x) {
  int i = threadIdx.x; float a = x[i]; u32* p = o + i;
  PUT((int)a) PUT((u32)a) PUT(__float2int_rn(a)) PUT(__float2int_rd(a)) PUT(__float2int_ru(a)) PUT((int)(short)(int)a) PUT((int)(signed char)(int)a)
  PUT(__float_as_uint((float)(int)(a * 1000003.0f))) PUT(__float_as_uint(__ll2float_rz((long long)a * 1000000007ll)))
  PUT(__half_as_ushort(__float2half_rn(a))) PUT(__bfloat16_as_ushort(__float2bfloat16_rn(a))) PUT(__float_as_uint(__half2float(__ushort_as_half(i * 2011))))
  __half2 h = __floats2half2_rn(a, -a); PUT(*(u32*)&h)
  __nv_bfloat162 b = __floats2bfloat162_rn(a, -a); PUT(*(u32*)&b)
}
extern "C" __global__ void halves(unsigned short* o, const float* x, const float* y) {
  int i = threadIdx.x; __half a = __float2half(x[i]), b = __float2half(y[i]); unsigned short* p = o + i;
#define PUTH(e) { *p = __half_as_ushort(e); p += 32; }
#define PUTB(e) { *p = __bfloat16_as_ushort(e); p += 32; }
  PUTH(__hadd(a, b)) PUTH(__hmul(a, b)) PUTH(__hfma(a, b, a)) PUTH(__hmax(a, b)) PUTH(__hneg(a)) PUTH(__hadd2(__halves2half2(a, b), __halves2half2(b, b)).x)
  __nv_bfloat16 c = __float2bfloat16(x[i]), d = __float2bfloat16(y[i]);
  PUTB(__hadd(c, d)) PUTB(__hmul(c, d)) PUTB(__hfma(c, d, c)) PUTB(__hmin(c, d))
}
`

const gpu = new TestDevice(compileToPtx(source))
const lanes = Array.from({ length: 32 }, (_, i) => i)

const big = (x: number) => BigInt(x >>> 0)
const signed = (x: number) => BigInt(x | 0)
const low = (x: bigint) => Number(BigInt.asUintN(32, x))
const bytesOf = (x: number, isSigned: boolean) =>
  [0, 8, 16, 24].map((s) => (isSigned ? (x << (24 - s)) >> 24 : (x >>> s) & 255))
const dot = (a: number, b: number, s: boolean) =>
  bytesOf(a, s).reduce((sum, x, i) => sum + x * bytesOf(b, s)[i]!, 5) >>> 0
const reversed = (x: number) => Number.parseInt(x.toString(2).padStart(32, '0').split('').reverse().join(''), 2)
const popcount = (x: number) => x.toString(2).split('1').length - 1
const nth = (x: number, n: number) => lanes.filter((i) => (x >>> i) & 1)[n - 1] ?? 0xffffffff
const permute = (a: number, b: number, selector: number) =>
  [0, 1, 2, 3].reduce(
    (out, i) => out | ((low(((big(b) << 32n) | big(a)) >> BigInt(8 * ((selector >> (4 * i)) & 7))) & 255) << (8 * i)),
    0,
  ) >>> 0

const integerCases: [string, (a: number, b: number) => number | bigint][] = [
  ['add', (a, b) => a + b],
  ['sub', (a, b) => a - b],
  ['mul.lo', (a, b) => big(a) * big(b)],
  ['mul.hi.u32', (a, b) => (big(a) * big(b)) >> 32n],
  ['mul.hi.s32', (a, b) => (signed(a) * signed(b)) >> 32n],
  ['div.u32', (a, b) => Math.floor(a / b)],
  ['rem.u32', (a, b) => a % b],
  ['div.s32', (a, b) => signed(a) / signed(b)],
  ['rem.s32', (a, b) => signed(a) % signed(b)],
  ['shl', (a, b) => a << (b & 31)],
  ['shr.u32', (a, b) => a >>> (b & 31)],
  ['shr.s32', (a, b) => a >> (b & 31)],
  ['popc', (a) => popcount(a)],
  ['clz', (a) => Math.clz32(a)],
  ['brev', (a) => reversed(a)],
  ['ffs', (a) => (a === 0 ? 0 : 32 - Math.clz32(a & -a))],
  ['abs', (a) => Math.abs(a | 0)],
  ['min.u32', (a, b) => Math.min(a, b)],
  ['max.u32', (a, b) => Math.max(a, b)],
  ['min.s32', (a, b) => Math.min(a | 0, b | 0)],
  ['max.s32', (a, b) => Math.max(a | 0, b | 0)],
  ['prmt', (a, b) => permute(a, b, 0x5140)],
  ['shf.l', (a, b) => (((big(b) << 32n) | big(a)) << 7n) >> 32n],
  ['shf.r', (a, b) => ((big(b) << 32n) | big(a)) >> 8n],
  ['dp4a.s32', (a, b) => dot(a, b, true)],
  ['dp4a.u32', (a, b) => dot(a, b, false)],
  ['sad.s32', (a, b) => Math.abs((a | 0) - (b | 0)) + 1],
  ['sad.u32', (a, b) => Math.abs(a - b) + 1],
  ['mad.wide.u32', (a, b) => BigInt.asUintN(64, big(a) * big(b) + 3n) >> 16n],
  ['mul.wide.s32', (a, b) => (signed(a) * signed(b)) >> 20n],
  ['bfe.u32', (a) => (a >>> 5) & 0x7ff],
  ['bfe.s32', (a) => (a << 16) >> 21],
  ['bfi', (a, b) => (b & ~(0x1ff << 4)) | ((a & 0x1ff) << 4)],
  ['lop3', (a, b) => (a & b) | (~a & 0x0f0f3355)],
  ['addc', (a, b) => (a + b > 0xffffffff ? 1 : 0)],
  ['subc', (a, b) => (a < b ? 6 : 7)],
  ['bfind.s32', (a) => 31 - Math.clz32((a | 0) < 0 ? ~a : a) || ((a | 0) === 0 || ~a === 0 ? -1 : 0)],
  ['fns', (a) => nth(a, 2)],
  ['add.sat', (a, b) => Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, (a | 0) + (b | 0)))],
]

test('integer instructions', async () => {
  let state = 12345
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0)
  const a = Uint32Array.from(lanes, (i) => [0, 1, 0xffffffff, 0x80000000, 0x7fffffff][i] ?? random())
  const b = Uint32Array.from(
    lanes,
    (i) => [7, 0xffffffff, 3, 2, 0x7fffffff][i] ?? (i < 12 ? (random() % 50) | 1 : random() | 1),
  )
  const out = gpu.allocate(integerCases.length * 128)
  const result = await gpu.run('integers', [out, gpu.upload(a), gpu.upload(b)])
  expect(result.findings).toEqual([])
  const got = gpu.read(out, integerCases.length * 32, Uint32Array)
  integerCases.forEach(([name, f], k) => {
    const expected = lanes.map((i) => low(BigInt(f(a[i]!, b[i]!))))
    expect([name, ...got.slice(k * 32, k * 32 + 32)]).toEqual([name, ...expected])
  })
})

// Directed rounding of an exact double to f32.
const neighbour = (x: number, up: boolean) => {
  if (x === 0) return up ? f32Of(1) : -f32Of(1)
  return f32Of(f32Bits(x) + (x > 0 === up ? 1 : -1))
}
const directed = (exact: number, mode: 'z' | 'u' | 'd') => {
  const nearest = Math.fround(exact)
  const up = mode === 'u' || (mode === 'z' && exact < 0)
  if (nearest === exact) return nearest
  return nearest > exact === up ? nearest : neighbour(nearest, up)
}
const nearestEven = (x: number) => {
  const f = Math.floor(x)
  return x - f < 0.5 ? f : x - f > 0.5 ? f + 1 : f % 2 === 0 ? f : f + 1
}
// Exact forms have no tolerance; the others one relative to the result.
const floatCases: [string, (a: number, b: number) => number, number?][] = [
  ['add', (a, b) => a + b],
  ['sub', (a, b) => a - b],
  ['mul', (a, b) => a * b],
  ['div', (a, b) => a / b],
  ['sqrt', (a) => Math.sqrt(Math.abs(a))],
  ['fma', (a, b) => a * b + 0.5],
  ['add.rz', (a, b) => directed(a + b, 'z')],
  ['add.rp', (a, b) => directed(a + b, 'u')],
  ['add.rm', (a, b) => directed(a + b, 'd')],
  ['mul.rz', (a, b) => directed(a * b, 'z')],
  ['mul.rp', (a, b) => directed(a * b, 'u')],
  ['mul.rm', (a, b) => directed(a * b, 'd')],
  ['div.rz', (a, b) => directed(a / b, 'z')],
  ['rcp', (_, b) => 1 / b],
  ['min', Math.min],
  ['max', Math.max],
  ['select', (a, b) => (a > b ? a : -b)],
  ['trunc', Math.trunc],
  ['floor', Math.floor],
  ['rint', nearestEven],
  ['ex2', (a) => 2 ** Math.fround(a * Math.fround(0.01)), 1e-6],
  ['lg2', (_, b) => Math.log2(Math.abs(b)), 1e-6],
  ['rsqrt', (_, b) => 1 / Math.sqrt(Math.abs(b)), 3e-7],
  ['copysign', (a, b) => Math.abs(a) * Math.sign(b)],
  ['f64', (a, b) => a * b + 1 / 3],
  ['saturate', (a) => Math.min(1, Math.max(0, a))],
  ['exp f64', (a) => Math.exp(a * 0.01), 1e-7],
  ['tanh', (a) => Math.tanh(a * Math.fround(0.1)), 1e-6],
  ['sin', (a) => Math.sin(a), 1e-6],
]

test('f32 and f64 instructions', async () => {
  const a = Float32Array.from(lanes, (i) => (i - 15.5) * 1.37 + i * i * 0.113)
  const b = Float32Array.from(lanes, (i) => (i % 2 ? -1 : 1) * (0.371 * i + 0.77))
  const out = gpu.allocate(floatCases.length * 128)
  const result = await gpu.run('floats', [out, gpu.upload(a), gpu.upload(b)])
  expect(result.findings).toEqual([])
  const got = gpu.read(out, floatCases.length * 32, Float32Array)
  floatCases.forEach(([name, f, tolerance], k) =>
    lanes.forEach((i) => {
      const expected = Math.fround(f(a[i]!, b[i]!))
      const value = got[k * 32 + i]!
      if (tolerance === undefined) expect([name, i, value]).toEqual([name, i, expected])
      else
        expect(Math.abs(value - expected), `${name} lane ${i}`).toBeLessThanOrEqual(
          tolerance * Math.max(1e-3, Math.abs(expected)),
        )
    }),
  )
  expect(
    result.stats.fidelity.approximated['ex2.approx.ftz.f32'] ?? result.stats.fidelity.approximated['ex2.approx.f32'],
  ).toContain('correctly rounded')
})

const halfBits = (x: number): number => {
  // Nearest even from the definition: the multiple of the spacing that is closest.
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0
  const m = Math.abs(x)
  if (m >= 65520) return sign | 0x7c00
  const e = Math.max(-14, m === 0 ? -14 : Math.floor(Math.log2(m)))
  const steps = nearestEven(m / 2 ** (e - 10))
  return sign | (steps < 1024 ? steps : (e + 15) * 1024 + (steps - 1024))
}
const halfValue = (h: number): number => {
  const e = (h >> 10) & 31
  const f = h & 1023
  return (h & 0x8000 ? -1 : 1) * (e === 0 ? f * 2 ** -24 : e === 31 ? (f ? NaN : Infinity) : (1024 + f) * 2 ** (e - 25))
}
const brainBits = (x: number): number => {
  const bits = f32Bits(x)
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16
}
const brainValue = (b: number) => f32Of(b << 16)
const clampInt = (x: number, lowest: number, highest: number) => Math.min(highest, Math.max(lowest, x))

test('conversions', async () => {
  const a = Float32Array.from(
    lanes,
    (i) => [0, -0, 3e9, -3e9, 0.5, 1.5, 2.5, -2.5, 1e-8, 65519, 65520, 70000][i] ?? (i - 20) * 37.31,
  )
  const out = gpu.allocate(14 * 128)
  expect((await gpu.run('conversions', [out, gpu.upload(a)])).findings).toEqual([])
  const got = gpu.read(out, 14 * 32, Uint32Array)
  const int = (x: number) => clampInt(x, -(2 ** 31), 2 ** 31 - 1) >>> 0
  const cases: ((x: number, i: number) => number)[] = [
    (x) => int(Math.trunc(x)),
    (x) => clampInt(Math.trunc(x), 0, 0xffffffff),
    (x) => int(nearestEven(x)),
    (x) => int(Math.floor(x)),
    (x) => int(Math.ceil(x)),
    (x) => ((int(Math.trunc(x)) << 16) >> 16) >>> 0,
    (x) => ((int(Math.trunc(x)) << 24) >> 24) >>> 0,
    (x) => f32Bits(Math.fround(int(Math.trunc(Math.fround(x * 1000003))) | 0)),
    (x) => f32Bits(directed(Number(BigInt.asIntN(64, BigInt(Math.trunc(x)) * 1000000007n)), 'z')),
    halfBits,
    brainBits,
    (_, i) => f32Bits(halfValue(i * 2011)),
    (x) => ((halfBits(-x) << 16) | halfBits(x)) >>> 0,
    (x) => ((brainBits(-x) << 16) | brainBits(x)) >>> 0,
  ]
  cases.forEach((f, k) =>
    lanes.forEach((i) => {
      if (k === 8 && Math.abs(a[i]!) > 4e6) return // the product has more bits than a double
      if (k === 11 && Number.isNaN(halfValue(i * 2011))) return
      expect([k, i, got[k * 32 + i]]).toEqual([k, i, f(a[i]!, i)])
    }),
  )
})

test('f16 and bf16 arithmetic', async () => {
  const a = Float32Array.from(lanes, (i) => (i - 15) * 0.377)
  const b = Float32Array.from(lanes, (i) => 1.01 ** i - 2)
  const out = gpu.allocate(10 * 64)
  expect((await gpu.run('halves', [out, gpu.upload(a), gpu.upload(b)])).findings).toEqual([])
  const got = gpu.read(out, 320, Uint16Array)
  const h = (f: (x: number, y: number) => number) => (x: number, y: number) =>
    halfBits(f(halfValue(halfBits(x)), halfValue(halfBits(y))))
  const r = (f: (x: number, y: number) => number) => (x: number, y: number) =>
    brainBits(f(brainValue(brainBits(x)), brainValue(brainBits(y))))
  const cases = [
    h((x, y) => x + y),
    h((x, y) => x * y),
    h((x, y) => x * y + x),
    h(Math.max),
    h((x) => -x),
    h((x, y) => x + y),
    r((x, y) => x + y),
    r((x, y) => x * y),
    r((x, y) => x * y + x),
    r(Math.min),
  ]
  cases.forEach((f, k) =>
    expect([k, ...got.slice(k * 32, k * 32 + 32)]).toEqual([k, ...lanes.map((i) => f(a[i]!, b[i]!))]),
  )
})
