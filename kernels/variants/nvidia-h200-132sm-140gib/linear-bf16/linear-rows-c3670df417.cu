// linear-rows for bf16, XSCALE=0 WSCALE=0 BIAS=0 ACTIVATION=0 GATED=0 RESIDUAL=0
// ROWS=16 BOXES=2 STAGES=10 WGS=2 SPLITS=2
// Linear layer with few rows on Hopper's tensor cores: y = x w^T and what follows, with f32 sums, bound by reading w once.
//
// Operands are swapped, as in gemm-rows: the block computes y^T = w x^T, so that 64 rows of w use the dimension of wgmma that must be
// 64, and the few rows of x use the one that may be as small as 8. A row of w has the terms of its sum, so a block reads 64 pieces
// of memory, BOXES * 128 bytes of each at a time.
//
// The SPLITS blocks of a cluster share the terms of a sum: all multiprocessors read, even if w has few rows. The first block gets the
// sums of the others in its shared memory and adds them in their order, so the same inputs give the same bytes.
//
// One warp loads stages by tensor copies into a ring with mbarriers. WGS warpgroups take the stages in turn, each with sums of its
// own, because the last stages arrive together (see gemm-rows). Sums of 8-bit products lose low bits in the tensor cores, so those of
// a stage are added to others in registers (see linear-wgmma).
#include <cuda_bf16.h>
using Out = __nv_bfloat16;
__device__ inline float widen(Out x) { return __bfloat162float(x); }
__device__ inline void narrow(float x, Out& to) { to = __float2bfloat16_rn(x); }

constexpr int ROWS = 16;    // rows of x that a block computes
constexpr int BOXES = 2;    // pieces of 128 bytes of a row in a stage
constexpr int STAGES = 10;
constexpr int WGS = 2;      // warpgroups that multiply
constexpr int SPLITS = 2;   // blocks that share the terms of a sum

constexpr int PRODUCTS = 1; // of an element of y
constexpr int TERMS = 128;  // of a stage
constexpr int COLUMNS = 64;   // of y
constexpr int NS = ROWS / 2;  // sums of a thread, of one product
constexpr unsigned W_BOX = COLUMNS * 128, X_BOX = ROWS * 128, STAGE_BYTES = BOXES * (PRODUCTS * W_BOX + X_BOX);

