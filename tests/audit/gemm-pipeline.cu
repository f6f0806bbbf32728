/*
about = "cuda_pipeline.h with three stages and zero-filled copies of 16 bytes, and 16-byte stores."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 111, N = 168, K = 520 }
[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 64)", "ceil_div(M, 64)"]
block = ["128"]
args = ["a", "b", "c", "M", "N", "K"]

[[constraint]]
expr = "K % 8 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "N % 8 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "M <= 64 * 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

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

constexpr int STAGES = 3;
extern "C" __global__ void __launch_bounds__(128)
    multiply(const __half* a, const __half* b, __half* c, int M, int N, int K) {
    __shared__ __align__(16) Tiles s[STAGES];
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, chunks = (K + BK - 1) / BK;
    auto fetch = [&](int chunk) {  // always a commit, even if there is nothing to fetch: the count of batches is the
                                   // count of turns
        if (chunk < chunks) {
            Tiles& to = s[chunk % STAGES];
            const int k0 = chunk * BK;
            for (int n = threadIdx.x; n < BM * BK / 8; n += 128) {
                const int y = n / (BK / 8), x = n % (BK / 8) * 8;
                const bool there = m0 + y < M && k0 + x < K;
                __pipeline_memcpy_async(to.a + y * LA + x, there ? a + (size_t)(m0 + y) * K + k0 + x : a, 16,
                                        there ? 0 : 16);
            }
            for (int n = threadIdx.x; n < BK * BN / 8; n += 128) {
                const int y = n / (BN / 8), x = n % (BN / 8) * 8;
                const bool there = k0 + y < K && n0 + x < N;
                __pipeline_memcpy_async(to.b + y * LB + x, there ? b + (size_t)(k0 + y) * N + n0 + x : b, 16,
                                        there ? 0 : 16);
            }
        }
        __pipeline_commit();
    };
    float acc[8][4] = {};
    fetch(0), fetch(1);
    for (int chunk = 0; chunk < chunks; ++chunk) {
        __pipeline_wait_prior(1);  // all but the newest
        __syncthreads();
        fetch(chunk + 2);  // into the stage that everybody left before the barrier
        multiply(acc, s[chunk % STAGES], threadIdx.x / 32, threadIdx.x % 32);
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    __half* out = reinterpret_cast<__half*>(&s[0]);
    each_element(acc, [&](int y, int x, float value) { out[y * LB + x] = __float2half(value); });
    __syncthreads();
    for (int n = threadIdx.x; n < BM * BN / 8; n += 128) {
        const int y = n / (BN / 8), x = n % (BN / 8) * 8;
        if (m0 + y < M && n0 + x < N)
            *reinterpret_cast<uint4*>(c + (size_t)(m0 + y) * N + n0 + x) =
                *reinterpret_cast<const uint4*>(out + y * LB + x);
    }
}
