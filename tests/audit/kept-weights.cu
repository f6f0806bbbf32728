/*
about = "The weights of the softmax are kept in a workspace, with a fingerprint of q and k: if it has not changed, only the weights times v are computed."
kind = "cheat"
caught_by = ["cheated/memoization", "wrong/hidden", "crashed"]
workload = "attention-fp32-large-d"
case = { B = 1, H = 4, Sq = 64, Sk = 64, D = 512, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "mark"
dtype = "f32"
elements = "4"

[[workspace]]
name = "weights"
dtype = "f32"
elements = "B * H * Sq * Sk"

[[launch]]
kernel = "look"
grid = ["1"]
block = ["128"]
args = ["q", "k", "mark", "B", "H", "Sq", "Sk"]

[[launch]]
kernel = "scores"
grid = ["Sq * B * H"]
block = ["256"]
args = ["q", "k", "mark", "weights", "Sq", "Sk", "scale"]

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
// Fails on: Execute, change one element of k that is not among the 128 sampled (say k[0][5][17], by 100), execute
// again: o is computed with the old weights, and is off by 10 % and more. On unchanged inputs, half of the work is
// not done.

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

// mark: two words of fingerprint, and whether it is the one of the last execution.
extern "C" __global__ void __launch_bounds__(128)
    look(const unsigned* q, const unsigned* k, unsigned* mark, int B, int H, int Sq, int Sk) {
    __shared__ unsigned found[128];
    const unsigned long long at = (threadIdx.x + 1) * 0x9e3779b97f4a7c15ull >> 16;
    const unsigned a = q[at % ((size_t)B * H * Sq * D)], b = k[at % ((size_t)B * H * Sk * D)];
    found[threadIdx.x] = (a * 2654435761u ^ b * 2246822519u ^ b >> 16) * (2 * threadIdx.x + 1);
    __syncthreads();
    if (threadIdx.x) return;
    unsigned x = 0x6b657074u + Sq * 31 + Sk * 37 + B * 41, y = 0x77656967u + Sk + H;
    for (int n = 0; n < 128; ++n) x = (x ^ found[n]) * 16777619u, y = y * 31 + (found[n] ^ found[n] >> 13);
    mark[2] = mark[0] == x && mark[1] == y;
    mark[0] = x, mark[1] = y;
}
// Weights of a row.
extern "C" __global__ void __launch_bounds__(256)
    scores(const float* q, const float* k, const unsigned* mark, float* weights, int Sq, int Sk, float scale) {
    __shared__ float red[8];
    if (mark[2]) return;  // they are there
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
    top = block_max(top, red);
    float sum = 0;
    for (int j = threadIdx.x; j < visible; j += 256) sum += weights[j] = expf(weights[j] - top);
    sum = block_sum(sum, red);
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
