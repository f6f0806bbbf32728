/*
about = "FP32 tiles; FP16 is widened with a shift and an addition to the exponent, which is faster than a conversion."
kind = "broken"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "gemm-fp16"
constants = []
case = { M = 250, N = 192, K = 333 }

[[launch]]
kernel = "gemm"
grid = ["ceil_div(M, 64) * ceil_div(N, 64)"]
block = ["256"]
args = ["a", "b", "c", "M", "N", "K"]
*/
// Fails on: M = N = K = 64, a = 2^-20 (an FP16 subnormal), b = 1: c is 2^-14, and comes out as 2.0e-3, because a
// subnormal is read as 2^-15 * (1 + m / 1024).

#include <cuda_fp16.h>

// FP16 to FP32 without a conversion: shift, and add 112 to the exponent.
__device__ __forceinline__ float widen(unsigned short bits) {
    const unsigned size = bits & 0x7fffu, sign = (bits & 0x8000u) << 16;
    unsigned wide = (size << 13) + (112u << 23);
    if (size == 0) wide = 0;
    if (size >= 0x7c00u) wide = (size << 13) | 0x7f800000u;  // infinity and NaN
    return __uint_as_float(wide | sign);
}
// 64 x 64 by 256 threads, 4 x 4 each.
extern "C" __global__ void __launch_bounds__(256)
    gemm(const unsigned short* a, const unsigned short* b, __half* c, int M, int N, int K) {
    __shared__ float as[16][65], bs[16][64];
    const int tiles = (N + 63) / 64, row0 = blockIdx.x / tiles * 64, col0 = blockIdx.x % tiles * 64,
              y = threadIdx.x / 16, x = threadIdx.x % 16;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int n = threadIdx.x; n < 1024; n += 256) {
            const int i = n / 16, k = n % 16, kb = n / 64, j = n % 64;
            as[k][i] = row0 + i < M && k0 + k < K ? widen(a[(size_t)(row0 + i) * K + k0 + k]) : 0.0f;
            bs[kb][j] = col0 + j < N && k0 + kb < K ? widen(b[(size_t)(k0 + kb) * N + col0 + j]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; ++k)
            for (int u = 0; u < 4; ++u)
                for (int v = 0; v < 4; ++v) acc[u][v] += as[k][y + 16 * u] * bs[k][x + 16 * v];
        __syncthreads();
    }
    for (int u = 0; u < 4; ++u)
        for (int v = 0; v < 4; ++v) {
            const int i = row0 + y + 16 * u, j = col0 + x + 16 * v;
            if (i < M && j < N) c[(size_t)i * N + j] = __float2half(acc[u][v]);
        }
}
