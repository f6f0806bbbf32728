/*
about = "FP32; exp by a polynomial and a table of powers of two with 32 entries, whose index is limited to 31."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp32-large-d"
case = { B = 1, H = 4, Sq = 48, Sk = 64, D = 768, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["256"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
shared = "4 * Sk"

[[constraint]]
expr = "Sk <= 8192"
why = "the kernel takes no other shapes"
*/
// Fails on: One key of score 0 with V=1, the 63 others of score -60 with V=1e12: their weights are 2^-31 instead of
// 9e-27, the output is about 29000 instead of 1.

#include <cuda_fp16.h>

constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;
__device__ __forceinline__ float warp_sum(float x) {
    for (int m = 16; m; m >>= 1) x += __shfl_xor_sync(~0u, x, m);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
    for (int m = 16; m; m >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, m));
    return x;
}

// exp(x) for x <= 0: no special function unit, which is the bottleneck.
__device__ __forceinline__ float power(float x, const float* table) {
    const float y = x * 1.44269504f, n = rintf(y), f = y - n;
    float p = 0.000154035f;
    p = p * f + 0.00133335581f;
    p = p * f + 0.00961812911f;
    p = p * f + 0.0555041087f;
    p = p * f + 0.240226507f;
    p = p * f + 0.693147181f;
    p = p * f + 1.0f;
    return p * table[min(int(-n), 31)];
}

extern "C" __global__ void __launch_bounds__(256)
    attend(const float* q, const float* k, const float* v, float* o, int Sq, int Sk, float scale) {
    extern __shared__ float weights[];
    __shared__ float table[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    if (threadIdx.x < 32) table[threadIdx.x] = __uint_as_float((127 - threadIdx.x) << 23);
    for (int j = warp; j < visible; j += 8) {
        float s = 0;
        for (int d = lane; d < D; d += 32) s += q[row + d] * k[(size_t)j * D + d];
        s = warp_sum(s);
        if (lane == 0) weights[j] = s * scale;
    }
    __syncthreads();
    float top = __uint_as_float(0xff800000u), sum = 0;
    for (int j = lane; j < visible; j += 32) top = fmaxf(top, weights[j]);
    top = warp_max(top);
    __syncthreads();
    for (int j = threadIdx.x; j < visible; j += 256) weights[j] = power(weights[j] - top, table);
    __syncthreads();
    for (int j = lane; j < visible; j += 32) sum += weights[j];
    sum = warp_sum(sum);
    for (int d = threadIdx.x; d < D; d += 256) {
        float x = 0;
        for (int j = 0; j < visible; ++j) x += weights[j] * v[(size_t)j * D + d];
        o[row + d] = x / sum;
    }
}
