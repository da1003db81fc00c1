/**
 * What generated text needs of CUDA's headers. nvcc puts `-include cuda_runtime.h` before every file, and its 41,000 lines are most of the
 * time of a small compilation. gcc looks for it in the working folder first, where this takes its place: the headers of intrinsics alone, and
 * the builtins of math_functions.h that generated text calls, without the C++ library. Nothing here is a function of its own, so the PTX is the
 * same but for numbers of debug strings. A name that has only a wider overload here is left out: the text must fail, not change.
 */
const BUILTINS = [
  ...['float', 'double'].flatMap((type) => {
    const f = type === 'float' ? 'f' : ''
    return [
      ...['fabs', 'sqrt', 'floor', 'ceil', 'rint', 'trunc'].map((name) => `${type} ${name}${f}(${type})`),
      ...['fmax', 'fmin', 'fmod', 'copysign'].map((name) => `${type} ${name}${f}(${type}, ${type})`),
      `${type} fma${f}(${type}, ${type}, ${type})`,
    ]
  }),
  ...['exp', 'exp2', 'expm1', 'log', 'log2', 'log1p', 'tanh', 'erf', 'erfc', 'normcdf', 'rsqrt'].map((name) => `double ${name}(double)`),
  'double pow(double, double)',
  'void *memcpy(void *, const void *, size_t)',
  ...['min', 'max'].flatMap((name) => [
    `int ${name}(int, int)`,
    `unsigned u${name}(unsigned, unsigned)`,
    `long long ll${name}(long long, long long)`,
    `unsigned long long ull${name}(unsigned long long, unsigned long long)`,
  ]),
] // prettier-ignore

/** Two of one sign, and of both as C++ converts them. */
const overloads = (name: string): string =>
  [
    ['unsigned', 'u', ['int']],
    ['long long', 'll', []],
    ['unsigned long long', 'ull', ['long long']],
  ]
    .flatMap(([type, prefix, signed]) =>
      [[type, type], ...(signed as string[]).flatMap((other) => [[type, other], [other, type]])].map(
        ([a, b]) => `__device__ __forceinline__ ${type} ${name}(${a} a, ${b} b) { return ${prefix}${name}(a, b); }`,
      ),
    )
    .join('\n') // prettier-ignore

/**
 * Headers that those below include and generated text calls nothing of: the host's functions, textures, surfaces, atomics, which it has as
 * PTX, and clusters. They are half of what is left. A guard that another release names otherwise leaves a header in.
 */
const UNUSED = [
  'CUDA_RUNTIME_API',
  'TEXTURE_INDIRECT_FUNCTIONS',
  'SURFACE_INDIRECT_FUNCTIONS',
  'DEVICE_ATOMIC_FUNCTIONS',
  'SM_20_ATOMIC_FUNCTIONS',
  'SM_32_ATOMIC_FUNCTIONS',
  'SM_60_ATOMIC_FUNCTIONS',
  'SM_90_RT',
]
/** Some text does, and it is the longest: loads and stores with a cache's name, and shifts of two words. */
const LOADS = { guard: 'SM_32_INTRINSICS', names: /\b__(ld|st|funnelshift)/ }

/** The file that takes the place of NVIDIA's `cuda_runtime.h` before this text. Headers of older architectures call min, max and memcpy. */
export function deviceHeaders(text: string): string {
  const left = LOADS.names.test(text) ? UNUSED : [...UNUSED, LOADS.guard]
  return `#define __CUDA_RUNTIME_H__
#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__
#include "crt/host_config.h"
#include "builtin_types.h"
extern "C" {
${BUILTINS.map((declaration) => `__device__ __device_builtin__ ${declaration};`).join('\n')}
}
${['min', 'max'].map(overloads).join('\n')}
${left.map((name) => `#define __${name}_H__`).join('\n')}
#include "device_launch_parameters.h"
#include "vector_functions.h"
#include "crt/device_functions.h"
#include "crt/device_double_functions.h"
#include "sm_20_intrinsics.h"
#include "sm_30_intrinsics.h"
#include "sm_32_intrinsics.h"
#include "crt/sm_80_rt.h"
`
}
