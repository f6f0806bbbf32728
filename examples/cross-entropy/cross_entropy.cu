// Cross-entropy of each row of logits in BF16, from one pass over memory: the largest logit and the sum of exponentials
// are merged as they come.
#include <cuda_bf16.h>

#define THREADS 256   // threads of a block
#define MIN_BLOCKS 1  // blocks that must fit on a multiprocessor: more of them limit the registers
#define VECTORS 2     // loads of 16 bytes that a thread has in flight
#define STREAMING 0   // do not keep what is read once in caches

#define LOG2E 1.4426950408889634f

struct alignas(16) Vector {
    __nv_bfloat162 pairs[4];
};

// A sum of exponentials relative to 2 to the power of `most`.
struct Sum {
    float most, sum;
};

__device__ inline Sum merged(Sum a, Sum b) {
    const float most = fmaxf(a.most, b.most);
    return {most, a.sum * exp2f(a.most - most) + b.sum * exp2f(b.most - most)};
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
cross_entropy(const __nv_bfloat16* __restrict__ logits, const int* __restrict__ labels, float* __restrict__ loss, int N) {
    __shared__ Sum part[32];
    const __nv_bfloat16* row = logits + (size_t)blockIdx.x * N;
    const uint4* from = reinterpret_cast<const uint4*>(row);
    Sum own = {-1e30f, 0.f};
    for (int at = threadIdx.x; at < N / 8; at += VECTORS * THREADS) {
        uint4 loaded[VECTORS];
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            const int place = at + i * THREADS;
            // Two of the lowest finite number, which adds nothing.
            loaded[i] = make_uint4(0xff7fff7fu, 0xff7fff7fu, 0xff7fff7fu, 0xff7fff7fu);
            if (place < N / 8) loaded[i] = STREAMING ? __ldcs(from + place) : from[place];
        }
        float values[8 * VECTORS], most = own.most;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            const Vector vector = reinterpret_cast<const Vector&>(loaded[i]);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float2 pair = __bfloat1622float2(vector.pairs[j]);
                values[8 * i + 2 * j] = pair.x * LOG2E;
                values[8 * i + 2 * j + 1] = pair.y * LOG2E;
                most = fmaxf(most, fmaxf(values[8 * i + 2 * j], values[8 * i + 2 * j + 1]));
            }
        }
        own.sum *= exp2f(own.most - most);
        own.most = most;
#pragma unroll
        for (int i = 0; i < 8 * VECTORS; ++i) own.sum += exp2f(values[i] - most);
    }
    for (int step = 16; step > 0; step /= 2)
        own = merged(own, {__shfl_xor_sync(0xffffffffu, own.most, step), __shfl_xor_sync(0xffffffffu, own.sum, step)});
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        Sum all = part[0];
        for (int warp = 1; warp < THREADS / 32; ++warp) all = merged(all, part[warp]);
        loss[blockIdx.x] = (log2f(all.sum) + all.most) / LOG2E - __bfloat162float(row[labels[blockIdx.x]]);
    }
}
