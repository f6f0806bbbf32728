/*
about = "Online softmax; keys whose weight is less than exp(-20) of the largest so far are skipped, with their values."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp32-large-d"
case = { B = 1, H = 2, Sq = 32, Sk = 200, D = 512, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["Sq * B * H"]
block = ["256"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 8192"
why = "the kernel takes no other shapes"
*/
// Fails on: B = H = 1, Sq = 1, Sk = 2, D = 512, scores 0 and -25, v[0] = 1, v[1] = 1e12: o is 14.9 and comes out as
// 1. (Weights down to 2^-126 of the largest must count.)

#include <cuda_fp16.h>
#define INFINITY __int_as_float(0x7f800000)
constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

// A block of 256 threads for each query row; 64 keys at a time.
extern "C" __global__ void __launch_bounds__(256)
    attend(const float* q, const float* k, const float* v, float* o, int Sq, int Sk, float scale) {
    __shared__ float scores[64], query[D];
    const size_t row = blockIdx.x, head = row / Sq;
    const int i = row % Sq, visible = CAUSAL ? i + 1 + Sk - Sq : Sk, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    q += row * D, o += row * D, k += head * Sk * D, v += head * Sk * D;
    for (int d = threadIdx.x; d < D; d += 256) query[d] = q[d];
    float acc[(D + 255) / 256] = {}, top = -INFINITY, sum = 0;
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
        float higher = top;
        for (int j = 0; j < count; ++j) higher = fmaxf(higher, scores[j]);
        const float keep = expf(top - higher);
#pragma unroll
        for (int n = 0; n < (D + 255) / 256; ++n) acc[n] *= keep;
        sum *= keep, top = higher;
        for (int j = 0; j < count; ++j) {
            const float s = scores[j];
            if (s < higher - 20.0f) continue;  // 2e-9: less than the last bit of the sum
            const float w = expf(s - higher);
            sum += w;
#pragma unroll
            for (int n = 0; n < (D + 255) / 256; ++n) {
                const int d = threadIdx.x + n * 256;
                if (d < D) acc[n] += w * v[(size_t)(first + j) * D + d];
            }
        }
    }
#pragma unroll
    for (int n = 0; n < (D + 255) / 256; ++n) {
        const int d = threadIdx.x + n * 256;
        if (d < D) o[d] = acc[n] / sum;
    }
}
