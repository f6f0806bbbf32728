// gemm-splitk for f16, 
// SPLITS=8 WGS=2 MT=1 BN=128 STAGES=6 CM=2 CN=1 LATE=3 PART_BITS=16 COMBINE_THREADS=64
// Matrix product with few tiles on Hopper's tensor cores: c = a b, all row-major, f16 with f32 sums, the sums split over blocks.
//
// If c has fewer tiles than the GPU has multiprocessors, because it has few rows or long sums, the sums are split:
// SPLITS blocks compute the same tile, each over its own share of the terms, and store their sums in a workspace
// ("split-K", as in CUTLASS and cuBLAS). A second kernel adds them in a fixed order, so the same inputs give the same
// bytes. Its launch is programmatic (CUDA C++ Programming Guide, "Programmatic Dependent Launch"): it begins when the
// first kernel has no blocks left to start, and waits for their results. (If it may start earlier, its blocks crowd on
// multiprocessors that have no block of the first kernel: 0.4 us lost.) Two other methods were slower (H200,
// 2026-11-21, `optloop bench` on m16n8192k8192, the best configuration tried of each): this method takes 35.1 us
// (SPLITS=4, BN=256, STAGES=3). It is 37.0 with the same configuration if the last block adds the shares, and 37.8 if
// the blocks of a tile form a cluster that adds them through shared memory (SPLITS=2, BN=128, STAGES=5).
//
// With few rows, the product is bound by reading b once. Its speed then depends on the number of bytes in flight
// (STAGES boxes per block) on every multiprocessor; it does not matter that most rows of a tile are zeros. With long
// sums, the loop is bound by the tensor cores, whose clock drops under this load. The rest of the time is spent at the
// end, where the shares pass through L2 twice. This part is larger for larger tiles.
//
// gemm-wgmma explains how a block loads and multiplies: one thread loads boxes of 64 terms by tensor copies into a ring
// with mbarriers, and the other warpgroups multiply them with wgmma.
#include <cuda_fp16.h>

constexpr int WGS = 2;           // warpgroups that multiply, 64 * MT rows each
constexpr int MT = 1;            // groups of 64 rows of a warpgroup
constexpr int BN = 128;          // columns of a tile
constexpr int STAGES = 6;        // stages of the ring in shared memory
constexpr int CM = 2, CN = 1;    // rows and columns of blocks in a cluster
constexpr int SPLITS = 8;        // shares of the terms of a sum
constexpr int LATE = 3;          // stages at the end of a share that the second warpgroup multiplies after the first
constexpr int PART_BITS = 16;    // of a stored partial sum
constexpr int COMBINE_THREADS = 64;

