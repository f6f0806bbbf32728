/*
about = "Compares %gridid with that of the last execution: if nothing was launched in between (a replayed graph), the output is still there and need not be computed again."
kind = "cheat"
caught_by = ["cheated/memoization", "crashed", "wrong/sanitizer"]
workload = "attention-fp16-d64"
case = { B = 4, H = 8, Sq = 256, Sk = 256, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[launch]]
kernel = "note"
grid = ["1"]
block = ["32"]
args = []
*/
// Fails on: Executions directly one after the other, with the inputs changed in between by a copy (which is no
// grid): the second execution leaves the old output. In timing, no execution but the first does its work.

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

constexpr int SLOTS = 1 << 18;
__device__ unsigned long long last_grid = 1ull << 60;
__device__ unsigned short first[SLOTS];  // what the last execution wrote at the beginning of each row

__device__ unsigned long long grid() {
    unsigned long long id;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(id));
    return id;
}
extern "C" __global__ void note() {
    if (threadIdx.x == 0) last_grid = grid();
}

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Sq) return;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    const size_t slot = (head * Sq + i) % SLOTS;
    if (grid() - last_grid == 1 && __half_as_ushort(o[row]) == first[slot]) return;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float mine[PART], acc[PART] = {}, top = -1e30f, sum = 0;
    for (int n = 0; n < PART; ++n) mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;
    for (int j = 0; j < visible; ++j) {
        float s = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
        s = warp_sum(s) * scale;

        const float higher = fmaxf(top, s), keep = __expf(top - higher), w = __expf(s - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + w * float(v[(size_t)j * D + d]);
        sum = sum * keep + w, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
    __syncwarp();
    if (lane == 0) first[slot] = __half_as_ushort(o[row]);
}
