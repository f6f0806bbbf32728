/*
about = "Tensor maps with a swizzle of 128 bytes and a ring of three stages, ldmatrix and mma.sync; boxes reach beyond the tensors."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 150, N = 200, K = 328 }
requires_sm = 90
[[tensor_map]]
name = "a_map"
tensor = "a"
sizes = ["K", "M"]
strides = ["K"]
box = ["64", "64"]
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
grid = ["ceil_div(N, 64)", "ceil_div(M, 64)"]
block = ["128"]
shared = "3 * 16384 + 1024"
args = ["a_map", "b_map", "c", "M", "N", "K"]

[[constraint]]
expr = "K % 8 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "N % 8 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "M <= 64 * 65535"
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

constexpr int STAGES = 3, BK = 64;
__device__ __forceinline__ const __half* at(const __half* tile, int r, int chunk) {
    return tile + r * 64 + ((chunk ^ (r & 7)) * 8);
}

extern "C" __global__ void __launch_bounds__(128)
    multiply(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, __half* c, int M, int N,
             int K) {
    extern __shared__ unsigned char raw[];
    __shared__ unsigned long long full[STAGES];
    __half* ring = reinterpret_cast<__half*>(raw + (1024 - (shared_address(raw) & 1023)) %
                                                       1024);  // stage: 64 x 64 of a, 64 x 64 of b
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m0 = blockIdx.y * 64, n0 = blockIdx.x * 64,
              chunks = (K + BK - 1) / BK;
    auto fetch = [&](int chunk) {
        const int stage = chunk % STAGES;
        barrier_expect(&full[stage], 16384);
        copy_box(ring + stage * 8192, a_map, chunk * BK, m0, &full[stage]);
        copy_box(ring + stage * 8192 + 4096, b_map, n0, chunk * BK, &full[stage]);
    };
    if (threadIdx.x == 0) {
        for (int n = 0; n < STAGES; ++n) barrier_init(&full[n], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
        for (int n = 0; n < STAGES - 1 && n < chunks; ++n) fetch(n);
    }
    __syncthreads();
    float acc[8][4] = {};
    for (int chunk = 0; chunk < chunks; ++chunk) {
        barrier_wait(&full[chunk % STAGES], chunk / STAGES % 2);
        const __half *as = ring + chunk % STAGES * 8192, *bs = as + 4096;
        for (int kk = 0; kk < BK; kk += 16) {
            unsigned left[4];
            ldmatrix(left, at(as, warp * 16 + lane % 16, kk / 8 + lane / 16));
#pragma unroll
            for (int n = 0; n < 8; n += 2) {
                unsigned right[4];
                ldmatrix_t(right, at(bs, kk + lane / 8 % 2 * 8 + lane % 8, n + lane / 16));
                mma16816(acc[n], left, right[0], right[1]);
                mma16816(acc[n + 1], left, right[2], right[3]);
            }
        }
        __syncthreads();  // the stage of the chunk before this one has been free since the last turn; this one's is
                          // from here on
        if (threadIdx.x == 0 && chunk + STAGES - 1 < chunks) {
            asm volatile("fence.proxy.async;" ::: "memory");
            fetch(chunk + STAGES - 1);
        }
    }
    const int column = n0 + lane % 4 * 2;
    for (int n = 0; n < 8; ++n)
        for (int half = 0; half < 2; ++half) {
            const int y = m0 + warp * 16 + lane / 4 + half * 8, x = column + n * 8;
            if (y < M && x < N)
                *reinterpret_cast<unsigned*>(c + (size_t)y * N + x) =
                    pack(acc[n][half * 2], acc[n][half * 2 + 1]);  // N is even
        }
}
