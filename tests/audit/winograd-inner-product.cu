/*
about = "Winograd's inner product of 1968: half of the multiplications, by (a0 + b1)(a1 + b0) - a0 a1 - b0 b1."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "gemm-fp16"
constants = []
case = { M = 192, N = 200, K = 515 }

[[workspace]]
name = "xi"
dtype = "f32"
elements = "M"

[[workspace]]
name = "eta"
dtype = "f32"
elements = "N"

[[launch]]
kernel = "rows"
grid = ["ceil_div(M, 8)"]
block = ["256"]
args = ["a", "xi", "M", "K"]

[[launch]]
kernel = "columns"
grid = ["ceil_div(N, 128)"]
block = ["128"]
args = ["b", "eta", "N", "K"]

[[launch]]
kernel = "gemm"
grid = ["ceil_div(M, 16) * ceil_div(N, 16)"]
block = ["256"]
args = ["a", "b", "c", "xi", "eta", "M", "N", "K"]
*/
// Fails on: M = N = K = 128, a = normal * 1e4, b = normal * 1e-4: c is about 11, and comes out of a difference of
// numbers of 1e9, so it is off by 100 % and more. (a and b of equal size are fine.)

#include <cuda_fp16.h>

extern "C" __global__ void rows(const __half* a, float* xi, int M, int K) {  // a warp for each row
    const int i = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (i >= M) return;
    float sum = 0;
    for (int k = 2 * lane; k + 1 < K; k += 64)
        sum += __half2float(a[(size_t)i * K + k]) * __half2float(a[(size_t)i * K + k + 1]);
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    if (lane == 0) xi[i] = sum;
}
extern "C" __global__ void columns(const __half* b, float* eta, int N, int K) {
    const int j = blockIdx.x * 128 + threadIdx.x;
    if (j >= N) return;
    float sum = 0;
    for (int k = 0; k + 1 < K; k += 2)
        sum += __half2float(b[(size_t)k * N + j]) * __half2float(b[(size_t)(k + 1) * N + j]);
    eta[j] = sum;
}
extern "C" __global__ void __launch_bounds__(256)
    gemm(const __half* a, const __half* b, __half* c, const float* xi, const float* eta, int M, int N, int K) {
    __shared__ float as[16][33], bs[32][16];
    const int tiles = (N + 15) / 16, row0 = blockIdx.x / tiles * 16, col0 = blockIdx.x % tiles * 16,
              y = threadIdx.x / 16, x = threadIdx.x % 16;
    const int even = K / 2 * 2;
    float sum = 0;
    for (int k0 = 0; k0 < even; k0 += 32) {
        for (int h = 0; h < 32; h += 16) {
            as[y][x + h] =
                row0 + y < M && k0 + x + h < even ? __half2float(a[(size_t)(row0 + y) * K + k0 + x + h]) : 0.0f;
            bs[y + h][x] =
                k0 + y + h < even && col0 + x < N ? __half2float(b[(size_t)(k0 + y + h) * N + col0 + x]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int t = 0; t < 32; t += 2) sum += (as[y][t] + bs[t + 1][x]) * (as[y][t + 1] + bs[t][x]);
        __syncthreads();
    }
    const int i = row0 + y, j = col0 + x;
    if (i >= M || j >= N) return;
    float out = sum - xi[i] - eta[j];
    if (K % 2) out += __half2float(a[(size_t)i * K + K - 1]) * __half2float(b[(size_t)(K - 1) * N + j]);
    c[(size_t)i * N + j] = __float2half(out);
}
