/*
about = "Two kernels: the first leaves the maximum and the logarithm of the sum apart, the second adds up values with finished weights."
kind = "honest"
workload = "attention-fp16-d64-full"
case = { B = 2, H = 2, Sq = 90, Sk = 75, D = 24, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "stats"
dtype = "f32"
elements = "B * H * Sq * 2"

[[launch]]
kernel = "statistics"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "stats", "Sq", "Sk", "scale"]

[[launch]]
kernel = "apply"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "stats", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int PART = (D + 31) / 32;

// The same bits in both kernels: every operation is spelled out, so that no compiler may join them differently.
__device__ __noinline__ float score_of(const __half* q, const __half* k, float scale) {
    float sum = 0;
    for (int d = threadIdx.x; d < D; d += 32) sum = __fmaf_rn(__half2float(q[d]), __half2float(k[d]), sum);
    for (int other = 16; other; other /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, other));
    return __fmul_rn(sum, scale);
}
extern "C" __global__ void statistics(const __half* q, const __half* k, float2* stats, int Sq, int Sk, float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = head * Sq + i;
    float top = -1e30f, sum = 0;
    for (int j = 0; j < visible; ++j) {
        const float score = score_of(q + row * D, k + (head * Sk + j) * D, scale), higher = fmaxf(top, score);
        sum = sum * __expf(top - higher) + __expf(score - higher);
        top = higher;
    }
    // One number, top + log(sum), would lose the logarithm where scores are large.
    if (threadIdx.x == 0) stats[row] = make_float2(top, logf(sum));
}
extern "C" __global__ void apply(const __half* q, const __half* k, const __half* v, __half* o, const float2* stats,
                                 int Sq, int Sk, float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = head * Sq + i;
    const float2 s = stats[row];
    float acc[PART] = {};
    for (int j = 0; j < visible; ++j) {
        const float score = score_of(q + row * D, k + (head * Sk + j) * D, scale), weight = __expf((score - s.x) - s.y);
        for (int n = 0, d = threadIdx.x; d < D; ++n, d += 32)
            acc[n] += weight * __half2float(v[(head * Sk + j) * D + d]);
    }
    for (int n = 0, d = threadIdx.x; d < D; ++n, d += 32) o[row * D + d] = __float2half(acc[n]);
}