constexpr int BM = WGS * MT * 64;  // rows of a tile
constexpr int BK = 64;             // terms of a stage: rows of 128 bytes, as the swizzle requires
constexpr int CLUSTER = CM * CN;
constexpr int NC = BN / 2;         // sums of a thread in a group of 64 rows
constexpr unsigned A_BYTES = BM * BK * 2, STAGE_BYTES = (BM + BN) * BK * 2;
constexpr unsigned COLUMN_BYTES = 64 * BK * 2;  // 64 columns of b

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
// Prefetches a map, which the copy engine reads from memory before the first copy.
__device__ inline void tma_prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
// Loads the box at these coordinates, innermost first, and signals its bytes to the mbarrier. Parts outside of the
// tensor are filled with zeros.
__device__ inline void tma_load_2d(unsigned to, const TensorMap& map, int x0, int x1, unsigned mbarrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        ::"r"(to), "l"(&map), "r"(x0), "r"(x1), "r"(mbarrier) : "memory");
}
// The same for every block of the cluster whose bit is set: to the same address, with the mbarrier at the same address.
__device__ inline void tma_load_2d_multicast(unsigned to, const TensorMap& map, int x0, int x1, unsigned mbarrier, unsigned short blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
        ::"r"(to), "l"(&map), "r"(x0), "r"(x1), "r"(mbarrier), "h"(blocks) : "memory");
}
// --- blocks of a cluster that share their loads, for families whose CLUSTER may be 1 ---
// Arrives at the mbarrier with this address in a block of the cluster.
__device__ inline void mbarrier_arrive_at(unsigned mbarrier, int rank) {
    if (CLUSTER == 1) {
        mbarrier_arrive(mbarrier);
    } else {
        mbarrier_arrive_rank(mbarrier, rank);
    }
}
// Loads the box at (x, y), for every block in `blocks` if that contains more than this one.
__device__ inline void load(unsigned to, const TensorMap& map, int x, int y, unsigned mbarrier, unsigned short blocks, bool multicast) {
    if (multicast) {
        tma_load_2d_multicast(to, map, x, y, mbarrier, blocks);
    } else {
        tma_load_2d(to, map, x, y, mbarrier);
    }
}
// --- barriers for some warps of a block (PTX ISA, "bar"): number 0 is that of __syncthreads; THREADS counts all threads that arrive ---
template <int THREADS>
__device__ inline void named_barrier_sync(int number) { asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory"); }
// Arrives without waiting.
template <int THREADS>
__device__ inline void named_barrier_arrive(int number) { asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(THREADS) : "memory"); }
// --- registers from one warpgroup to others (PTX ISA, "setmaxnreg"): all 128 threads of a warpgroup call it ---
template <int N>
__device__ inline void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N>
__device__ inline void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
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
// d (64 x 128) = a b over 16 terms, or += if `add` is not 0, which may be a runtime value. Both are
// in shared memory, with the terms along their rows, or across them if they are transposed.
template <int A_TRANSPOSED, int B_TRANSPOSED>
__device__ inline void wgmma_ss(float (&d)[64], unsigned long long a, unsigned long long b, int add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, add, 1, 1, %67, %68;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(add), "n"(A_TRANSPOSED), "n"(B_TRANSPOSED));
}
// Rounds two numbers to FP16 and packs them into one operand register: the first in the lower half.
__device__ inline unsigned pack_half2(float low, float high) {
    const __half2 h = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&h);
}

// The larger number, or NaN if one of them is NaN.
__device__ inline float larger(float a, float b) {
    float x;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
    return x;
}

// Sums of products of FP16 numbers are below this, or infinite, or NaN.
constexpr float LARGEST_SUM = 1e38f;

// Integers for values that are not finite, and the largest integer for a finite value in the same row.
constexpr float LARGEST_BESIDE = 32764, INFINITE = 32766, UNDEFINED = 32767;

// The value of a partial sum that was stored as an integer. The unit is negative if its row has values that are not finite.
__device__ inline float stored_value(int stored, float unit) {
    if (unit >= 0) return (float)stored * unit;
    if (stored == (int)UNDEFINED) return __int_as_float(0x7fffffff);
    if (abs(stored) == (int)INFINITE) return __int_as_float(stored > 0 ? 0x7f800000 : 0xff800000);
    return (float)stored * -unit;
}

