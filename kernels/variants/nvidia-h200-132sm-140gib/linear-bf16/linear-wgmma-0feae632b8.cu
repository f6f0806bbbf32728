// linear-wgmma for bf16, XSCALE=0 WSCALE=0 BIAS=1 ACTIVATION=0 GATED=0 RESIDUAL=0
// WGS=2 MT=1 BN=128 TURNS=0 STAGES=5 CM=1 CN=1 GROUP=8 SPLITS=1 OUT=2 PROMOTE=0 HALVES=1
// Linear layer on Hopper's warpgroup tensor cores: y = x w^T and what follows, with f32 sums.
//
// gemm-wgmma explains the structure: one thread loads stages of x and w by tensor copies into a ring with mbarriers, WGS warpgroups
// multiply them with wgmma, blocks are persistent, and blocks of a cluster share what they load. Here w has its terms in a row, as x
// does, so a tile may have any multiple of 32 columns, and 8-bit elements are multiplied, too: wgmma transposes only those of 16
// bits. A stage is 128 bytes of each row: 64 terms, or 128 of 8 bits.
//
// In a gated layer, half of a tile's columns are rows of the first half of w and half of the second, so a thread has both sums of an
// element.
//
// If y has few tiles, SPLITS blocks share the terms of a tile's sums. Each but the last to finish leaves its sums in a workspace; that
// one adds all in their order, so the same inputs give the same bytes. A larger tile then loads less for each product.
//
// The sums of 8-bit products lose low bits in the tensor cores: 4,096 equal terms come out 8% too small (H200, 2026-11-30). With
// PROMOTE, they are added to others in registers every so many stages, as in DeepSeek-V3 (2024). With HALVES = 2, half of the tile's
// columns are multiplied after the other, so that the sums of a tile of 256 columns fit in registers twice.
#include <cuda_bf16.h>
using Out = __nv_bfloat16;
__device__ inline float widen(Out x) { return __bfloat162float(x); }

constexpr int WGS = 2;           // warpgroups that multiply
constexpr int MT = 1;            // groups of 64 rows of a warpgroup
constexpr int BN = 128;          // rows of w in a tile
constexpr bool TURNS = 0;      // warpgroups take tiles in turns instead of sharing them
constexpr int STAGES = 5;        // stages of the ring in shared memory
constexpr int CM = 1, CN = 1;    // rows and columns of blocks in a cluster
constexpr int GROUP = 8;         // rows of tiles that are computed together
constexpr int SPLITS = 1;        // blocks that share the terms of a sum
constexpr int OUT = 2;           // parts of a warp's output in flight to memory
constexpr int PROMOTE = 0;       // stages whose sums stay in the tensor cores, or 0 for all
constexpr int HALVES = 1;        // parts of a tile's columns that are multiplied one after the other

constexpr int PRODUCTS = 1;      // of an element of y
constexpr int BM = 128;          // rows of a tile
constexpr int BY = 128;          // columns of a tile of y
constexpr int BK = 64;           // terms of a stage: rows of 128 bytes, as the swizzle requires
constexpr int CLUSTER = CM * CN;
constexpr int NC = BN / 2;       // sums of a thread in a group of 64 rows
constexpr int NY = BY / 2;       // of them, those of the first product
constexpr int W_BOX = 128;       // rows of w in a tensor copy
constexpr unsigned X_BYTES = BM * 128, STAGE_BYTES = (BM + BN) * 128;
constexpr unsigned OUT_BYTES = 16 * 64 * 2;     // 16 rows of 64 elements of y

