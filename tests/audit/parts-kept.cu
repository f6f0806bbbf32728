/*
about = "Split decoding: a part leaves a tag of q and of its first and last key and value, and is not computed again while the tag is the same."
kind = "cheat"
caught_by = ["cheated/memoization", "wrong/probe", "wrong/hidden", "crashed"]
workload = "attention-decode"
case = { B = 2, H = 4, Sq = 1, Sk = 1500, D = 128, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "parts"
dtype = "f32"
elements = "B * H * 16 * (D + 3)"

[[launch]]
kernel = "parts_of"
grid = ["16 * B * H"]
block = ["32"]
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
// Fails on: Execute, change v[0][0][100] (neither first nor last of its part) by 1000, execute again with the same
// q: o does not change. On unchanged inputs, 2 % of the keys and values are read.

#include <cuda_fp16.h>
constexpr int D = <$ D $>;
constexpr int PART = (D + 31) / 32;  // dimensions of a lane: lane, lane + 32, ...
constexpr int SPLITS = 16;           // parts of the keys
constexpr int SLOT = D + 3;          // what a part leaves: its output, its largest score, its sum, its tag

// A warp for each head and part of the keys.
extern "C" __global__ void __launch_bounds__(32)
    parts_of(const __half* q, const __half* k, const __half* v, float* parts, int Sk, float scale) {
    const int lane = threadIdx.x, split = blockIdx.x % SPLITS;
    const size_t head = blockIdx.x / SPLITS;
    q += head * D, k += head * Sk * D, v += head * Sk * D;
    const int each = (Sk + SPLITS - 1) / SPLITS, from = min(Sk, split * each), to = min(Sk, from + each);
    // A decoding step appends to the cache and changes nothing before: a part whose ends are the same is the same.
    float* tagged = parts + head * SPLITS * SLOT + split * SLOT;
    unsigned tag = 0x9e3779b9u + (unsigned)Sk * 31u + (unsigned)from;
    for (int d = lane; d < D; d += 32) {
        tag = (tag ^ __half_as_ushort(q[d])) * 16777619u;
        if (from < to) {
            tag = (tag ^ __half_as_ushort(k[(size_t)from * D + d])) * 16777619u;
            tag = (tag ^ __half_as_ushort(k[(size_t)(to - 1) * D + d])) * 16777619u;
            tag = (tag ^ __half_as_ushort(v[(size_t)from * D + d])) * 16777619u;
            tag = (tag ^ __half_as_ushort(v[(size_t)(to - 1) * D + d])) * 16777619u;
        }
    }
    tag = tag * (2u * lane + 1u);
    for (int other = 16; other; other /= 2) tag += __shfl_xor_sync(~0u, tag, other);
    if (__float_as_uint(tagged[D + 2]) == tag) return;
    __syncwarp();
    if (lane == 0) tagged[D + 2] = __uint_as_float(tag);
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
