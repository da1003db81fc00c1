/**
 * Normally distributed inputs made on the device: filling 16384 x 16384 from JavaScript would take minutes.
 *
 * Element i of the storage (whatever the order of axes) is a function of i and the seed alone, in whole numbers until the last
 * conversion: other programs can make the very same bits (bench/gpu/cublas.py does). Twelve uniform 16-bit numbers are summed:
 * mean 0, variance 1, and within 6 of it.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { Device } from '../devices/device.ts'
import type { DeviceModule } from '../modules/module.ts'
import { randomValues } from '../selftest/values.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { spanOf } from '../tensors/layout.ts'

/** How the f32 value (or the whole sum) becomes an element. */
const STORES: Readonly<Partial<Record<DTypeName, { readonly type: string; readonly store: string }>>> = {
  f64: { type: 'double', store: 'value(sum)' },
  f32: { type: 'float', store: 'value(sum)' },
  tf32: { type: 'unsigned', store: 'to_tf32(value(sum))' },
  f16: { type: 'unsigned short', store: 'to_f16(value(sum))' },
  bf16: { type: 'unsigned short', store: 'to_bf16(value(sum))' },
  e4m3: { type: 'unsigned char', store: 'to_e4m3(value(sum))' },
  e5m2: { type: 'unsigned char', store: 'to_e5m2(value(sum))' },
  i8: { type: 'signed char', store: 'max(-127, min(127, sum >> 11))' },
  u8: { type: 'unsigned char', store: 'min(255, abs(sum >> 11))' },
}

/** Of e4m3 and e5m2, cvt exists from compute capability 8.9 on (PTX ISA 9.7.9.21). */
const HELPERS = `
__device__ unsigned mix(unsigned x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu;
  return x ^ (x >> 16);
}
// The sum of twelve uniform numbers of 16 bits, less its mean: standard deviation 65536.
__device__ int normal(unsigned long long i, unsigned seed) {
  const unsigned key = mix((unsigned)i + mix(seed + (unsigned)(i >> 32) * 0x9e3779b9u));
  int sum = -393210;
  for (unsigned j = 1; j <= 6; j++) {
    const unsigned word = mix(key + j * 0x9e3779b9u);
    sum += (word & 0xffffu) + (word >> 16);
  }
  return sum;
}
__device__ float value(int sum) { return sum * (1.0f / 65536); }
__device__ unsigned to_tf32(float x) {
  const unsigned bits = __float_as_uint(x);
  return (bits + 0xfffu + ((bits >> 13) & 1)) & ~0x1fffu;
}
__device__ unsigned short to_f16(float x) { unsigned short r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
__device__ unsigned short to_bf16(float x) {
  const unsigned bits = __float_as_uint(x);
  return (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
}
#if __CUDA_ARCH__ >= 890
__device__ unsigned char to_e4m3(float x) { unsigned short r; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(r) : "f"(x)); return r; }
__device__ unsigned char to_e5m2(float x) { unsigned short r; asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %1;" : "=h"(r) : "f"(x)); return r; }
#endif
`

const kernelText = (dtype: DTypeName, type: string, store: string): string => `
extern "C" __global__ void fill_${dtype}(${type}* out, unsigned long long count, unsigned seed) {
  for (unsigned long long i = blockIdx.x * 256ull + threadIdx.x; i < count; i += gridDim.x * 256ull) {
    const int sum = normal(i, seed);
    out[i] = ${store};
  }
}`

const NARROW: readonly string[] = ['e4m3', 'e5m2']

/** CUDA C++ with a kernel `fill_DTYPE(out, count, seed)` for every dtype that one is written for. */
export const FILL_SOURCE = `${HELPERS}${Object.entries(STORES)
  .map(([dtype, { type, store }]) => {
    const text = kernelText(dtype as DTypeName, type, store)
    return NARROW.includes(dtype) ? `\n#if __CUDA_ARCH__ >= 890${text}\n#endif` : text
  })
  .join('')}
extern "C" __global__ void poison(unsigned char* out, unsigned long long bytes) {
  for (unsigned long long i = blockIdx.x * 256ull + threadIdx.x; i < bytes; i += gridDim.x * 256ull) out[i] = 0xff;
}
`

const modules = new WeakMap<Device, Promise<DeviceModule>>()

/** Compiled (about a second without the cache) and loaded once for each device. */
function fillModule(device: Device): Promise<DeviceModule> {
  let module = modules.get(device)
  if (!module) {
    module = device.compileCuda(FILL_SOURCE, { name: 'fill.cu' })
    modules.set(device, module)
    module.catch(() => modules.delete(device))
  }
  return module
}

/** Fills all of the tensor's memory, padding included. Dtypes without a kernel are filled from the host. */
export async function fillNormal(tensor: Tensor, seed: number): Promise<void> {
  const { device, dtype, shape, strides } = tensor
  const count = spanOf(shape, strides)
  if (count === 0) return
  const known = STORES[dtype] !== undefined && !(NARROW.includes(dtype) && device.cc < 89)
  if (!known) return tensor.copyFrom(randomValues(dtype, tensor.elementCount, seed, 'normal'))
  const kernel = (await fillModule(device)).function(`fill_${dtype}`)
  const grid = Math.min(Math.ceil(count / 256), device.smCount * 16)
  await kernel.launch({ grid, block: 256, params: [tensor, BigInt(count), seed >>> 0] })
}

/** NaN in every float format, and a number that sums seldom are: shows what a kernel leaves unwritten. */
export async function poison(tensor: Tensor): Promise<void> {
  const { device, dtype, shape, strides } = tensor
  const bytes = Math.ceil((spanOf(shape, strides) * DTYPES[dtype].bits) / 8)
  const kernel = (await fillModule(device)).function('poison')
  await kernel.launch({
    grid: Math.min(Math.ceil(bytes / 4096) || 1, device.smCount * 16),
    block: 256,
    params: [tensor, BigInt(bytes)],
  })
}