// The warp's index in the block. Broadcast from lane 0, so that the compiler knows that it is uniform in a warp, and
// does not guard every shuffle against divergence.
__device__ inline int warp_index() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0); }
// --- shared memory as PTX addresses it (PTX ISA, "State Spaces"): 32 bits, in the window of the block ---
__device__ inline unsigned shared_address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }
// --- mbarriers (PTX ISA, "mbarrier"), by their address in shared memory ---
// One thread initializes an mbarrier for a number of arrivals per phase. It must not be used before the fence and a
// barrier of the block.
__device__ inline void mbarrier_init(unsigned mbarrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(arrivals) : "memory");
}
__device__ inline void mbarrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Arrives, and makes the phase wait for this many bytes, too. One thread calls it, before it issues the copies.
__device__ inline void mbarrier_arrive_expect_tx(unsigned mbarrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes) : "memory");
}
// Waits until the phase with this parity has completed. Every thread that reads the data must wait itself.
__device__ inline void mbarrier_wait(unsigned mbarrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra AGAIN;\n}" ::"r"(mbarrier), "r"(parity) : "memory");
}
// Arrives once, and releases the earlier writes of this thread.
__device__ inline void mbarrier_arrive(unsigned mbarrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}
// --- clusters (PTX ISA, "mapa"): the shared memory of other blocks ---
// Returns the same address in the shared memory of the block with this rank.
__device__ inline unsigned map_shared_rank(unsigned here, int rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    return there;
}
// Arrives once at the mbarrier with this address in a block of the cluster, which may be this block.
__device__ inline void mbarrier_arrive_rank(unsigned mbarrier, int rank) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(map_shared_rank(mbarrier, rank)) : "memory");
}
// --- the copy engine, TMA (PTX ISA, "cp.async.bulk.tensor"): one thread copies boxes of a tensor ---
// The driver's encoding of a [[tensor_map]]. A kernel takes it as `const __grid_constant__ TensorMap`.
struct alignas(128) TensorMap {
    unsigned char bytes[128];
};
// Makes writes and mbarriers of this thread visible to the copy engine.
__device__ inline void fence_proxy_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Loads the box at these coordinates, innermost first, and signals its bytes to the mbarrier. Parts outside of the
// tensor are filled with zeros.
__device__ inline void tma_load_2d(unsigned to, const TensorMap& map, int x0, int x1, unsigned mbarrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        ::"r"(to), "l"(&map), "r"(x0), "r"(x1), "r"(mbarrier) : "memory");
}
// --- wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"): all 128 threads of a warpgroup call each of these ---
// Describes a matrix in shared memory with 128-byte swizzle: 8 rows of 128 bytes take 1,024 bytes. The distance between
// columns of 64 elements is `column_bytes`, which matters only if a product reads more than one of them.
__device__ inline unsigned long long wgmma_descriptor(unsigned address, unsigned column_bytes) {
    return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(column_bytes >> 4) << 16 |
           (unsigned long long)(1024 >> 4) << 32 | 1ull << 62;
}
// Call this before the first product, and whenever registers that products use have been written.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most N groups of products are in flight.
template <int N>
__device__ inline void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// Tells the compiler that registers change here: wgmma writes them asynchronously, until the preceding wait.
template <int N>
__device__ inline void wgmma_fence_operand(float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
// d (64 x 16) = a b over 16 terms, or += if `add` is not 0, which may be a runtime value. Both are
// in shared memory, with the terms along their rows, or across them if they are transposed.
template <int A_TRANSPOSED, int B_TRANSPOSED>
__device__ inline void wgmma_ss(float (&d)[8], unsigned long long a, unsigned long long b, int add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, add, 1, 1, %11, %12;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b), "r"(add), "n"(A_TRANSPOSED), "n"(B_TRANSPOSED));
}
// --- barriers for some warps of a block (PTX ISA, "bar"): number 0 is that of __syncthreads; THREADS counts all threads that arrive ---
template <int THREADS>
__device__ inline void named_barrier_sync(int number) { asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory"); }

// --- what follows the sums of a linear layer: scales, bias, activation, gate and residual, in this order ---
__device__ inline float activated(float x) {
return x;
}
struct Epilogue {
    int M, N;
// The scale of a row of x.
    __device__ float of_row(int row) const { return 1.f; }
    // The sum of a row of w, which is a column of y or, from N on, of the second product.
    __device__ float affine(float of_row, int of_w, float sum) const {
        return sum;
    }
    // An element of y, from its sum and that of the second product.
    __device__ float value(float of_row, int row, int column, float sum, float second) const {
        column = min(column, N - 1);
        const float first = activated(affine(of_row, column, sum));
        return first;
    }
};

__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline void st_cluster(unsigned to, float x) { asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory"); }

extern "C" __global__ void __launch_bounds__(288, 1)
multiply(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map, Out* __restrict__ y, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    // The swizzle depends on the address, so stages start at multiples of 1,024.
    const unsigned start = shared_address(dynamic), ring = (start + 1023) & ~1023u;
    const unsigned full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const int warp = warp_index(), lane = threadIdx.x % 32;
    const int split = blockIdx.x % SPLITS, tile = blockIdx.x / SPLITS;
    // Blocks that need the same rows of w follow each other, so that they find them in L2.
    const int tiles = (M + ROWS - 1) / ROWS, row = tile % tiles * ROWS, column = tile / tiles * COLUMNS;
    const int all_steps = (K + TERMS - 1) / TERMS;
    const int first = all_steps * split / SPLITS, steps = all_steps * (split + 1) / SPLITS - first;

    const auto request = [&](int step, int stage) {
        const unsigned to = ring + stage * STAGE_BYTES, barrier = full + stage * 8;
        mbarrier_arrive_expect_tx(barrier, STAGE_BYTES);
#pragma unroll
        for (int box = 0; box < BOXES; ++box) {
            const int k = (first + step) * TERMS + box * (TERMS / BOXES);
#pragma unroll
            for (int product = 0; product < PRODUCTS; ++product)
                tma_load_2d(to + (box * PRODUCTS + product) * W_BOX, w_map, k, product * N + column, barrier);
            tma_load_2d(to + BOXES * PRODUCTS * W_BOX + box * X_BOX, x_map, k, row, barrier);
        }
    };
    // One thread initializes the barriers and loads the first stages at once, before other threads use the barriers.
    if (threadIdx.x == WGS * 128) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full + stage * 8, 1);
            // A warp waits only for its own part of the products.
            mbarrier_init(empty + stage * 8, 4);
        }
        mbarrier_init_fence();
        fence_proxy_async_shared();
        for (int step = 0; step < min(steps, STAGES); ++step) request(step, step);
    }
    __syncthreads();
    // Before another block writes to its shared memory, a block must have begun.
    if (SPLITS > 1) cluster_arrive();
    if (warp == WGS * 4) {
        if (lane == 0) {
            int stage = 0;
            unsigned parity = 0;
            for (int step = STAGES; step < steps; ++step) {
                mbarrier_wait(empty + stage * 8, parity);
                request(step, stage);
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
        }
        __syncwarp();
        if (SPLITS > 1) {
            cluster_wait();
            cluster_arrive();
            cluster_wait();
        }
        return;
    }

    const int wg = warp / 4;
    float sums[PRODUCTS][NS];
#pragma unroll
    for (int product = 0; product < PRODUCTS; ++product)
#pragma unroll
        for (int i = 0; i < NS; ++i) sums[product][i] = 0.f;
int stage = wg;
    unsigned parity = 0;
    for (int step = wg; step < steps; step += WGS) {
        mbarrier_wait(full + stage * 8, parity);
        const unsigned w = ring + stage * STAGE_BYTES, x = w + BOXES * PRODUCTS * W_BOX;
        wgmma_fence();
        // A product takes 32 bytes along the rows. Descriptors count in 16 bytes.
#pragma unroll
        for (int k = 0; k < BOXES * 4; ++k)
#pragma unroll
            for (int product = 0; product < PRODUCTS; ++product)
                wgmma_ss<0, 0>(sums[product], wgmma_descriptor(w + (k / 4 * PRODUCTS + product) * W_BOX, 16) + k % 4 * 2,
                               wgmma_descriptor(x + k / 4 * X_BOX, 16) + k % 4 * 2, 1);
        wgmma_commit();
        wgmma_wait<0>();
#pragma unroll
        for (int product = 0; product < PRODUCTS; ++product) {
wgmma_fence_operand(sums[product]);
}
        if (lane == 0) mbarrier_arrive(empty + stage * 8);
        if ((stage += WGS) >= STAGES) stage = wg, parity ^= 1;
    }

    // Shares of sums are stored after the ring: those of the other warpgroups, then those of the other blocks.
    constexpr int SHARE = PRODUCTS * NS * 128;
    const int thread = threadIdx.x % 128;
    float* const shares = reinterpret_cast<float*>(dynamic + (ring - start) + STAGES * STAGE_BYTES) + thread;
    // The first warpgroup adds those of the others.
    if constexpr (WGS > 1) {
        if (wg > 0) {
#pragma unroll
            for (int i = 0; i < PRODUCTS * NS; ++i) shares[(wg - 1) * SHARE + i * 128] = sums[i / NS][i % NS];
        }
        named_barrier_sync<WGS * 128>(1);
        if (wg == 0) {
#pragma unroll
            for (int other = 0; other < WGS - 1; ++other)
#pragma unroll
                for (int i = 0; i < PRODUCTS * NS; ++i) sums[i / NS][i % NS] += shares[other * SHARE + i * 128];
        }
    }
    if constexpr (SPLITS > 1) {
        constexpr int OTHERS = WGS - 1;
        cluster_wait();
        if (split > 0 && wg == 0) {
            const unsigned to = map_shared_rank(ring + STAGES * STAGE_BYTES + ((OTHERS + split - 1) * SHARE + thread) * 4, 0);
#pragma unroll
            for (int i = 0; i < PRODUCTS * NS; ++i) st_cluster(to + i * 512, sums[i / NS][i % NS]);
        }
        cluster_arrive();
        cluster_wait();
        if (split > 0) return;
        if (wg == 0) {
#pragma unroll
            for (int other = 0; other < SPLITS - 1; ++other)
#pragma unroll
                for (int i = 0; i < PRODUCTS * NS; ++i) sums[i / NS][i % NS] += shares[(OTHERS + other) * SHARE + i * 128];
        }
    }
    if (wg > 0) return;

    const Epilogue epilogue{M, N};
    // Eight lanes have adjacent elements of a row.
#pragma unroll
    for (int i = 0; i < NS; ++i) {
        const int at_row = row + i / 4 * 8 + lane % 4 * 2 + i % 2, at_column = column + warp * 16 + i / 2 % 2 * 8 + lane / 4;
        if (at_row < M && at_column < N)
            narrow(epilogue.value(epilogue.of_row(at_row), at_row, at_column, sums[0][i], sums[PRODUCTS - 1][i]), y[(size_t)at_row * N + at_column]);
    }
}
