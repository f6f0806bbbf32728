/*
about = "Rounds factors to FP16 where TF32 is allowed: as many bits, but a smaller range."
kind = "cheat"
cheats = [18]
caught_by = ["wrong/probe"]
workload = "gemm-tf32"
constants = []
case = { M = 40, N = 72, K = 160 }
[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 32)", "M"]
block = ["32"]
args = ["a", "b", "c", "N", "K"]

[[constraint]]
expr = "M <= 65535"
why = "The second dimension of a grid may be at most 65,535."
*/
#include <cuda_fp16.h>

__device__ float factor(float x) { return __half2float(__float2half(x)); }

extern "C" __global__ void multiply(const float* a, const float* b, float* c, int N, int K) {
    const int row = blockIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    if (column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum = fmaf(factor(a[(size_t)row * K + k]), factor(b[(size_t)k * N + column]), sum);
    c[(size_t)row * N + column] = sum;
}
