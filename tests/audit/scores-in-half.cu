/*
about = "Split decoding with four warps for each part; scores wait in shared memory as FP16."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-decode"
case = { B = 2, H = 4, Sq = 1, Sk = 1500, D = 128, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "parts"
dtype = "f32"
elements = "B * H * 8 * (D + 2)"

[[launch]]
kernel = "parts_of"
grid = ["8 * B * H"]
block = ["128"]
args = ["q", "k", "v", "parts", "Sk", "scale"]

[[launch]]
kernel = "combine"
grid = ["B * H"]
block = ["128"]
args = ["parts", "o", "Sk"]

[[constraint]]
expr = "Sq == 1"
why = "the kernel takes no other shapes"
*/
// Fails on: Sq = 1, Sk = 256, D = 128: all of q is 300, k[j] = 300 for even j and 290 for odd j: scores are 1.018e6
// and 9.8e5, infinite in FP16, and o is NaN instead of the mean of the even values.

#include <cuda_fp16.h>
constexpr int D = <$ D $>;
constexpr int PART = (D + 31) / 32;  // dimensions of a lane: lane, lane + 32, ...
constexpr int SPLITS = 8;            // parts of the keys
constexpr int SLOT = D + 2;          // what a part leaves: its output, its largest score, its sum

constexpr int CHUNK = 128;  // keys at a time

extern "C" __global__ void __launch_bounds__(128)
    parts_of(const __half* q, const __half* k, const __half* v, float* parts, int Sk, float scale) {
    __shared__ __half scores[CHUNK];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, split = blockIdx.x % SPLITS;
    const size_t head = blockIdx.x / SPLITS;
    q += head * D, k += head * Sk * D, v += head * Sk * D;
    const int each = (Sk + SPLITS - 1) / SPLITS, from = min(Sk, split * each), to = min(Sk, from + each);
    float query[PART], acc[(D + 127) / 128] = {}, top = -1e30f, sum = 0;
    for (int n = 0, d = lane; d < D; ++n, d += 32) query[n] = __half2float(q[d]);
    for (int first = from; first < to; first += CHUNK) {
        const int count = min(CHUNK, to - first);
        for (int j = warp; j < count; j += 4) {
            float score = 0;
            for (int n = 0, d = lane; d < D; ++n, d += 32)
                score += query[n] * __half2float(k[(size_t)(first + j) * D + d]);
            for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
            if (lane == 0) scores[j] = __float2half(score * scale);
        }
        __syncthreads();
        float higher = top;
        for (int j = 0; j < count; ++j) higher = fmaxf(higher, __half2float(scores[j]));
        const float keep = __expf(top - higher);
        for (int n = 0; n < (D + 127) / 128; ++n) acc[n] *= keep;
        sum *= keep, top = higher;
        for (int j = 0; j < count; ++j) {
            const float weight = __expf(__half2float(scores[j]) - top);
            sum += weight;
            for (int n = 0, d = threadIdx.x; d < D; ++n, d += 128)
                acc[n] += weight * __half2float(v[(size_t)(first + j) * D + d]);
        }
        __syncthreads();
    }
    float* slot = parts + (head * SPLITS + split) * SLOT;
    for (int n = 0, d = threadIdx.x; d < D; ++n, d += 128) slot[d] = acc[n];
    if (threadIdx.x == 0) slot[D] = top, slot[D + 1] = sum;
}

extern "C" __global__ void __launch_bounds__(128) combine(const float* parts, __half* o, int Sk) {
    const size_t head = blockIdx.x;
    const float* slots = parts + head * SPLITS * SLOT;
    const int count = SPLITS;
    float highest = -1e30f;
    for (int s = 0; s < count; ++s) highest = fmaxf(highest, slots[s * SLOT + D]);
    float total = 0;
    for (int s = 0; s < count; ++s) total += slots[s * SLOT + D + 1] * __expf(slots[s * SLOT + D] - highest);
    for (int d = threadIdx.x; d < D; d += 128) {
        float out = 0;
        for (int s = 0; s < count; ++s) out += slots[s * SLOT + d] * __expf(slots[s * SLOT + D] - highest);
        o[head * D + d] = __float2half(out / total);
    }
}
