#include <cuda_bf16.h>
#define THREADS 256
// residual + x, and its RMS norm
__global__ void fused(const __nv_bfloat16* x, const __nv_bfloat16* residual, const __nv_bfloat16* w,
                      __nv_bfloat16* y, __nv_bfloat16* sum, int N, float eps) {
    __shared__ float part[32];
    const size_t row = (size_t)blockIdx.x * N;
    float squares = 0;
    for (int i = threadIdx.x; i < N; i += THREADS) {
        const float s = __bfloat162float(x[row + i]) + __bfloat162float(residual[row + i]);
        sum[row + i] = __float2bfloat16(s);
        squares += s * s;
    }
    for (int d = 16; d > 0; d /= 2) squares += __shfl_xor_sync(~0u, squares, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = squares;
    __syncthreads();
    squares = 0;
    for (int i = 0; i < THREADS / 32; ++i) squares += part[i];
    const float scale = rsqrtf(squares / N + eps);
    for (int i = threadIdx.x; i < N; i += THREADS)
        y[row + i] = __float2bfloat16((__bfloat162float(x[row + i]) + __bfloat162float(residual[row + i])) * scale * __bfloat162float(w[i]));
}
