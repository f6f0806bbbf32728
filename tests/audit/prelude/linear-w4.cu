// One element of a linear layer with weights of 4 bits by one thread. An entry defines a weight from its number, zero point and scale.
#include <cuda_bf16.h>
using Element = __nv_bfloat16;
__device__ float number(unsigned byte, int k);
__device__ float weight(float number, float zero, float scale);

extern "C" __global__ void multiply(const Element* x, const unsigned char* w, const Element* scales, const Element* zeros, Element* y,
                                    int M, int N, int K) {
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y;
    if (column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) {
        const size_t group = (size_t)(k / <$ GROUP $>) * N + column;
        const float q = number(w[(size_t)(k / 2) * N + column], k);
        sum += float(x[(size_t)row * K + k]) * weight(q, float(zeros[group]), float(scales[group]));
    }
    y[(size_t)row * N + column] = Element(sum);
}
