/*
about = "Keys and values arrive by cp.async.bulk and mbarriers in two stages; the last tile's copy is shorter."
kind = "honest"
workload = "attention-fp16-d64-full"
case = { B = 2, H = 2, Sq = 66, Sk = 115, D = 40, CAUSAL = 0 }
requires_sm = 90
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D % 8 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 128"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

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

constexpr int PART = (D + 31) / 32, BC = 32;

__device__ __forceinline__ void bulk(void* to, const void* from, unsigned bytes, unsigned long long* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(bar))
                 : "memory");
}
extern "C" __global__ void __launch_bounds__(128)
    attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    __shared__ __align__(128) __half ks[2][BC * D], vs[2][BC * D];
    __shared__ unsigned long long full[2];
    const int lane = threadIdx.x % 32, i = min(int(blockIdx.x * 4 + threadIdx.x / 32),
                                               Sq - 1);  // warps beyond the end repeat the last row, same values
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const int end = CAUSAL ? min(int(blockIdx.x * 4) + 4 + Sk - Sq, Sk) : Sk, tiles = (end + BC - 1) / BC;
    auto fetch = [&](int tile) {
        const int stage = tile % 2;
        const unsigned bytes = min(BC, Sk - tile * BC) * D * sizeof(__half);  // a multiple of 16
        barrier_expect(&full[stage], 2 * bytes);
        bulk(ks[stage], k + (size_t)tile * BC * D, bytes, &full[stage]);
        bulk(vs[stage], v + (size_t)tile * BC * D, bytes, &full[stage]);
    };
    if (threadIdx.x == 0) {
        barrier_init(&full[0], 1), barrier_init(&full[1], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
        fetch(0);
        if (tiles > 1) fetch(1);
    }
    __syncthreads();
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % 2, count = min(BC, visible - tile * BC);  // may be negative
        barrier_wait(&full[stage], tile / 2 % 2);
        for (int j = 0; j < count; ++j) {
            float score = 0;
            for (int d = lane; d < D; d += 32) score += __half2float(q[row + d]) * __half2float(ks[stage][j * D + d]);
            for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
            score = __fmul_rn(score, scale);
            const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
            for (int n = 0, d = lane; d < D; ++n, d += 32)
                acc[n] = acc[n] * keep + weight * __half2float(vs[stage][j * D + d]);
            sum = sum * keep + weight, top = higher;
        }
        __syncthreads();
        if (threadIdx.x == 0 && tile + 2 < tiles) {
            asm volatile("fence.proxy.async;" ::: "memory");
            fetch(tile + 2);
        }
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
