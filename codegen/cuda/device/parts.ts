/** Parts of k that meet in the workspace. */
export const PARTS: readonly string[] = [
  `// In L2, where the other parts are looked for; weak accesses, which ktl_count_part orders.
template <typename T> __device__ __forceinline__ void ktl_store_part(T* to, T value) { __stcg(to, value); }`,
  `template <typename T> __device__ __forceinline__ T ktl_load_part(const T* from) { return __ldcg(from); }`,
  `// Parts that were counted before this one; behind the last of them the count is 0 again. The last one sees what all have written before,
// threads that met this one among them: causality order goes through barriers (PTX ISA 8.9.4).
__device__ __forceinline__ int ktl_count_part(unsigned int* count, int last) {
  unsigned int before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(count), "r"(last) : "memory");
  return (int)before;
}`,
]
