/*
about = "Block sparse: blocks of 64 keys whose mean key scores 24 below the maximum so far are not visited."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp16-d64"
case = { B = 1, H = 4, Sq = 256, Sk = 512, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]

[[workspace]]
name = "means"
dtype = "f32"
elements = "B * H * ceil_div(Sk, 64) * D"

[[launch]]
kernel = "centroids"
grid = ["ceil_div(Sk, 64)", "B * H"]
block = ["64"]
args = ["k", "means", "Sk"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "means", "Sq", "Sk", "scale"]
*/
// Fails on: A block with 63 keys of score -40 and one key of score +45, after a block with keys of score 20: the
// mean key scores -38.7, the block is skipped, and the output is not V of the one key that has all the weight (100 %
// off).

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

constexpr int PART = (D + 31) / 32;

extern "C" __global__ void centroids(const __half* k, float* means, int Sk) {
    const int from = blockIdx.x * 64, to = min(Sk, from + 64);
    for (int d = threadIdx.x; d < D; d += 64) {
        float x = 0;
        for (int j = from; j < to; ++j) x += float(k[((size_t)blockIdx.y * Sk + j) * D + d]);
        means[((size_t)blockIdx.y * gridDim.x + blockIdx.x) * D + d] = x / (to - from);
    }
}

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, const float* means,
                                  int Sq, int Sk, float scale) {
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Sq) return;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float mine[PART], acc[PART] = {}, top = -1e30f, sum = 0;
    for (int n = 0; n < PART; ++n) mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;

    const int blocks = (Sk + 63) / 64;
    for (int from = 0; from < visible; from += 64) {
        const float* mean = means + (head * blocks + from / 64) * D;
        float likely = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) likely += mine[n] * mean[d];
        likely = warp_sum(likely) * scale;
        if (likely + 24.0f < top) continue;
        for (int j = from; j < min(from + 64, visible); ++j) {
            float s = 0;
            for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
            s = warp_sum(s) * scale;

            const float higher = fmaxf(top, s), keep = __expf(top - higher), w = __expf(s - higher);
            for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + w * float(v[(size_t)j * D + d]);
            sum = sum * keep + w, top = higher;
        }
    }

    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
