/*
about = "Decoding by one block of sixteen warps for each head, with cuda::std containers, limits and lambdas."
kind = "honest"
workload = "attention-decode"
case = { B = 3, H = 5, Sq = 1, Sk = 777, D = 64, CAUSAL = 0 }
regime = "cold"
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["Sq * B * H"]
block = ["512"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D % 2 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 256"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

#include <cuda/std/array>
#include <cuda/std/limits>
#include <cuda/std/utility>

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int WARPS = 16, PAIRS = D / 2, PART = (PAIRS + 31) / 32;
template <class T>
using Parts = cuda::std::array<T, PART>;

template <class F>
__device__ __forceinline__ void for_pairs(F&& body) {
    for (int n = 0; n < PART; ++n)
        if (const int p = n * 32 + threadIdx.x % 32; p < PAIRS) body(n, p);
}
extern "C" __global__ void __launch_bounds__(512)
    attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    __shared__ float2 outs[WARPS][PAIRS];
    __shared__ cuda::std::pair<float, float> states[WARPS];
    const int warp = threadIdx.x / 32, i = blockIdx.x % Sq, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t row = blockIdx.x, head = row / Sq;
    const __half2 *queries = reinterpret_cast<const __half2*>(q + row * D),
                  *keys = reinterpret_cast<const __half2*>(k + head * Sk * D),
                  *values = reinterpret_cast<const __half2*>(v + head * Sk * D);
    Parts<float2> query{}, acc{};
    for_pairs([&](int n, int p) { query[n] = __half22float2(queries[p]); });
    const float lowest = cuda::std::numeric_limits<float>::lowest();  // FP16 inputs: no finite score comes close
    float top = lowest, sum = 0;
    for (size_t j = warp; j < (size_t)visible; j += WARPS) {
        float score = 0;
        for_pairs([&](int n, int p) {
            const float2 key = __half22float2(__ldcs(keys + j * PAIRS + p));
            score = fmaf(query[n].x, key.x, fmaf(query[n].y, key.y, score));
        });
        for (int other = 16; other; other >>= 1) score += __shfl_xor_sync(~0u, score, other);
        score = __fmul_rn(score, scale);
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for_pairs([&](int n, int p) {
            const float2 value = __half22float2(__ldcs(values + j * PAIRS + p));
            acc[n].x = acc[n].x * keep + weight * value.x, acc[n].y = acc[n].y * keep + weight * value.y;
        });
        sum = sum * keep + weight, top = higher;
    }
    for_pairs([&](int n, int p) { outs[warp][p] = acc[n]; });
    if (threadIdx.x % 32 == 0) states[warp] = cuda::std::pair<float, float>(top, sum);
    __syncthreads();
    for (int d = threadIdx.x; d < D; d += 512) {
        float highest = lowest, total = 0, out = 0;
        for (const auto& s : states) highest = fmaxf(highest, s.first);
        for (int w = 0; w < WARPS; ++w) {  // warps without a key: 0 times 0
            const float factor = __expf(states[w].first - highest);
            total += factor * states[w].second;
            out += factor * (d % 2 ? outs[w][d / 2].y : outs[w][d / 2].x);
        }
        o[row * D + d] = __float2half(out / total);
    }
}