extern "C" __global__ void __launch_bounds__(384, 1)
multiply(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* __restrict__ parts,
         float* __restrict__ scales, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    // The swizzle depends on the address, so tiles start at multiples of 1,024.
    const unsigned ring = (shared_address(dynamic) + 1023) & ~1023u;
    const unsigned full = shared_address(full_barriers), empty = shared_address(empty_barriers);

    const int warp = warp_index(), lane = threadIdx.x % 32;
    const int rank = CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER;
    const int split = blockIdx.x / CLUSTER % SPLITS, tile = blockIdx.x / (CLUSTER * SPLITS);
    // Blocks of the same share start one after the other, first those that read the same columns.
    const int down = (M + BM * CM - 1) / (BM * CM);
    const int row = (tile % down * CM + rank % CM) * BM, column = (tile / down * CN + rank / CM) * BN;
    const int all_steps = (K + BK - 1) / BK;
    const int first = all_steps * split / SPLITS, steps = all_steps * (split + 1) / SPLITS - first;

    // The loader loads boxes for this block alone, and boxes that other blocks of the cluster need, too.
    const int rank_m = rank % CM, rank_n = rank / CM;
    const auto load_own = [&](int step, int stage) {
        const unsigned at = ring + stage * STAGE_BYTES, barrier = full + stage * 8;
        mbarrier_arrive_expect_tx(barrier, STAGE_BYTES);
        if (CN == 1) load(at, a_map, (first + step) * BK, row, barrier, 0, false);
        // A box is 64 columns wide, the longest row that the swizzle supports. (Boxes of fewer rows, which load
        // adjacent columns sooner after each other, were slower: 35.5 us with 16 and 45.1 with 8 instead of 35.1 with
        // 64; H200, 2026-11-21, 16 rows.)
        if (CM == 1)
#pragma unroll
            for (int n = 0; n < BN / 64; ++n)
                load(at + A_BYTES + n * COLUMN_BYTES, b_map, column + n * 64, (first + step) * BK, barrier, 0, false);
    };
    const auto load_shared = [&](int step, int stage) {
        const unsigned at = ring + stage * STAGE_BYTES, barrier = full + stage * 8;
        constexpr int ROWS = BM / CN, COLUMNS = BN / 64 / CM;
        // Blocks that need the same rows of a, and those that need the same columns of b.
        unsigned short beside = 0, above = 0;
        for (int n = 0; n < CN; ++n) beside |= 1 << (n * CM + rank_m);
        for (int m = 0; m < CM; ++m) above |= 1 << (rank_n * CM + m);
        if (CN > 1) load(at + rank_n * ROWS * 128, a_map, (first + step) * BK, row + rank_n * ROWS, barrier, beside, true);
        if (CM > 1)
#pragma unroll
            for (int n = 0; n < COLUMNS; ++n) {
                const int x = rank_m * COLUMNS + n;
                load(at + A_BYTES + x * COLUMN_BYTES, b_map, column + x * 64, (first + step) * BK, barrier, above, true);
            }
    };

    // All loads start as early as possible: the maps while the barriers are initialized, and the first boxes that no
    // other block needs while the cluster synchronizes. (Loading more than one stage early delays the shared boxes of
    // the first: it loses 0.7 us, while one stage gains 0.3; H200, 2026-11-22, sums of 16384.)
    if (threadIdx.x == 32) tma_prefetch(a_map);
    if (threadIdx.x == 64) tma_prefetch(b_map);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full + stage * 8, 1);
            // Every warp that reads what this block loads, in all blocks that get it.
            mbarrier_init(empty + stage * 8, WGS * 4 * (CM + CN - 1));
        }
        mbarrier_init_fence();
        fence_proxy_async_shared();
    }
    __syncwarp();
    if (CLUSTER > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    if (threadIdx.x == 0) load_own(0, 0);
    __syncwarp();
    if (CLUSTER > 1) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    else __syncthreads();

    if (warp < 4) {
        // The loader.
        if (WGS == 2) setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            load_shared(0, 0);
            int stage = 1;
            unsigned parity = 1;  // initially, all stages are empty
            for (int step = 1; step < steps; ++step) {
                mbarrier_wait(empty + stage * 8, parity);
                load_own(step, stage);
                load_shared(step, stage);
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
        }
    } else {
        if (WGS == 2) setmaxnreg_inc<232>();
        const int wg = warp / 4 - 1;
        const unsigned rows_at = wg * MT * (64 * 128);
        // Each lane signals one of the blocks that loaded a part of a stage that this warp is done with it.
        const bool tells = lane < CLUSTER && (lane % CM == rank % CM || lane / CM == rank / CM);
        // The last stages are multiplied by one warpgroup after the other, each at the tensor cores' full rate, so that
        // the first warpgroup stores its sums while the second still multiplies. Neither has to wait for loads, because
        // LATE stages fit in the ring.
        const int turn = max(steps - LATE, 0);

        float c[MT][NC];
        int stage = 0, before = 0;  // `before` is the stage that was multiplied last
        unsigned parity = 0;
        for (int step = 0; step < steps; ++step) {
            if (LATE && wg == 1 && step == turn) named_barrier_sync<256>(1);
            mbarrier_wait(full + stage * 8, parity);
            const unsigned at = ring + stage * STAGE_BYTES;
            const unsigned long long a = wgmma_descriptor(at + rows_at, COLUMN_BYTES), b = wgmma_descriptor(at + A_BYTES, COLUMN_BYTES);
            wgmma_fence();
            // 16 terms are 32 bytes along the rows of a, and 16 rows of b. Descriptors count in 16 bytes.
#pragma unroll
            for (int k = 0; k < BK / 16; ++k)
#pragma unroll
                for (int m = 0; m < MT; ++m) wgmma_ss<0, 1>(c[m], a + m * (64 * 128 / 16) + k * 2, b + k * 128, step | k);
            wgmma_commit();
            if (LATE && wg == 0 && step == steps - 1) named_barrier_arrive<256>(1);
            // The products of the previous stage are complete, while these run.
            wgmma_wait<1>();
            // There is no signal for a stage that is not filled again. So a block may exit before other blocks of its
            // cluster: its loader has already waited for all signals that they send.
            if (step > 0 && step - 1 + STAGES < steps && tells) mbarrier_arrive_at(empty + before * 8, lane);
            before = stage;
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        wgmma_wait<0>();

        // The sums are stored in the order in which the threads hold them: 16 rows of a warp together, in groups of 8
        // columns with 4 floats per lane, so that a warp writes 512 contiguous bytes. (In the order of c, with 8 bytes
        // per lane, both kernels together take 0.7 us more; H200, 2026-11-22, sums of 16384.)
        const int bands = (M + 15) / 16;  // of 16 rows
#pragma unroll
        for (int m = 0; m < MT; ++m) {
            wgmma_fence_operand(c[m]);
            const int band = row / 16 + (wg * MT + m) * 4 + warp % 4;
            // A cluster's last tiles may be outside of the matrix.
            if (band >= bands || column >= N) continue;
            if (PART_BITS == 32) {
                float4* const to = reinterpret_cast<float4*>(parts) + ((size_t)split * bands + band) * (N / 8) * 32 + lane;
#pragma unroll
                for (int n = 0; n < BN / 8; ++n)
                    if (column / 8 + n < N / 8)
                        to[(column / 8 + n) * 32] = make_float4(c[m][n * 4], c[m][n * 4 + 1], c[m][n * 4 + 2], c[m][n * 4 + 3]);
            } else {
                // As integers of 16 bits, of which the largest of a row is 32,767: rounding is off by at most 1.5e-5 of that one, where
                // FP16 is off by up to 4.9e-4 of every element, as c is in the end. 32 columns are together, the two rows of a thread apart.
                const int across_32 = (N + 31) / 32, all_across = (N + BN - 1) / BN;
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    float most = 1e-30f;
#pragma unroll
                    for (int n = 0; n < BN / 8; ++n)
                        most = larger(most, larger(fabsf(c[m][n * 4 + r * 2]), fabsf(c[m][n * 4 + r * 2 + 1])));
                    most = larger(most, __shfl_xor_sync(0xffffffffu, most, 1));
                    most = larger(most, __shfl_xor_sync(0xffffffffu, most, 2));
                    // Values that are not finite have integers of their own: they must neither become finite nor reach their
                    // neighbours through the scale. A negative unit says that the row has some.
                    float unit = most * (1 / 32767.f), scale = 32767.f / most, sign = 1;
                    if (__any_sync(0xffffffffu, !(most <= LARGEST_SUM))) {
                        const bool has_some = !(most <= LARGEST_SUM);
                        float finite = 1e-30f;
#pragma unroll
                        for (int n = 0; n < BN / 8; ++n)
#pragma unroll
                            for (int i = 0; i < 2; ++i) {
                                const float size = fabsf(c[m][n * 4 + r * 2 + i]);
                                if (size <= LARGEST_SUM) finite = fmaxf(finite, size);
                            }
                        finite = fmaxf(finite, __shfl_xor_sync(0xffffffffu, finite, 1));
                        finite = fmaxf(finite, __shfl_xor_sync(0xffffffffu, finite, 2));
                        if (has_some) {
                            unit = finite * (1.f / LARGEST_BESIDE), scale = LARGEST_BESIDE / finite, sign = -1;
#pragma unroll
                            for (int n = 0; n < BN / 8; ++n)
#pragma unroll
                                for (int i = 0; i < 2; ++i) {
                                    float& value = c[m][n * 4 + r * 2 + i];
                                    if (!(fabsf(value) <= LARGEST_SUM)) value = (value > 0 ? INFINITE : value < 0 ? -INFINITE : UNDEFINED) * unit;
                                }
                        }
                    }
                    if (lane % 4 == 0) scales[(((size_t)split * bands + band) * all_across + column / BN) * 16 + r * 8 + lane / 4] = sign * unit;
                    uint4* const to = reinterpret_cast<uint4*>(parts) + ((size_t)split * bands + band) * across_32 * 64 + r * 32 + lane;
#pragma unroll
                    for (int n = 0; n < BN / 32; ++n) {
                        unsigned words[4];
#pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            // To a float of 1.5 * 2^23 its integer is added in the lowest bits, rounded.
                            const float* const pair = &c[m][(n * 4 + j) * 4 + r * 2];
                            words[j] = __byte_perm(__float_as_uint(fmaf(pair[0], scale, 12582912.f)), __float_as_uint(fmaf(pair[1], scale, 12582912.f)), 0x5410);
                        }
                        if (column / 32 + n < across_32) to[(column / 32 + n) * 64] = make_uint4(words[0], words[1], words[2], words[3]);
                    }
                }
            }
        }
    }
}

