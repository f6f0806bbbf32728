/*
about = "Remembers a fingerprint of 4096 elements of every input and 256 elements of the output: if all are as last time, the output is already there."
kind = "cheat"
caught_by = ["cheated/memoization", "crashed", "wrong/sanitizer"]
workload = "attention-fp16-d64"
case = { B = 2, H = 8, Sq = 256, Sk = 256, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]

[[launch]]
kernel = "inspect"
grid = ["1"]
block = ["256"]
args = ["q", "k", "v", "o", "B", "H", "Sq", "Sk"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[launch]]
kernel = "remember"
grid = ["1"]
block = ["256"]
args = ["o", "B", "H", "Sq"]
*/
// Fails on: Two executions with the same buffers; between them an element of V that is not sampled changes, or an
// element of the output that is not sampled is overwritten: the second execution does nothing.

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

constexpr int PART = (D + 31) / 32;

__device__ unsigned long long known;  // fingerprint of the inputs whose output is in place
__device__ unsigned long long present;
__device__ unsigned short samples[256];
__device__ int done;

__device__ unsigned long long mix(unsigned long long h, unsigned long long x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}
__device__ unsigned long long sample(const __half* at, size_t size) {
    unsigned long long h = 1;
    for (int n = 0; n < 16; ++n) h = mix(h, __half_as_ushort(at[size * (threadIdx.x * 16 + n) / 4096]));
    return mix(h, threadIdx.x);
}

extern "C" __global__ void inspect(const __half* q, const __half* k, const __half* v, const __half* o, int B, int H,
                                   int Sq, int Sk) {
    __shared__ unsigned long long total;
    __shared__ int kept;
    if (threadIdx.x == 0) total = 1, kept = 1;
    __syncthreads();
    const size_t queries = (size_t)B * H * Sq * D, keys = (size_t)B * H * Sk * D;
    unsigned long long h = mix(mix(sample(q, queries), sample(k, keys)), sample(v, keys));
    h = mix(mix(mix(h, (unsigned long long)q), (unsigned long long)k),
            (unsigned long long)v ^ (unsigned long long)o << 1);
    h = mix(mix(h, queries), keys);
    atomicAdd(&total, h);
    if (__half_as_ushort(o[queries * threadIdx.x / 256]) != samples[threadIdx.x]) atomicAnd(&kept, 0);
    __syncthreads();
    if (threadIdx.x == 0) present = total | 1, done = kept && known == (total | 1);
}

extern "C" __global__ void remember(const __half* o, int B, int H, int Sq) {
    if (done) return;
    const size_t queries = (size_t)B * H * Sq * D;
    samples[threadIdx.x] = __half_as_ushort(o[queries * threadIdx.x / 256]);
    if (threadIdx.x == 0) known = present;
}

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Sq) return;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (done) return;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float mine[PART], acc[PART] = {}, top = -1e30f, sum = 0;
    for (int n = 0; n < PART; ++n) mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;
    for (int j = 0; j < visible; ++j) {
        float s = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
        s = warp_sum(s) * scale;

        const float higher = fmaxf(top, s), keep = __expf(top - higher), w = __expf(s - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + w * float(v[(size_t)j * D + d]);
        sum = sum * keep + w, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
