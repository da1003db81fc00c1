import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { nativeTool } from './tools.ts'

// A program of its own, host code and kernels, linked with the CUDA runtime of the virtual device (native/cudart).

const PROGRAM = `
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda.h>
__constant__ float line[2];
__device__ int counter;
__global__ void fill(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = i * line[0] + line[1];
  atomicAdd(&counter, 1);
}
__global__ void __cluster_dims__(2) exchange(int* y) {
  extern __shared__ int own[];
  const auto cluster = cooperative_groups::this_cluster();
  own[threadIdx.x] = cluster.block_rank() * 100 + threadIdx.x;
  cluster.sync();
  y[blockIdx.x * 32 + threadIdx.x] = cluster.map_shared_rank(own, cluster.block_rank() ^ 1)[threadIdx.x];
  cluster.sync();
}
__global__ void reverse(int* y) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;
  y[threadIdx.x] = tile[63 - threadIdx.x];
}
int clustersOf(unsigned size) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {size, 1, 1};
  cudaLaunchConfig_t config = {};
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters;
  cudaOccupancyMaxActiveClusters(&clusters, exchange, &config);
  return clusters;
}
int main() {
  // A persistent kernel takes as many CTAs as fit: one cluster of 8 at least.
  printf("%d %d\\n", clustersOf(8), clustersOf(2));
  const float host[2] = {2, 1};
  float* x;
  cudaMemcpyToSymbol(line, host, sizeof host);
  cudaMallocManaged(&x, 100 * sizeof(float));
  fill<<<2, 64>>>(x, 100);
  int threads, *y, h[64];
  cudaMemcpyFromSymbol(&threads, counter, sizeof threads);
  cudaDeviceSynchronize();
  printf("%g %g %d\\n", x[0], x[99], threads);
  cudaMalloc(&y, sizeof h);
  cuMemsetD32Async((CUdeviceptr)y, 70000, 64, nullptr);
  cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
  printf("%d\\n", h[63]);
  exchange<<<2, 32, 128>>>(y);
  cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
  printf("%d %d %d\\n", h[5], h[37], (int)cudaGetLastError());
  reverse<<<1, 64>>>(y);
  printf("%d\\n", (int)cudaGetLastError());
  fill<<<1, 64>>>((float*)y + 1000, 1);
  printf("%d\\n", (int)cudaDeviceSynchronize());
}`

const library = dirname(nativeTool('virtual_cudart'))
const folder = mkdtempSync(join(tmpdir(), 'ktl-cudart-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('host code and kernels run unchanged; findings are printed, and errors of the launch', () => {
  const [source, program] = [join(folder, 'program.cu'), join(folder, 'program')]
  writeFileSync(source, PROGRAM)
  const architecture = [
    '-gencode',
    'arch=compute_90a,code=compute_90a',
    '--no-compress',
    '-cudart',
    'none',
    '-lineinfo',
  ]
  execFileSync('nvcc', [...architecture, source, '-o', program, `-L${library}`, '-lvirtual_cudart'])
  const run = spawnSync(program, {
    encoding: 'utf8',
    env: { ...process.env, LD_LIBRARY_PATH: library, KTL_CHECKS: 'full' },
  })
  const launchFailure = 719
  expect(run.stdout.split('\n')).toEqual(['1 4', '1 199 128', '70000', '105 5 0', '0', String(launchFailure), ''])
  expect(run.stderr).toMatch(/KTL5019 \(warning\) in _Z7reversePi, .*CUDA line 23: ld.shared/)
  expect(run.stderr).toMatch(/KTL5001 in _Z4fillPfi, .*past the end of the 256-byte allocation/)
  expect(run.stderr).toMatch(/\[virtual sm_90a, checks full: 4 launches, \d+ warp instructions, 4 findings\]/)
})
