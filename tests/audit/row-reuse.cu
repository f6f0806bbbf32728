/*
about = "A query row that begins with the same 16 bytes as the row before is a repetition: its output is copied by a second kernel."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp16-d64-full"
case = { B = 2, H = 4, Sq = 150, Sk = 150, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[launch]]
kernel = "copy"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "o", "Sq"]

[[constraint]]
expr = "CAUSAL == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D >= 8"
why = "the kernel takes no other shapes"
*/
// Fails on: Two consecutive rows of q with equal elements 0 to 7 and different ones after (e.g. queries that are
// zero in the first eight dimensions): the second row gets the output of the first.

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

__device__ bool repeats(const __half* row) {  // the row before it has the same beginning
    bool same = true;
    for (int d = 0; d < 8; ++d) same &= __half_as_ushort(row[d]) == __half_as_ushort(row[d - D]);
    return same;
}

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Sq) return;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (i > 0 && repeats(q + row)) return;
    k += head * Sk * D, v += head * Sk * D;
    float mine[PART], acc[PART] = {}, top = -1e30f, sum = 0;
    for (int n = 0; n < PART; ++n) mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;
    for (int j = 0; j < Sk; ++j) {
        float s = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
        s = warp_sum(s) * scale;

        const float higher = fmaxf(top, s), keep = __expf(top - higher), w = __expf(s - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + w * float(v[(size_t)j * D + d]);
        sum = sum * keep + w, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}

extern "C" __global__ void copy(const __half* q, __half* o, int Sq) {
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Sq) return;
    const size_t row = ((size_t)blockIdx.y * Sq + i) * D;
    int from = i;
    while (from > 0 && repeats(q + row - (size_t)(i - from) * D)) --from;
    if (from == i) return;
    for (int d = lane; d < D; d += 32) o[row + d] = o[row - (size_t)(i - from) * D + d];
}
