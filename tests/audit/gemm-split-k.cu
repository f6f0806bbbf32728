/*
about = "Sums split over five blocks; the last to draw a ticket adds the parts in their order and restores the ticket."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 130, N = 190, K = 1111 }
[[workspace]]
name = "parts"
dtype = "f32"
elements = "5 * M * N"

[[workspace]]
name = "tickets"
dtype = "f32"
elements = "ceil_div(M, 64) * ceil_div(N, 64)"
initial = "zero"

[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 64)", "ceil_div(M, 64)", "5"]
block = ["128"]
args = ["a", "b", "c", "parts", "tickets", "M", "N", "K"]

[[constraint]]
expr = "M <= 64 * 65535"
why = "the kernel takes no other shapes"
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

extern "C" __global__ void __launch_bounds__(128)
    multiply(const __half* a, const __half* b, __half* c, float* parts, unsigned* tickets, int M, int N, int K) {
    __shared__ __align__(16) Tiles s;
    __shared__ unsigned ticket;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, splits = gridDim.z, split = blockIdx.z;
    const int chunks = (K + BK - 1) / BK, from = (int)((long long)chunks * split / splits) * BK,
              to = min((int)((long long)chunks * (split + 1) / splits) * BK, K);
    float acc[8][4] = {};
    sum_range(acc, s, a, b, m0, n0, from, to, M, N, K);  // a split may have nothing; then its part is zero
    const size_t size = (size_t)M * N;
    each_element(acc, [&](int y, int x, float value) {
        if (m0 + y < M && n0 + x < N) parts[split * size + (size_t)(m0 + y) * N + n0 + x] = value;
    });
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        ticket = atomicInc(&tickets[blockIdx.y * gridDim.x + blockIdx.x], splits - 1);  // zero again after the last
    __syncthreads();
    if (ticket != splits - 1) return;
    __threadfence();
    for (int n = threadIdx.x; n < BM * BN; n += 128) {
        const int y = m0 + n / BN, x = n0 + n % BN;
        if (y >= M || x >= N) continue;
        float sum = 0;
        for (int p = 0; p < splits; ++p) sum += __ldcg(parts + p * size + (size_t)y * N + x);
        c[(size_t)y * N + x] = __float2half(sum);
    }
}
