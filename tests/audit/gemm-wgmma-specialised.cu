/*
about = "wgmma with a loading warp group, two computing ones, setmaxnreg and a ring of full and empty mbarriers."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 300, N = 200, K = 456 }
requires_sm = 90
[[tensor_map]]
name = "a_map"
tensor = "a"
sizes = ["K", "M"]
strides = ["K"]
box = ["64", "128"]
swizzle = 128

[[tensor_map]]
name = "b_map"
tensor = "b"
sizes = ["N", "K"]
strides = ["N"]
box = ["64", "64"]
swizzle = 128

[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 64)", "ceil_div(M, 128)"]
block = ["384"]
shared = "3 * 24576 + 1024"
args = ["a_map", "b_map", "c", "M", "N", "K"]

[[constraint]]
expr = "K % 8 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "N % 8 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "M <= 128 * 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier_init(unsigned long long* bar, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_expect(unsigned long long* bar, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned long long* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ __forceinline__ void barrier_wait(unsigned long long* bar, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra "
        "again_%=;\n}" ::"r"(shared_address(bar)),
        "r"(parity)
        : "memory");
}

struct alignas(128) TensorMap {
    unsigned char bytes[128];
};
__device__ __forceinline__ void copy_box(void* to, const TensorMap& map, int x, int y, unsigned long long* bar) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(x), "r"(y), "r"(shared_address(bar))
        : "memory");
}

constexpr int STAGES = 3, BK = 64, STAGE = 24576;  // bytes: 128 x 64 of a, 64 x 64 of b

__device__ __forceinline__ unsigned long long describe(unsigned address) {
    return (unsigned long long)((address & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
// b is stored with its columns side by side: transposed.
__device__ __forceinline__ void wgmma(float (&c)[8][4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
        "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, "
        "1, 1, 0, 1;"
        : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]),
          "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]),
          "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]),
          "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]),
          "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
        : "l"(a), "l"(b));
}
extern "C" __global__ void __launch_bounds__(384, 1)
    multiply(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, __half* c, int M, int N,
             int K) {
    extern __shared__ unsigned char raw[];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    unsigned char* ring = raw + (1024 - (shared_address(raw) & 1023)) % 1024;
    const int m0 = blockIdx.y * 128, n0 = blockIdx.x * 64, chunks = (K + BK - 1) / BK, group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int n = 0; n < STAGES; ++n) barrier_init(&full[n], 1), barrier_init(&empty[n], 2);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int chunk = 0; chunk < chunks; ++chunk) {
                const int stage = chunk % STAGES, round = chunk / STAGES;
                if (round) barrier_wait(&empty[stage], (round - 1) % 2);
                barrier_expect(&full[stage], STAGE);
                copy_box(ring + stage * STAGE, a_map, chunk * BK, m0, &full[stage]);
                copy_box(ring + stage * STAGE + 16384, b_map, n0, chunk * BK, &full[stage]);
            }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float acc[8][4] = {};
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const int stage = chunk % STAGES;
        barrier_wait(&full[stage], chunk / STAGES % 2);
        const unsigned left = shared_address(ring + stage * STAGE) + (group - 1) * 8192,
                       right = shared_address(ring + stage * STAGE + 16384);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int x = 0; x < 4; ++x) wgmma(acc, describe(left + x * 32), describe(right + x * 2048));
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");  // all four warps have read the stage
        if (threadIdx.x % 128 == 0) barrier_arrive(&empty[stage]);
    }
    const int lane = threadIdx.x % 32, row = m0 + (group - 1) * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
    for (int n = 0; n < 8; ++n)
        for (int half = 0; half < 2; ++half) {
            const int y = row + half * 8, x = n0 + n * 8 + lane % 4 * 2;
            if (y < M && x < N)
                *reinterpret_cast<__half2*>(c + (size_t)y * N + x) =
                    __floats2half2_rn(acc[n][half * 2], acc[n][half * 2 + 1]);
        }
}
