/** A naive F64 GEMM in CUDA C++, as a class that discovery can list. */
import {
  type Artifact, BLASDesignMetadata, compileKernel, GemmArguments, GemmOperandsMetadata, type GenerateOptions, Kernel,
  type KernelLaunchOptions, KernelMetadata, launchKernel, layoutString, Status, TensorAttributes,
} from 'ktl' // prettier-ignore

/** One thread for each element of a tile. */
const CUDA = `extern "C" __global__ void f64_gemm(
    const double* a, const double* b, double* d, int m, int n, int k,
    long long a_l, long long a_m, long long a_k, long long b_l, long long b_k, long long b_n,
    long long d_l, long long d_m, long long d_n) {
  const int row = blockIdx.y * TILE_M + threadIdx.y;
  const int column = blockIdx.x * TILE_N + threadIdx.x;
  if (row >= m || column >= n) return;
  a += blockIdx.z * a_l + row * a_m;
  b += blockIdx.z * b_l + column * b_n;
  double sum = 0;
  for (int i = 0; i < k; i++) sum += a[i * a_k] * b[i * b_k];
  d[blockIdx.z * d_l + row * d_m + column * d_n] = sum;
}
`
const TILES = [[32, 32, 1], [16, 16, 1]] as const // prettier-ignore
const ROW_MAJOR = [0, 0, 1]
const COLUMN_MAJOR = [0, 1, 0]

export class F64GemmKernel extends Kernel<GemmArguments, Artifact> {
  /** dtypes, strides, target and the absence of an epilogue have been checked: the metadata say them. */
  supportsArguments({ A, B, out }: GemmArguments): Status {
    const rank3 = [A, B, out].every((tensor) => tensor.rank === 3)
    return rank3 ? Status.success() : Status.fail('All operands must be rank 3.')
  }

  /** nvcc, once for each tile; the cache remembers it. */
  compile(args: GemmArguments): Promise<Artifact> {
    const [m, n] = this.metadata.design.tileShape
    return compileKernel(this, CUDA, args, { flags: [`-DTILE_M=${m}`, `-DTILE_N=${n}`] })
  }

  launch({ A, B, out, problemSize: { L, M, N, K }, device }: GemmArguments, { artifact, stream }: KernelLaunchOptions<Artifact>) {
    const [m, n] = this.metadata.design.tileShape
    return launchKernel(artifact, device, {
      entry: 'f64_gemm',
      grid: [Math.ceil(N / n), Math.ceil(M / m), L],
      block: [n, m, 1],
      params: [A, B, out, M, N, K, ...A.strides, ...B.strides, ...out.strides],
      stream,
    })
  } // prettier-ignore

  getWorkspaceSize(): number {
    return 0
  }

  /** 2 tiles x 8 combinations of orders: 16 kernels. */
  static *generateKernels({ metadataFilter, epilogueArguments, cc }: GenerateOptions): Generator<F64GemmKernel> {
    if (epilogueArguments !== null || cc < 80) return
    const orders = [ROW_MAJOR, COLUMN_MAJOR]
    for (const tile of TILES) {
      for (const [a, b, d] of orders.flatMap((a) => orders.flatMap((b) => orders.map((d) => [a, b, d] as const)))) {
        const [A, B, out] = [a, b, d].map((stride) => new TensorAttributes('f64', stride, 1)) as [TensorAttributes, TensorAttributes, TensorAttributes]
        const metadata = new KernelMetadata(
          `F64GemmKernel_tile${tile[0]}x${tile[1]}_${layoutString(A, B, out)}`,
          F64GemmKernel,
          80,
          new GemmOperandsMetadata(A, B, out, 'f64'),
          new BLASDesignMetadata(tile, [1, 1, 1]),
        )
        if (metadataFilter(metadata)) yield new F64GemmKernel(metadata)
      }
    }
  } // prettier-ignore
}
