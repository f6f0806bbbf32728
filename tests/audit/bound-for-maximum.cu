/*
about = "The maximum of a row is replaced by the bound |q| max|k|, so that one pass without rescaling is enough; a row whose sum underflows to 0 is done again with its maximum."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp32-large-d"
case = { B = 1, H = 2, Sq = 48, Sk = 64, D = 512, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "longest"
dtype = "f32"
elements = "B * H"

[[launch]]
kernel = "lengths"
grid = ["B * H"]
block = ["256"]
args = ["k", "longest", "Sk"]

[[launch]]
kernel = "attend"
grid = ["Sq * B * H"]
block = ["256"]
args = ["q", "k", "v", "o", "longest", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 1024"
why = "the kernel takes no other shapes"
*/
// Fails on: B = H = 1, Sq = Sk = 64, D = 512, q and k = normal * 2.1: the bound is about 107, the largest scores
// about 11, so all weights are FP32 subnormals near 1e-42 with three digits or less, and rows of o are off by 1e-4
// to 1 (tolerance 1e-5). At scale 1 it is exact, at scale 3 and more the fallback is taken.

#include <cuda_fp16.h>
#define INFINITY __int_as_float(0x7f800000)
constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

// Over the 256 threads of a block.
__device__ __forceinline__ float block_max(float x, float* red) {
    for (int other = 16; other; other /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, other));
    __syncthreads();
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = x;
    __syncthreads();
    x = red[0];
    for (int n = 1; n < 8; ++n) x = fmaxf(x, red[n]);
    return x;
}
__device__ __forceinline__ float block_sum(float x, float* red) {
    for (int other = 16; other; other /= 2) x += __shfl_xor_sync(~0u, x, other);
    __syncthreads();
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = x;
    __syncthreads();
    x = red[0];
    for (int n = 1; n < 8; ++n) x += red[n];
    return x;
}

// The length of the longest key of a head, and a little more. NaN is found by the scores.
extern "C" __global__ void __launch_bounds__(256) lengths(const float* k, float* longest, int Sk) {
    __shared__ float red[8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    k += (size_t)blockIdx.x * Sk * D;
    float top = 0;
    for (int j = warp; j < Sk; j += 8) {
        float sum = 0;
        for (int d = lane; d < D; d += 32) sum += k[(size_t)j * D + d] * k[(size_t)j * D + d];
        for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
        top = fmaxf(top, sum);
    }
    top = block_max(top, red);
    if (threadIdx.x == 0) longest[blockIdx.x] = sqrtf(top);
}
// One pass over the keys, relative to a given maximum.
__device__ __forceinline__ float pass(const float* query, const float* k, const float* v, float* scores,
                                      float (&acc)[(D + 255) / 256], int visible, float scale, float top) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0;
    for (int n = 0; n < (D + 255) / 256; ++n) acc[n] = 0;
    for (int first = 0; first < visible; first += 64) {
        const int count = min(64, visible - first);
        __syncthreads();
        for (int j = warp; j < count; j += 8) {
            float s = 0;
            for (int d = lane; d < D; d += 32) s += query[d] * k[(size_t)(first + j) * D + d];
            for (int other = 16; other; other /= 2) s += __shfl_xor_sync(~0u, s, other);
            if (lane == 0) scores[j] = s * scale;
        }
        __syncthreads();
        for (int j = 0; j < count; ++j) {
            const float w = expf(scores[j] - top);
            sum += w;
#pragma unroll
            for (int n = 0; n < (D + 255) / 256; ++n) {
                const int d = threadIdx.x + n * 256;
                if (d < D) acc[n] += w * v[(size_t)(first + j) * D + d];
            }
        }
    }
    return sum;
}
extern "C" __global__ void __launch_bounds__(256) attend(const float* q, const float* k, const float* v, float* o,
                                                         const float* longest, int Sq, int Sk, float scale) {
    __shared__ float scores[64], query[D], red[8];
    const size_t row = blockIdx.x, head = row / Sq;
    const int i = row % Sq, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    q += row * D, o += row * D, k += head * Sk * D, v += head * Sk * D;
    float square = 0;
    for (int d = threadIdx.x; d < D; d += 256) query[d] = q[d], square += q[d] * q[d];
    square = block_sum(square, red);
    float acc[(D + 255) / 256];
    float sum = pass(query, k, v, scores, acc, visible, scale, sqrtf(square) * longest[head] * scale);
    if (!(sum > 0)) {  // all weights are 0, or something is not a number: with the maximum itself
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        float top = -INFINITY;
        for (int j = warp; j < visible; j += 8) {
            float s = 0;
            for (int d = lane; d < D; d += 32) s += query[d] * k[(size_t)j * D + d];
            for (int other = 16; other; other /= 2) s += __shfl_xor_sync(~0u, s, other);
            top = fmaxf(top, s * scale);
        }
        top = block_max(top, red);
        sum = pass(query, k, v, scores, acc, visible, scale, top);
    }
#pragma unroll
    for (int n = 0; n < (D + 255) / 256; ++n) {
        const int d = threadIdx.x + n * 256;
        if (d < D) o[d] = acc[n] / sum;
    }
}
