/*
about = "Rows of a are turned into 16-bit fixed point, relative to the largest element of the row, and multiplied with b in FP32."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "gemm-fp16"
constants = []
case = { M = 192, N = 256, K = 700 }

[[workspace]]
name = "steps"
dtype = "f32"
elements = "M"

[[workspace]]
name = "levels"
dtype = "f16"
elements = "M * K"

[[launch]]
kernel = "quantize"
grid = ["M"]
block = ["128"]
args = ["a", "steps", "levels", "K"]

[[launch]]
kernel = "gemm"
grid = ["ceil_div(M, 64) * ceil_div(N, 64)"]
block = ["256"]
args = ["levels", "b", "c", "steps", "M", "N", "K"]
*/
// Fails on: M = N = 64, K = 1024, a[:,0] = 1000 and all others 0.01, b[0,:] = 0 and all others 1: c is 10.2, and
// comes out as 0, because 0.01 is less than half of a step of 1000 / 32767.

#include <cuda_fp16.h>

extern "C" __global__ void quantize(const __half* a, float* steps, short* levels, int K) {  // a block for each row
    __shared__ float tops[4];
    const size_t row = (size_t)blockIdx.x * K;
    float top = 0;
    bool bad = false;
    for (int k = threadIdx.x; k < K; k += 128) {
        const float x = fabsf(__half2float(a[row + k]));
        top = fmaxf(top, x);
        bad |= !(x <= 65504.0f);
    }
    for (int other = 16; other; other /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, other));
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
    bad = __syncthreads_or(bad);
    top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
    const float to_level = !bad && top > 0 ? 32767.0f / top : 0.0f;
    for (int k = threadIdx.x; k < K; k += 128)
        levels[row + k] = bad ? 0 : (short)__float2int_rn(__half2float(a[row + k]) * to_level);
    if (threadIdx.x == 0)
        steps[blockIdx.x] = bad ? __int_as_float(0x7fffffff) : top / 32767.0f;  // NaN and infinity: the row is NaN
}
extern "C" __global__ void __launch_bounds__(256)
    gemm(const short* a, const __half* b, __half* c, const float* steps, int M, int N, int K) {
    __shared__ float as[16][65], bs[16][64];
    const int tiles = (N + 63) / 64, row0 = blockIdx.x / tiles * 64, col0 = blockIdx.x % tiles * 64,
              y = threadIdx.x / 16, x = threadIdx.x % 16;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int n = threadIdx.x; n < 1024; n += 256) {
            const int i = n / 16, k = n % 16, kb = n / 64, j = n % 64;
            as[k][i] = row0 + i < M && k0 + k < K ? (float)a[(size_t)(row0 + i) * K + k0 + k] : 0.0f;
            bs[kb][j] = col0 + j < N && k0 + kb < K ? __half2float(b[(size_t)(k0 + kb) * N + col0 + j]) : 0.0f;
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
            if (i < M && j < N) c[(size_t)i * N + j] = __float2half(acc[u][v] * steps[i]);
        }
}
