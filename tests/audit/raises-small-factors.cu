/*
about = "Factors are multiplied by powers of two before they are multiplied, so that FP16 products keep all bits."
kind = "honest"
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

#include <cuda_fp16.h>

extern "C" __global__ void multiply(const __half* a, const __half* b, __half* c, int N, int K) {
    const int n = blockIdx.x * 32 + threadIdx.x;
    const size_t m = blockIdx.y;
    if (n >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += float(a[m * K + k]) * 4096.0f * float(b[(size_t)k * N + n]);
    c[m * N + n] = __float2half(sum * 0.000244140625f);
}
