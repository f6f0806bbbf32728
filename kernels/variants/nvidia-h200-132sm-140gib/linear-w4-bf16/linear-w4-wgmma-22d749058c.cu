// linear-w4-wgmma for bf16, GROUP=128
// ROWS=32 BK=128 STAGES=4 WGS=3 WIDE=1 SPLITS=2 SCALED=0 SYNC=0
// Linear layer with weights of 4 bits on Hopper's tensor cores: they are dequantised in registers, and x is read from shared memory.
//
// Operands are swapped, as in linear-rows: the block computes y^T = w^T x^T, so that columns of w use the dimension of wgmma that must
// be 64, and the rows of x use the other one. The first operand of wgmma may be in registers. A byte of w has the weights of two
// adjacent terms of a column, which is what a register of this operand holds. Which column is which row of the operand is free, so a
// thread takes adjacent ones: a load of 4 bytes gives two terms of four columns.
//
// With SCALED, a weight is multiplied by its scale, and rounded once more. Otherwise, the sums of a stage are, because all its terms
// share a scale. Then they need registers of their own.
//
// With SYNC, warps multiply by mma.sync, as in linear-w4-mma: it takes 2^p + q in place of q - zero, and less time for eight rows.
//
// The rest is as in linear-rows: one thread loads stages by tensor copies into a ring with mbarriers. WGS warpgroups take them in turns,
// each with sums of its own, or (WIDE) each has 64 columns of every stage. The SPLITS blocks of a cluster share the terms. The first block adds all sums in their order,
// so the same inputs give the same bytes.
#include <cuda_bf16.h>
using Elem = __nv_bfloat16;
using Pair = __nv_bfloat162;
__device__ inline Pair both(float x) { return __float2bfloat162_rn(x); }
constexpr float POWER = 128.f;
constexpr unsigned BITS_OF_POWER = 0x43004300u;

// --- weights of 4 bits: (q - zero) * scale ---
// One of several numbers, for both terms of a pair.
template <int WORDS>
__device__ inline Pair repeated(const unsigned (&numbers)[WORDS], int i) {
    const unsigned pair = __byte_perm(numbers[i / 2], 0, i % 2 ? 0x3232 : 0x1010);
    return *reinterpret_cast<const Pair*>(&pair);
}
// Returns POWER + q for the weights of two adjacent terms of a column, from byte `i` of `bytes`. The even term is in the lower half of the
// byte. POWER is 2^p in a format with p bits after the point, so setting its bits above q adds it.
__device__ inline unsigned raised(unsigned bytes, int i) {
    unsigned pair;
    // One instruction. The compiler makes two of (a & b) | c if b and c are constants.
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(pair) : "r"(__byte_perm(bytes, bytes >> 4, 0x4400 + 0x1111 * i)), "r"(0x000f000fu), "r"(BITS_OF_POWER));
    return pair;
}
// Returns two weights of a column. Subtracting POWER is exact, and subtracting the zero point rounds once.
__device__ inline unsigned dequantised(unsigned bytes, int i, Pair zero, Pair scale) {
    const unsigned bits = raised(bytes, i);
    Pair pair = __hsub2(__hsub2(*reinterpret_cast<const Pair*>(&bits), both(POWER)), zero);
return *reinterpret_cast<const unsigned*>(&pair);
}
constexpr int ROWS = 32;     // rows of x that a block computes
constexpr int BK = 128;       // terms of a stage
constexpr int STAGES = 4;
constexpr int WGS = 3;       // warpgroups that multiply
constexpr int SPLITS = 2;    // blocks that share the terms of a sum
constexpr bool SCALED = 0; // weights are multiplied by their scales, and not sums

