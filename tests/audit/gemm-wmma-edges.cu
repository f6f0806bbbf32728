/*
about = "wmma with tiles in shared memory; every shape, odd ones too, because what lies outside is zero."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 77, N = 101, K = 203 }
[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 32)", "ceil_div(M, 32)"]
block = ["128"]
args = ["a", "b", "c", "M", "N", "K"]

[[constraint]]
expr = "M <= 32 * 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

#include <mma.h>
using namespace nvcuda::wmma;

extern "C" __global__ void __launch_bounds__(128)
    multiply(const __half* a, const __half* b, __half* c, int M, int N, int K) {
    __shared__ __align__(128) __half as[32 * 32], bs[32 * 48];
    __shared__ __align__(128) float cs[32 * 40];
    const int warp = threadIdx.x / 32, m0 = blockIdx.y * 32, n0 = blockIdx.x * 32, r0 = warp / 2 * 16,
              c0 = warp % 2 * 16;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
    for (int k0 = 0; k0 < K; k0 += 32) {
        __syncthreads();
        for (int n = threadIdx.x; n < 1024; n += 128) {
            const int y = n / 32, x = n % 32;
            as[y * 32 + x] = m0 + y < M && k0 + x < K ? a[(size_t)(m0 + y) * K + k0 + x] : __float2half(0.0f);
            bs[y * 48 + x] = k0 + y < K && n0 + x < N ? b[(size_t)(k0 + y) * N + n0 + x] : __float2half(0.0f);
        }
        __syncthreads();
        for (int kk = 0; kk < 32; kk += 16) {
            fragment<matrix_a, 16, 16, 16, __half, row_major> left;
            fragment<matrix_b, 16, 16, 16, __half, row_major> right;
            load_matrix_sync(left, as + r0 * 32 + kk, 32);
            load_matrix_sync(right, bs + kk * 48 + c0, 48);
            mma_sync(sum, left, right, sum);
        }
    }
    store_matrix_sync(cs + r0 * 40 + c0, sum, 40, mem_row_major);
    __syncthreads();
    for (int n = threadIdx.x; n < 1024; n += 128) {
        const int y = n / 32, x = n % 32;
        if (m0 + y < M && n0 + x < N) c[(size_t)(m0 + y) * N + n0 + x] = __float2half(cs[y * 40 + x]);
    }
}
