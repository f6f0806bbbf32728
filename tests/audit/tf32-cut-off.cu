/*
about = "Cuts factors off to TF32, as a tensor core does that gets FP32 numbers, where TF32 is allowed."
kind = "honest"
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
// The error of every factor has the same sign, so those of a sum do not average out.
__device__ float factor(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }

extern "C" __global__ void multiply(const float* a, const float* b, float* c, int N, int K) {
    const int row = blockIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    if (column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum = fmaf(factor(a[(size_t)row * K + k]), factor(b[(size_t)k * N + column]), sum);
    c[(size_t)row * N + column] = sum;
}
