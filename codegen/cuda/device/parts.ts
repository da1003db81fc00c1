/** Parts of k that meet in the workspace, and the MMAs of kernels that take fragments from memory. */
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
  `__device__ __forceinline__ void ktl_mma_f16(float* d, unsigned int a0, unsigned int a1, unsigned int a2, unsigned int a3, unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}`,
  `__device__ __forceinline__ void ktl_mma_bf16(float* d, unsigned int a0, unsigned int a1, unsigned int a2, unsigned int a3, unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}`,
]
