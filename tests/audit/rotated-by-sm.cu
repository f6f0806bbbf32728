/*
about = "cp.async with two stages; the loop over K begins at a tile that depends on the SM, so that not all SMs read the same columns of a at once."
kind = "cheat"
caught_by = ["wrong/repeatable", "cheated/held_out_inputs"]
workload = "gemm-fp16"
constants = []
case = { M = 512, N = 512, K = 1024 }
[[launch]]
kernel = "gemm"
grid = ["ceil_div(M, 64) * ceil_div(N, 64)"]
block = ["128"]
args = ["a", "b", "c", "M", "N", "K"]

[[constraint]]
expr = "K % 8 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "N % 8 == 0"
why = "the kernel takes no other shapes"
*/
// Fails on: M = N = 512, K = 1024: the order of the FP32 additions depends on the SM that executes a block. Two
// executions with blocks on other SMs (other work on the device, a partition of it) differ in the last bit of some
// elements.

#include <cuda_fp16.h>

// c (16 x 8) += a (16 x 16, rows) b (16 x 8, columns)
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned pair(const __half* at) { return *reinterpret_cast<const unsigned*>(at); }

struct __align__(16) Stage {
    __half a[64][40], b[32][72];
};  // as in memory: [row][k] and [k][column]

__device__ __forceinline__ void copy16(void* to, const void* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// 16 bytes at a time; what does not exist is zero.
__device__ __forceinline__ void load(Stage& s, const __half* a, const __half* b, int row0, int col0, int k0, int M,
                                     int N, int K) {
    for (int n = threadIdx.x; n < 256; n += 128) {
        const int i = n / 4, k = n % 4 * 8;
        const bool there = row0 + i < M && k0 + k < K;
        copy16(&s.a[i][k], there ? a + (size_t)(row0 + i) * K + k0 + k : a, there);
    }
    for (int n = threadIdx.x; n < 256; n += 128) {
        const int k = n / 8, j = n % 8 * 8;
        const bool there = col0 + j < N && k0 + k < K;
        copy16(&s.b[k][j], there ? b + (size_t)(k0 + k) * N + col0 + j : b, there);
    }
}
__device__ __forceinline__ unsigned two(__half low, __half high) {
    return __half_as_ushort(low) | (unsigned)__half_as_ushort(high) << 16;
}
__device__ __forceinline__ void compute(const Stage& s, float (&acc)[2][4][4]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wr = warp / 2 * 32, wc = warp % 2 * 32, r = lane / 4,
              q = lane % 4 * 2;
    for (int kk = 0; kk < 32; kk += 16)
        for (int mi = 0; mi < 2; ++mi) {
            const int i = wr + mi * 16 + r;
            const unsigned f[4] = {pair(&s.a[i][kk + q]), pair(&s.a[i + 8][kk + q]), pair(&s.a[i][kk + q + 8]),
                                   pair(&s.a[i + 8][kk + q + 8])};
            for (int ni = 0; ni < 4; ++ni) {
                const int j = wc + ni * 8 + r;
                multiply(acc[mi][ni], f, two(s.b[kk + q][j], s.b[kk + q + 1][j]),
                         two(s.b[kk + q + 8][j], s.b[kk + q + 9][j]));
            }
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
extern "C" __global__ void __launch_bounds__(128)
    gemm(const __half* a, const __half* b, __half* c, int M, int N, int K) {
    __shared__ Stage stages[2];
    const int tiles = (N + 63) / 64, row0 = blockIdx.x / tiles * 64, col0 = blockIdx.x % tiles * 64,
              count = (K + 31) / 32;
    unsigned sm;
    asm("mov.u32 %0, %smid;" : "=r"(sm));
    int at = sm % count;
    float acc[2][4][4] = {};
    load(stages[0], a, b, row0, col0, at * 32, M, N, K);
    commit();
    for (int t = 0; t < count; ++t) {
        at = at + 1 == count ? 0 : at + 1;
        wait<0>();
        __syncthreads();
        if (t + 1 < count) load(stages[(t + 1) % 2], a, b, row0, col0, at * 32, M, N, K);
        commit();
        compute(stages[t % 2], acc);
    }

    each(acc, [&](int i, int j, float x) {
        if (row0 + i < M && col0 + j < N) c[(size_t)(row0 + i) * N + col0 + j] = __float2half(x);
    });
}
