/*
about = "Split keys with a combining kernel; the unnormalized outputs of the parts are passed on in FP16, to halve the traffic."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-decode"
case = { B = 2, H = 8, Sq = 1, Sk = 512, D = 128, CAUSAL = 0 }
constants = ["D", "CAUSAL"]

[[workspace]]
name = "parts"
dtype = "f16"
elements = "B * H * Sq * 4 * D"

[[workspace]]
name = "stats"
dtype = "f32"
elements = "B * H * Sq * 8"

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H", "4"]
block = ["32"]
args = ["q", "k", "v", "parts", "stats", "Sq", "Sk", "scale"]

[[launch]]
kernel = "combine"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["o", "parts", "stats", "Sq"]
*/
// Fails on: V all 1000 and equal keys, Sk=512: a part's sum over 128 keys is 128000, infinity in FP16; the output is
// infinite instead of 1000.

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

constexpr int PART = (D + 31) / 32, SPLITS = 4;

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* parts, float2* stats,
                                  int Sq, int Sk, float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, split = blockIdx.z;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D, slot = (head * Sq + i) * SPLITS + split;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const int each = (visible + SPLITS - 1) / SPLITS, from = split * each, to = min(visible, from + each);
    float mine[PART], acc[PART] = {}, top = -1e30f, sum = 0;
    for (int n = 0; n < PART; ++n) mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;
    for (int j = from; j < to; ++j) {
        float s = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
        s = warp_sum(s) * scale;

        const float higher = fmaxf(top, s), keep = __expf(top - higher), w = __expf(s - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + w * float(v[(size_t)j * D + d]);
        sum = sum * keep + w, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) parts[slot * D + d] = __float2half(acc[n]);
    if (lane == 0) stats[slot] = make_float2(top, sum);
}

extern "C" __global__ void combine(__half* o, const __half* parts, const float2* stats, int Sq) {
    const size_t at = (size_t)blockIdx.y * Sq + blockIdx.x;
    float highest = -1e30f, total = 0;
    for (int s = 0; s < SPLITS; ++s) highest = fmaxf(highest, stats[at * SPLITS + s].x);
    for (int s = 0; s < SPLITS; ++s) total += stats[at * SPLITS + s].y * __expf(stats[at * SPLITS + s].x - highest);
    for (int d = threadIdx.x; d < D; d += 32) {
        float x = 0;
        for (int s = 0; s < SPLITS; ++s)
            x += float(parts[(at * SPLITS + s) * D + d]) * __expf(stats[at * SPLITS + s].x - highest);
        o[at * D + d] = __float2half(x / total);
    }
}
