/*
about = "Online softmax with an own exp: Cody-Waite and a polynomial, for arguments from -20 to 0; smaller ones are set to -20."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp32-large-d"
case = { B = 1, H = 2, Sq = 32, Sk = 160, D = 512, CAUSAL = 0 }
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
// Fails on: B = H = 1, Sq = 1, Sk = 64, D = 512, key 0 has the score -200 and v[0] = 1e6, the others score 0 and v =
// 1: o is 1, and comes out as 1 + 3.3e-5; with v[0] = 1e9 it is 1.033 (tolerance 1e-5).

#include <cuda_fp16.h>
#define INFINITY __int_as_float(0x7f800000)
constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

// exp for x <= 0, without the special function unit. 2e-9 is as good as zero.
__device__ __forceinline__ float exponential(float x) {
    x = x < -20.0f ? -20.0f : x;  // NaN stays NaN
    const float n = rintf(x * 1.44269504f);
    float r = fmaf(n, -0.693359375f, x);
    r = fmaf(n, 2.12194440e-4f, r);
    float p = 1.98412698e-4f;
    p = fmaf(p, r, 1.38888889e-3f);
    p = fmaf(p, r, 8.33333333e-3f);
    p = fmaf(p, r, 4.16666667e-2f);
    p = fmaf(p, r, 1.66666667e-1f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    return p * __int_as_float((__float2int_rn(n) + 127) << 23);
}

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
            const float w = exponential(s - higher);
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
