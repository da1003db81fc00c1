import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { decode, decodeOne, encode, encodeOne, roundToDType } from '../../compiler/codec.ts'
import { byteLength, canStore, contractionPartners, DTYPES, isDType, legalContraction } from '../../compiler/dtypes.ts'
import { DTYPE_NAMES, type DTypeName } from '../../grammar/vocabulary.ts'

describe('the dtype table', () => {
  test('has an entry for every dtype of the vocabulary, with the largest value its codes reach', () => {
    expect(Object.keys(DTYPES).sort()).toEqual([...DTYPE_NAMES].sort())
    for (const name of DTYPE_NAMES) {
      expect(DTYPES[name].name).toBe(name)
      expect(roundToDType(name, DTYPES[name].maxFinite)).toBe(DTYPES[name].maxFinite)
    }
    expect(isDType('bf16')).toBe(true)
    expect(isDType('toString')).toBe(false)
  })

  test('contractions: legal pairs with the default accumulator first', () => {
    expect(legalContraction('f16', 'f16')).toEqual(['f32', 'f16'])
    expect(legalContraction('e4m3', 'e5m2')).toEqual(['f32', 'f16'])
    expect(legalContraction('i8', 'u8')).toEqual(['i32'])
    expect(legalContraction('f64', 'f64')).toEqual(['f64'])
    expect(legalContraction('f16', 'bf16')).toBeNull()
    expect(legalContraction('f32', 'tf32')).toBeNull()
    expect(legalContraction('i32', 'i32')).toBeNull()
    expect(contractionPartners('u8')).toEqual(['i8', 'u8', 'i4', 'u4'])
  })

  test('stores without a cast', () => {
    expect(canStore('f32', 'e4m3')).toBe(true)
    expect(canStore('f64', 'bf16')).toBe(true)
    expect(canStore('f32', 'i8')).toBe(false)
    for (const name of ['i32', 'i8', 'u8', 'f32', 'f16', 'bf16'] as const) expect(canStore('i32', name)).toBe(true)
    expect(canStore('i32', 'e4m3')).toBe(false)
    expect(canStore('i32', 'u32')).toBe(false)
  })

  test('bytes of packed formats', () => {
    expect(byteLength('e2m1', 5)).toBe(3)
    expect(byteLength('e3m2', 4)).toBe(3)
    expect(byteLength('f64', 3)).toBe(24)
  })
})