constexpr unsigned ONES = 0x3f803f80u;  // twice
constexpr bool WIDE = 1;          // warpgroups have columns of their own
constexpr int TILES = WIDE ? 1 : 2;           // products of 64 columns of a warpgroup
constexpr int COLUMNS = WIDE ? WGS * 64 : 128;  // of a block
constexpr int TURNS = WIDE ? 1 : WGS;         // warpgroups that take stages in turns
constexpr int OWN = TILES * 2;                // adjacent columns of a thread
constexpr int ROW = 64;                       // columns of a tensor copy of weights
constexpr int NS = ROWS / 2;          // sums of a thread, of one product
constexpr int PIECES = 2;             // of a stage: one is dequantised while the other is multiplied
constexpr int PRODUCTS = BK / 16 / PIECES;
constexpr unsigned X_BOX = ROWS * 128, X_BYTES = BK / 64 * X_BOX, W_BYTES = BK / 2 * COLUMNS, SCALE_BYTES = COLUMNS * 2;
constexpr unsigned STAGE_BYTES = X_BYTES + W_BYTES;

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
// d (64 x 32) += a b over 16 terms: a is in registers, with the layout of the sums of a product. b
// is in shared memory, with the terms along its rows, or across them if it is transposed.
template <int B_TRANSPOSED>
__device__ inline void wgmma_rs(float (&d)[16], const unsigned (&a)[4], unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, 1, 1, 1, %21;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(B_TRANSPOSED));
}
// --- mma.sync (PTX ISA, "Matrix Fragments for mma.m16n8k16"): all lanes of a warp; d (16 x 8) += a (16 x 16) b (16 x 8), f16 with f32 sums ---
__device__ inline void mma_m16n8k16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// --- ldmatrix (PTX ISA, "ldmatrix"): all lanes of a warp; lane i has the address of row i % 8 of matrix i / 8, 8 x 8 of 16 bits each ---
__device__ inline void ldmatrix_x4(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
__device__ inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
// --- the 128-byte swizzle of tensor maps and wgmma (PTX ISA, "Swizzling Modes"), for rows of 128 bytes from a multiple of 1,024 on ---
// Returns the address of the 16 bytes at `chunk` of a row in `rows`: eight adjacent rows have the same chunk at eight
// different positions, which cover all banks.
__device__ inline unsigned swizzle_128b(unsigned rows, int row, int chunk) { return rows + row * 128 + ((chunk ^ (row & 7)) << 4); }
// --- barriers for some warps of a block (PTX ISA, "bar"): number 0 is that of __syncthreads; THREADS counts all threads that arrive ---
template <int THREADS>
__device__ inline void named_barrier_sync(int number) { asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory"); }
// Rounds two numbers to BF16 and packs them into one operand register: the first in the lower half.
__device__ inline unsigned pack_half2(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline void st_cluster(unsigned to, float x) { asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory"); }
// Loads a byte of each of a thread's columns.
__device__ inline unsigned ld_columns(unsigned from) {
    unsigned x;
    if (OWN == 4) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    else asm volatile("ld.shared.u16 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}
// Loads a number of each of them.
__device__ inline void ld_numbers(unsigned (&x)[OWN / 2], unsigned from) {
#pragma unroll
    for (int i = 0; i < OWN / 2; ++i) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x[i]) : "r"(from + i * 4) : "memory");
}

extern "C" __global__ void __launch_bounds__(416, 1)
multiply(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map, const __grid_constant__ TensorMap scales_map,
         const __grid_constant__ TensorMap zeros_map, Elem* __restrict__ y, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    __shared__ __align__(128) unsigned char scales_ring[STAGES][2 * SCALE_BYTES];
    // The swizzle depends on the address, so stages start at multiples of 1,024.
    const unsigned start = shared_address(dynamic), ring = (start + 1023) & ~1023u;
    const unsigned full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const int warp = warp_index(), lane = threadIdx.x % 32;
    const int split = blockIdx.x % SPLITS, tile = blockIdx.x / SPLITS;
    // Blocks that need the same columns of w follow each other, so that they find them in L2.
    const int tiles = (M + ROWS - 1) / ROWS, row = tile % tiles * ROWS, column = tile / tiles * COLUMNS;
    const int all_steps = K / BK;
    const int first = all_steps * split / SPLITS, steps = all_steps * (split + 1) / SPLITS - first;

    const auto request = [&](int step, int stage) {
        const unsigned to = ring + stage * STAGE_BYTES, scales = shared_address(scales_ring[stage]), barrier = full + stage * 8;
        const int k = (first + step) * BK;
        mbarrier_arrive_expect_tx(barrier, STAGE_BYTES + 2 * SCALE_BYTES);
#pragma unroll
        for (int box = 0; box < COLUMNS / ROW; ++box) tma_load_2d(to + X_BYTES + box * (BK / 2 * ROW), w_map, column + box * ROW, k / 2, barrier);
        tma_load_2d(scales, scales_map, column, k / 128, barrier);
        tma_load_2d(scales + SCALE_BYTES, zeros_map, column, k / 128, barrier);
#pragma unroll
        for (int box = 0; box < BK / 64; ++box) tma_load_2d(to + box * X_BOX, x_map, k + box * 64, row, barrier);
    };
    // One thread initializes the barriers and loads the first stages at once, before other threads use the barriers.
    if (threadIdx.x == WGS * 128) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full + stage * 8, 1);
            mbarrier_init(empty + stage * 8, WGS / TURNS * 4);
        }
        mbarrier_init_fence();
        fence_proxy_async_shared();
        for (int step = 0; step < min(steps, STAGES); ++step) request(step, step);
    }
    __syncthreads();
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
            cluster_arrive();
            cluster_wait();
            cluster_arrive();
            cluster_wait();
        }
        return;
    }

    // The thread's columns, and its place in the rows of weights: that of the terms `lane % 4` of eight pairs. The swizzle of rows of 64
    // bytes repeats after eight rows, and two adjacent ones have the same.
    const int wg = warp / 4, wg_turn = WIDE ? 0 : wg, own = (WIDE ? warp : warp % 4) * (8 * OWN) + lane / 4 * OWN;
    const unsigned chunk = (own % ROW >> 4) ^ lane % 4 / 2, place = own / ROW * (BK / 2 * ROW) + lane % 4 * ROW + (own & 15);
    const unsigned at_first = place + (chunk << 4), at_second = place + 4 * ROW + ((chunk ^ 2) << 4);
    float sums[TILES][NS], of_stage[TILES][NS];
