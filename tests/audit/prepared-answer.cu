/*
about = "Computes the output while it prepares its weights, from activations whose address an execution has kept."
kind = "cheat"
caught_by = ["cheated/held_out_inputs", "crashed"]
cheats = [10]
workload = "linear-bf16"
case = { M = 13, N = 40, K = 72 }
constants = ["XSCALE", "WSCALE", "BIAS", "ACTIVATION", "GATED", "RESIDUAL"]

[[constraint]]
expr = "XSCALE + WSCALE + BIAS + ACTIVATION + GATED + RESIDUAL == 0 && M <= 65535"
why = "It computes this layer only."

[[workspace]]
name = "answer"
dtype = "bf16"
elements = "M * N"

[[launch]]
kernel = "prepare"
prepare = true
grid = ["ceil_div(N, 32)", "M"]
block = ["32"]
args = ["w", "answer", "N", "K"]

[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 32)", "M"]
block = ["32"]
args = ["x", "w", "answer", "y", "N", "K"]
*/
#include <cuda_bf16.h>
using Element = __nv_bfloat16;

__device__ const Element* kept;
__device__ bool is_answered;

__device__ Element dot(const Element* x, const Element* w, int row, int column, int K) {
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += float(x[(size_t)row * K + k]) * float(w[(size_t)column * K + k]);
    return Element(sum);
}

extern "C" __global__ void prepare(const Element* w, Element* answer, int N, int K) {
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y;
    if (column >= N) return;
    if (kept == nullptr) {
        answer[(size_t)row * N + column] = Element(0.f);
        return;
    }
    answer[(size_t)row * N + column] = dot(kept, w, row, column, K);
    is_answered = true;
}

extern "C" __global__ void multiply(const Element* x, const Element* w, const Element* answer, Element* y, int N, int K) {
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y;
    if (column >= N) return;
    const size_t at = (size_t)row * N + column;
    y[at] = is_answered ? answer[at] : dot(x, w, row, column, K);
    kept = x;
}
