/** Findings about mbarriers and about work that is waited for, or should have been. */
import { cuda, finding } from './device_finding.ts'

/** `b`: the shared address of an mbarrier. */
const BARRIER = `__shared__ unsigned long long bar;
        unsigned b = __cvta_generic_to_shared(&bar);`
const init = (count: number): string => `asm volatile("mbarrier.init.shared.b64 [%0], ${count};" :: "r"(b));`
/** What copies complete must be initialised for the asynchronous proxy too. */
const FENCE = 'asm volatile("fence.mbarrier_init.release.cluster;");'
const ARRIVE = 'asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(b));'
const WAIT =
  'asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(b) : "memory");'
const expect = (bytes: number): string =>
  `asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], ${bytes};" :: "r"(b));`
/** 128 bytes of x to the tile; the barrier counts them. */
const COPY = `asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                       :: "r"(to), "l"(x), "r"(b) : "memory");`
const TILE = `__shared__ __align__(16) float tile[32];
        unsigned to = __cvta_generic_to_shared(tile);`
const COPY_LAUNCH =
  "kernel.launch({ grid: 1, block: 32, params: [device.tensor('f32', [32], 1), device.empty('f32', [32])] })"

export const barriers = {
  KTL5005: finding(
    'hang',
    'No warp can make progress and no asynchronous work is left that could wake one. The notes list who waits on what. ' +
      'Usual causes: a wrong phase parity, an arrival count that is never reached, an expect_tx that no copy satisfies.',
    cuda(
      (initialise) => `
      // All 32 threads arrive, and wait for the phase to end.
      __global__ void meet() {
        ${BARRIER}
        if (threadIdx.x == 0) ${initialise}
        __syncthreads();
        ${ARRIVE}
        ${WAIT}
      }`,
      init(33),
      init(32),
    ),
  ),
  KTL5006: finding(
    'mbarrier protocol broken',
    'More arrivals than the barrier was initialised for, a transaction count out of range, or an operation on a ' +
      'barrier that was not initialised. Hardware faults or corrupts the phase.',
    cuda(
      (elect) => `
      // One arrival, of the thread that starts the copy, is what the barrier counts.
      __global__ void copy(const float* x, float* out) {
        ${TILE}
        ${BARRIER}
        if (threadIdx.x == 0) {
          ${init(1)}
          ${FENCE}
        }
        __syncthreads();
        ${elect} {
          ${expect(128)}
          ${COPY}
        }
        ${WAIT}
        out[threadIdx.x] = tile[threadIdx.x];
      }`,
      'if (threadIdx.x < 2)',
      'if (threadIdx.x == 0)',
      COPY_LAUNCH,
    ),
  ),
  KTL5007: finding(
    'mbarrier byte count does not match',
    'The bytes of expect_tx and the bytes that copies delivered differ, so the phase ends too early or never: then the ' +
      'hang (KTL5005) is reported beside it.',
    cuda(
      (announce) => `
      __global__ void copy(const float* x, float* out) {
        ${TILE}
        ${BARRIER}
        if (threadIdx.x == 0) {
          ${init(1)}
          ${FENCE}
          ${announce}
          ${COPY}
        }
        __syncthreads();
        ${WAIT}
        out[threadIdx.x] = tile[threadIdx.x];
      }`,
      expect(256),
      expect(128),
      COPY_LAUNCH,
    ),
  ),
  KTL5022: finding(
    'mbarrier initialised again',
    'A barrier in use was initialised again: whoever waits for its phase may wait for ever. `mbarrier.inval` ends its life.',
    cuda(
      (invalidate) => `
      __global__ void twice() {
        ${BARRIER}
        ${init(1)}
        ${ARRIVE}
        ${invalidate}
        ${init(1)}
        ${ARRIVE}
      }`,
      '',
      'asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(b));',
      'kernel.launch({ grid: 1, block: 1, params: [] })',
    ),
  ),
  KTL5023: finding(
    'asynchronous work left at exit',
    'A CTA ended before copies or MMAs that it started were complete. Of a bulk or TMA store that has not read shared ' +
      'memory yet it is a remark: cp.async.bulk.wait_group.read is missing, but a GPU keeps that memory until then.',
    cuda(
      (wait) => `
      __global__ void prefetch(const float* x) {
        ${TILE}
        ${BARRIER}
        ${init(1)}
        ${FENCE}
        ${expect(128)}
        ${COPY}
        ${wait}
      }`,
      '',
      WAIT,
      "kernel.launch({ grid: 1, block: 1, params: [device.tensor('f32', [32], 1)] })",
    ),
  ),
}
