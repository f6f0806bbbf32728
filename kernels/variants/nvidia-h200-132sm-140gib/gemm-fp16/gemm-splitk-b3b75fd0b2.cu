// gemm-splitk for f16, 
// SPLITS=8 WGS=2 MT=1 BN=128 STAGES=6 CM=2 CN=1 LATE=3 PART_BITS=16 COMBINE_THREADS=256
// Matrix product with few tiles on Hopper's tensor cores: c = a b, all row-major, f16 with f32 sums, the sums split over blocks.
//
// Where c has fewer tiles than the GPU has multiprocessors, because it has few rows or is small beside the length of its sums, the
// sums are split: SPLITS blocks compute the same tile, each over its own share of the terms, and leave their sums in a workspace
// ("split-K", as in CUTLASS and cuBLAS). A second kernel adds them, always in the same order, so the same inputs give the same bytes.
// Its launch is programmatic (CUDA C++ Programming Guide, "Programmatic Dependent Launch"): it begins when the first has no blocks left
// and waits for what they wrote. (Where they let it come earlier, its blocks crowd on multiprocessors that have no block of the first:
// 0.4 us lost.) Two other ways were slower (H200, 2026-11-21, `optloop bench` on m16n8192k8192, the best point that was
// tried of each): 35.1 us this way (SPLITS=4, BN=256, STAGES=3), 37.0 at the same point where the block that comes last adds the
// shares, 37.8 where the blocks of a tile are a cluster that adds them through shared memory (SPLITS=2, BN=128, STAGES=5).
//
// With few rows the product is bound by reading b once: then what counts is how many bytes are on their way, STAGES boxes a block, and
// that every multiprocessor has some; that most rows of a tile are zeros does not matter. With long sums the loop is bound by the tensor
// cores, whose clock sinks under it, and the rest of the time is the end: the shares' way through L2, twice. Larger tiles have more of it.
//
// How a block loads and multiplies is explained in gemm-wgmma: one thread asks for boxes of 64 terms by tensor copies, into a ring
// with barriers, and the other warpgroups multiply them by wgmma.
#include <cuda_fp16.h>

constexpr int WGS = 2;           // warpgroups that multiply, 64 * MT rows each
constexpr int MT = 1;            // groups of 64 rows of a warpgroup
constexpr int BN = 128;          // columns of a tile
constexpr int STAGES = 6;        // parts of the sums in shared memory
constexpr int CM = 2, CN = 1;    // blocks of a cluster, above and beside one another
constexpr int SPLITS = 8;        // shares of the terms of a sum
constexpr int LATE = 3;          // stages at the end of a share that the second warpgroup multiplies after the first
constexpr int PART_BITS = 16;    // of a sum that waits to be added
constexpr int COMBINE_THREADS = 256;

constexpr int BM = WGS * MT * 64;  // rows of a tile
constexpr int BK = 64;             // terms of a stage: rows of 128 bytes, as the swizzle wants them
constexpr int CLUSTER = CM * CN;
constexpr int NC = BN / 2;         // sums of a thread in a group of 64 rows
constexpr unsigned A_BYTES = BM * BK * 2, STAGE_BYTES = (BM + BN) * BK * 2;
constexpr unsigned COLUMN_BYTES = 64 * BK * 2;  // 64 columns of b

struct alignas(128) TensorMap {
    unsigned char bytes[128];
};

// Barriers in shared memory: `full` when a stage has arrived, `empty` when everyone who reads it is done.
__device__ inline void barrier_init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Arrives at the barrier of this place in a block of the cluster.
__device__ inline void barrier_arrive(unsigned barrier, int rank) {
    if (CLUSTER == 1) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
    } else {
        unsigned there;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(barrier), "r"(rank));
        asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
    }
}
__device__ inline void barrier_wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra AGAIN;\n}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ inline void prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// Asks for a box at (x, y), for every block in `mask` if that is more than this one.
__device__ inline void load(unsigned to, const TensorMap& map, int x, int y, unsigned barrier, unsigned short mask, bool multicast) {
    if (multicast) {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
            ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(mask) : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
            ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
    }
}

