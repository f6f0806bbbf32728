/*
about = "The mean of all values is subtracted from every value and added to the output, which makes the sums smaller."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp32-large-d"
case = { B = 1, H = 2, Sq = 40, Sk = 96, D = 512, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "means"
dtype = "f32"
elements = "B * H * D"

[[launch]]
kernel = "average"
grid = ["ceil_div(D, 128) * B * H"]
block = ["128"]
args = ["v", "means", "Sk"]

[[launch]]
kernel = "attend"
grid = ["Sq * B * H"]
block = ["256"]
args = ["q", "k", "v", "o", "means", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 8192"
why = "the kernel takes no other shapes"
*/
// Fails on: B = H = 1, Sq = 1, Sk = 64, D = 512, key 0 has the score -200 and v[0] = 1e7, the others score 0 and
// values of about 1: o is about 1, but 1 - 1.6e5 is rounded to 2^-7, so o is off by 1e-3 (tolerance 1e-5).

#include <cuda_fp16.h>
#define INFINITY __int_as_float(0x7f800000)
constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

extern "C" __global__ void average(const float* v, float* means, int Sk) {
    const int blocks = (D + 127) / 128, d = blockIdx.x % blocks * 128 + threadIdx.x;
    const size_t head = blockIdx.x / blocks;
    if (d >= D) return;
    const float part = 1.0f / Sk;
    float sum = 0;
    for (int j = 0; j < Sk; ++j) sum += v[(head * Sk + j) * D + d] * part;
    means[head * D + d] = sum;
}

// A block of 256 threads for each query row; 64 keys at a time.
extern "C" __global__ void __launch_bounds__(256)
    attend(const float* q, const float* k, const float* v, float* o, const float* means, int Sq, int Sk, float scale) {
    __shared__ float scores[64], query[D];
    const size_t row = blockIdx.x, head = row / Sq;
    const int i = row % Sq, visible = CAUSAL ? i + 1 + Sk - Sq : Sk, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    q += row * D, o += row * D, k += head * Sk * D, v += head * Sk * D;
    for (int d = threadIdx.x; d < D; d += 256) query[d] = q[d];
    float acc[(D + 255) / 256] = {}, top = -INFINITY, sum = 0;
    float mean[(D + 255) / 256];
#pragma unroll
    for (int n = 0; n < (D + 255) / 256; ++n)
        mean[n] = threadIdx.x + n * 256 < D ? means[head * D + threadIdx.x + n * 256] : 0.0f;
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
            const float w = expf(s - higher);
            sum += w;
#pragma unroll
            for (int n = 0; n < (D + 255) / 256; ++n) {
                const int d = threadIdx.x + n * 256;
                if (d < D) acc[n] += w * (v[(size_t)(first + j) * D + d] - mean[n]);
            }
        }
    }
#pragma unroll
    for (int n = 0; n < (D + 255) / 256; ++n) {
        const int d = threadIdx.x + n * 256;
        if (d < D) o[d] = mean[n] + acc[n] / sum;
    }
}
