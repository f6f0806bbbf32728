/*
about = "At most 16 rows: eight warps take every eighth 16 of K, with fragments straight from global memory, and add up in shared memory."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 13, N = 1000, K = 1500 }
regime = "cold"
[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 32)"]
block = ["256"]
args = ["a", "b", "c", "M", "N", "K"]

[[constraint]]
expr = "M <= 16"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

__device__ __forceinline__ void mma16816(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void ldmatrix(unsigned (&r)[4], const void* at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(at))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_t(unsigned (&r)[4], const void* at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(at))
                 : "memory");
}
__device__ __forceinline__ unsigned pack(float low, float high) {
    __half2 h = __floats2half2_rn(low, high);
    return *reinterpret_cast<unsigned*>(&h);
}

extern "C" __global__ void __launch_bounds__(256)
    multiply(const __half* a, const __half* b, __half* c, int M, int N, int K) {
    __shared__ float sums[8][16][33];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, n0 = blockIdx.x * 32;
    const auto left = [&](int y, int k) -> unsigned {
        return y < M && k < K ? __half_as_ushort(__ldg(a + (size_t)y * K + k)) : 0;
    };
    const auto right = [&](int k, int x) -> unsigned {
        return k < K && x < N ? __half_as_ushort(__ldcs(b + (size_t)k * N + x)) : 0;
    };
    float acc[4][4] = {};
    for (int k0 = warp * 16; k0 < K; k0 += 128) {
        unsigned p[4];
        for (int e = 0; e < 4; ++e) {
            const int y = g + e % 2 * 8, k = k0 + 2 * t + e / 2 * 8;
            p[e] = left(y, k) | left(y, k + 1) << 16;
        }
        for (int n = 0; n < 4; ++n) {
            const int x = n0 + n * 8 + g, k = k0 + 2 * t;
            mma16816(acc[n], p, right(k, x) | right(k + 1, x) << 16, right(k + 8, x) | right(k + 9, x) << 16);
        }
    }
    for (int n = 0; n < 4; ++n)
        for (int e = 0; e < 4; ++e) sums[warp][g + e / 2 * 8][n * 8 + 2 * t + e % 2] = acc[n][e];
    __syncthreads();
    for (int n = threadIdx.x; n < 16 * 32; n += 256) {
        const int y = n / 32, x = n % 32;
        float sum = 0;
        for (int w = 0; w < 8; ++w) sum += sums[w][y][x];
        if (y < M && n0 + x < N) c[(size_t)y * N + n0 + x] = __float2half(sum);
    }
}