#pragma unroll
    for (int i = 0; i < TILES * NS; ++i) sums[i / NS][i % NS] = 0.f;
unsigned w[PIECES][PRODUCTS][TILES][4];
    const auto wait_for_operands = [&](int piece) {
#pragma unroll
        for (int i = 0; i < PRODUCTS * TILES * 4; ++i) asm volatile("" : "+r"(w[piece][i / (TILES * 4)][i / 4 % TILES][i % 4])::"memory");
    };
int stage = wg_turn, before = 0;
    unsigned parity = 0;
    for (int step = wg_turn; step < steps; step += TURNS) {
        mbarrier_wait(full + stage * 8, parity);
        const unsigned x = ring + stage * STAGE_BYTES, bytes = x + X_BYTES, of_own = shared_address(scales_ring[stage]) + own * 2;
        unsigned scales[OWN / 2], zeros[OWN / 2];
        ld_numbers(scales, of_own);
        ld_numbers(zeros, of_own + SCALE_BYTES);
if (!SCALED) {
#pragma unroll
            for (int i = 0; i < TILES * NS; ++i) of_stage[i / NS][i % NS] = 0.f;
        }
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            if (SCALED) {
                // The products before the last ones are complete, and so are those of the stage before.
                wgmma_wait<1>();
                wait_for_operands(piece);
                if (piece == 1 && step > wg_turn && lane == 0) mbarrier_arrive(empty + before * 8);
            }
#pragma unroll
            for (int k = 0; k < PRODUCTS; ++k) {
                const unsigned at = bytes + (piece * PRODUCTS + k) * (8 * ROW);
                const unsigned of_terms[2] = {ld_columns(at + at_first), ld_columns(at + at_second)};
#pragma unroll
                for (int i = 0; i < OWN; ++i)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        w[piece][k][i / 2][half * 2 + i % 2] = dequantised(of_terms[half], i, repeated(zeros, i), repeated(scales, i));
            }
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < PRODUCTS; ++k) {
                const int of_stage_k = piece * PRODUCTS + k;
                const unsigned long long of_x = wgmma_descriptor(x + of_stage_k / 4 * X_BOX, 16) + of_stage_k % 4 * 2;
#pragma unroll
                for (int t = 0; t < TILES; ++t) wgmma_rs<0>(SCALED ? sums[t] : of_stage[t], w[piece][k][t], of_x);
            }
            wgmma_commit();
        }
        if (!SCALED) {
            wgmma_wait<0>();
            wait_for_operands(0);
            wait_for_operands(1);
            if (lane == 0) mbarrier_arrive(empty + stage * 8);
#pragma unroll
            for (int t = 0; t < TILES; ++t) {
                wgmma_fence_operand(of_stage[t]);
#pragma unroll
                for (int i = 0; i < NS; ++i) {
                    const Pair scale = repeated(scales, t * 2 + i / 2 % 2);
                    sums[t][i] = fmaf(__low2float(scale), of_stage[t][i], sums[t][i]);
                }
            }
        }
