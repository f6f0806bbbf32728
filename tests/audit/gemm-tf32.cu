/*
about = "FP16 numbers are exact in TF32, subnormals included, so the product is made by mma.sync of TF32."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 120, N = 75, K = 333 }
[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 64)", "ceil_div(M, 64)"]
block = ["128"]
args = ["a", "b", "c", "M", "N", "K"]

[[constraint]]
expr = "M <= 64 * 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

constexpr int BM = 64, BN = 64, BK = 32;
__device__ __forceinline__ void mma1688(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
extern "C" __global__ void __launch_bounds__(128)
    multiply(const __half* a, const __half* b, __half* c, int M, int N, int K) {
    __shared__ float as[BM][BK + 4], bs[BK][BN + 8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, m0 = blockIdx.y * BM,
              n0 = blockIdx.x * BN;
    float acc[8][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        __syncthreads();
        for (int n = threadIdx.x; n < BM * BK; n += 128) {
            const int y = n / BK, x = n % BK;
            as[y][x] = m0 + y < M && k0 + x < K ? __half2float(a[(size_t)(m0 + y) * K + k0 + x]) : 0.0f;
        }
        for (int n = threadIdx.x; n < BK * BN; n += 128) {
            const int y = n / BN, x = n % BN;
            bs[y][x] = k0 + y < K && n0 + x < N ? __half2float(b[(size_t)(k0 + y) * N + n0 + x]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < BK; kk += 8) {
            const unsigned left[4] = {
                __float_as_uint(as[warp * 16 + g][kk + t]), __float_as_uint(as[warp * 16 + g + 8][kk + t]),
                __float_as_uint(as[warp * 16 + g][kk + t + 4]), __float_as_uint(as[warp * 16 + g + 8][kk + t + 4])};
#pragma unroll
            for (int n = 0; n < 8; ++n)
                mma1688(acc[n], left, __float_as_uint(bs[kk + t][n * 8 + g]),
                        __float_as_uint(bs[kk + t + 4][n * 8 + g]));
        }
    }
    for (int n = 0; n < 8; ++n)
        for (int e = 0; e < 4; ++e) {
            const int y = m0 + warp * 16 + g + e / 2 * 8, x = n0 + n * 8 + 2 * t + e % 2;
            if (y < M && x < N) c[(size_t)y * N + x] = __float2half(acc[n][e]);
        }
}
