/*
about = "Persistent blocks draw tasks from a counter, take the rows from both ends in turn, and the last one restores the counters."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 2, H = 5, Sq = 111, Sk = 111, D = 56, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "work"
dtype = "f32"
elements = "2"
initial = "zero"

[[launch]]
kernel = "attend"
grid = ["132"]
block = ["256"]
args = ["q", "k", "v", "o", "work", "B", "H", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int PART = (D + 31) / 32, ROWS = 8;

extern "C" __global__ void __launch_bounds__(256, 2)
    attend(const __half* q, const __half* k, const __half* v, __half* o, unsigned* work, int B, int H, int Sq, int Sk,
           float scale) {
    __shared__ unsigned drawn;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const unsigned groups = (Sq + ROWS - 1) / ROWS, tasks = groups * B * H;
    while (true) {
        if (threadIdx.x == 0) drawn = atomicAdd(&work[0], 1u);
        __syncthreads();
        const unsigned ticket = drawn;
        __syncthreads();
        if (ticket >= tasks) break;
        const unsigned task = ticket % 2 ? tasks - 1 - ticket / 2 : ticket / 2;  // 0, last, 1, last but one, ...
        const size_t head = task / groups;
        const int i = task % groups * ROWS + warp;
        if (i >= Sq) continue;  // a whole warp; it meets the others at the barrier above
        const __half *kk = k + head * Sk * D, *vv = v + head * Sk * D;
        const size_t row = (head * Sq + i) * D;
        const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
        float acc[PART] = {}, top = -1e30f, sum = 0;
        for (int j = 0; j < visible; ++j, kk += D, vv += D) {
            float score = 0;
            for (int d = lane; d < D; d += 32) score += __half2float(__ldg(q + row + d)) * __half2float(__ldg(kk + d));
            for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
            score = __fmul_rn(score, scale);
            if (score > top) {  // the same for all lanes
                const float keep = __expf(top - score);
                for (int n = 0; n < PART; ++n) acc[n] *= keep;
                sum *= keep, top = score;
            }
            const float weight = __expf(score - top);
            for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] += weight * __half2float(__ldg(vv + d));
            sum += weight;
        }
        for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
    }
    // Whoever is the last to come here knows that nobody draws any more.
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(&work[1], 1u) == gridDim.x - 1) atomicExch(&work[0], 0u), atomicExch(&work[1], 0u);
    }
}
