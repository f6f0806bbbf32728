/*
about = "Templates, lambdas and a table in constant memory; sums of two levels, and 16-byte stores with a scalar tail."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 83, N = 157, K = 420 }
[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 64)", "ceil_div(M, 64)"]
block = ["256"]
args = ["a", "b", "c", "M", "N", "K"]

[[constraint]]
expr = "M <= 64 * 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

__constant__ int offsets[4] = {0, 16, 32, 48};  // of the four rows and columns of a thread

template <int N>
struct Loop {
    template <class F>
    __device__ static __forceinline__ void run(F&& body) {
        Loop<N - 1>::run(body);
        body(N - 1);
    }
};
template <>
struct Loop<0> {
    template <class F>
    __device__ static __forceinline__ void run(F&&) {}
};
template <int ROWS, int COLUMNS, int PITCH>
__device__ __forceinline__ void load(float* to, const __half* from, int rows, int columns, size_t pitch) {
    for (int n = threadIdx.x; n < ROWS * COLUMNS; n += 256) {
        const int y = n / COLUMNS, x = n % COLUMNS;
        to[y * PITCH + x] = y < rows && x < columns ? __half2float(from[y * pitch + x]) : 0.0f;
    }
}
extern "C" __global__ void __launch_bounds__(256)
    multiply(const __half* a, const __half* b, __half* c, int M, int N, int K) {
    __shared__ float as[64 * 33], bs[32 * 64];
    __shared__ __align__(16) __half cs[64 * 64];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
    float total[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 32) {
        __syncthreads();
        load<64, 32, 33>(as, a + (size_t)m0 * K + k0, M - m0, K - k0, K);
        load<32, 64, 64>(bs, b + (size_t)k0 * N + n0, K - k0, N - n0, N);
        __syncthreads();
        float sum[4][4] = {};
        for (int k = 0; k < 32; ++k) {
            float left[4], right[4];
            Loop<4>::run(
                [&](int n) { left[n] = as[(ty + offsets[n]) * 33 + k], right[n] = bs[k * 64 + tx + offsets[n]]; });
            Loop<4>::run([&](int y) { Loop<4>::run([&](int x) { sum[y][x] = fmaf(left[y], right[x], sum[y][x]); }); });
        }
        Loop<4>::run([&](int y) { Loop<4>::run([&](int x) { total[y][x] += sum[y][x]; }); });
    }
    Loop<4>::run([&](int y) {
        Loop<4>::run([&](int x) { cs[(ty + offsets[y]) * 64 + tx + offsets[x]] = __float2half(total[y][x]); });
    });
    __syncthreads();
    for (int n = threadIdx.x; n < 64 * 8; n += 256) {
        const int y = n / 8, x = n % 8 * 8;
        if (m0 + y >= M) continue;
        const size_t at = (size_t)(m0 + y) * N + n0 + x;
        if (at % 8 == 0 && n0 + x + 8 <= N)
            *reinterpret_cast<uint4*>(c + at) = *reinterpret_cast<const uint4*>(cs + y * 64 + x);
        else
            for (int e = 0; e < 8 && n0 + x + e < N; ++e) c[at + e] = cs[y * 64 + x + e];
    }
}
