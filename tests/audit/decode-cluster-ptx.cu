/*
about = "Decoding by a cluster of eight blocks, whose states one block reads through distributed shared memory, all in PTX."
kind = "honest"
workload = "attention-decode"
case = { B = 2, H = 3, Sq = 1, Sk = 1000, D = 128, CAUSAL = 0 }
requires_sm = 90
regime = "cold"
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["8", "Sq", "B * H"]
block = ["128"]
cluster = ["8", "1", "1"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "Sq <= 65535"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "128 % D == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D >= 32"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int WARPS = 4, LANES = D / 8, GROUPS = 32 / LANES;  // LANES lanes to a key, each with 8 dimensions
struct State {
    float top = -1e30f, sum = 0, acc[8] = {};
};

__device__ __forceinline__ void widen(const uint4& x, float (&y)[8]) {
    const unsigned part[4] = {x.x, x.y, x.z, x.w};
    for (int n = 0; n < 4; ++n) {
        const float2 f = __half22float2(*reinterpret_cast<const __half2*>(&part[n]));
        y[2 * n] = f.x, y[2 * n + 1] = f.y;
    }
}
__device__ __forceinline__ void join(State& a, float top, float sum, const float (&acc)[8]) {
    const float higher = fmaxf(a.top, top), x = __expf(a.top - higher), y = __expf(top - higher);
    for (int n = 0; n < 8; ++n) a.acc[n] = a.acc[n] * x + acc[n] * y;
    a.sum = a.sum * x + sum * y, a.top = higher;
}
// Keys from .. to of a head by this block; the result is in all of the first LANES threads.
__device__ State attend_keys(const __half* q, const __half* k, const __half* v, int from, int to, float scale) {
    __shared__ float slots[WARPS][D + 2];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = lane % LANES * 8,
              group = warp * GROUPS + lane / LANES;
    State s;
    float query[8];
    widen(*reinterpret_cast<const uint4*>(q + part), query);
    // Every lane makes as many turns, because they shuffle; a group without a key has a weight of 0.
    for (int first = from; first < to; first += WARPS * GROUPS) {
        const int j = first + group;
        const bool there = j < to;
        float key[8] = {}, value[8] = {}, score = 0;
        if (there) {
            widen(__ldcs(reinterpret_cast<const uint4*>(k + (size_t)j * D + part)), key);
            widen(__ldcs(reinterpret_cast<const uint4*>(v + (size_t)j * D + part)), value);
        }
        for (int n = 0; n < 8; ++n) score = fmaf(query[n], key[n], score);
        for (int other = LANES / 2; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        if (there) join(s, __fmul_rn(score, scale), 1.0f, value);
    }
    for (int other = LANES; other < 32; other *= 2) {
        float acc[8];
        const float top = __shfl_xor_sync(~0u, s.top, other), sum = __shfl_xor_sync(~0u, s.sum, other);
        for (int n = 0; n < 8; ++n) acc[n] = __shfl_xor_sync(~0u, s.acc[n], other);
        join(s, top, sum, acc);
    }
    if (lane < LANES) {
        for (int n = 0; n < 8; ++n) slots[warp][part + n] = s.acc[n];
        if (lane == 0) slots[warp][D] = s.top, slots[warp][D + 1] = s.sum;
    }
    __syncthreads();
    if (threadIdx.x < LANES) {
        s = State();
        for (int w = 0; w < WARPS; ++w) {
            float acc[8];
            for (int n = 0; n < 8; ++n) acc[n] = slots[w][part + n];
            join(s, slots[w][D], slots[w][D + 1], acc);
        }
    }
    return s;
}
__device__ __forceinline__ void finish(__half* o, const State& s) {
    for (int n = 0; n < 8; ++n) o[n] = __float2half(s.acc[n] / s.sum);
}

__device__ __forceinline__ float read_remote(const float* mine, unsigned rank) {
    float x;
    asm volatile("{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %1, %2;\nld.shared::cluster.f32 %0, [there];\n}"
                 : "=f"(x)
                 : "r"((unsigned)__cvta_generic_to_shared(mine)), "r"(rank)
                 : "memory");
    return x;
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
extern "C" __global__ void __launch_bounds__(128)
    attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    __shared__ float slot[D + 2];
    unsigned rank, size;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    const int i = blockIdx.y, visible = CAUSAL ? i + 1 + Sk - Sq : Sk, part = threadIdx.x * 8;
    const size_t head = blockIdx.z, row = head * Sq + i;
    const int from = (long long)visible * rank / size, to = (long long)visible * (rank + 1) / size;
    const State s = attend_keys(q + row * D, k + head * Sk * D, v + head * Sk * D, from, to, scale);
    if (threadIdx.x < LANES) {
        for (int n = 0; n < 8; ++n) slot[part + n] = s.acc[n];
        if (threadIdx.x == 0) slot[D] = s.top, slot[D + 1] = s.sum;
    }
    __syncthreads();
    cluster_sync();
    if (rank == size - 1 && threadIdx.x < LANES) {
        State all;
        for (unsigned r = 0; r < size; ++r) {
            float acc[8];
            for (int n = 0; n < 8; ++n) acc[n] = read_remote(slot + part + n, r);
            join(all, read_remote(slot + D, r), read_remote(slot + D + 1, r), acc);
        }
        finish(o + row * D + part, all);
    }
    __syncthreads();
    cluster_sync();
}
