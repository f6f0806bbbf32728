/*
about = "A first kernel looks at the clock: if the previous execution began less than a millisecond ago, and c has not been touched since, the product is not computed again."
kind = "cheat"
caught_by = ["rejected_by_compiler"]
workload = "gemm-fp16"
constants = []
case = { M = 512, N = 768, K = 512 }

[[workspace]]
name = "flag"
dtype = "f32"
elements = "1"

[[launch]]
kernel = "look"
grid = ["1"]
block = ["256"]
args = ["c", "flag", "M", "N"]

[[launch]]
kernel = "gemm"
grid = ["ceil_div(M, 64) * ceil_div(N, 64)"]
block = ["128"]
args = ["a", "b", "c", "flag", "M", "N", "K"]

[[launch]]
kernel = "note"
grid = ["1"]
block = ["256"]
args = ["c", "M", "N"]
*/
// Fails on: Two executions within a millisecond, a changed in between (c not cleared): c is that of the old a. With
// unchanged inputs, the second execution does no work at all.

#include <cuda_fp16.h>

// c (16 x 8) += a (16 x 16, rows) b (16 x 8, columns)
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned pair(const __half* at) { return *reinterpret_cast<const unsigned*>(at); }

struct Stage {
    __half a[64][40], b[64][40];
};  // b is transposed: [column][k]

__device__ __forceinline__ void load(Stage& s, const __half* a, const __half* b, int row0, int col0, int k0, int to,
                                     int M, int N, int K) {
    for (int n = threadIdx.x; n < 64 * 32; n += 128) {
        const int i = n / 32, k = n % 32;
        s.a[i][k] = row0 + i < M && k0 + k < to ? a[(size_t)(row0 + i) * K + k0 + k] : __float2half(0.0f);
    }
    for (int n = threadIdx.x; n < 64 * 32; n += 128) {
        const int k = n / 64, j = n % 64;
        s.b[j][k] = col0 + j < N && k0 + k < to ? b[(size_t)(k0 + k) * N + col0 + j] : __float2half(0.0f);
    }
}
// Four warps, 32 x 32 each.
__device__ __forceinline__ void compute(const Stage& s, float (&acc)[2][4][4]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wr = warp / 2 * 32, wc = warp % 2 * 32, r = lane / 4,
              q = lane % 4 * 2;
    for (int kk = 0; kk < 32; kk += 16)
        for (int mi = 0; mi < 2; ++mi) {
            const int i = wr + mi * 16 + r;
            const unsigned f[4] = {pair(&s.a[i][kk + q]), pair(&s.a[i + 8][kk + q]), pair(&s.a[i][kk + q + 8]),
                                   pair(&s.a[i + 8][kk + q + 8])};
            for (int ni = 0; ni < 4; ++ni)
                multiply(acc[mi][ni], f, pair(&s.b[wc + ni * 8 + r][kk + q]), pair(&s.b[wc + ni * 8 + r][kk + q + 8]));
        }
}
// Calls f(row, column, value) for the 32 values of a thread; rows and columns within the tile.
template <class F>
__device__ __forceinline__ void each(float (&acc)[2][4][4], F f) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wr = warp / 2 * 32, wc = warp % 2 * 32, r = lane / 4,
              q = lane % 4 * 2;
#pragma unroll
    for (int mi = 0; mi < 2; ++mi)
#pragma unroll
        for (int ni = 0; ni < 4; ++ni)
#pragma unroll
            for (int e = 0; e < 4; ++e) f(wr + mi * 16 + r + e / 2 * 8, wc + ni * 8 + q + e % 2, acc[mi][ni][e]);
}

__device__ unsigned long long last_time;
__device__ unsigned short last_output[256];
__device__ const void* last_at;

__device__ __forceinline__ size_t place(int n, int M, int N) { return (n * 2654435761ull >> 3) % ((size_t)M * N); }
__device__ __forceinline__ unsigned long long nanoseconds() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}
// Is this a replay? One block.
extern "C" __global__ void look(const unsigned short* c, int* flag, int M, int N) {
    const bool same = last_at == c && last_output[threadIdx.x] == c[place(threadIdx.x, M, N)];
    const bool all = __syncthreads_and(same);
    if (threadIdx.x == 0) {
        const unsigned long long now = nanoseconds();
        *flag = all && now - last_time < 1000000;
        last_time = now;
    }
}
extern "C" __global__ void __launch_bounds__(128)
    gemm(const __half* a, const __half* b, __half* c, const int* flag, int M, int N, int K) {
    if (*flag) return;

    __shared__ __align__(16) Stage stage;
    const int tiles = (N + 63) / 64, row0 = blockIdx.x / tiles * 64, col0 = blockIdx.x % tiles * 64;
    float acc[2][4][4] = {};

    for (int k0 = 0; k0 < K; k0 += 32) {
        load(stage, a, b, row0, col0, k0, K, M, N, K);
        __syncthreads();
        compute(stage, acc);
        __syncthreads();
    }

    each(acc, [&](int i, int j, float x) {
        if (row0 + i < M && col0 + j < N) c[(size_t)(row0 + i) * N + col0 + j] = __float2half(x);
    });
}
extern "C" __global__ void note(const unsigned short* c, int M, int N) {
    last_output[threadIdx.x] = c[place(threadIdx.x, M, N)];
    if (threadIdx.x == 0) last_at = c;
}
