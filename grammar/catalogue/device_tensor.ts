/** Findings about tensor memory, tcgen05 and TMA. */
import { cuda, finding } from './device_finding.ts'

/** 32 columns of tensor memory for one warp: `tm` is where they begin. */
const ALLOCATE = `__shared__ unsigned slot;
        unsigned s = __cvta_generic_to_shared(&slot), tm;
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(s) : "memory");
        __syncwarp();
        tm = slot;`
const DEALLOCATE = 'asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(tm));'

export const tensorUnits = {
  KTL5008: finding(
    'tensor memory leaked',
    'A CTA ended without deallocating its tensor memory; later CTAs on the SM would block.',
    cuda(
      (deallocate) => `
      __global__ void allocate() {
        ${ALLOCATE}
        ${deallocate}
      }`,
      '',
      DEALLOCATE,
    ),
  ),
  KTL5009: finding(
    'illegal tensor memory access',
    'The columns are not allocated, are freed already, or belong to a lane quarter that the warp cannot reach (warp i ' +
      'of a warpgroup reads lanes 32i to 32i+31).',
    cuda(
      (column) => `
      __global__ void store() {
        ${ALLOCATE}
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(tm + ${column}), "r"(7));
        asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
        ${DEALLOCATE}
      }`,
      '32',
      '31',
    ),
  ),
  KTL5010: finding(
    'illegal matrix descriptor',
    'A shared-memory or instruction descriptor has a reserved value or does not fit the instruction.',
    cuda(
      (constant) => `
      // D (64 x 8, f32) = A (64 x 16, f16) * B (8 x 16, f16)^T, without swizzle: cores of 8 rows of 16 bytes.
      __global__ void multiply() {
        __shared__ __align__(128) unsigned A[512], B[64];
        __shared__ unsigned long long bar;
        ${ALLOCATE}
        unsigned a = __cvta_generic_to_shared(A), b = __cvta_generic_to_shared(B), done = __cvta_generic_to_shared(&bar);
        for (int i = threadIdx.x; i < 512; i += 32) A[i] = B[i % 64] = 0;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (threadIdx.x == 0) {
          // Distances of cores along k and along rows in units of 16 bytes; bits 46 to 48 hold the constant 1.
          unsigned long long form = 8ull << 16 | 16ull << 32${constant};
          unsigned instruction = 1 << 4 | 8 / 8 << 17 | 64 / 16 << 24;  // f32 += f16 * f16, n = 8, m = 64
          asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(done));
          asm volatile("fence.mbarrier_init.release.cluster;");
          asm volatile("{ .reg .pred add; setp.ne.b32 add, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, add; }"
                       :: "r"(tm), "l"(form | a >> 4), "l"(form | b >> 4), "r"(instruction));
          asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(done));
          asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(done));
        }
        __syncwarp();
        ${DEALLOCATE}
      }`,
      '',
      ' | 1ull << 46',
    ),
  ),
  KTL5011: finding(
    'illegal tensor map',
    'The 128 bytes are no tensor map, or the copy does not fit it (tiled or im2col, rank, alignment of the box start, start within the bounding box).',
    cuda(
      (x) => `
      struct alignas(64) TensorMap { char bytes[128]; };
      __global__ void load(const __grid_constant__ TensorMap map) {
        __shared__ __align__(128) float tile[32];
        __shared__ unsigned long long bar;
        unsigned to = __cvta_generic_to_shared(tile), b = __cvta_generic_to_shared(&bar);
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" :: "r"(b));
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];"
                     :: "r"(to), "l"(&map), "r"(${x}), "r"(b) : "memory");  // the box begins at element ${x}
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(b));
      }`,
      '30',
      '32',
      "const x = device.tensor('f32', [64], 1)\n" +
        "const map = device.tensorMap({ dtype: 'f32', address: x.pointer, dims: [64], strides: [], box: [32] })\n" +
        'kernel.launch({ grid: 1, block: 1, params: [map] })',
    ),
  ),
  KTL5027: finding(
    'metadata of a sparse operand',
    'Four bits of metadata name which elements of a chunk are stored: two different ones of four (the lower index first, where the ' +
      'instruction says ordered_metadata, and in tcgen05.mma), or, of two elements of 32 bits, 0b0100 or 0b1110. What other bits do is ' +
      'not defined. Chunks that store nothing but zeros may have any.',
    cuda(
      (metadata) => `
      // D (16 x 8, f32) = A (16 x 16, f16, half of it stored) * B (16 x 8, f16)
      __global__ void multiply(float* out) {
        unsigned a = 0x3c003c00, b = 0x3c003c00, metadata = ${metadata};  // 4 bits for each 4 columns of A, of two rows
        float d[4] = {};
        asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4}, {%5, %5}, {%0, %1, %2, %3}, %6, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "r"(b), "r"(metadata));
        for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = d[i];
      }`,
      '0x44445555',
      '0x44444444',
      "kernel.launch({ grid: 1, block: 32, params: [device.empty('f32', [128])] })",
    ),
  ),
}
