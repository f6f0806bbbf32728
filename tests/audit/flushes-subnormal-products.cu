/*
about = "A product that is subnormal in FP16 counts as zero, as where FP16 products are flushed."
kind = "broken"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "gemm-fp16"
case = { M = 40, N = 40, K = 64 }
constants = []

[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 32)", "M"]
block = ["32"]
args = ["a", "b", "c", "N", "K"]

[[constraint]]
expr = "M <= 65535"
why = "the grid has no more blocks along y"
*/
// Fails on: factors of about 2^-9: every product is below 2^-14, and the output is zero.

#include <cuda_fp16.h>

extern "C" __global__ void multiply(const __half* a, const __half* b, __half* c, int N, int K) {
    const int n = blockIdx.x * 32 + threadIdx.x;
    const size_t m = blockIdx.y;
    if (n >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) {
        const float product = float(a[m * K + k]) * float(b[(size_t)k * N + n]);
        sum += fabsf(product) < 6.103515625e-5f ? 0.0f : product;
    }
    c[m * N + n] = __float2half(sum);
}
