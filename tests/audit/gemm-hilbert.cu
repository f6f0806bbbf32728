/*
about = "Persistent blocks walk the tiles along a Hilbert curve, skip what lies outside, and print a line once in a while."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 210, N = 130, K = 300 }

[[launch]]
kernel = "multiply"
grid = ["66"]
block = ["256"]
args = ["a", "b", "c", "M", "N", "K"]
*/
#include <cuda_fp16.h>

constexpr int TILE = 32;

// The n-th point of the Hilbert curve that fills a square whose side is a power of two.
__device__ int2 point(unsigned side, unsigned long long n) {
    unsigned x = 0, y = 0;
    for (unsigned s = 1; s < side; s *= 2, n /= 4) {
        const unsigned rx = 1 & (unsigned)(n / 2), ry = 1 & ((unsigned)n ^ rx);
        if (ry == 0) {
            if (rx == 1) x = s - 1 - x, y = s - 1 - y;
            const unsigned swap = x;
            x = y, y = swap;
        }
        x += s * rx, y += s * ry;
    }
    return make_int2(x, y);
}
extern "C" __global__ void __launch_bounds__(256)
    multiply(const __half* a, const __half* b, __half* c, int M, int N, int K) {
    __shared__ float as[TILE][TILE + 1], bs[TILE][TILE];
    const int rows = (M + TILE - 1) / TILE, columns = (N + TILE - 1) / TILE, tx = threadIdx.x % 32,
              ty = threadIdx.x / 32;
    unsigned side = 1;
    while (side < (unsigned)max(rows, columns)) side *= 2;
    for (unsigned long long n = blockIdx.x; n < (unsigned long long)side * side; n += gridDim.x) {
        const int2 tile = point(side, n);
        if (tile.x >= columns || tile.y >= rows) continue;
        const int m0 = tile.y * TILE, n0 = tile.x * TILE;
        float sum[4] = {};
        for (int k0 = 0; k0 < K; k0 += TILE) {
            __syncthreads();
            for (int y = ty; y < TILE; y += 8) {
                as[y][tx] = m0 + y < M && k0 + tx < K ? __half2float(a[(size_t)(m0 + y) * K + k0 + tx]) : 0.0f;
                bs[y][tx] = k0 + y < K && n0 + tx < N ? __half2float(b[(size_t)(k0 + y) * N + n0 + tx]) : 0.0f;
            }
            __syncthreads();
            for (int k = 0; k < TILE; ++k)
                for (int e = 0; e < 4; ++e) sum[e] = fmaf(as[ty + e * 8][k], bs[k][tx], sum[e]);
        }
        for (int e = 0; e < 4; ++e)
            if (m0 + ty + e * 8 < M && n0 + tx < N) c[(size_t)(m0 + ty + e * 8) * N + n0 + tx] = __float2half(sum[e]);
        if (threadIdx.x == 0 && n == 0 && fabsf(sum[0]) > 20.0f)
            printf("the first element is as large as %g\n", sum[0]);
    }
}
