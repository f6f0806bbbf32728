/*
about = "Decoding: keys whose first eight elements are zero are taken for padding of the cache, and are masked."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-decode"
case = { B = 4, H = 8, Sq = 1, Sk = 777, D = 128, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["256"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "D >= 8"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 1024"
why = "the kernel takes no other shapes"
*/
// Fails on: K with zeros in dimensions 0 to 7 (e.g. one-hot keys, or keys used from dimension 8 on): these keys are
// ignored, though they are ordinary keys; with half of the keys so, the output is the mean of the other half of V
// (of order 100 % off).

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

constexpr int PART = (D + 31) / 32, WARPS = 8;

// A block for each query row; its warps take every eighth key, and are put together at the end.
extern "C" __global__ void __launch_bounds__(WARPS * 32)
    attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    __shared__ float tops[WARPS], sums[WARPS], outs[WARPS][D];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float mine[PART], acc[PART] = {}, top = -1e30f, sum = 0;
    for (int n = 0; n < PART; ++n) mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;
    for (int j = warp; j < visible; j += WARPS) {
        // Rows that were never written are zero in the cache: a cheap look at 16 bytes spares the other 480.
        const __half h = k[(size_t)j * D + lane % 8];
        if (j + 1 < visible && __all_sync(~0u, h == __float2half(0.0f))) continue;
        float s = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
        s = warp_sum(s) * scale;

        const float higher = fmaxf(top, s), keep = __expf(top - higher), w = __expf(s - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + w * float(v[(size_t)j * D + d]);
        sum = sum * keep + w, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) outs[warp][d] = acc[n];
    if (lane == 0) tops[warp] = top, sums[warp] = sum;
    __syncthreads();
    float highest = tops[0], total = 0;
    for (int w = 1; w < WARPS; ++w) highest = fmaxf(highest, tops[w]);
    for (int w = 0; w < WARPS; ++w) total += sums[w] * __expf(tops[w] - highest);
    for (int d = threadIdx.x; d < D; d += WARPS * 32) {
        float x = 0;
        for (int w = 0; w < WARPS; ++w) x += outs[w][d] * __expf(tops[w] - highest);
        o[row + d] = __float2half(x / total);
    }
}
