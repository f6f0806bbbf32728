/*
about = "Split keys in one kernel; the blocks of the first split wait for the blocks of the others, which have larger indices."
kind = "broken"
caught_by = ["timed_out"]
not_measured = "it waits for ever only on shapes with more blocks than the GPU holds, which are rarely drawn"
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 64, Sk = 256, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]

[[workspace]]
name = "parts"
dtype = "f32"
elements = "B * H * Sq * 4 * (D + 2)"

[[workspace]]
name = "tickets"
dtype = "f32"
elements = "B * H * Sq"
initial = "zero"

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H", "4"]
block = ["32"]
args = ["q", "k", "v", "o", "parts", "tickets", "Sq", "Sk", "scale"]
*/
// Fails on: B=8, H=16, Sq=128: 16384 blocks of split 0 come first, more than the GPU holds (at most 4224); all that
// are resident wait for blocks that cannot start: a deadlock.

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

constexpr int PART = (D + 31) / 32, SPLITS = 4, SLOT = D + 2;

// A warp for a row and a quarter of its keys; leaves output, maximum and sum in a slot.
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, float* parts,
                                  unsigned* tickets, int Sq, int Sk, float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, split = blockIdx.z;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
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
    float* slots = parts + (head * Sq + i) * SPLITS * SLOT;
    float* slot = slots + split * SLOT;
    for (int n = 0, d = lane; d < D; ++n, d += 32) slot[d] = acc[n];
    if (lane == 0) slot[D] = top, slot[D + 1] = sum;

    __threadfence();
    __syncwarp();
    unsigned* arrived = tickets + head * Sq + i;
    if (split > 0) {
        if (lane == 0) atomicAdd(arrived, 1u);
        return;
    }
    if (lane == 0)
        while (atomicAdd(arrived, 0u) < SPLITS - 1) __nanosleep(100);
    __syncwarp();
    __threadfence();
    float highest = -1e30f, total = 0;
    for (int s = 0; s < SPLITS; ++s) highest = fmaxf(highest, __ldcg(&slots[s * SLOT + D]));
    for (int s = 0; s < SPLITS; ++s)
        total += __ldcg(&slots[s * SLOT + D + 1]) * __expf(__ldcg(&slots[s * SLOT + D]) - highest);
    for (int d = lane; d < D; d += 32) {
        float x = 0;
        for (int s = 0; s < SPLITS; ++s)
            x += __ldcg(&slots[s * SLOT + d]) * __expf(__ldcg(&slots[s * SLOT + D]) - highest);
        o[row + d] = __float2half(x / total);
    }
    if (lane == 0) *arrived = 0;
}
