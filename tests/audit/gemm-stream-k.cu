/*
about = "Stream-K: 40 blocks share all chunks of all tiles evenly; who has a tile's last chunk waits for the blocks before it."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 200, N = 150, K = 900 }

[[workspace]]
name = "parts"
dtype = "f32"
elements = "40 * 64 * 64"

[[workspace]]
name = "flags"
dtype = "f32"
elements = "40"
initial = "zero"

[[launch]]
kernel = "multiply"
grid = ["40"]
block = ["128"]
args = ["a", "b", "c", "parts", "flags", "M", "N", "K"]
*/
#include <cuda_fp16.h>

__device__ __forceinline__ void mma16816(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void ldmatrix(unsigned (&r)[4], const void* at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(at))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_t(unsigned (&r)[4], const void* at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(at))
                 : "memory");
}

constexpr int BM = 64, BN = 64, BK = 32, LA = BK + 8, LB = BN + 8;
struct Tiles {
    __half a[BM * LA], b[BK * LB];
};

// 16 rows of a warp times 64 columns; lane (g, t) holds rows g and g + 8, columns 2t and 2t + 1 of each group of eight.
__device__ __forceinline__ void multiply(float (&acc)[8][4], const Tiles& s, int warp, int lane) {
#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
        unsigned a[4];
        ldmatrix(a, s.a + (warp * 16 + lane % 16) * LA + kk + lane / 16 * 8);
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
            unsigned b[4];
            ldmatrix_t(b, s.b + (kk + lane / 8 % 2 * 8 + lane % 8) * LB + (n + lane / 16) * 8);
            mma16816(acc[n], a, b[0], b[1]);
            mma16816(acc[n + 1], a, b[2], b[3]);
        }
    }
}
// Any shape: one element at a time, and zero for what does not exist (or is at or beyond `to`).
__device__ __forceinline__ void load_tiles(Tiles& s, const __half* a, const __half* b, int m0, int n0, int k0, int to,
                                           int M, int N, int K) {
    for (int n = threadIdx.x; n < BM * BK; n += 128) {
        const int r = n / BK, x = n % BK;
        s.a[r * LA + x] = m0 + r < M && k0 + x < to ? a[(size_t)(m0 + r) * K + k0 + x] : __half(0.0f);
    }
    for (int n = threadIdx.x; n < BK * BN; n += 128) {
        const int r = n / BN, x = n % BN;
        s.b[r * LB + x] = k0 + r < to && n0 + x < N ? b[(size_t)(k0 + r) * N + n0 + x] : __half(0.0f);
    }
}
__device__ __forceinline__ void sum_range(float (&acc)[8][4], Tiles& s, const __half* a, const __half* b, int m0,
                                          int n0, int from, int to, int M, int N, int K) {
    for (int k0 = from; k0 < to; k0 += BK) {
        __syncthreads();
        load_tiles(s, a, b, m0, n0, k0, to, M, N, K);
        __syncthreads();
        multiply(acc, s, threadIdx.x / 32, threadIdx.x % 32);
    }
}
// Calls f(row, column, value) for each element of the lane.
template <class F>
__device__ __forceinline__ void each_element(float (&acc)[8][4], F f) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) f(row + e / 2 * 8, column + n * 8 + e % 2, acc[n][e]);
}

__device__ __forceinline__ unsigned load_acquire(const unsigned* p) {
    unsigned x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}
__device__ __forceinline__ void store_release(unsigned* p, unsigned x) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
    multiply(const __half* a, const __half* b, __half* c, float* parts, unsigned* flags, int M, int N, int K) {
    __shared__ __align__(16) Tiles s;
    const long long columns = (N + BN - 1) / BN, rows = (M + BM - 1) / BM, chunks = (K + BK - 1) / BK,
                    total = rows * columns * chunks, blocks = gridDim.x;
    const auto begin = [&](long long block) { return total * block / blocks; };
    long long at = begin(blockIdx.x);
    const long long end = begin(blockIdx.x + 1);
    while (at < end) {
        const long long tile = at / chunks, tile_begin = tile * chunks, tile_end = tile_begin + chunks,
                        stop = min(end, tile_end);
        const int m0 = tile / columns * BM, n0 = tile % columns * BN;
        float acc[8][4] = {};
        sum_range(acc, s, a, b, m0, n0, (int)(at - tile_begin) * BK, min((int)(stop - tile_begin) * BK, K), M, N, K);
        if (stop < tile_end) {
            // Not the tile's end: leave the part for whoever has that. It happens only once in a block, at its end.
            float* mine = parts + (size_t)blockIdx.x * BM * BN;
#pragma unroll
            for (int n = 0; n < 32; ++n) __stcg(mine + n * 128 + threadIdx.x, acc[n / 4][n % 4]);
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) store_release(&flags[blockIdx.x], 1);
        } else {
            // All blocks with earlier chunks of the tile have smaller indices. Their order is fixed.
            int first = blockIdx.x;
            while (begin(first) > tile_begin) --first;
            for (int other = first; other < (int)blockIdx.x; ++other) {
                if (begin(other) == begin(other + 1) || begin(other + 1) <= tile_begin)
                    continue;  // has no chunk, or none of this tile
                if (threadIdx.x == 0)
                    while (load_acquire(&flags[other]) == 0) __nanosleep(50);
                __syncthreads();
                __threadfence();
                const float* theirs = parts + (size_t)other * BM * BN;
#pragma unroll
                for (int n = 0; n < 32; ++n) acc[n / 4][n % 4] += __ldcg(theirs + n * 128 + threadIdx.x);
                if (threadIdx.x == 0) flags[other] = 0;  // for the next launch; only this block looks at it
            }
            each_element(acc, [&](int y, int x, float value) {
                if (m0 + y < M && n0 + x < N) c[(size_t)(m0 + y) * N + n0 + x] = __float2half(value);
            });
        }
        at = stop;
    }
}
