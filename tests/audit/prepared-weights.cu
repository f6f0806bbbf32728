/*
about = "A linear layer whose weights are converted to FP32 once."
kind = "honest"
workload = "linear-bf16"
case = { M = 13, N = 40, K = 72 }
constants = ["XSCALE", "WSCALE", "BIAS", "ACTIVATION", "GATED", "RESIDUAL"]

[[constraint]]
expr = "XSCALE + WSCALE + BIAS + ACTIVATION + GATED + RESIDUAL == 0 && M <= 65535"
why = "It computes this layer only."

[[workspace]]
name = "wide"
dtype = "f32"
elements = "N * K"

[[launch]]
kernel = "widen"
prepare = true
grid = ["ceil_div(N * K, 256)"]
block = ["256"]
args = ["w", "wide", "N", "K"]

[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 32)", "M"]
block = ["32"]
args = ["x", "wide", "y", "N", "K"]
*/
#include <cuda_bf16.h>
using Element = __nv_bfloat16;

extern "C" __global__ void widen(const Element* w, float* wide, int N, int K) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < N * K) wide[i] = float(w[i]);
}

extern "C" __global__ void multiply(const Element* x, const float* wide, Element* y, int N, int K) {
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y;
    if (column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += float(x[(size_t)row * K + k]) * wide[(size_t)column * K + k];
    y[(size_t)row * N + column] = Element(sum);
}
