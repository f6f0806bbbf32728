/*
about = "Decoding, eight warps a row. The running maximum starts at FLT_MIN, which is the smallest positive number and not the lowest."
kind = "broken"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-decode"
case = { B = 2, H = 8, Sq = 1, Sk = 1024, D = 128, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["256"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "D <= 1024"
why = "the kernel takes no other shapes"
*/
// Fails on: All scores below -104, e.g. D=128, q all 4 and k all -4 plus noise (score -181): every weight is
// exp(-181) = 0, the output is NaN instead of a mean of V.

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

constexpr int PART = (D + 31) / 32, WARPS = 8;
constexpr float FLT_MIN_VALUE = 1.17549435e-38f;  // <cfloat> is not there under NVRTC
// A block for each query row; its warps take every eighth key, and are put together at the end.
extern "C" __global__ void __launch_bounds__(WARPS * 32)
    attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    __shared__ float tops[WARPS], sums[WARPS], outs[WARPS][D];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float mine[PART], acc[PART] = {}, top = FLT_MIN_VALUE, sum = 0;
    for (int n = 0; n < PART; ++n) mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;
    for (int j = warp; j < visible; j += WARPS) {
        float s = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
        s = warp_sum(s) * scale;

        const float higher = fmaxf(top, s), keep = __expf(top - higher), w = __expf(s - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + w * float(v[(size_t)j * D + d]);
        sum = sum * keep + w, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) outs[warp][d] = acc[n];
    if (lane == 0) tops[warp] = top, sums[warp] = sum;
    __syncthreads();
    float highest = tops[0], total = 0;
    for (int w = 1; w < WARPS; ++w) highest = fmaxf(highest, tops[w]);
    for (int w = 0; w < WARPS; ++w) total += sums[w] * __expf(tops[w] - highest);
    for (int d = threadIdx.x; d < D; d += WARPS * 32) {
        float x = 0;
        for (int w = 0; w < WARPS; ++w) x += outs[w][d] * __expf(tops[w] - highest);
        o[row + d] = __float2half(x / total);
    }
}
