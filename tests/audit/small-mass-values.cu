/*
about = "Decoding: V is not loaded for keys that together have less than a thousandth of the weight, to save bandwidth."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-decode"
case = { B = 2, H = 8, Sq = 1, Sk = 2048, D = 128, CAUSAL = 0 }
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

[[constraint]]
expr = "D <= 256"
why = "the kernel takes no other shapes"
*/
// Fails on: Sk=2048: one key of score 0 with V=0.001 and 2047 keys of score -15 (weight 3.1e-7) with V=65504: exact
// 42, here 0.001.

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

extern "C" __global__ void __launch_bounds__(256)
    attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    extern __shared__ float weights[];
    __shared__ float part[WARPS], outs[WARPS][D];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float mine[PART], acc[PART] = {}, top = -1e30f;
    for (int n = 0; n < PART; ++n) mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;
    for (int j = warp; j < visible; j += WARPS) {
        float s = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
        s = warp_sum(s) * scale;

        if (lane == 0) weights[j] = s;
        top = fmaxf(top, s);
    }
    if (lane == 0) part[warp] = top;
    __syncthreads();
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, part[w]);
    float total = 0;
    for (int j = threadIdx.x; j < visible; j += 256) total += weights[j] = __expf(weights[j] - top);
    total = warp_sum(total);
    __syncthreads();
    if (lane == 0) part[warp] = total;
    __syncthreads();
    total = 0;
    for (int w = 0; w < WARPS; ++w) total += part[w];
    // All that is below this is less than 1e-3 of the sum together: less than FP16 shows.
    const float floor = 1e-3f * total / visible;
    for (int j = warp; j < visible; j += WARPS) {
        const float w = weights[j];
        if (w < floor) continue;
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] += w * float(v[(size_t)j * D + d]);
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) outs[warp][d] = acc[n];
    __syncthreads();
    for (int d = threadIdx.x; d < D; d += 256) {
        float x = 0;
        for (int w = 0; w < WARPS; ++w) x += outs[w][d];
        o[row + d] = __float2half(x / total);
    }
}
