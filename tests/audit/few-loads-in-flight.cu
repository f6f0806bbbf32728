/*
about = "Split decoding in one kernel with tickets, a warp for each part: it waits for each load, so inputs from memory take longer."
kind = "honest"
workload = "attention-decode"
case = { B = 2, H = 4, Sq = 1, Sk = 1500, D = 128, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "parts"
dtype = "f32"
elements = "B * H * 8 * (D + 2)"

[[workspace]]
name = "tickets"
dtype = "f32"
elements = "B * H"
initial = "zero"

[[launch]]
kernel = "attend"
grid = ["8 * B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "parts", "tickets", "Sk", "scale"]

[[constraint]]
expr = "Sq == 1"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>
constexpr int D = <$ D $>;
constexpr int PART = (D + 31) / 32;  // dimensions of a lane: lane, lane + 32, ...
constexpr int SPLITS = 8;            // parts of the keys
constexpr int SLOT = D + 2;          // what a part leaves: its output, its largest score, its sum

// A warp for each head and part of the keys.
extern "C" __global__ void __launch_bounds__(32) attend(const __half* q, const __half* k, const __half* v, __half* o,
                                                        float* parts, unsigned* tickets, int Sk, float scale) {
    const int lane = threadIdx.x, split = blockIdx.x % SPLITS;
    const size_t head = blockIdx.x / SPLITS;
    q += head * D, k += head * Sk * D, v += head * Sk * D;
    const int each = (Sk + SPLITS - 1) / SPLITS, from = min(Sk, split * each), to = min(Sk, from + each);
    float query[PART], acc[PART] = {}, top = -1e30f, sum = 0;
    for (int n = 0, d = lane; d < D; ++n, d += 32) query[n] = __half2float(q[d]);
    for (int j = from; j < to; ++j) {
        float score = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) score += query[n] * __half2float(k[(size_t)j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32)
            acc[n] = acc[n] * keep + weight * __half2float(v[(size_t)j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    float* slot = parts + (head * SPLITS + split) * SLOT;
    for (int n = 0, d = lane; d < D; ++n, d += 32) slot[d] = acc[n];
    if (lane == 0) slot[D] = top, slot[D + 1] = sum;
    __threadfence();
    __syncwarp();
    unsigned ticket = 0;
    if (lane == 0) ticket = atomicAdd(&tickets[head], 1u);
    ticket = __shfl_sync(~0u, ticket, 0);
    if (ticket != SPLITS - 1) return;
    __threadfence();
    const float* slots = parts + head * SPLITS * SLOT;
    float highest = -1e30f, total = 0;
    for (int s = 0; s < SPLITS; ++s) highest = fmaxf(highest, __ldcg(&slots[s * SLOT + D]));
    for (int s = 0; s < SPLITS; ++s)
        total += __ldcg(&slots[s * SLOT + D + 1]) * __expf(__ldcg(&slots[s * SLOT + D]) - highest);
    for (int d = lane; d < D; d += 32) {
        float out = 0;
        for (int s = 0; s < SPLITS; ++s)
            out += __ldcg(&slots[s * SLOT + d]) * __expf(__ldcg(&slots[s * SLOT + D]) - highest);
        o[head * D + d] = __float2half(out / total);
    }
    if (lane == 0) tickets[head] = 0;  // for the next launch
}
