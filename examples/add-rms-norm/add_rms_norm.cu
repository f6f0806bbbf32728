// Adds a residual and computes the RMS norm of each row in BF16. A block keeps its row in registers, so that the sum is
// written and not read again.
#include <cuda_bf16.h>

#define N 8192           // elements of a row
#define THREADS 128      // threads of a block
#define MIN_BLOCKS 1     // blocks that must fit on a multiprocessor: more of them limit the registers
#define STREAM_LOADS 0   // do not keep the inputs in caches after they are read
#define STREAM_STORES 0  // do not keep the results in caches
#define EARLY_WEIGHTS 0  // load the weights before the sum of squares is known

constexpr int VECTORS = N / (8 * THREADS);  // loads of 16 bytes of a thread

struct alignas(16) Vector {
    __nv_bfloat162 pairs[4];
};

__device__ inline Vector load(const uint4* from) {
    const uint4 loaded = *from;
    return reinterpret_cast<const Vector&>(loaded);
}

__device__ inline Vector load_once(const uint4* from) {
    const uint4 loaded = STREAM_LOADS ? __ldcs(from) : *from;
    return reinterpret_cast<const Vector&>(loaded);
}

__device__ inline void store(uint4* to, const Vector& vector) {
    const uint4 stored = reinterpret_cast<const uint4&>(vector);
    if (STREAM_STORES) __stcs(to, stored);
    else *to = stored;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
add_rms_norm(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ residual,
             const __nv_bfloat16* __restrict__ w, __nv_bfloat16* __restrict__ y, __nv_bfloat16* __restrict__ sum, float eps) {
    __shared__ float part[32];
    const size_t row = (size_t)blockIdx.x * (N / 8) + threadIdx.x;
    const uint4* first = reinterpret_cast<const uint4*>(x) + row;
    const uint4* second = reinterpret_cast<const uint4*>(residual) + row;
    const uint4* weights = reinterpret_cast<const uint4*>(w) + threadIdx.x;

    Vector a[VECTORS], kept[VECTORS], early[EARLY_WEIGHTS ? VECTORS : 1];
    if (EARLY_WEIGHTS) {
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) early[i] = load(weights + i * THREADS);
    }
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        a[i] = load_once(first + i * THREADS);
        kept[i] = load_once(second + i * THREADS);
    }
    float squares = 0.f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            kept[i].pairs[j] = __hadd2(a[i].pairs[j], kept[i].pairs[j]);
            const float2 value = __bfloat1622float2(kept[i].pairs[j]);
            squares = fmaf(value.x, value.x, fmaf(value.y, value.y, squares));
        }
        store(reinterpret_cast<uint4*>(sum) + row + i * THREADS, kept[i]);
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = squares;
    __syncthreads();
    squares = 0.f;
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; ++warp) squares += part[warp];
    const float scale = rsqrtf(squares / N + eps);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const Vector weight = EARLY_WEIGHTS ? early[EARLY_WEIGHTS ? i : 0] : load(weights + i * THREADS);
        Vector out;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 value = __bfloat1622float2(kept[i].pairs[j]), by = __bfloat1622float2(weight.pairs[j]);
            out.pairs[j] = __floats2bfloat162_rn(value.x * scale * by.x, value.y * scale * by.y);
        }
        store(reinterpret_cast<uint4*>(y) + row + i * THREADS, out);
    }
}