describe('values', () => {
  const cases: [DTypeName, number, number][] = [
    ['f16', 65519.99, 65504], ['f16', 65520, Infinity], ['f16', -1e300, -Infinity], ['f16', 2 ** -25, 0], ['f16', 2 ** -25 * 1.0001, 2 ** -24],
    ['bf16', 1 + 2 ** -8, 1], ['bf16', 1 + 2 ** -8 + 2 ** -40, 1 + 2 ** -7], ['bf16', 1 + 3 * 2 ** -8, 1 + 2 ** -6],
    ['e4m3', 1e9, 448], ['e4m3', -Infinity, -448], ['e4m3', 2 ** -10, 0], ['e5m2', Infinity, 57344], ['e5m2', 2 ** -17, 0],
    ['e3m2', NaN, 28], ['e2m3', 100, 7.5], ['e2m1', -2.5, -2], ['e2m1', 5, 4], ['e2m1', 5.01, 6],
    ['ue8m0', 3, 4], ['ue8m0', 4, 4], ['ue8m0', 0, 2 ** -127], ['ue8m0', -0.75, 1], ['ue8m0', Infinity, 2 ** 127],
    ['ue4m3', -3, 0], ['ue4m3', 1000, 448], ['tf32', 1 + 2 ** -11, 1], ['tf32', 1 + 3 * 2 ** -11, 1 + 2 ** -9],
    ['i8', 2.5, 2], ['i8', -3.5, -4], ['i8', 300, 127], ['u8', -1, 0], ['u8', NaN, 0], ['i32', 1e12, 2147483647],
    ['i4', 7.5, 7], ['i4', -8.6, -8], ['i4', -0.5, 0], ['u4', 15.6, 15], ['u4', 2.5, 2], ['u4', -3, 0], ['i4', NaN, 0],
    ['i32', NaN, 0], ['u32', -5, 0], ['u32', 2 ** 33, 2 ** 32 - 1], ['bool', -2, 1], ['bool', 0, 0], ['bool', NaN, 1],
  ] // prettier-ignore
  test.each(cases)('%s stores %d as %d', (dtype, value, expected) => expect(roundToDType(dtype, value)).toBe(expected))

  test.each(DTYPE_NAMES.filter((name) => DTYPES[name].nan !== null))('%s keeps NaN', (dtype) => {
    expect(roundToDType(dtype, NaN)).toBeNaN()
    if (dtype !== 'f32') expect(encodeOne(dtype as 'f16', NaN)).toBe(DTYPES[dtype].nan)
  })

  test.each(DTYPE_NAMES.filter((name) => DTYPES[name].bits <= 16 && name !== 'bool'))(
    'every %s code survives',
    (dtype) => {
      const count = 2 ** DTYPES[dtype].bits
      const codes = Uint16Array.from({ length: count }, (_, i) => i)
      const stored = count > 256 ? codes : Uint8Array.from(codes)
      const values = decode(dtype, stored)
      const again = encode(dtype, values)
      const wrong: number[] = []
      const unsignedScale = dtype === 'ue4m3'
      for (let i = 0; i < count; i++) {
        if (Number.isNaN(values[i]) || (unsignedScale && i > 0x7f)) continue
        const saturated = DTYPES[dtype].overflow === 'saturate' && Math.abs(values[i]!) === Infinity
        if (!saturated && again[i] !== i) wrong.push(i)
      }
      expect(wrong).toEqual([])
    },
  )

  test('f64 and 32-bit formats are their bits', () => {
    expect(decode('f64', encode('f64', [Math.PI, -0]))).toEqual(Float64Array.of(Math.PI, -0))
    expect(encode('f32', [1])).toEqual(Uint32Array.of(0x3f800000))
    expect(decodeOne('u32', 0xffffffff)).toBe(4294967295)
    expect(decode('i8', encode('i8', [-1, 5]))).toEqual(Int8Array.of(-1, 5))
  })

  test('rounds f64 values once: 1 + 2^-11 + 2^-30 is above the middle of two f16 values', () => {
    // Through f32 it would become the tie 1 + 2^-11 and go down to 1.
    expect(roundToDType('f16', 1 + 2 ** -11 + 2 ** -30)).toBe(1 + 2 ** -10)
    expect(encode('f16', new Float32Array([1.5]))).toEqual(Uint16Array.of(0x3e00))
  })
})

/** CUDA's include folder, or null without a toolkit. */
function cudaInclude(): string | null {
  try {
    const { stderr } = spawnDryRun()
    const top = /^#\$ TOP=(.*)$/m.exec(stderr)?.[1]?.trim()
    const include = top && path.join(top, 'include')
    return include && existsSync(path.join(include, 'cuda_fp4.h')) ? include : null
  } catch {
    return null
  }
}

function spawnDryRun(): { stderr: string } {
  const script = 'nvcc --dryrun -E -x cu /dev/null 2>&1'
  return { stderr: execFileSync('sh', ['-c', script], { encoding: 'utf8' }) }
}

const PATTERNS = 1 << 20
/** Odd, so that the patterns spread over signs, exponents and mantissas. */
const STRIDE = 4093