// Describes a matrix in shared memory with 128-byte swizzle: 8 rows of 128 bytes take 1,024, and from one column of 64 elements to
// the next it is COLUMN_BYTES, which only matters where a product reads more than one.
__device__ inline unsigned long long descriptor(unsigned address) {
    return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(COLUMN_BYTES >> 4) << 16 |
           (unsigned long long)(1024 >> 4) << 32 | 1ull << 62;
}
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ inline void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// Tells the compiler that registers change here: wgmma writes them behind its back, up to the wait before.
__device__ inline void changed(float (&x)[NC]) {
#pragma unroll
    for (int i = 0; i < NC; ++i) asm volatile("" : "+f"(x[i])::"memory");
}

// c (64 x BN) = a b over 16 terms, added to what is there if `add` is not 0.
__device__ inline void multiply_16(float (&c)[NC], unsigned long long a, unsigned long long b, int add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, add, 1, 1, 0, 1;\n}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
        : "l"(a), "l"(b), "r"(add));
}
// The larger one, or NaN if one is.
__device__ inline float larger(float a, float b) {
    float x;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
    return x;
}
__device__ inline unsigned pack(float low, float high) {
    const __half2 h = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&h);
}

extern "C" __global__ void __launch_bounds__(384, 1)
multiply(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* __restrict__ parts,
         float* __restrict__ scales, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    // The swizzle goes by the address: tiles start at multiples of 1,024.
    const unsigned ring = ((unsigned)__cvta_generic_to_shared(dynamic) + 1023) & ~1023u;
    const unsigned full = (unsigned)__cvta_generic_to_shared(full_barriers), empty = (unsigned)__cvta_generic_to_shared(empty_barriers);

    // Asked from lane 0, so that the compiler knows it to be one number a warp.
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int rank = CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER;
    const int split = blockIdx.x / CLUSTER % SPLITS, tile = blockIdx.x / (CLUSTER * SPLITS);
    // Blocks of the same share are started one after the other, and those among them that read the same columns.
    const int down = (M + BM * CM - 1) / (BM * CM);
    const int row = (tile % down * CM + rank % CM) * BM, column = (tile / down * CN + rank / CM) * BN;
    const int all_steps = (K + BK - 1) / BK;
    const int first = all_steps * split / SPLITS, steps = all_steps * (split + 1) / SPLITS - first;

    // What the loader asks for: boxes for this block alone, and those which it loads for others of the cluster, too.
    const int rank_m = rank % CM, rank_n = rank / CM;
    const auto load_own = [&](int step, int stage) {
        const unsigned at = ring + stage * STAGE_BYTES, barrier = full + stage * 8;
        barrier_expect(barrier, STAGE_BYTES);
        if (CN == 1) load(at, a_map, (first + step) * BK, row, barrier, 0, false);
        // A box is 64 columns wide, which is as much of a row as a swizzle takes. (Boxes of fewer rows, to have neighbouring columns
        // requested soon after one another, were slower: 35.5 us with 16 and 45.1 with 8, where 64 take 35.1.)
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

    // Everything is on its way as early as can be: the maps while the barriers are made, and the first boxes that concern nobody else
    // while the cluster meets. (Those of more stages keep the shared ones of the first waiting: 0.7 us lost where one brings 0.3.)
    if (threadIdx.x == 32) prefetch(a_map);
    if (threadIdx.x == 64) prefetch(b_map);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full + stage * 8, 1);
            // Every warp that reads what this block loads, in all blocks that get it.
            barrier_init(empty + stage * 8, WGS * 4 * (CM + CN - 1));
        }
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncwarp();
    if (CLUSTER > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    if (threadIdx.x == 0) load_own(0, 0);
    __syncwarp();
    if (CLUSTER > 1) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    else __syncthreads();

    if (warp < 4) {
        // The loader.
        if (WGS == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            load_shared(0, 0);
            int stage = 1;
            unsigned parity = 1;  // what was never full is empty
            for (int step = 1; step < steps; ++step) {
                barrier_wait(empty + stage * 8, parity);
                load_own(step, stage);
                load_shared(step, stage);
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
        }
    } else {
        if (WGS == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int wg = warp / 4 - 1;
        const unsigned rows_at = wg * MT * (64 * 128);
        // A lane tells one block that this warp is done with a stage: those that have loaded a part of it.
        const bool tells = lane < CLUSTER && (lane % CM == rank % CM || lane / CM == rank / CM);
        // The last stages are multiplied by one warpgroup after the other, each at the tensor cores' full rate, so that the sums of the first
        // leave while the second still multiplies. Both have all they need for it: LATE stages fit in the ring.
        const int turn = max(steps - LATE, 0);

        float c[MT][NC];
        int stage = 0, before = 0;  // `before` is the stage that was multiplied last
        unsigned parity = 0;
        for (int step = 0; step < steps; ++step) {
            if (LATE && wg == 1 && step == turn) asm volatile("bar.sync 1, 256;" ::: "memory");
            barrier_wait(full + stage * 8, parity);
            const unsigned at = ring + stage * STAGE_BYTES;
            const unsigned long long a = descriptor(at + rows_at), b = descriptor(at + A_BYTES);
            wgmma_fence();
            // 16 terms are 32 bytes along the rows of a, and 16 rows of b. Descriptors count in 16 bytes.
#pragma unroll
            for (int k = 0; k < BK / 16; ++k)
#pragma unroll
                for (int m = 0; m < MT; ++m) multiply_16(c[m], a + m * (64 * 128 / 16) + k * 2, b + k * 128, step | k);
            wgmma_commit();
            if (LATE && wg == 0 && step == steps - 1) asm volatile("bar.arrive 1, 256;" ::: "memory");
            // The products of the stage before are done, while these run.
            wgmma_wait<1>();
            // Nobody is told of a stage that is not filled again. So a block may leave before others of its cluster: all that they tell
            // it, its loader has waited for.
            if (step > 0 && step - 1 + STAGES < steps && tells) barrier_arrive(empty + before * 8, lane);
            before = stage;
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        wgmma_wait<0>();

        // The sums stay in the order in which the threads have them: 16 rows of a warp are together, and of these 8 columns, 4 floats
        // a lane, so that a warp writes 512 bytes in a row. (In the order of c, with 8 bytes a lane, both kernels take 0.7 us more.)
        const int bands = (M + 15) / 16;  // of 16 rows
#pragma unroll
        for (int m = 0; m < MT; ++m) {
            changed(c[m]);
            const int band = row / 16 + (wg * MT + m) * 4 + warp % 4;
            // A cluster's last tiles may lie outside.
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
                    // What is not finite makes its whole row of the tile NaN, through the scale: it never becomes a number.
                    const float scale = 32767.f / most;
                    if (lane % 4 == 0) scales[(((size_t)split * bands + band) * all_across + column / BN) * 16 + r * 8 + lane / 4] = most * (1 / 32767.f);
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

// Adds the shares of 16 rows and COLUMNS columns; every warp has 16 rows and 8 columns of floats, or 8 rows and 32 columns of integers.
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
            out[lane / 4][warp * 4 + lane % 4] = pack(sum.x, sum.y);
            out[lane / 4 + 8][warp * 4 + lane % 4] = pack(sum.z, sum.w);
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
                    sum[j * 2] += (float)(short)words[j] * by;
                    sum[j * 2 + 1] += (float)((int)words[j] >> 16) * by;
                }
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) out[r * 8 + lane / 4][(warp / 2 * 4 + j) * 4 + lane % 4] = pack(sum[j * 2], sum[j * 2 + 1]);
        }
    }
    __syncthreads();
    // Through shared memory, so that whole pieces of rows are written.
    constexpr int PER_THREAD = 64 / PART_BITS;  // pairs
    const int own = threadIdx.x / (COLUMNS / 2 / PER_THREAD), x = threadIdx.x % (COLUMNS / 2 / PER_THREAD) * PER_THREAD;
    if (band * 16 + own < M && column + x * 2 < N) {
        __half* const to = c + (size_t)(band * 16 + own) * N + column + x * 2;
        if (PART_BITS == 32) *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(&out[own][x]);
        else *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&out[own][x]);
    }
}
