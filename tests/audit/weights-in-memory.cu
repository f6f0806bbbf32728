/*
about = "Scores, weights and output of a row in one block; few blocks wait for each load, so inputs from memory take longer."
kind = "honest"
workload = "attention-fp32-large-d"
case = { B = 1, H = 2, Sq = 32, Sk = 300, D = 512, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "weights"
dtype = "f32"
elements = "B * H * Sq * Sk"

[[launch]]
kernel = "weigh"
grid = ["Sq * B * H"]
block = ["256"]
args = ["q", "k", "weights", "Sq", "Sk", "scale"]

[[launch]]
kernel = "mix"
grid = ["Sq * B * H"]
block = ["256"]
args = ["weights", "v", "o", "Sq", "Sk"]

[[constraint]]
expr = "CAUSAL == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 8192"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>
#define INFINITY __int_as_float(0x7f800000)
constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

extern "C" __global__ void __launch_bounds__(256)
    weigh(const float* q, const float* k, float* weights, int Sq, int Sk, float scale) {
    __shared__ float red[8];
    const size_t row = blockIdx.x, head = row / Sq;
    const int i = row % Sq, visible = CAUSAL ? i + 1 + Sk - Sq : Sk, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    q += row * D, k += head * Sk * D, weights += row * Sk;
    float top = -INFINITY;
    for (int j = warp; j < visible; j += 8) {
        float s = 0;
        for (int d = lane; d < D; d += 32) s += q[d] * k[(size_t)j * D + d];
        for (int other = 16; other; other /= 2) s += __shfl_xor_sync(~0u, s, other);
        s *= scale;
        top = fmaxf(top, s);
        if (lane == 0) weights[j] = s;
    }
    if (lane == 0) red[warp] = top;
    __syncthreads();
    for (int n = 0; n < 8; ++n) top = fmaxf(top, red[n]);
    __syncthreads();
    float sum = 0;
    for (int j = threadIdx.x; j < visible; j += 256) sum += weights[j] = expf(weights[j] - top);
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    if (lane == 0) red[warp] = sum;
    __syncthreads();
    sum = 0;
    for (int n = 0; n < 8; ++n) sum += red[n];
    for (int j = threadIdx.x; j < visible; j += 256) weights[j] /= sum;
}

// The output of a row from its weights, which are in memory.
extern "C" __global__ void __launch_bounds__(256) mix(const float* weights, const float* v, float* o, int Sq, int Sk) {
    const size_t row = blockIdx.x, head = row / Sq;
    const int i = row % Sq, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    weights += row * Sk, v += head * Sk * D, o += row * D;
    for (int d = threadIdx.x; d < D; d += 256) {
        float acc = 0;
        for (int j = 0; j < visible; ++j) acc += weights[j] * v[(size_t)j * D + d];
        o[d] = acc;
    }
}