// Adds the shares of 16 rows and COLUMNS columns. Every warp has 16 rows and 8 columns of floats, or 8 rows and 32
// columns of integers.
extern "C" __global__ void __launch_bounds__(COMBINE_THREADS)
combine(const float* __restrict__ parts, const float* __restrict__ scales, __half* __restrict__ c, int M, int N) {
    constexpr int COLUMNS = COMBINE_THREADS * 8 / PART_BITS;
    __shared__ __align__(16) unsigned out[16][COLUMNS / 2 + 4];  // pairs; 4 more, so that rows begin in other banks
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, band = blockIdx.y, bands = gridDim.y, column = blockIdx.x * COLUMNS;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (PART_BITS == 32) {
        if (column / 8 + warp < N / 8) {
            const float4* const from = reinterpret_cast<const float4*>(parts) + ((size_t)band * (N / 8) + column / 8 + warp) * 32 + lane;
            float4 sum = {0, 0, 0, 0};
#pragma unroll
            for (int split = 0; split < SPLITS; ++split) {
                const float4 part = __ldcg(from + (size_t)split * bands * (N / 8) * 32);
                sum.x += part.x;
                sum.y += part.y;
                sum.z += part.z;
                sum.w += part.w;
            }
            out[lane / 4][warp * 4 + lane % 4] = pack_half2(sum.x, sum.y);
            out[lane / 4 + 8][warp * 4 + lane % 4] = pack_half2(sum.z, sum.w);
        }
    } else {
        const int across_32 = (N + 31) / 32, all_across = (N + BN - 1) / BN, r = warp % 2;
        if (column / 32 + warp / 2 < across_32) {
            const uint4* const from = reinterpret_cast<const uint4*>(parts) + ((size_t)band * across_32 + column / 32 + warp / 2) * 64 + r * 32 + lane;
            const float* const scale = scales + ((size_t)band * all_across + (column + warp / 2 * 32) / BN) * 16 + r * 8 + lane / 4;
            float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll
            for (int split = 0; split < SPLITS; ++split) {
                const uint4 part = __ldcg(from + (size_t)split * bands * across_32 * 64);
                const float by = __ldcg(scale + (size_t)split * bands * all_across * 16);
                const unsigned words[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    sum[j * 2] += stored_value((short)words[j], by);
                    sum[j * 2 + 1] += stored_value((int)words[j] >> 16, by);
                }
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) out[r * 8 + lane / 4][(warp / 2 * 4 + j) * 4 + lane % 4] = pack_half2(sum[j * 2], sum[j * 2 + 1]);
        }
    }
    __syncthreads();
    // Through shared memory, so that contiguous pieces of rows are written.
    constexpr int PER_THREAD = 64 / PART_BITS;  // pairs
    const int own = threadIdx.x / (COLUMNS / 2 / PER_THREAD), x = threadIdx.x % (COLUMNS / 2 / PER_THREAD) * PER_THREAD;
    if (band * 16 + own < M && column + x * 2 < N) {
        __half* const to = c + (size_t)(band * 16 + own) * N + column + x * 2;
        if (PART_BITS == 32) *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(&out[own][x]);
        else *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&out[own][x]);
    }
}
