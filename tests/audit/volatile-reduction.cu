/*
about = "Reduces the scores in volatile shared memory without __syncwarp, as in the days of warp-synchronous programming."
kind = "broken"
caught_by = ["crashed", "wrong/sanitizer"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 128, Sk = 128, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Fails on: A schedule with independent threads: a lane reads s[lane + 8] before its owner has added, or s[0] after
// it has been overwritten by the next key's partial sum; the score is any partial sum.

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

    __shared__ float scratch[4][32];
    volatile float* s = scratch[threadIdx.x / 32];
    for (int j = 0; j < visible; ++j) {
        float x = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) x += mine[n] * float(k[(size_t)j * D + d]);
        s[lane] = x;
        if (lane < 16) s[lane] += s[lane + 16];
        if (lane < 8) s[lane] += s[lane + 8];
        if (lane < 4) s[lane] += s[lane + 4];
        if (lane < 2) s[lane] += s[lane + 2];
        if (lane < 1) s[lane] += s[lane + 1];
        const float score = s[0] * scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), w = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + w * float(v[(size_t)j * D + d]);
        sum = sum * keep + w, top = higher;
    }

    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
