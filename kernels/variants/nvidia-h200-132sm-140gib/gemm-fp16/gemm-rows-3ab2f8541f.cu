// gemm-rows for f16, 
// ROWS=16 TERMS=128 STAGES=10 WGS=2
// Matrix product with few rows on Hopper's tensor cores: c = a b, all row-major, f16 with f32 sums, bound by reading b once.
//
// A block has a strip of 64 columns of b and all terms of its sums, so nothing is added over blocks: no workspace, no second kernel.
// Strips of 128 bytes are read nearly as fast as whole rows if enough of them are on their way (134 MB in 30.6 us where a plain
// read takes 30.2; H200, 2026-11-22, a standalone harness).
//
// Operands are swapped: what is computed is c^T = b^T a^T, so that the 64 columns are the side of wgmma that has to be 64, and the few rows the
// one that may be as short as 8 (cuBLAS does the same). Then hardly a product is wasted, and a thread has ROWS / 2 sums. b lies in
// shared memory with its columns beside one another, which the descriptor of the first operand says by its transpose bit.
//
// One warp asks for stages of TERMS terms by tensor copies, into a ring with barriers. WGS warpgroups take the stages in turn,
// each with sums of its own, because the last stages arrive together: when other blocks have ended, a block gets its last data
// faster than one warpgroup could multiply them (wgmma with so few rows waits for each other: 0.3 us for 256 terms).
// The sums are added in shared memory, always in the same order, so the same inputs give the same bytes.
#include <cuda_fp16.h>

constexpr int ROWS = 16;    // rows of a that a block computes
constexpr int TERMS = 128;  // terms of a stage
constexpr int STAGES = 10;
constexpr int WGS = 2;      // warpgroups that multiply

constexpr int COLUMNS = 64;   // of b: 128 bytes, as the swizzle wants them
constexpr int NS = ROWS / 2;  // sums of a thread
constexpr unsigned B_BYTES = TERMS * 128, A_BOX = ROWS * 128, STAGE_BYTES = B_BYTES + TERMS / 64 * A_BOX;

struct alignas(128) TensorMap {
    unsigned char bytes[128];
};

__device__ inline unsigned address_of(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

// Barriers in shared memory: `full` when a stage has arrived, `empty` when it has been multiplied.
__device__ inline void barrier_init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void barrier_wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra AGAIN;\n}" ::"r"(barrier), "r"(parity) : "memory");
}
__device__ inline void load(unsigned to, const TensorMap& map, int x, int y, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Describes a matrix in shared memory with 128-byte swizzle: 8 rows of 128 bytes take 1,024. The distance between columns of 64
// elements, the second field, does not matter: no product reads more than one.
__device__ inline unsigned long long descriptor(unsigned address) {
    return (unsigned long long)((address & 0x3ffff) >> 4) | 1ull << 16 | (unsigned long long)(1024 >> 4) << 32 | 1ull << 62;
}
// sums (64 columns x ROWS) += b^T a^T over 16 terms: the first operand is transposed in shared memory, the second is not.
__device__ inline void multiply_16(float (&sums)[NS], unsigned long long b, unsigned long long a) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, 1, 1, 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7])
        : "l"(b), "l"(a));
}
extern "C" __global__ void __launch_bounds__(288, 1)
multiply(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, __half* __restrict__ c,
         int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    // The swizzle goes by the address: stages start at multiples of 1,024.
    const unsigned start = address_of(dynamic), ring = (start + 1023) & ~1023u;
    const unsigned full = address_of(full_barriers), empty = address_of(empty_barriers);
    // Asked from lane 0, so that the compiler knows it to be one number a warp.
    const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    // Blocks that need the same columns come after one another, so that they find them in L2.
    const int tiles = (M + ROWS - 1) / ROWS, row = blockIdx.x % tiles * ROWS, column = blockIdx.x / tiles * COLUMNS;
    const int steps = (K + TERMS - 1) / TERMS;

    const auto request = [&](int step, int stage) {
        const unsigned to = ring + stage * STAGE_BYTES, barrier = full + stage * 8;
        barrier_expect(barrier, STAGE_BYTES);
        load(to, b_map, column, step * TERMS, barrier);
#pragma unroll
        for (int box = 0; box < TERMS / 64; ++box)
            load(to + B_BYTES + box * A_BOX, a_map, step * TERMS + box * 64, row, barrier);
    };
    // One thread makes the barriers and asks for the first stages at once, before the others know of any. (A lane for each barrier
    // was slower: 33.1 us where 32.6; H200, 2026-11-22, a standalone harness.)
    if (threadIdx.x == WGS * 128) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full + stage * 8, 1);
            // A warp knows of its own part of the products only.
            barrier_init(empty + stage * 8, 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
        for (int step = 0; step < min(steps, STAGES); ++step) request(step, step);
    }
    __syncthreads();
    if (warp == WGS * 4) {
        if (lane == 0) {
            int stage = 0;
            unsigned parity = 0;
            for (int step = STAGES; step < steps; ++step) {
                barrier_wait(empty + stage * 8, parity);
                request(step, stage);
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
        }
        return;
    }

    const int wg = warp / 4;
    float sums[NS];
#pragma unroll
    for (int i = 0; i < NS; ++i) sums[i] = 0.f;
    int stage = wg;
    unsigned parity = 0;
    for (int step = wg; step < steps; step += WGS) {
        barrier_wait(full + stage * 8, parity);
        const unsigned b = ring + stage * STAGE_BYTES, a = b + B_BYTES;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        // 16 terms are 16 rows of b, and 32 bytes along the rows of a. Descriptors count in 16 bytes.
#pragma unroll
        for (int k = 0; k < TERMS / 16; ++k)
            multiply_16(sums, descriptor(b) + k * 128, descriptor(a + k / 4 * A_BOX) + k % 4 * 2);
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        // The compiler is told that registers have changed: wgmma writes them behind its back.
#pragma unroll
        for (int i = 0; i < NS; ++i) asm volatile("" : "+f"(sums[i])::"memory");
        if (lane == 0) barrier_arrive(empty + stage * 8);
        if ((stage += WGS) >= STAGES) stage = wg, parity ^= 1;
    }

    // The first warpgroup adds the shares of the others, which lie behind the ring.
    if constexpr (WGS > 1) {
        float* shares = reinterpret_cast<float*>(dynamic + (ring - start) + STAGES * STAGE_BYTES) + threadIdx.x % 128;
        if (wg > 0) {
#pragma unroll
            for (int i = 0; i < NS; ++i) shares[((wg - 1) * NS + i) * 128] = sums[i];
        }
        asm volatile("bar.sync 1, 256;" ::: "memory");
        if (wg > 0) return;
#pragma unroll
        for (int other = 0; other < WGS - 1; ++other)
#pragma unroll
            for (int i = 0; i < NS; ++i) sums[i] += shares[(other * NS + i) * 128];
    }
    // Eight lanes have neighbours of a row. (To gather 16 bytes for each store in shared memory took longer than it saved.)
#pragma unroll
    for (int i = 0; i < NS; ++i) {
        const int at_row = row + i / 4 * 8 + lane % 4 * 2 + i % 2, at_column = column + warp * 16 + i / 2 % 2 * 8 + lane / 4;
        if (at_row < M && at_column < N) c[(size_t)at_row * N + at_column] = __float2half_rn(sums[i]);
    }
}
