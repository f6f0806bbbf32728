// One element of a linear layer by one thread. An entry defines what follows its sums.
#include <cuda_bf16.h>
using Element = __nv_bfloat16;
__device__ float scaled(float sum, float of_x, float of_w);
__device__ float biased(float x, float bias);
__device__ float gated(float first, float second);
__device__ float silu(float x) { return x / (1 + __expf(-x)); }

extern "C" __global__ void multiply(const Element* x, const Element* w, const float* x_scale, const float* w_scale, const Element* bias,
                                    const Element* residual, Element* y, int M, int N, int K) {
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y;
    if (column >= N) return;
    float value[2];
    for (int product = 0; product < 2; ++product) {
        const int of_w = product * N + column;
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += float(x[(size_t)row * K + k]) * float(w[(size_t)of_w * K + k]);
        value[product] = biased(scaled(sum, x_scale[row], w_scale[of_w]), float(bias[of_w]));
    }
    y[(size_t)row * N + column] = Element(gated(value[0], value[1]) + float(residual[(size_t)row * N + column]));
}
