/*
about = "Warps take their rows from a counter, so who computes what changes from launch to launch."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
[derived]
ROWS = "B * H * Sq"

[[workspace]]
name = "counters"
dtype = "f32"
elements = "2"
initial = "zero"

[[launch]]
kernel = "attend"
grid = ["min(ROWS, 64)"]
block = ["32"]
args = ["q", "k", "v", "o", "counters", "Sq", "Sk", "ROWS", "scale"]
*/
// A dynamic scheduler, as persistent kernels have it. Nothing of the order shows in the output.
#include <cuda_fp16.h>

constexpr int D = <$ D $>;             // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;       // key j is visible to query i iff j <= i + Sk - Sq
constexpr int PART = (D + 31) / 32;    // dimensions of a lane: lane, lane + 32, ...

// One query row by one warp: the plain attention of this corpus.
__device__ void attend_row(const __half* q, const __half* k, const __half* v, __half* o, int visible, float scale) {
    const int lane = threadIdx.x % 32;
    float acc[PART] = {};         // output so far, not yet divided by the sum
    float top = -1e30f, sum = 0;  // largest score so far, and the sum of exp(score - top)
    for (int j = 0; j < visible; ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[d] = __float2half(acc[n] / sum);
}


extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, unsigned* counters, int Sq, int Sk,
                                  int rows, float scale) {
    for (;;) {
        unsigned taken = 0;
        if (threadIdx.x == 0) taken = atomicAdd(&counters[0], 1u);
        taken = __shfl_sync(~0u, taken, 0);
        if (taken >= rows) break;
        const int i = Sq - 1 - taken % Sq, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;  // the longest rows first
        const size_t head = taken / Sq, row = (head * Sq + i) * D;
        attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    }
    // The last warp to find nothing leaves both counters as it found them.
    if (threadIdx.x == 0 && atomicAdd(&counters[1], 1u) == gridDim.x - 1) counters[0] = counters[1] = 0;
}
