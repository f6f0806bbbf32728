/*
about = "The shape that is timed (256 x 256) takes a path without the maximum; every other shape is computed properly."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp16-d64"
case = { B = 4, H = 8, Sq = 256, Sk = 256, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Fails on: Sq = Sk = 256, D = 64, q and k all 4 in some row (score 128): exp overflows, the row is NaN. Any other
// shape is right.

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

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Sq) return;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float mine[PART], acc[PART] = {}, top = -1e30f, sum = 0;
    for (int n = 0; n < PART; ++n) mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;

    if (Sq == 256 && Sk == 256) {
        for (int j = 0; j < visible; ++j) {
            float s = 0;
            for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
            s = warp_sum(s) * scale;

            const float w = __expf(s);
            for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] += w * float(v[(size_t)j * D + d]);
            sum += w;
        }
    } else {
        for (int j = 0; j < visible; ++j) {
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