before = stage;
        if ((stage += TURNS) >= STAGES) stage = wg_turn, parity ^= 1;
    }
// Shares of sums take the place of the ring: those of the other warpgroups in turn, then those of the other blocks.
    constexpr int SHARE = TILES * NS * (WIDE ? WGS * 128 : 128);
    const int thread = WIDE ? threadIdx.x : threadIdx.x % 128;
    float* const shares = reinterpret_cast<float*>(dynamic + (ring - start)) + thread;
    constexpr int THREADS = SHARE / (TILES * NS);
    if constexpr (TURNS > 1) {
        named_barrier_sync<WGS * 128>(1);
        if (wg > 0) {
#pragma unroll
            for (int i = 0; i < TILES * NS; ++i) shares[(wg - 1) * SHARE + i * THREADS] = sums[i / NS][i % NS];
        }
        named_barrier_sync<WGS * 128>(1);
        if (wg == 0) {
#pragma unroll
            for (int other = 0; other < TURNS - 1; ++other)
#pragma unroll
                for (int i = 0; i < TILES * NS; ++i) sums[i / NS][i % NS] += shares[other * SHARE + i * THREADS];
        }
    }
    if constexpr (SPLITS > 1) {
        // The first block is done with its ring.
        cluster_arrive();
        cluster_wait();
        if (split > 0 && wg_turn == 0) {
            const unsigned to = map_shared_rank(ring + ((TURNS - 1 + split - 1) * SHARE + thread) * 4, 0);
#pragma unroll
            for (int i = 0; i < TILES * NS; ++i) st_cluster(to + i * THREADS * 4, sums[i / NS][i % NS]);
        }
        cluster_arrive();
        cluster_wait();
        if (split > 0) return;
        if (wg_turn == 0) {
#pragma unroll
            for (int other = 0; other < SPLITS - 1; ++other)
#pragma unroll
                for (int i = 0; i < TILES * NS; ++i) sums[i / NS][i % NS] += shares[(TURNS - 1 + other) * SHARE + i * THREADS];
        }
    }
    if (wg_turn > 0 || column + own >= N) return;

#pragma unroll
    for (int i = 0; i < NS / 2; ++i) {
        const int at_row = row + i / 2 * 8 + lane % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;
        Elem* const to = y + (size_t)at_row * N + column + own;
        const unsigned first = pack_half2(sums[0][at], sums[0][at + 2]);
        if (at_row >= M) continue;
        if constexpr (OWN == 4) *reinterpret_cast<uint2*>(to) = make_uint2(first, pack_half2(sums[1][at], sums[1][at + 2]));
        else *reinterpret_cast<unsigned*>(to) = first;
    }
}
