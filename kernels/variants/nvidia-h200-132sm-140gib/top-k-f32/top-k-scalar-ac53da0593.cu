// top-k-scalar for f32, K=1
// THREADS=1024
// The K largest elements of rows of any length. A block reads its row K times: each time, it takes the largest entry below the last one.
#include <cuda_fp16.h>

// --- the element type of the workload; sums are in FP32 ---
using Elem = float;
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline void narrow(float x, float& to) { to = x; }
__device__ inline void narrow(float x, __half& to) { to = __float2half_rn(x); }

// --- elements as whole numbers in the same order: minus infinity is 0, and NaN of either sign is above all others ---
// Negative numbers have all bits flipped, others the first. Negative NaN would be below minus infinity: the difference wraps around.
constexpr unsigned KEY_OF_MINUS_INFINITY = 0x007fffffu;
__device__ inline unsigned ordered_key(float x) {
    const unsigned bits = __float_as_uint(x);
    return (bits ^ ((unsigned)((int)bits >> 31) | 0x80000000u)) - KEY_OF_MINUS_INFINITY;
}
__device__ inline float of_ordered_key(unsigned key) {
    key += KEY_OF_MINUS_INFINITY;
    return __uint_as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

// An element with its place in the row. All entries of a row differ, and none is 0: of equal elements, the first one is the largest.
using Entry = unsigned long long;
__device__ inline Entry entry_of(unsigned key, int place) { return (Entry)key << 32 | (0x7fffffffu - place); }
__device__ inline int place_of(Entry entry) { return 0x7fffffff - (int)(unsigned)entry; }
__device__ inline void store_entry(Entry entry, Elem& value, long long& index) {
    narrow(of_ordered_key((unsigned)(entry >> 32)), value);
    index = place_of(entry);
}

constexpr int K = 1;
constexpr int THREADS = 1024;
constexpr int WARPS = THREADS / 32;

__device__ inline Entry larger(Entry a, Entry b) { return a > b ? a : b; }

extern "C" __global__ void __launch_bounds__(THREADS)
top_k(const Elem* __restrict__ x, Elem* __restrict__ values, long long* __restrict__ indices, int N) {
    __shared__ Entry of_warps[2][WARPS];
    x += (size_t)blockIdx.x * N;
    Entry last = ~0ull;
    for (int rank = 0; rank < K; ++rank) {
        Entry best = 0;
        for (int place = threadIdx.x; place < N; place += THREADS) {
            const Entry entry = entry_of(ordered_key(widen(x[place])), place);
            if (entry < last) best = larger(best, entry);
        }
#pragma unroll
        for (int lane = 16; lane > 0; lane /= 2) best = larger(best, __shfl_xor_sync(0xffffffffu, best, lane));
        // Two buffers: a warp may write its next entry while others still read the last ones.
        Entry* const of_round = of_warps[rank % 2];
        if (threadIdx.x % 32 == 0) of_round[threadIdx.x / 32] = best;
        __syncthreads();
        for (int warp = 0; warp < WARPS; ++warp) best = larger(best, of_round[warp]);
        last = best;
        const size_t to = (size_t)blockIdx.x * K + rank;
        if (threadIdx.x == 0) store_entry(best, values[to], indices[to]);
    }
}
