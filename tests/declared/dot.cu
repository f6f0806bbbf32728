#include <cuda_fp8.h>
#define THREADS 128
__global__ void dot(const __nv_fp8_e4m3* __restrict__ a, const __nv_fp8_e4m3* __restrict__ b, float* out, int n) {
    __shared__ float part[THREADS];
    const size_t row = blockIdx.x;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) sum += float(a[row * n + i]) * float(b[row * n + i]);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[row] = part[0];
}
