/*
about = "Split-K with tickets: the last block of a tile adds the parts in a fixed order, and returns the ticket."
kind = "broken"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "gemm-fp16"
constants = []
case = { M = 200, N = 256, K = 2048 }

[[workspace]]
name = "parts"
dtype = "f32"
elements = "ceil_div(M, 64) * ceil_div(N, 64) * 16384"

[[workspace]]
name = "tickets"
dtype = "f32"
elements = "ceil_div(M, 64) * ceil_div(N, 64)"
initial = "zero"

[[launch]]
kernel = "gemm"
grid = ["4 * ceil_div(M, 64) * ceil_div(N, 64)"]
block = ["128"]
args = ["a", "b", "c", "parts", "tickets", "M", "N", "K"]
*/
// Fails on: M = 128, N = 100, K = 512: thread 127 belongs to column 127, which does not exist, and returns before it
// resets the ticket. The workspace is not zero afterwards, and from the second execution on columns 64..99 of c are
// never written.

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

constexpr int SPLITS = 4;  // parts of K, a block each; the last to arrive adds them up in a fixed order
extern "C" __global__ void __launch_bounds__(128)
    gemm(const __half* a, const __half* b, __half* c, float* parts, unsigned* tickets, int M, int N, int K) {
    __shared__ __align__(16) Stage stage;
    __shared__ unsigned ticket;
    const int split = blockIdx.x % SPLITS, tile = blockIdx.x / SPLITS, tiles = (N + 63) / 64, row0 = tile / tiles * 64,
              col0 = tile % tiles * 64;
    const int chunk = ((K + SPLITS - 1) / SPLITS + 31) / 32 * 32, from = min(K, split * chunk),
              to = min(K, from + chunk);
    float acc[2][4][4] = {};
    for (int k0 = from; k0 < to; k0 += 32) {
        load(stage, a, b, row0, col0, k0, to, M, N, K);
        __syncthreads();
        compute(stage, acc);
        __syncthreads();
    }
    float* mine = parts + (size_t)tile * SPLITS * 4096;
    each(acc, [&](int i, int j, float x) { mine[split * 4096 + i * 64 + j] = x; });
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) ticket = atomicAdd(&tickets[tile], 1u);
    __syncthreads();
    if (ticket != SPLITS - 1) return;
    __threadfence();

    const int j = threadIdx.x % 64;
    if (col0 + j >= N) return;
    for (int i = threadIdx.x / 64; i < 64 && row0 + i < M; i += 2) {
        float sum = 0;
        for (int s = 0; s < SPLITS; ++s) sum += __ldcg(&mine[s * 4096 + i * 64 + j]);
        c[(size_t)(row0 + i) * N + col0 + j] = __float2half(sum);
    }
    if (threadIdx.x == blockDim.x - 1) tickets[tile] = 0;  // for the next launch
}
