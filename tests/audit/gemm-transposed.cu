/*
about = "A first kernel transposes b into a workspace; a programmatic second one makes dot products, each by a warp."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 37, N = 90, K = 611 }
requires_sm = 90
[[workspace]]
name = "bt"
dtype = "f16"
elements = "N * K"

[[launch]]
kernel = "turn"
grid = ["ceil_div(N, 32)", "ceil_div(K, 32)"]
block = ["32", "8"]
args = ["b", "bt", "N", "K"]

[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 16)", "M"]
block = ["128"]
programmatic = true
args = ["a", "bt", "c", "N", "K"]

[[constraint]]
expr = "M <= 65535"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "ceil_div(K, 32) <= 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

extern "C" __global__ void turn(const __half* b, __half* bt, int N, int K) {
    __shared__ __half tile[32][34];
    const int n0 = blockIdx.x * 32, k0 = blockIdx.y * 32;
    for (int y = threadIdx.y; y < 32; y += 8)
        if (k0 + y < K && n0 + threadIdx.x < N) tile[y][threadIdx.x] = b[(size_t)(k0 + y) * N + n0 + threadIdx.x];
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8)
        if (n0 + y < N && k0 + threadIdx.x < K) bt[(size_t)(n0 + y) * K + k0 + threadIdx.x] = tile[threadIdx.x][y];
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
extern "C" __global__ void multiply(const __half* __restrict__ a, const __half* bt, __half* __restrict__ c, int N,
                                    int K) {
    extern __shared__ unsigned char nothing[];  // of size zero
    const int lane = threadIdx.x % 32, first = blockIdx.x * 16 + threadIdx.x / 32 * 4;
    const size_t row = blockIdx.y;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(a + row * K));
    asm volatile("griddepcontrol.wait;" ::: "memory");
    float sum[4] = {};
    for (int k = lane; k < K; k += 32) {
        const float left = __half2float(a[row * K + k]);
#pragma unroll
        for (int n = 0; n < 4; ++n)
            if (first + n < N) sum[n] = fmaf(left, __half2float(bt[(size_t)(first + n) * K + k]), sum[n]);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n)
        for (int other = 16; other; other /= 2) sum[n] += __shfl_xor_sync(~0u, sum[n], other);
    if (lane < 4 && first + lane < N)
        c[row * N + first + lane] = __float2half(lane == 0 ? sum[0] : lane == 1 ? sum[1] : lane == 2 ? sum[2] : sum[3]);
}
