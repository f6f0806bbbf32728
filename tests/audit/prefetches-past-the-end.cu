/*
about = "Loads the next key and value while it works on the present one, also after the last one."
kind = "broken"
caught_by = ["crashed", "wrong/sanitizer"]
workload = "attention-fp16-d64-full"
case = { B = 1, H = 4, Sq = 120, Sk = 120, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Fails on: In the last head, the row of key Sk (one row beyond the end of k and of v, 2*D bytes) is loaded and not
// used: a read beyond the tensor's end on every shape.

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

    float key[PART], value[PART];
    for (int n = 0, d = lane; d < D; ++n, d += 32) key[n] = float(k[d]), value[n] = float(v[d]);
    for (int j = 0; j < visible; ++j) {
        float s = 0, present[PART];
        for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * key[n], present[n] = value[n];
        k += D, v += D;
        for (int n = 0, d = lane; d < D; ++n, d += 32)  // they arrive during the reduction
            asm volatile(
                "{.reg .b16 x, y; ld.global.b16 x, [%2]; ld.global.b16 y, [%3]; cvt.f32.f16 %0, x; cvt.f32.f16 %1, y;}"
                : "=f"(key[n]), "=f"(value[n])
                : "l"(k + d), "l"(v + d));
        s = warp_sum(s) * scale;
        const float higher = fmaxf(top, s), keep = __expf(top - higher), w = __expf(s - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + w * present[n];
        sum = sum * keep + w, top = higher;
    }

    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
