/**
 * What devices can do at most: dense rates of NVIDIA's data sheets (H100, H200, A100, B200, L4, L40S, RTX 4090), at boost
 * clocks. A fraction of peak is a fraction of these; under load clocks are lower, and no kernel reaches 1.
 */
import type { DTypeName } from '../../grammar/vocabulary.ts'

/** Arithmetic by what is multiplied. */
export type Arithmetic = 'f16' | 'tf32' | 'f8' | 'f4' | 'i8' | 'f32' | 'f64'

export interface Peak {
  readonly name: string
  /** 10^12 operations per second; a multiply-add is two. */
  readonly teraops: Readonly<Partial<Record<Arithmetic, number>>>
  /** Device memory, 10^9 bytes per second. */
  readonly gigabytes: number
}

const HOPPER = { f16: 989.4, tf32: 494.7, f8: 1978.9, i8: 1978.9, f32: 66.9, f64: 66.9 } as const

/** The first whose pattern the device's name matches. */
const PEAKS: readonly (Peak & { readonly pattern: RegExp })[] = [
  { pattern: /H200|GH200/, name: 'H200', teraops: HOPPER, gigabytes: 4800 },
  { pattern: /H100.*PCIe/, name: 'H100 PCIe', teraops: { f16: 756, tf32: 378, f8: 1513, i8: 1513, f32: 51, f64: 51 }, gigabytes: 2000 },
  { pattern: /H100|virtual-sm90/, name: 'H100 SXM', teraops: HOPPER, gigabytes: 3352 },
  { pattern: /B200|virtual-sm100/, name: 'B200', teraops: { f16: 2250, tf32: 1125, f8: 4500, f4: 9000, i8: 4500, f32: 75, f64: 37 }, gigabytes: 7700 },
  { pattern: /A100.*80G/, name: 'A100 80GB', teraops: { f16: 312, tf32: 156, i8: 624, f32: 19.5, f64: 19.5 }, gigabytes: 2039 },
  { pattern: /A100/, name: 'A100 40GB', teraops: { f16: 312, tf32: 156, i8: 624, f32: 19.5, f64: 19.5 }, gigabytes: 1555 },
  { pattern: /L40S/, name: 'L40S', teraops: { f16: 362, tf32: 183, f8: 733, i8: 733, f32: 91.6, f64: 1.4 }, gigabytes: 864 },
  { pattern: /\bL4\b/, name: 'L4', teraops: { f16: 121, tf32: 60, f8: 242, i8: 242, f32: 30.3, f64: 0.5 }, gigabytes: 300 },
  { pattern: /RTX 4090/, name: 'RTX 4090', teraops: { f16: 165.2, tf32: 82.6, f8: 330.3, i8: 660.6, f32: 82.6, f64: 1.3 }, gigabytes: 1008 },
] // prettier-ignore

/** null: a device that the table does not know. */
export function peakOf(deviceName: string): Peak | null {
  return PEAKS.find(({ pattern }) => pattern.test(deviceName)) ?? null
}

const ARITHMETIC: Readonly<Partial<Record<DTypeName, Arithmetic>>> = {
  f16: 'f16', bf16: 'f16', tf32: 'tf32', f32: 'f32', f64: 'f64', e4m3: 'f8', e5m2: 'f8', i8: 'i8', u8: 'i8',
} // prettier-ignore

/** The rate that products of `a` and `b` go at: that of the wider one. */
export function arithmeticOf(a: DTypeName, b: DTypeName): Arithmetic {
  const order: readonly Arithmetic[] = ['f64', 'f32', 'tf32', 'f16', 'i8', 'f8', 'f4']
  const [first, second] = [ARITHMETIC[a] ?? 'f4', ARITHMETIC[b] ?? 'f4']
  return order.indexOf(first) <= order.indexOf(second) ? first : second
}
