/*
about = "Skips the values of 32 keys if all their weights are exactly zero in FP32 and a first kernel found the values finite."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 2, H = 2, Sq = 96, Sk = 160, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "finite"
dtype = "f32"
elements = "B * H * ceil_div(Sk, 32)"

[[launch]]
kernel = "inspect"
grid = ["ceil_div(Sk, 32)", "B * H"]
block = ["32"]
args = ["v", "finite", "Sk"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "finite", "Sq", "Sk", "scale"]

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

// Whether all values of 32 keys are finite: zero times one of them is zero.
extern "C" __global__ void inspect(const __half* v, int* finite, int Sk) {
    const size_t head = blockIdx.y;
    const int first = blockIdx.x * 32, count = min(32, Sk - first);
    bool good = true;
    for (int n = threadIdx.x; n < count * D; n += 32)
        good &= (__half_as_ushort(v[(head * Sk + first) * D + n]) & 0x7c00) != 0x7c00;
    const bool all = __all_sync(~0u, good);
    if (threadIdx.x == 0) finite[head * gridDim.x + blockIdx.x] = all;
}
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, const int* finite,
                                  int Sq, int Sk, float scale) {
    __shared__ float query[D];
    const int lane = threadIdx.x, i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D, finite += head * ((Sk + 31) / 32);
    for (int d = lane; d < D; d += 32) query[d] = __half2float(q[row + d]);
    __syncwarp();
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int first = 0; first < visible; first += 32) {
        const int j = first + lane, count = min(32, visible - first);
        float score = __int_as_float(0xff800000);
        if (j < visible) {
            score = 0;
            for (int d = 0; d < D; ++d) score += query[d] * __half2float(k[(size_t)j * D + d]);
            score = __fmul_rn(score, scale);
        }
        float higher = fmaxf(top, score);
        for (int other = 16; other; other /= 2) higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, other));
        const float weight = j < visible ? __expf(score - higher) : 0.0f;
        // If the maximum had grown, somebody's weight would be 1. NaN is not zero either.
        if (__all_sync(~0u, weight == 0.0f) && finite[first / 32]) continue;
        const float keep = __expf(top - higher);
        for (int n = 0; n < PART; ++n) acc[n] *= keep;
        for (int l = 0; l < count; ++l) {
            const float w = __shfl_sync(~0u, weight, l);
            for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] += w * __half2float(v[(size_t)(first + l) * D + d]);
        }
        sum = sum * keep + weight, top = higher;
    }
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
