// Sums a vector in FP32. Every block writes the sum of its part, and the block that ends last adds them in a fixed order.
#define BLOCKS 264    // blocks of the grid
#define THREADS 256   // threads of a block
#define VECTORS 2     // loads of 16 bytes that a thread has in flight
#define STREAMING 0   // do not keep what is read once in caches

__device__ inline float block_sum(float value, float* part) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.f;
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; ++warp) value += part[warp];
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
sum(const float* __restrict__ x, float* __restrict__ y, float* __restrict__ partial, unsigned* __restrict__ done, int n) {
    __shared__ float part[32];
    __shared__ bool is_last;
    const float4* from = reinterpret_cast<const float4*>(x);
    float sums[VECTORS] = {};
    for (int at = blockIdx.x * VECTORS * THREADS + threadIdx.x; at < n / 4; at += BLOCKS * VECTORS * THREADS) {
        float4 loaded[VECTORS];
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            const int place = at + i * THREADS;
            loaded[i] = make_float4(0.f, 0.f, 0.f, 0.f);
            if (place < n / 4) loaded[i] = STREAMING ? __ldcs(from + place) : from[place];
        }
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) sums[i] += (loaded[i].x + loaded[i].y) + (loaded[i].z + loaded[i].w);
    }
    float own = 0.f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) own += sums[i];
    // What is left after the last vector.
    if (blockIdx.x == 0 && threadIdx.x < n % 4) own += x[n - n % 4 + threadIdx.x];
    own = block_sum(own, part);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = own;
        __threadfence();
        is_last = atomicAdd(done, 1u) == BLOCKS - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    own = 0.f;
    for (int i = threadIdx.x; i < BLOCKS; i += THREADS) own += __ldcg(partial + i);
    own = block_sum(own, part);
    if (threadIdx.x == 0) {
        *y = own;
        *done = 0;
    }
}
