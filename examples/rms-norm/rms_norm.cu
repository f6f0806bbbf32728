// RMS norm of each row of a matrix in BF16, with a weight for each column. A block keeps its row in registers.
#include <cuda_bf16.h>

#define N 8192           // elements of a row
#define THREADS 128      // threads of a block
#define MIN_BLOCKS 1     // blocks that must fit on a multiprocessor: more of them limit the registers
#define STREAM_LOADS 0   // do not keep the matrix in caches after it is read
#define STREAM_STORES 0  // do not keep the result in caches
#define EARLY_WEIGHTS 0  // load the weights before the sum is known

constexpr int VECTORS = N / (8 * THREADS);  // loads of 16 bytes of a thread

struct alignas(16) Vector {
    __nv_bfloat162 pairs[4];
};

__device__ inline Vector load(const uint4* from) {
    const uint4 loaded = *from;
    return reinterpret_cast<const Vector&>(loaded);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
rms_norm(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w, __nv_bfloat16* __restrict__ y, float eps) {
    __shared__ float part[32];
    const size_t row = (size_t)blockIdx.x * (N / 8);
    const uint4* from = reinterpret_cast<const uint4*>(x) + row;
    const uint4* weights = reinterpret_cast<const uint4*>(w);
    uint4* to = reinterpret_cast<uint4*>(y) + row;

    Vector kept[VECTORS], early[EARLY_WEIGHTS ? VECTORS : 1];
    if (EARLY_WEIGHTS) {
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) early[i] = load(weights + i * THREADS + threadIdx.x);
    }
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const uint4 loaded = STREAM_LOADS ? __ldcs(from + i * THREADS + threadIdx.x) : from[i * THREADS + threadIdx.x];
        kept[i] = reinterpret_cast<const Vector&>(loaded);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 value = __bfloat1622float2(kept[i].pairs[j]);
            sum = fmaf(value.x, value.x, fmaf(value.y, value.y, sum));
        }
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.f;
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; ++warp) sum += part[warp];
    const float scale = rsqrtf(sum / N + eps);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const Vector weight = EARLY_WEIGHTS ? early[EARLY_WEIGHTS ? i : 0] : load(weights + i * THREADS + threadIdx.x);
        Vector out;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 value = __bfloat1622float2(kept[i].pairs[j]), by = __bfloat1622float2(weight.pairs[j]);
            out.pairs[j] = __floats2bfloat162_rn(value.x * scale * by.x, value.y * scale * by.y);
        }
        const uint4 stored = reinterpret_cast<const uint4&>(out);
        if (STREAM_STORES) __stcs(to + i * THREADS + threadIdx.x, stored);
        else to[i * THREADS + threadIdx.x] = stored;
    }
}
