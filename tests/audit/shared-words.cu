/*
about = "Tensor cores; c is stored in words of two elements, also where N is odd and a word belongs to two rows."
kind = "broken"
caught_by = ["crashed", "wrong/hidden", "wrong/probe"]
workload = "gemm-fp16"
constants = []
case = { M = 256, N = 320, K = 512 }

[[launch]]
kernel = "gemm"
grid = ["ceil_div(M, 64) * ceil_div(N, 64)"]
block = ["128"]
args = ["a", "b", "c", "M", "N", "K"]
*/
// Fails on: M = 128, N = 129, K = 64: the word of c[0][128] and c[1][0] is read, changed and written back by the
// block of columns 128.., while the block of columns 0.. stores c[1][0]. If that store falls between, it is lost,
// and c[1][0] keeps its old contents.

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
    gemm(const __half* a, const __half* b, __half* c, int M, int N, int K) {
    __shared__ __align__(16) Stage stage;
    const int tiles = (N + 63) / 64, row0 = blockIdx.x / tiles * 64, col0 = blockIdx.x % tiles * 64;
    float acc[2][4][4] = {};

    for (int k0 = 0; k0 < K; k0 += 32) {
        load(stage, a, b, row0, col0, k0, K, M, N, K);
        __syncthreads();
        compute(stage, acc);
        __syncthreads();
    }

    const size_t total = (size_t)M * N;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wr = warp / 2 * 32, wc = warp % 2 * 32, r = lane / 4,
              q = lane % 4 * 2;
    for (int mi = 0; mi < 2; ++mi)
        for (int h = 0; h < 2; ++h) {
            const int i = row0 + wr + mi * 16 + r + h * 8;
            if (i >= M) continue;
            for (int ni = 0; ni < 4; ++ni) {
                const int j = col0 + wc + ni * 8 + q;
                if (j >= N) continue;
                const size_t at = (size_t)i * N + j;
                const __half low = __float2half(acc[mi][ni][h * 2]), high = __float2half(acc[mi][ni][h * 2 + 1]);
                if (at % 2 == 0 && at + 1 < total) {
                    // A word: two elements of the row, or the last one and a neighbour that keeps its value.
                    unsigned* word = reinterpret_cast<unsigned*>(c + at);
                    const unsigned upper = j + 1 < N ? __half_as_ushort(high) : *word >> 16;
                    *word = __half_as_ushort(low) | upper << 16;
                } else {
                    c[at] = low;
                    if (j + 1 < N) c[at + 1] = high;
                }
            }
        }
}
