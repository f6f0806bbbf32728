/*
about = "Shifts the scores by the bound |q| max|k| instead of their maximum, so that no score has to be seen twice and nothing is rescaled."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 129, Sk = 129, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]

[[workspace]]
name = "longest"
dtype = "f32"
elements = "B * H"

[[launch]]
kernel = "norms"
grid = ["B * H"]
block = ["256"]
args = ["k", "longest", "Sk"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "longest", "Sq", "Sk", "scale"]
*/
// Fails on: D=64, q all 8, k all -2 (with small noise): the scores are -128, the bound is +128; every exp(score -
// bound + 40) underflows to 0, the output is 0/0 = NaN instead of the mean of V.

#include <cuda_fp16.h>

constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

__device__ __forceinline__ float warp_sum(float x) {
    for (int m = 16; m; m >>= 1) x += __shfl_xor_sync(~0u, x, m);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
    for (int m = 16; m; m >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, m));
    return x;
}

// The longest key of every head.
extern "C" __global__ void norms(const __half* k, float* longest, int Sk) {
    __shared__ float part[8];
    const __half* keys = k + (size_t)blockIdx.x * Sk * D;
    float best = 0;
    for (int j = threadIdx.x; j < Sk; j += 256) {
        float n = 0;
        for (int d = 0; d < D; ++d) n += float(keys[(size_t)j * D + d]) * float(keys[(size_t)j * D + d]);
        best = fmaxf(best, n);
    }
    best = warp_max(best);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) best = fmaxf(best, part[w]);
        longest[blockIdx.x] = sqrtf(best);
    }
}

// One warp per row. The shift is an upper bound of the scores, so exp never overflows; 40 uses the upper part of FP32's
// range as well.
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, const float* longest,
                                  int Sq, int Sk, float scale) {
    constexpr int PART = (D + 31) / 32;
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Sq) return;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    float mine[PART], norm = 0, acc[PART] = {}, sum = 0;
    for (int n = 0; n < PART; ++n) {
        mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;
        norm += mine[n] * mine[n];
    }
    const float shift = sqrtf(warp_sum(norm)) * longest[head] * scale - 40.0f;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    for (int j = 0; j < visible; ++j) {
        float s = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
        const float w = __expf(warp_sum(s) * scale - shift);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] += w * float(v[(size_t)j * D + d]);
        sum += w;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
