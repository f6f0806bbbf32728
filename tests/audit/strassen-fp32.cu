/*
about = "One level of Strassen in FP32: seven products of quarters instead of eight, sums of the quarters in FP32."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "gemm-fp16"
constants = []
case = { M = 256, N = 320, K = 512 }
[[launch]]
kernel = "gemm"
grid = ["ceil_div(M, 32) * ceil_div(N, 32)"]
block = ["256"]
args = ["a", "b", "c", "M", "N", "K"]

[[constraint]]
expr = "M % 2 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "N % 2 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "K % 2 == 0"
why = "the kernel takes no other shapes"
*/
// Fails on: M = N = K = 128, rows 0..63 of a are normal * 1e3, rows 64..127 are normal * 1e-3, b normal: rows
// 64..127 of c come out of differences of numbers 1e6 times larger, off by several percent. A NaN in row 0 of a also
// makes row 64 NaN.

#include <cuda_fp16.h>

// Quarters of a, b and c: 11 12 / 21 22. A thread makes one element of every quarter of c.
extern "C" __global__ void __launch_bounds__(256)
    gemm(const __half* a, const __half* b, __half* c, int M, int N, int K) {
    __shared__ float as[4][16][17], bs[4][16][16];
    const int m = M / 2, n = N / 2, k = K / 2, tiles = (n + 15) / 16;
    const int row0 = blockIdx.x / tiles * 16, col0 = blockIdx.x % tiles * 16, y = threadIdx.x / 16,
              x = threadIdx.x % 16;
    float p1 = 0, p2 = 0, p3 = 0, p4 = 0, p5 = 0, p6 = 0, p7 = 0;
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int h = 0; h < 4; ++h) {
            const bool in_a = row0 + y < m && k0 + x < k, in_b = k0 + y < k && col0 + x < n;
            as[h][y][x] = in_a ? __half2float(a[(size_t)(h / 2 * m + row0 + y) * K + h % 2 * k + k0 + x]) : 0.0f;
            bs[h][y][x] = in_b ? __half2float(b[(size_t)(h / 2 * k + k0 + y) * N + h % 2 * n + col0 + x]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const float a11 = as[0][y][t], a12 = as[1][y][t], a21 = as[2][y][t], a22 = as[3][y][t];
            const float b11 = bs[0][t][x], b12 = bs[1][t][x], b21 = bs[2][t][x], b22 = bs[3][t][x];
            p1 += (a11 + a22) * (b11 + b22);
            p2 += (a21 + a22) * b11;
            p3 += a11 * (b12 - b22);
            p4 += a22 * (b21 - b11);
            p5 += (a11 + a12) * b22;
            p6 += (a21 - a11) * (b11 + b12);
            p7 += (a12 - a22) * (b21 + b22);
        }
        __syncthreads();
    }
    const int i = row0 + y, j = col0 + x;
    if (i >= m || j >= n) return;
    c[(size_t)i * N + j] = __float2half(p1 + p4 - p5 + p7);
    c[(size_t)i * N + n + j] = __float2half(p3 + p5);
    c[(size_t)(m + i) * N + j] = __float2half(p2 + p4);
    c[(size_t)(m + i) * N + n + j] = __float2half(p1 - p2 + p3 + p6);
}
