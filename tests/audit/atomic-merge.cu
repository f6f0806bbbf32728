/*
about = "Decoding; eight splits add their parts with atomics in FP32, after a first kernel has found the row maxima."
kind = "broken"
caught_by = ["wrong/hidden", "wrong/probe", "wrong/repeatable"]
workload = "attention-fp16-d64-full"
case = { B = 1, H = 4, Sq = 2, Sk = 1024, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]

[[workspace]]
name = "tops"
dtype = "f32"
elements = "B * H * Sq"
initial = "zero"

[[workspace]]
name = "sums"
dtype = "f32"
elements = "B * H * Sq * (D + 1)"
initial = "zero"

[[launch]]
kernel = "maxima"
grid = ["Sq", "B * H", "8"]
block = ["32"]
args = ["q", "k", "tops", "Sq", "Sk", "scale"]

[[launch]]
kernel = "accumulate"
grid = ["Sq", "B * H", "8"]
block = ["32"]
args = ["q", "k", "v", "tops", "sums", "Sq", "Sk", "scale"]

[[launch]]
kernel = "finish"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["o", "tops", "sums", "Sq"]
*/
// Fails on: Two executions on the same inputs: the sums of eight parts are added in the order of arrival, and differ
// in the last bits of FP32; elements near a rounding boundary of FP16 differ (not the same bytes).

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

constexpr int PART = (D + 31) / 32, SPLITS = 8;

// Unsigned numbers in the order of the floats; 0 is below all of them.
__device__ unsigned encode(float x) {
    const unsigned u = __float_as_uint(x);
    return u >> 31 ? ~u : u | 0x80000000u;
}
__device__ float decode(unsigned u) { return __uint_as_float(u >> 31 ? u & 0x7fffffffu : ~u); }

__device__ float score_of(const __half* q, const __half* k, float scale) {
    float s = 0;
    for (int d = threadIdx.x; d < D; d += 32) s += float(q[d]) * float(k[d]);
    return warp_sum(s) * scale;
}

extern "C" __global__ void maxima(const __half* q, const __half* k, unsigned* tops, int Sq, int Sk, float scale) {
    const size_t head = blockIdx.y, at = head * Sq + blockIdx.x;
    const int visible = CAUSAL ? blockIdx.x + 1 + Sk - Sq : Sk;
    float top = __uint_as_float(0xff800000u);
    for (int j = blockIdx.z; j < visible; j += SPLITS)
        top = fmaxf(top, score_of(q + at * D, k + (head * Sk + j) * D, scale));
    if (threadIdx.x == 0) atomicMax(&tops[at], encode(top));
}

extern "C" __global__ void accumulate(const __half* q, const __half* k, const __half* v, const unsigned* tops,
                                      float* sums, int Sq, int Sk, float scale) {
    const int lane = threadIdx.x;
    const size_t head = blockIdx.y, at = head * Sq + blockIdx.x;
    const int visible = CAUSAL ? blockIdx.x + 1 + Sk - Sq : Sk;
    const float top = decode(tops[at]);
    float acc[PART] = {}, sum = 0;
    for (int j = blockIdx.z; j < visible; j += SPLITS) {
        const float w = __expf(score_of(q + at * D, k + (head * Sk + j) * D, scale) - top);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] += w * float(v[(head * Sk + j) * D + d]);
        sum += w;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) atomicAdd(&sums[at * (D + 1) + d], acc[n]);
    if (lane == 0) atomicAdd(&sums[at * (D + 1) + D], sum);
}

extern "C" __global__ void finish(__half* o, unsigned* tops, float* sums, int Sq) {
    const size_t at = (size_t)blockIdx.y * Sq + blockIdx.x;
    float* row = sums + at * (D + 1);
    const float total = row[D];
    __syncwarp();
    for (int d = threadIdx.x; d < D; d += 32) o[at * D + d] = __float2half(row[d] / total), row[d] = 0;
    if (threadIdx.x == 0) row[D] = 0, tops[at] = 0;
}
