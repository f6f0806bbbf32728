// Softmax of each row of a matrix in FP16. A block keeps its row in registers, so that memory is read once.
#include <cuda_fp16.h>

#define N 8192        // elements of a row
#define THREADS 128   // threads of a block
#define MIN_BLOCKS 1  // blocks that must fit on a multiprocessor: more of them limit the registers
#define STREAMING 0   // do not keep what is read and written in caches

constexpr int VECTORS = N / (8 * THREADS);  // loads of 16 bytes of a thread

struct alignas(16) Vector {
    __half2 pairs[4];
};

__device__ inline float block_reduce(float value, bool is_max, float* part) {
    const auto join = [&](float a, float b) { return is_max ? fmaxf(a, b) : a + b; };
    for (int step = 16; step > 0; step /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, step));
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    value = part[0];
#pragma unroll
    for (int warp = 1; warp < THREADS / 32; ++warp) value = join(value, part[warp]);
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
softmax(const __half* __restrict__ x, __half* __restrict__ y) {
    __shared__ float part[32];
    const size_t row = (size_t)blockIdx.x * (N / 8);
    const uint4* from = reinterpret_cast<const uint4*>(x) + row;
    uint4* to = reinterpret_cast<uint4*>(y) + row;

    Vector kept[VECTORS];
    float most = -1e30f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const uint4 loaded = STREAMING ? __ldcs(from + i * THREADS + threadIdx.x) : from[i * THREADS + threadIdx.x];
        kept[i] = reinterpret_cast<const Vector&>(loaded);
#pragma unroll
        for (int j = 0; j < 4; ++j) most = fmaxf(most, fmaxf(__low2float(kept[i].pairs[j]), __high2float(kept[i].pairs[j])));
    }
    most = block_reduce(most, true, part) * 1.44269504f;
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 value = __half22float2(kept[i].pairs[j]);
            sum += exp2f(fmaf(value.x, 1.44269504f, -most)) + exp2f(fmaf(value.y, 1.44269504f, -most));
        }
    }
    const float scale = 1.f / block_reduce(sum, false, part);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        Vector out;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 value = __half22float2(kept[i].pairs[j]);
            out.pairs[j] = __floats2half2_rn(exp2f(fmaf(value.x, 1.44269504f, -most)) * scale,
                                             exp2f(fmaf(value.y, 1.44269504f, -most)) * scale);
        }
        const uint4 stored = reinterpret_cast<const uint4&>(out);
        if (STREAMING) __stcs(to + i * THREADS + threadIdx.x, stored);
        else to[i * THREADS + threadIdx.x] = stored;
    }
}
