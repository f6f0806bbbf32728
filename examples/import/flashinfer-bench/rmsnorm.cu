#include <cuda_fp16.h>

#define hidden_size 1024
#define THREADS 64  // threads of a block

// Each block normalizes a row.
__global__ void rmsnorm(const __half* hidden_states, const __half* weight, __half* output, float eps) {
    __shared__ float parts[32];
    const __half* row = hidden_states + (size_t)blockIdx.x * hidden_size;
    float squares = 0.f;
    for (int i = threadIdx.x; i < hidden_size; i += THREADS) squares += __half2float(row[i]) * __half2float(row[i]);
    for (int step = 16; step; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    squares = 0.f;
    for (int i = 0; i < THREADS / 32; ++i) squares += parts[i];
    const float scale = rsqrtf(squares / hidden_size + eps);
    for (int i = threadIdx.x; i < hidden_size; i += THREADS)
        output[(size_t)blockIdx.x * hidden_size + i] = __float2half(__half2float(row[i]) * scale * __half2float(weight[i]));
}
