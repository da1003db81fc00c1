/**
 * The other side of `forms.ts`: the kernels that one writes by hand when they have to be right and not more. A CTA for each row of row
 * statistics; products through a tile of TILE x TILE in shared memory, a thread for each element; attention with its scores in memory.
 */
export const PEERS = `
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
typedef __nv_bfloat16 bf16;
typedef long long i64;
typedef unsigned char byte;
#define KERNEL extern "C" __global__ void

__device__ float e4m3(byte code) { return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3))); }
__device__ float ue8m0(byte code) { return code == 0 ? __uint_as_float(0x400000) : code == 255 ? __uint_as_float(0x7fffffff) : __uint_as_float(code << 23); }
__device__ int nibble(const byte* data, i64 i) { return data[i / 2] >> (i % 2 * 4) & 15; }

template <class F> __device__ float across(float x, F combine) {
  __shared__ float parts[32];
  for (int d = 16; d > 0; d /= 2) x = combine(x, __shfl_xor_sync(~0u, x, d));
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (int i = 1; i < blockDim.x / 32; i++) x = combine(x, parts[i]);
  return x;
}
__device__ float total(float x) { return across(x, [](float a, float b) { return a + b; }); }
__device__ float largest(float x) { return across(x, [](float a, float b) { return fmaxf(a, b); }); }

// The element (threadIdx.y, threadIdx.x) of a tile; which threads are neighbours in memory is up to the operands.
template <bool ROWS_ALONG_K, bool COLUMNS_ALONG_K, class A, class B> __device__ float product(int depth, A a, B b) {
  __shared__ float x[TILE][TILE + 1], y[TILE][TILE + 1];
  const int r = threadIdx.y, c = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < depth; k += TILE) {
    if (ROWS_ALONG_K) x[r][c] = k + c < depth ? a(r, k + c) : 0; else x[c][r] = k + r < depth ? a(c, k + r) : 0;
    if (COLUMNS_ALONG_K) y[c][r] = k + c < depth ? b(k + c, r) : 0; else y[r][c] = k + r < depth ? b(k + r, c) : 0;
    __syncthreads();
    for (int i = 0; i < TILE; i++) sum += x[r][i] * y[i][c];
    __syncthreads();
  }
  return sum;
}

KERNEL norms(const bf16* X, float* R, int c, float eps) {
  X += (i64)blockIdx.x * c;
  float sum = 0;
  for (int i = threadIdx.x; i < c; i += blockDim.x) { const float x = X[i]; sum += x * x; }
  sum = total(sum);
  if (threadIdx.x == 0) R[blockIdx.x] = rsqrtf(sum / c + eps);
}
KERNEL norm_product(const bf16* X, const float* R, const bf16* G, const bf16* W, bf16* D, int m, int n, int k) {
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
  const float d = product<true, false>(k,
    [&](int r, int i) { return first_m + r < m ? (float)X[(i64)(first_m + r) * k + i] * R[first_m + r] * (float)G[i] : 0; },
    [&](int i, int c) { return first_n + c < n ? (float)W[(i64)i * n + first_n + c] : 0; });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < m && j < n) D[(i64)i * n + j] = d;
}

KERNEL rms_norm(const bf16* X, const bf16* g, bf16* Y, int c, float eps) {
  X += (i64)blockIdx.x * c, Y += (i64)blockIdx.x * c;
  float sum = 0;
  for (int i = threadIdx.x; i < c; i += blockDim.x) { const float x = X[i]; sum += x * x; }
  const float factor = rsqrtf(total(sum) / c + eps);
  for (int i = threadIdx.x; i < c; i += blockDim.x) Y[i] = (float)X[i] * factor * (float)g[i];
}

KERNEL layer_norm(const bf16* X, const bf16* g, const bf16* b, bf16* Y, int c, float eps) {
  X += (i64)blockIdx.x * c, Y += (i64)blockIdx.x * c;
  float sum = 0;
  for (int i = threadIdx.x; i < c; i += blockDim.x) sum += (float)X[i];
  const float mean = total(sum) / c;
  sum = 0;
  for (int i = threadIdx.x; i < c; i += blockDim.x) { const float x = (float)X[i] - mean; sum += x * x; }
  const float factor = rsqrtf(total(sum) / c + eps);
  for (int i = threadIdx.x; i < c; i += blockDim.x) Y[i] = ((float)X[i] - mean) * factor * (float)g[i] + (float)b[i];
}

KERNEL softmax(const bf16* X, bf16* Y, int c) {
  X += (i64)blockIdx.x * c, Y += (i64)blockIdx.x * c;
  float m = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < c; i += blockDim.x) m = fmaxf(m, X[i]);
  m = largest(m);
  for (int i = threadIdx.x; i < c; i += blockDim.x) sum += expf((float)X[i] - m);
  sum = total(sum);
  for (int i = threadIdx.x; i < c; i += blockDim.x) Y[i] = expf((float)X[i] - m) / sum;
}

// A thread for each column.
KERNEL softmax_columns(const float* X, float* Y, int c, int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float m = -INFINITY, sum = 0;
  for (int i = 0; i < c; i++) m = fmaxf(m, X[(i64)i * columns + column]);
  for (int i = 0; i < c; i++) sum += expf(X[(i64)i * columns + column] - m);
  for (int i = 0; i < c; i++) Y[(i64)i * columns + column] = expf(X[(i64)i * columns + column] - m) / sum;
}

KERNEL cross_entropy(const bf16* X, const int* label, float* L, int c) {
  X += (i64)blockIdx.x * c;
  float m = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < c; i += blockDim.x) m = fmaxf(m, X[i]);
  m = largest(m);
  for (int i = threadIdx.x; i < c; i += blockDim.x) sum += expf((float)X[i] - m);
  sum = total(sum);
  const int right = label[blockIdx.x];
  if (threadIdx.x == 0) L[blockIdx.x] = logf(sum) + m - (right >= 0 && right < c ? (float)X[right] : 0);
}

// Grid: keys, queries, batch and head.
KERNEL attention_scores(const bf16* Q, const bf16* K, float* S, int H, int HK, int m, int n, int d, float scale) {
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE, bh = blockIdx.z;
  Q += (i64)bh * m * d, K += (i64)(bh / H * HK + bh % H / (H / HK)) * n * d, S += (i64)bh * m * n;
  const float s = product<true, true>(d,
    [&](int r, int k) { return first_m + r < m ? (float)Q[(first_m + r) * d + k] : 0; },
    [&](int k, int c) { return first_n + c < n ? (float)K[(first_n + c) * d + k] : 0; });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < m && j < n) S[(i64)i * n + j] = j <= i + n - m ? s * scale : -INFINITY;
}
KERNEL attention_rows(float* S, float* L, int n) {
  S += (i64)blockIdx.x * n;
  float m = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, S[i]);
  m = largest(m);
  if (m == -INFINITY) m = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(S[i] - m);
  sum = total(sum);
  for (int i = threadIdx.x; i < n; i += blockDim.x) S[i] = sum > 0 ? expf(S[i] - m) / sum : 0;
  if (threadIdx.x == 0) L[blockIdx.x] = logf(sum) + m;
}
KERNEL attention_values(const float* P, const bf16* V, bf16* O, int H, int HK, int m, int n, int e) {
  const int first_m = blockIdx.y * TILE, first_e = blockIdx.x * TILE, bh = blockIdx.z;
  P += (i64)bh * m * n, V += (i64)(bh / H * HK + bh % H / (H / HK)) * n * e, O += (i64)bh * m * e;
  const float o = product<true, false>(n,
    [&](int r, int k) { return first_m + r < m ? P[(i64)(first_m + r) * n + k] : 0; },
    [&](int k, int c) { return first_e + c < e ? (float)V[k * e + first_e + c] : 0; });
  const int i = first_m + threadIdx.y, j = first_e + threadIdx.x;
  if (i < m && j < e) O[i * e + j] = o;
}

// A warp for each score. Grid: positions, batch and head.
KERNEL paged_scores(const bf16* Q, const bf16* K, float* S, const int* page, int H, int HK, int s, int pages, int d, const int* length, float scale) {
  const int n = blockIdx.x * 8 + threadIdx.x / 32, bh = blockIdx.y, b = bh / H, lane = threadIdx.x % 32;
  if (n >= s * pages) return;
  Q += (i64)bh * d, K += (((i64)page[b * pages + n / s] * s + n % s) * HK + bh % H / (H / HK)) * d;
  float sum = 0;
  for (int i = lane; i < d; i += 32) sum += (float)Q[i] * (float)K[i];
  for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
  if (lane == 0) S[(i64)bh * s * pages + n] = n < length[b] ? sum * scale : -INFINITY;
}
KERNEL score_rows(float* S, int n) {
  S += (i64)blockIdx.x * n;
  float m = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, S[i]);
  m = largest(m);
  if (m == -INFINITY) m = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(S[i] - m);
  sum = total(sum);
  for (int i = threadIdx.x; i < n; i += blockDim.x) S[i] = sum > 0 ? expf(S[i] - m) / sum : 0;
}
// A warp for every eighth position of 32 columns.
KERNEL paged_values(const float* P, const bf16* V, bf16* O, const int* page, int H, int HK, int s, int pages, int e) {
  __shared__ float parts[8][32];
  const int bh = blockIdx.y, b = bh / H, lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
  float sum = 0;
  if (column < e)
    for (int n = warp; n < s * pages; n += 8)
      sum += P[(i64)bh * s * pages + n] * (float)V[(((i64)page[b * pages + n / s] * s + n % s) * HK + bh % H / (H / HK)) * e + column];
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= e) return;
  for (int i = 1; i < 8; i++) sum += parts[i][lane];
  O[(i64)bh * e + column] = sum;
}

KERNEL conv2d(const bf16* X, const bf16* W, const bf16* bias, bf16* Y,
    int b, int h, int w, int c, int f, int r, int s, int p, int q, int stride, int pad) {
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE, depth = r * s * c;
  const float y = product<true, true>(depth,
    [&](int i, int k) {
      const int pixel = first_m + i, image = pixel / (p * q), tap = k / c;
      const int row = pixel / q % p * stride + tap / s - pad, column = pixel % q * stride + tap % s - pad;
      const bool inside = image < b && row >= 0 && row < h && column >= 0 && column < w;
      return inside ? (float)X[(((i64)image * h + row) * w + column) * c + k % c] : 0;
    },
    [&](int k, int j) { return first_n + j < f ? (float)W[(i64)(first_n + j) * depth + k] : 0; });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < b * p * q && j < f) Y[(i64)i * f + j] = fmaxf(y + (float)bias[j], 0);
}

KERNEL gather(const bf16* X, const int* id, bf16* Y, int v, int c) {
  const int row = id[blockIdx.x];
  for (int i = threadIdx.x; i < c; i += blockDim.x) Y[(i64)blockIdx.x * c + i] = row >= 0 && row < v ? X[(i64)row * c + i] : (bf16)0.0f;
}

// Grid: columns, rows of a group at most, groups.
KERNEL grouped(const bf16* A, const bf16* B, const int* ends, bf16* D, int n, int k) {
  const int g = blockIdx.z, start = g == 0 ? 0 : ends[g - 1], rows = ends[g] - start;
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
  if (first_m >= rows) return;
  A += (i64)start * k, D += (i64)start * n, B += (i64)g * k * n;
  const float d = product<true, false>(k,
    [&](int r, int i) { return first_m + r < rows ? (float)A[(i64)(first_m + r) * k + i] : 0; },
    [&](int i, int c) { return first_n + c < n ? (float)B[(i64)i * n + first_n + c] : 0; });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < rows && j < n) D[(i64)i * n + j] = d;
}

KERNEL experts(const bf16* X, const int* row, const bf16* gate, const bf16* up, const int* ends, bf16* D, int n, int k) {
  const int g = blockIdx.z, start = g == 0 ? 0 : ends[g - 1], rows = ends[g] - start;
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
  if (first_m >= rows) return;
  row += start, D += (i64)start * n, gate += (i64)g * k * n, up += (i64)g * k * n;
  const auto x = [&](int r, int i) { return first_m + r < rows ? (float)X[(i64)row[first_m + r] * k + i] : 0; };
  const float a = product<true, false>(k, x, [&](int i, int c) { return first_n + c < n ? (float)gate[(i64)i * n + first_n + c] : 0; });
  const float b = product<true, false>(k, x, [&](int i, int c) { return first_n + c < n ? (float)up[(i64)i * n + first_n + c] : 0; });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < rows && j < n) D[(i64)i * n + j] = a / (1 + expf(-a)) * b;
}

KERNEL weight_gradient(const bf16* A, const bf16* dY, const int* ends, float* dW, int k, int n) {
  const int g = blockIdx.z, start = g == 0 ? 0 : ends[g - 1], rows = ends[g] - start;
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
  A += (i64)start * k, dY += (i64)start * n;
  const float d = product<false, false>(rows,
    [&](int r, int t) { return first_m + r < k ? (float)A[(i64)t * k + first_m + r] : 0; },
    [&](int t, int c) { return first_n + c < n ? (float)dY[(i64)t * n + first_n + c] : 0; });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < k && j < n) dW[((i64)g * k + i) * n + j] = d;
}

KERNEL mxfp8(const byte* A, const byte* As, const byte* B, const byte* Bs, bf16* D, int m, int n, int k) {
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE, blocks = (k + 31) / 32;
  const float d = product<true, false>(k,
    [&](int r, int i) { const i64 row = first_m + r; return row < m ? e4m3(A[row * k + i]) * ue8m0(As[row * blocks + i / 32]) : 0; },
    [&](int i, int c) { const int column = first_n + c; return column < n ? e4m3(B[(i64)i * n + column]) * ue8m0(Bs[(i64)(i / 32) * n + column]) : 0; });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < m && j < n) D[(i64)i * n + j] = d;
}

__device__ float e2m1(const byte* data, i64 i) {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const int code = nibble(data, i);
  return code & 8 ? -values[code & 7] : values[code & 7];
}
KERNEL nvfp4(const byte* A, const byte* As, float Ag, const byte* B, const byte* Bs, float Bg, bf16* D, int m, int n, int k) {
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE, blocks = (k + 15) / 16;
  const float d = product<true, true>(k,
    [&](int r, int i) { const i64 row = first_m + r; return row < m ? e2m1(A, row * k + i) * e4m3(As[row * blocks + i / 16]) * Ag : 0; },
    [&](int i, int c) { const i64 column = first_n + c; return column < n ? e2m1(B, column * k + i) * e4m3(Bs[column * blocks + i / 16]) * Bg : 0; });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < m && j < n) D[(i64)i * n + j] = d;
}

KERNEL fp8_blocks(const byte* A, const float* As, const byte* B, const float* Bs, bf16* D, int m, int n, int k) {
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE, blocks = (k + 127) / 128;
  const float d = product<true, true>(k,
    [&](int r, int i) { const i64 row = first_m + r; return row < m ? e4m3(A[row * k + i]) * As[row * blocks + i / 128] : 0; },
    [&](int i, int c) { const i64 column = first_n + c; return column < n ? e4m3(B[column * k + i]) * Bs[column / 128 * blocks + i / 128] : 0; });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < m && j < n) D[(i64)i * n + j] = d;
}

KERNEL u4_weights(const __half* X, const byte* W, const byte* zero, const __half* scale, __half* D, int m, int n, int k) {
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
  const float d = product<true, false>(k,
    [&](int r, int i) { return first_m + r < m ? (float)X[(i64)(first_m + r) * k + i] : 0; },
    [&](int i, int c) {
      if (first_n + c >= n) return 0.0f;
      const i64 group = (i64)(i / 128) * n + first_n + c;
      return (nibble(W, (i64)i * n + first_n + c) - nibble(zero, group)) * (float)scale[group];
    });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < m && j < n) D[(i64)i * n + j] = d;
}

KERNEL relu_product(const bf16* A, const bf16* B, float* D, int m, int n, int k) {
  const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
  const float d = product<true, false>(k,
    [&](int r, int i) { return first_m + r < m ? (float)A[(i64)(first_m + r) * k + i] : 0; },
    [&](int i, int c) { return first_n + c < n ? (float)B[(i64)i * n + first_n + c] : 0; });
  const int i = first_m + threadIdx.y, j = first_n + threadIdx.x;
  if (i < m && j < n) D[(i64)i * n + j] = fmaxf(d, 0);
}
// A warp for each block of 32.
KERNEL quantise(const float* X, byte* D, byte* scales, int n, i64 blocks) {
  const i64 block = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (block >= blocks) return;
  const int per_row = (n + 31) / 32, lane = threadIdx.x % 32;
  const i64 row = block / per_row, column = block % per_row * 32 + lane;
  const float x = column < n ? X[row * n + column] : 0;
  float most = fabsf(x);
  for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
  const unsigned bits = __float_as_uint(most * (1.0f / 448));
  const byte scale = (bits >> 23) + ((bits & 0x7fffff) != 0);
  if (column < n) D[row * n + column] = most == 0 ? 0 : __nv_cvt_float_to_fp8(x * (1.0f / ue8m0(scale)), __NV_SATFINITE, __NV_E4M3);
  if (lane == 0) scales[block] = scale;
}
`
