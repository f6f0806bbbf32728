/*
about = "Split-K with a programmatic second kernel, which prefetches its first part before it waits for the first kernel."
kind = "broken"
caught_by = ["crashed", "wrong/repeatable", "wrong/probe"]
workload = "gemm-fp16"
constants = []
case = { M = 256, N = 512, K = 1024 }

[[workspace]]
name = "parts"
dtype = "f32"
elements = "2 * M * N"

[[launch]]
kernel = "halves"
grid = ["2 * ceil_div(M, 64) * ceil_div(N, 64)"]
block = ["128"]
args = ["a", "b", "parts", "M", "N", "K"]

[[launch]]
kernel = "add"
grid = ["ceil_div(M * N, 256)"]
block = ["256"]
args = ["parts", "c", "M", "N"]
programmatic = true
*/
// Fails on: The second kernel starts as soon as the first has signalled, before the parts are stored: it adds what
// an earlier execution (or nobody) has left as part 0. With new inputs, c is half of the old product and half of the
// new one; on the same inputs it is right by chance.

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

extern "C" __global__ void __launch_bounds__(128)
    halves(const __half* a, const __half* b, float* parts, int M, int N, int K) {
    __shared__ __align__(16) Stage stage;
    const int split = blockIdx.x % 2, tile = blockIdx.x / 2, tiles = (N + 63) / 64, row0 = tile / tiles * 64,
              col0 = tile % tiles * 64;
    const int middle = min(K, (K / 2 + 31) / 32 * 32), from = split ? middle : 0, to = split ? K : middle;
    float acc[2][4][4] = {};
    for (int k0 = from; k0 < to; k0 += 32) {
        load(stage, a, b, row0, col0, k0, to, M, N, K);
        __syncthreads();
        compute(stage, acc);
        __syncthreads();
    }
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // its start overlaps with the stores
    float* part = parts + (size_t)split * M * N;
    each(acc, [&](int i, int j, float x) {
        if (row0 + i < M && col0 + j < N) part[(size_t)(row0 + i) * N + col0 + j] = x;
    });
}
extern "C" __global__ void add(const float* parts, __half* c, int M, int N) {
    const size_t n = (size_t)blockIdx.x * 256 + threadIdx.x, size = (size_t)M * N;
    float sum = 0;
    if (n < size) sum = __ldcg(&parts[n]);  // on its way while we wait
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (n < size) c[n] = __float2half(sum + __ldcg(&parts[size + n]));
}