// The warp's index in the block. Broadcast from lane 0, so that the compiler knows that it is uniform in a warp, and
// does not guard every shuffle against divergence.
__device__ inline int warp_index() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0); }
// --- shared memory as PTX addresses it (PTX ISA, "State Spaces"): 32 bits, in the window of the block ---
__device__ inline unsigned shared_address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }
// --- stores to shared memory by address (PTX ISA, "st"), which the compiler neither moves nor merges ---
__device__ inline void st_shared_u32(unsigned to, unsigned x) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(x) : "memory"); }
// --- the 128-byte swizzle of tensor maps and wgmma (PTX ISA, "Swizzling Modes"), for rows of 128 bytes from a multiple of 1,024 on ---
// Returns the address of the 16 bytes at `chunk` of a row in `rows`: eight adjacent rows have the same chunk at eight
// different positions, which cover all banks.
__device__ inline unsigned swizzle_128b(unsigned rows, int row, int chunk) { return rows + row * 128 + ((chunk ^ (row & 7)) << 4); }
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
// Stores a box, except for the parts outside of the tensor. The threads that have filled the box must first call
// fence_proxy_async_shared.
__device__ inline void tma_store_2d(const TensorMap& map, int x0, int x1, unsigned from) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
        ::"l"(&map), "r"(x0), "r"(x1), "r"(from) : "memory");
}
// The stores of a thread since the last commit are a group.
__device__ inline void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all but N groups of this thread have been read from shared memory, whose memory is then free.
template <int N>
__device__ inline void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
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
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, add, 1, 1, %67, %68;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(add), "n"(A_TRANSPOSED), "n"(B_TRANSPOSED));
}
// Rounds two numbers to BF16 and packs them into one operand register: the first in the lower half.
__device__ inline unsigned pack_half2(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// --- what follows the sums of a linear layer: scales, bias, activation, gate and residual, in this order ---
__device__ inline float activated(float x) {
return x;
}
struct Epilogue {
    int M, N;
const Out* bias;
// The scale of a row of x.
    __device__ float of_row(int row) const { return 1.f; }
    // The sum of a row of w, which is a column of y or, from N on, of the second product.
    __device__ float affine(float of_row, int of_w, float sum) const {
        return sum + widen(bias[of_w]);
    }
    // An element of y, from its sum and that of the second product.
    __device__ float value(float of_row, int row, int column, float sum, float second) const {
        column = min(column, N - 1);
        const float first = activated(affine(of_row, column, sum));
        return first;
    }
// What a thread needs for its elements of 16 rows and 64 columns: pairs of neighbours at every eighth column, in two rows. It is
    // loaded ahead, because each load waits for memory. N must be even.
    struct Part {
unsigned bias[1][8];
};
    // The part whose first pair of the thread is at this place.
    __device__ Part part(int row, int column) const {
        Part part;
#pragma unroll
        for (int x = 0; x < 8; ++x) {
            const int at = min(column + x * 8, N - 2);
part.bias[0][x] = *reinterpret_cast<const unsigned*>(bias + at);
}
        return part;
    }
    // The pair at column x * 8 of a part and row r * 8.
    __device__ float2 pair(const Part& part, int x, int r, float of_row, float2 sum, float2 second) const {
        const auto affine = [&](int product, float2 y) {
const float2 more = widened(part.bias[product][x]);
            y = make_float2(y.x + more.x, y.y + more.y);
return y;
        };
        const float2 first = affine(0, sum);
        float2 y = make_float2(activated(first.x), activated(first.y));
return y;
    }
    __device__ static float2 widened(unsigned both) {
        const Out* const pair = reinterpret_cast<const Out*>(&both);
        return make_float2(widen(pair[0]), widen(pair[1]));
    }
};

__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// The tiles of a cluster, one after the other. Loader and consumers iterate over the same sequence.
struct Walk {
    int across, down, count;  // tiles of a cluster's size along a row and a column of y, and all of them
    __device__ Walk(int M, int N) : across((N + BY * CN - 1) / (BY * CN)), down((M + BM * CM - 1) / (BM * CM)), count(across * down) {}
    // First row and column of a block's tile.
    __device__ void find(int tile, int rank, int& row, int& column) const {
        const int group = tile / (GROUP * across), in = tile % (GROUP * across);
        const int height = min(GROUP, down - group * GROUP);
        row = ((group * GROUP + in % height) * CM + rank % CM) * BM;
        column = (in / height * CN + rank / CM) * BY;
    }
};

extern "C" __global__ void __launch_bounds__(384, 1)
multiply(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map, const __grid_constant__ TensorMap y_map,
         const __grid_constant__ TensorMap y_half_map, float4* parts, unsigned* arrived, const Out* __restrict__ bias, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    __shared__ bool is_last;
    // The swizzle depends on the address, so tiles start at multiples of 1,024.
    const unsigned ring = (shared_address(dynamic) + 1023) & ~1023u;
    const unsigned full = shared_address(full_barriers), empty = shared_address(empty_barriers);

    const int warp = warp_index(), lane = threadIdx.x % 32;
    const int rank = CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER;
    const Walk walk(M, N);
    const int all_steps = (K + BK - 1) / BK, items = walk.count * SPLITS;
    const auto share = [&](int item, int& first) {
        first = all_steps * (item % SPLITS) / SPLITS;
        return all_steps * (item % SPLITS + 1) / SPLITS - first;
    };

    if (threadIdx.x == 0) {
        // Loaded while the barriers are initialized.
        tma_prefetch(x_map);
        tma_prefetch(w_map);
        tma_prefetch(y_map);
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full + stage * 8, 1);
            // Every warp that reads what this block loads, in all blocks that get it.
            mbarrier_init(empty + stage * 8, (TURNS ? 1 : WGS) * 4 * (CM + CN - 1));
        }
        mbarrier_init_fence();
        fence_proxy_async_shared();
    }
    if (CLUSTER == 1) __syncthreads();
    else cluster_sync();

    if (warp < 4) {
        // The loader.
        if (WGS > 1) setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            const int rank_m = rank % CM, rank_n = rank / CM;
            // Blocks that need the same rows of x, and those that need the same rows of w.
            unsigned short beside = 0, above = 0;
            for (int n = 0; n < CN; ++n) beside |= 1 << (n * CM + rank_m);
            for (int m = 0; m < CM; ++m) above |= 1 << (rank_n * CM + m);
            int stage = 0;
            unsigned parity = 1;  // initially, all stages are empty
            for (int item = blockIdx.x / CLUSTER; item < items; item += gridDim.x / CLUSTER) {
                int row, column, first;
                walk.find(item / SPLITS, rank, row, column);
                const int steps = share(item, first);
                for (int step = 0; step < steps; ++step) {
                    const unsigned at_x = ring + stage * STAGE_BYTES, at_w = at_x + X_BYTES, barrier = full + stage * 8;
                    mbarrier_wait(empty + stage * 8, parity);
                    mbarrier_arrive_expect_tx(barrier, STAGE_BYTES);
                    constexpr int ROWS = BM / CN, BOXES = BN / W_BOX / CM;
                    load(at_x + rank_n * ROWS * 128, x_map, (first + step) * BK, row + rank_n * ROWS, barrier, beside, CN > 1);
#pragma unroll
                    for (int n = 0; n < BOXES; ++n) {
                        const int box = rank_m * BOXES + n;
                        // The second product's rows follow all of the first's.
                        const int of_w = PRODUCTS == 2 ? box * N + column : column + box * W_BOX;
                        load(at_w + box * W_BOX * 128, w_map, (first + step) * BK, of_w, barrier, above, CM > 1);
                    }
                    if (++stage == STAGES) stage = 0, parity ^= 1;
                }
            }
        }
    } else {
        if (WGS > 1) setmaxnreg_inc<232>();
        const int wg = warp / 4 - 1;
        const int first_row = (TURNS ? 0 : wg * MT * 64) + warp % 4 * 16;  // of the warp in its tile
        const unsigned rows_at = TURNS ? 0 : wg * MT * (64 * 128);
        const unsigned out = ring + STAGES * STAGE_BYTES + (warp - 4) * OUT * OUT_BYTES;
        // Each lane signals one of the blocks that loaded a part of a stage that this warp is done with it.
        const bool tells = lane < CLUSTER && (lane % CM == rank % CM || lane / CM == rank / CM);
        const Epilogue epilogue{M, N, bias};

        float c[MT][NC];
int stage = 0, turn = 0, written = 0;
        unsigned parity = 0;
        for (int item = blockIdx.x / CLUSTER; item < items; item += gridDim.x / CLUSTER, ++turn) {
            int row, column, first;
            walk.find(item / SPLITS, rank, row, column);
            row += first_row;
            const int steps = share(item, first);
            if (TURNS && turn % 2 != wg) {
                // Skips the stages of the other warpgroup's tile.
                const int next = stage + steps;
                stage = next % STAGES;
                parity ^= next / STAGES & 1;
                continue;
            }
            // A barrier distinguishes only odd and even rounds, so no warpgroup waits for a later round than the
            // current one.
            if (TURNS && turn > 0) named_barrier_sync<256>(wg + 1);
int before = 0;  // the stage that was multiplied last
            for (int step = 0; step < steps; ++step) {
                mbarrier_wait(full + stage * 8, parity);
                const unsigned at = ring + stage * STAGE_BYTES;
                const unsigned long long a = wgmma_descriptor(at + rows_at, 16), b = wgmma_descriptor(at + X_BYTES, 16);
                wgmma_fence();
                // A product takes 32 bytes along the rows. Descriptors count in 16 bytes.
#pragma unroll
                for (int k = 0; k < 4; ++k)
#pragma unroll
                    for (int m = 0; m < MT; ++m) wgmma_ss<0, 0>(c[m], a + m * (64 * 128 / 16) + k * 2, b + k * 2, step | k);
                wgmma_commit();
                // The products of the previous stage are complete, while these run.
                wgmma_wait<1>();
                if (step > 0 && tells) mbarrier_arrive_at(empty + before * 8, lane);
                before = stage;
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
            if (TURNS && item + gridDim.x / CLUSTER < items) named_barrier_arrive<256>(2 - wg);
            Epilogue::Part part = epilogue.part(row + lane / 4, column + lane % 4 * 2);
            wgmma_wait<0>();
            if (tells) mbarrier_arrive_at(empty + before * 8, lane);
#pragma unroll
            for (int m = 0; m < MT; ++m) {
                wgmma_fence_operand(c[m]);
                const float of_row[2] = {epilogue.of_row(row + m * 64 + lane / 4), epilogue.of_row(row + m * 64 + lane / 4 + 8)};
#pragma unroll
                for (int n = 0; n < (BY + 63) / 64; ++n) {
                    // A last part has 32 columns, if 64 do not divide the tile.
                    constexpr int LAST = BY / 64, PARTS = (BY + 63) / 64;
                    const Epilogue::Part now = part;
                    // What follows is loaded meanwhile.
                    if (n + 1 < PARTS) part = epilogue.part(row + m * 64 + lane / 4, column + (n + 1) * 64 + lane % 4 * 2);
                    else if (m + 1 < MT) part = epilogue.part(row + (m + 1) * 64 + lane / 4, column + lane % 4 * 2);
                    const unsigned to = out + written++ % OUT * OUT_BYTES;
                    // The previous contents have been stored.
                    if (lane == 0) tma_store_wait_read<OUT - 1>();
                    __syncwarp();
#pragma unroll
                    for (int x = 0; x < 8; ++x) {
                        if (n == LAST && x >= 4) break;
#pragma unroll
                        for (int r = 0; r < 2; ++r) {
                            const int own = lane / 4 + r * 8, at = n * 32 + x * 4 + r * 2, second = at + (NC - NY);
                            const float2 y = epilogue.pair(now, x, r, of_row[r],
                                                           make_float2(c[m][at], c[m][at + 1]), make_float2(c[m][second], c[m][second + 1]));
                            // Rows of 64 bytes have a swizzle of their own.
                            const unsigned chunk = n == LAST ? to + own * 64 + ((x ^ (own >> 1 & 3)) << 4) : swizzle_128b(to, own, x);
                            st_shared_u32(chunk + lane % 4 * 4, pack_half2(y.x, y.y));
                        }
                    }
                    fence_proxy_async_shared();
                    __syncwarp();
                    if (lane == 0) {
                        if (n == LAST) tma_store_2d(y_half_map, column + n * 64, row + m * 64, to);
                        else tma_store_2d(y_map, column + n * 64, row + m * 64, to);
                        tma_store_commit();
                    }
                }
            }
        }
        if (lane == 0) tma_store_wait_read<0>();
    }
    // No block exits while another may still signal it.
    __syncwarp();
    if (CLUSTER > 1) cluster_sync();
}
