/*
about = "Four warps take every fourth key, and a recursive function merges them; with an assertion, same-value races and a rare printf."
kind = "honest"
workload = "attention-fp16-d64-full"
case = { B = 2, H = 2, Sq = 65, Sk = 99, D = 40, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

#define CHECK(claim)                                                     \
    do {                                                                 \
        if (!(claim)) {                                                  \
            printf("block %d %d: %s\n", blockIdx.x, blockIdx.y, #claim); \
            assert(claim);                                               \
        }                                                                \
    } while (0)

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int PART = (D + 31) / 32, WARPS = 4;
struct State {
    float top, sum, value;
};
__shared__ float slots[WARPS][D + 2];
__shared__ int visible_keys;

__device__ __noinline__ State merge(int from, int to, int d) {
    if (to - from == 1) return {slots[from][D], slots[from][D + 1], slots[from][d]};
    const int middle = (from + to) / 2;
    const State a = merge(from, middle, d), b = merge(middle, to, d);
    const float top = fmaxf(a.top, b.top), x = __expf(a.top - top), y = __expf(b.top - top);
    return {top, a.sum * x + b.sum * y, a.value * x + b.value * y};
}
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    visible_keys = CAUSAL ? i + 1 + Sk - Sq : Sk;  // everyone writes the same
    __syncthreads();
    const int visible = visible_keys;
    CHECK(visible >= 1 && visible <= Sk);  // what the constraints promise
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int j = warp; j < visible; j += WARPS) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += __half2float(q[row + d]) * __half2float(k[(size_t)j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score = __fmul_rn(score, scale);
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32)
            acc[n] = acc[n] * keep + weight * __half2float(v[(size_t)j * D + d]);
        sum = sum * keep + weight, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) slots[warp][d] = acc[n];
    slots[warp][D] = top, slots[warp][D + 1] = sum;  // 32 lanes, one value
    __syncthreads();
    for (int d = threadIdx.x; d < D; d += 128) {
        const State s = merge(0, WARPS, d);
        const float out = s.value / s.sum;
        if (out != out && d == 0 && blockIdx.x == 0 && blockIdx.y == 0) printf("the first output is not a number\n");
        o[row + d] = __float2half(out);
    }
}
