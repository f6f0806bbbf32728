/*
about = "Adds partial sums in the order in which blocks arrive, so no two launches give the same bytes."
kind = "cheat"
cheats = [23]
caught_by = ["wrong/repeatable"]
not_modelled = "a virtual GPU takes a minute for its atomics"
workload = "attention-fp32-large-d"
case = { B = 2, H = 4, Sq = 128, Sk = 128, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]

[derived]
ROWS = "B * H * Sq"

[[workspace]]
name = "sums"
dtype = "f32"
elements = "ROWS"

[[launch]]
kernel = "clear"
grid = ["sms"]
block = ["256"]
args = ["o", "sums", "ROWS"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H", "16"]
block = ["32"]
args = ["q", "k", "v", "o", "sums", "Sq", "Sk", "scale"]

[[launch]]
kernel = "divide"
grid = ["sms"]
block = ["256"]
args = ["o", "sums", "ROWS"]
*/
// Floating-point addition is not associative. Some orders are nearer to the truth than others, so such a kernel passes
// by luck or does not, and a bug in it cannot be reproduced.

extern "C" __global__ void clear(float* o, float* sums, int rows) {
    for (int n = blockIdx.x * 256 + threadIdx.x; n < rows * D; n += gridDim.x * 256) o[n] = 0;
    for (int n = blockIdx.x * 256 + threadIdx.x; n < rows; n += gridDim.x * 256) sums[n] = 0;
}

__device__ float dot(const float* a, const float* b) {
    float sum = 0;
    for (int d = threadIdx.x; d < D; d += 32) sum += a[d] * b[d];
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    return sum;
}

// A warp for each row and each of 16 parts of the keys.
extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o, float* sums, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    // Every part finds the largest score of the whole row, so that the parts can simply be added up.
    float top = -1e30f;
    for (int j = 0; j < Sk; ++j) top = fmaxf(top, dot(q + row, k + (head * Sk + j) * D) * scale);
    float acc[PART] = {}, sum = 0;
    for (int j = blockIdx.z; j < Sk; j += gridDim.z) {
        const float weight = __expf(dot(q + row, k + (head * Sk + j) * D) * scale - top);
        for (int n = 0, d = threadIdx.x; d < D; ++n, d += 32) acc[n] += weight * v[(head * Sk + j) * D + d];
        sum += weight;
    }
    for (int n = 0, d = threadIdx.x; d < D; ++n, d += 32) atomicAdd(&o[row + d], acc[n]);
    if (threadIdx.x == 0) atomicAdd(&sums[head * Sq + i], sum);
}

extern "C" __global__ void divide(float* o, const float* sums, int rows) {
    for (int n = blockIdx.x * 256 + threadIdx.x; n < rows * D; n += gridDim.x * 256) o[n] /= sums[n / D];
}
