// One element of a gated layer of experts by one thread. An entry defines which expert a row belongs to.
#include <cuda_bf16.h>
using Element = __nv_bfloat16;
__device__ int expert_of(const int* offsets, int row, int M);

extern "C" __global__ void multiply(const Element* x, const int* offsets, const Element* w, const Element* w_up, Element* y, int M, int N, int K) {
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y;
    if (column >= N) return;
    const size_t weights = ((size_t)expert_of(offsets, row, M) * N + column) * K;
    float gate = 0, up = 0;
    for (int k = 0; k < K; ++k) {
        gate += float(x[(size_t)row * K + k]) * float(w[weights + k]);
        up += float(x[(size_t)row * K + k]) * float(w_up[weights + k]);
    }
    y[(size_t)row * N + column] = Element(gate / (1 + __expf(-gate)) * up);
}
