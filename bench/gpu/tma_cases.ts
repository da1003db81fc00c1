/**
 * The epilogue's way out of an SM100 kernel (swizzled staging in shared memory, TMA store), and the way in (TMA load,
 * mbarrier), as small kernels for sm_90a made of the very PTX wrappers that generated kernels use: recorded on the virtual
 * SM90 for replay.cu. Tensors have padding, ends inside boxes, and rows that are no multiple of 16 bytes.
 *
 *   npx tsx bench/gpu/tma_cases.ts FOLDER
 */
import { SM90_WRAPPERS } from '../../codegen/targets/sm90/ptx.ts'
import { printWrappers } from '../../codegen/pipe/kernel.ts'
import { openDevice } from '../../runtime/index.ts'
import { recordLaunches } from './record.ts'

const wrappers = printWrappers(
  new Set(['shared_address', 'mbarrier_init', 'fence_mbarrier_init', 'mbarrier_arrive_expect_tx', 'mbarrier_wait', 'tma_load_2d', 'tma_store_2d', 'bulk_commit', 'bulk_wait', 'fence_proxy_async', 'store_shared_v4', 'load_shared']), // prettier-ignore
  SM90_WRAPPERS,
)

/** One warp per CTA copies 32 x 32 tiles; lane r owns row r, whose 16-byte chunks it finds by the swizzle's XOR. */
const source = (elementBytes: number): string => `
typedef unsigned int u32; typedef unsigned long long u64;
struct alignas(64) TensorMap { u64 words[16]; };
${wrappers.join('\n')}
extern "C" __global__ void __launch_bounds__(32) copy(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out, u32 tiles_x, u32 tiles) {
  constexpr u32 PITCH = 32 * ${elementBytes}, CHUNKS = PITCH / 16;
  extern __shared__ __align__(1024) unsigned char dynamic_smem[];
  const u32 smem = (shared_address(dynamic_smem) + 1023) & ~1023u, staging = smem + 4096, barrier = smem + 8192, lane = threadIdx.x;
  if (lane == 0) { mbarrier_init(barrier, 1); fence_mbarrier_init(); }
  __syncwarp();
  u32 phase = 0;
  for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x, phase ^= 1) {
    const int x = tile % tiles_x * 32, y = tile / tiles_x * 32;
    if (lane == 0) { mbarrier_arrive_expect_tx(barrier, 32 * PITCH); tma_load_2d(smem, &in, barrier, x, y); }
    mbarrier_wait(barrier, phase);
    for (u32 i = 0; i < CHUNKS; ++i) {
      const u32 chunk = lane * PITCH + (i ^ (CHUNKS == 8 ? lane % 8 : CHUNKS == 4 ? lane / 2 % 4 : lane / 4 % 2)) * 16;
      u32 w[4];
      for (u32 j = 0; j < 4; ++j) w[j] = load_shared(smem + chunk + 4 * j) ^ (0x01010101u * (i + 1)) ^ (lane << 16);
      store_shared_v4(staging + chunk, w[0], w[1], w[2], w[3]);
    }
    fence_proxy_async();
    __syncwarp();
    if (lane == 0) { tma_store_2d(&out, staging, x, y); bulk_commit(); bulk_wait(); }
    __syncwarp();
  }
}`

let label = ''
recordLaunches(process.argv[2]!, () => label)
let recorded = 0
for (const [dtype, bytes, swizzle] of [
  ['f16', 2, '64B'],
  ['f32', 4, '128B'],
  ['u8', 1, '32B'],
] as const)
  // prettier-ignore
  for (const [width, height] of [[96, 64], [100, 70], [37, 33], [8, 1], [129, 95]] as const) {
    const device = await openDevice('virtual-sm90')
    const module = await device.compileCuda(source(bytes), { arch: 'sm_90a' })
    const pitch = Math.ceil((width * bytes) / 16) * 16 + 16
    const image = (seed: number): Uint8Array => Uint8Array.from({ length: pitch * height }, (_, i) => (i * 167 + seed) & 0xff)
    const [from, to] = await Promise.all([11, 93].map(async (seed) => {
      const address = device.malloc(pitch * height)
      await device.write(address, image(seed))
      return device.tensorMap({ dtype, address, dims: [width, height], strides: [pitch], box: [32, 32], swizzle })
    })) // prettier-ignore
    const across = Math.ceil(width / 32)
    const tiles = across * Math.ceil(height / 32)
    label = `TMA ${dtype} ${width}x${height} swizzle ${swizzle}`
    const { findings } = await module
      .function('copy')
      .launch({ grid: [3, 1, 1], block: [32, 1, 1], sharedMemBytes: 10240, params: [from!, to!, across, tiles] })
    for (const finding of findings) console.error(`${label}: ${finding.message}`)
    recorded++
    await device.close()
  }
console.error(`${recorded} launches recorded`)