const ENCODERS: [DTypeName, 'u8' | 'u16', string, string][] = [
  ['f16', 'u16', '__half_raw(__float2half_rn(x)).x', '__half_raw(__double2half(d)).x'],
  ['bf16', 'u16', '__nv_bfloat16_raw(__float2bfloat16_rn(x)).x', '__nv_bfloat16_raw(__double2bfloat16(d)).x'],
  ['e4m3', 'u8', '__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)', '__nv_cvt_double_to_fp8(d, __NV_SATFINITE, __NV_E4M3)'],
  ['e5m2', 'u8', '__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2)', '__nv_cvt_double_to_fp8(d, __NV_SATFINITE, __NV_E5M2)'],
  ['e3m2', 'u8', '__nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest)', '__nv_cvt_double_to_fp6(d, __NV_E3M2, cudaRoundNearest)'],
  ['e2m3', 'u8', '__nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest)', '__nv_cvt_double_to_fp6(d, __NV_E2M3, cudaRoundNearest)'],
  ['e2m1', 'u8', '__nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest)', '__nv_cvt_double_to_fp4(d, __NV_E2M1, cudaRoundNearest)'],
  ['ue8m0', 'u8', '__nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf)', '__nv_cvt_double_to_e8m0(d, __NV_SATFINITE, cudaRoundPosInf)'],
] // prettier-ignore

const include = cudaInclude()
const folder = include ? mkdtempSync(path.join(tmpdir(), 'codec-')) : null
afterAll(() => folder && rmSync(folder, { recursive: true }))

describe.skipIf(!include)("against the toolkit's own conversions", () => {
  test('encoding of f32 and f64 patterns', { timeout: 60_000 }, () => {
    const file = path.join(folder!, 'reference.cpp')
    // f64: the f32 pattern's value, moved by an amount far below half a unit of every format.
    writeFileSync(
      file,
      `#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_fp6.h>
#include <cuda_fp4.h>
template <class T, class F> void write(F convert) {
  std::vector<T> codes(${PATTERNS});
  for (uint32_t i = 0; i < ${PATTERNS}; ++i) {
    uint32_t bits = i * ${STRIDE}u; float x; memcpy(&x, &bits, 4);
    codes[i] = convert(x, double(x) * (1 + 1.0 / (1ull << 40)));
  }
  fwrite(codes.data(), sizeof(T), codes.size(), stdout);
}
int main() {
${ENCODERS.flatMap(([, width, f, d]) => [f, d].map((e) => `  write<${width === 'u8' ? 'uint8_t' : 'uint16_t'}>([](float x, double d) { return ${e}; });`)).join('\n')}
}
`,
    )
    const program = path.join(folder!, 'reference')
    execFileSync('g++', ['-O1', '-w', '-std=c++17', `-I${include}`, file, '-o', program])
    const output = execFileSync(program, { maxBuffer: 1 << 28 })

    const patterns = new Uint32Array(PATTERNS)
    for (let i = 0; i < PATTERNS; i++) patterns[i] = Math.imul(i, STRIDE)
    const singles = new Float32Array(patterns.buffer)
    const doubles = Float64Array.from(singles, (x) => x * (1 + 2 ** -40))
    let offset = 0
    for (const [dtype, width] of ENCODERS) {
      for (const values of [singles, doubles]) {
        const bytes = output.buffer.slice(output.byteOffset + offset, output.byteOffset + offset + PATTERNS * (width === 'u8' ? 1 : 2)) // prettier-ignore
        offset += bytes.byteLength
        const expected = width === 'u8' ? new Uint8Array(bytes) : new Uint16Array(bytes)
        const got = encode(dtype, values) as Uint16Array
        const wrong: string[] = []
        for (let i = 0; i < PATTERNS && wrong.length < 5; i++) {
          // Which NaN the headers give differs from the instruction's, which is ours ("keeps NaN" above).
          if (Number.isNaN(values[i]) && DTYPES[dtype].nan !== null) continue
          if (got[i] !== expected[i]) wrong.push(`${dtype}(${values[i]}) is ${got[i]}, not ${expected[i]}`)
        }
        expect(wrong).toEqual([])
      }
    }
  })
})
