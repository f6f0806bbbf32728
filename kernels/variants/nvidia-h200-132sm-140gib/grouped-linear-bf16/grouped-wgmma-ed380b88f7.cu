// grouped-wgmma for bf16, EXPERTS=64 LAYOUT=1 ACTIVATION=3 GATED=1 SHORTEST=256
// WGS=2 MT=1 BN=256 STAGES=4 GROUP=8 OUT=2 CN=1
// Layers of experts on Hopper's warpgroup tensor cores: the rows of each expert times its own weights, and what follows, with f32 sums.
//
// gemm-wgmma explains the structure: one thread loads stages of x and w by tensor copies into a ring with mbarriers, WGS warpgroups
// multiply them with wgmma, and blocks are persistent. A tile has rows of one expert. Each block counts the tiles of the experts before,
// and finds the expert of a tile by bisection, so nothing else has to be launched. Tiles of an expert follow each other, GROUP rows of
// them at a time: they need the same weights. CN blocks of a cluster have tiles beside each other and share their rows of x.
//
// Weights have the terms of a sum in a row (LAYOUT = 0) or its columns (1): wgmma multiplies either. In a gated layer, half of a
// tile's columns are of the first product and half of the second, so a thread has both sums of an element. The last tile of an expert
// loads rows of the next one, too, and does not store them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// --- the element type of the workload; sums are in FP32 ---
using Elem = __nv_bfloat16;
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void narrow(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }
__device__ inline void narrow(float x, float& to) { to = x; }
__device__ inline void narrow(float x, __half& to) { to = __float2half_rn(x); }
__device__ inline float activated(float x) {
return __fdividef(x, 1.f + __expf(-x));
}
constexpr int WGS = 2;         // warpgroups that multiply
constexpr int MT = 1;          // groups of 64 rows of a warpgroup
constexpr int BN = 256;        // columns of weights in a tile
constexpr int STAGES = 4;      // stages of the ring in shared memory
constexpr int GROUP = 8;       // rows of an expert's tiles that are computed together
constexpr int OUT = 2;         // parts of a warp's output in flight to memory
constexpr int CN = 1;          // blocks in a cluster, which share what they load of x

constexpr int EXPERTS = 64;
constexpr int PRODUCTS = 2;    // of an element of y
constexpr bool COLUMNS_IN_ROWS = 1; // of weights
constexpr int BM = 128;        // rows of a tile
constexpr int BY = 128;        // columns of a tile of y
constexpr int BK = 64;         // terms of a stage: rows of 128 bytes, as the swizzle requires
constexpr int NC = BN / 2;     // sums of a thread in a group of 64 rows
constexpr unsigned X_BYTES = BM * 128, STAGE_BYTES = (BM + BN) * 128;
constexpr unsigned COLUMN_BYTES = 64 * 128;     // 64 columns of weights
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
__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
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
__device__ inline void tma_load_3d(unsigned to, const TensorMap& map, int x0, int x1, int x2, unsigned mbarrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
        ::"r"(to), "l"(&map), "r"(x0), "r"(x1), "r"(x2), "r"(mbarrier) : "memory");
}
// The same for every block of the cluster whose bit is set: to the same address, with the mbarrier at the same address.
__device__ inline void tma_load_3d_multicast(unsigned to, const TensorMap& map, int x0, int x1, int x2, unsigned mbarrier, unsigned short blocks) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;"
        ::"r"(to), "l"(&map), "r"(x0), "r"(x1), "r"(x2), "r"(mbarrier), "h"(blocks) : "memory");
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
// d (64 x 256) = a b over 16 terms, or += if `add` is not 0, which may be a runtime value. Both are
// in shared memory, with the terms along their rows, or across them if they are transposed.
template <int A_TRANSPOSED, int B_TRANSPOSED>
__device__ inline void wgmma_ss(float (&d)[128], unsigned long long a, unsigned long long b, int add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, add, 1, 1, %131, %132;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
        : "l"(a), "l"(b), "r"(add), "n"(A_TRANSPOSED), "n"(B_TRANSPOSED));
}
// Rounds two numbers to BF16 and packs them into one operand register: the first in the lower half.
__device__ inline unsigned pack_half2(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
// Counts the tiles of rows of all experts before each, with one warp.
__device__ inline void count_tiles(int (&before)[EXPERTS + 1], const int* offsets, int lane) {
    int all = 0;
    for (int first = 0; first < EXPERTS; first += 32) {
        const int expert = first + lane;
        int tiles = expert < EXPERTS ? (offsets[expert + 1] - offsets[expert] + BM - 1) / BM : 0;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, tiles, step);
            if (lane >= step) tiles += other;
        }
        if (expert < EXPERTS) before[expert + 1] = all + tiles;
        all += __shfl_sync(0xffffffffu, tiles, 31);
    }
    if (lane == 0) before[0] = 0;
}
// Tells the blocks that loaded a stage that this warp has read it.
__device__ inline void release(unsigned empty, int lane) {
    if (CN == 1 && lane == 0) mbarrier_arrive(empty);
    if (CN > 1 && lane < CN) mbarrier_arrive_rank(empty, lane);
}
// A tile: its expert, its first row and that behind the expert's last, and its first column.
struct Tile {
    int expert, row, end, column;
    __device__ Tile(const int (&before)[EXPERTS + 1], const int* offsets, int item, int across, int rank) {
        int low = 0, high = EXPERTS;  // the expert is among these
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (before[middle] * across <= item) low = middle;
            else high = middle;
        }
        const int in_expert = item - before[low] * across, down = before[low + 1] - before[low];
        const int group = in_expert / (GROUP * across), in_group = in_expert % (GROUP * across), height = min(GROUP, down - group * GROUP);
        expert = low;
        end = offsets[low + 1];
        row = offsets[low] + (group * GROUP + in_group % height) * BM;
        column = (in_group / height * CN + rank) * BY;
    }
};

extern "C" __global__ void __launch_bounds__(384, 1)
multiply(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map, const __grid_constant__ TensorMap w_up_map, const __grid_constant__ TensorMap y_map,
         const int* __restrict__ offsets, Elem* __restrict__ y, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    __shared__ int before[EXPERTS + 1];
    // The swizzle depends on the address, so tiles start at multiples of 1,024.
    const unsigned ring = (shared_address(dynamic) + 1023) & ~1023u;
    const unsigned full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const int warp = warp_index(), lane = threadIdx.x % 32;
    const int steps = (K + BK - 1) / BK, across = (N + BY * CN - 1) / (BY * CN), rank = blockIdx.x % CN;

    if (threadIdx.x == 0) {
        // Loaded while the barriers are initialized.
        tma_prefetch(x_map);
        tma_prefetch(w_map);
        tma_prefetch(y_map);
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full + stage * 8, 1);
            // Every warp that reads what this block loads, in all blocks that get it.
            mbarrier_init(empty + stage * 8, WGS * 4 * CN);
        }
        mbarrier_init_fence();
        fence_proxy_async_shared();
    }
    if (warp == 1) count_tiles(before, offsets, lane);
    __syncthreads();
    const int items = before[EXPERTS] * across;

    if (warp < 4) {
        // The loader.
        if (WGS > 1) setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            int stage = 0;
            unsigned parity = 1;  // initially, all stages are empty
            for (int item = blockIdx.x / CN; item < items; item += gridDim.x / CN) {
                const Tile tile(before, offsets, item, across, rank);
                for (int step = 0; step < steps; ++step) {
                    const unsigned at_x = ring + stage * STAGE_BYTES, at_w = at_x + X_BYTES, barrier = full + stage * 8;
                    mbarrier_wait(empty + stage * 8, parity);
                    mbarrier_arrive_expect_tx(barrier, STAGE_BYTES);
                    tma_load_3d(at_x, x_map, step * BK, tile.row, 0, barrier);
#pragma unroll
                    for (int box = 0; box < BY / 64; ++box)
                        tma_load_3d(at_w + (0 * (BY / 64) + box) * COLUMN_BYTES, w_map, tile.column + box * 64, step * BK, tile.expert, barrier);
#pragma unroll
                    for (int box = 0; box < BY / 64; ++box)
                        tma_load_3d(at_w + (1 * (BY / 64) + box) * COLUMN_BYTES, w_up_map, tile.column + box * 64, step * BK, tile.expert, barrier);
if (++stage == STAGES) stage = 0, parity ^= 1;
                }
            }
        }
    } else {
        if (WGS > 1) setmaxnreg_inc<232>();
        const int wg = warp / 4 - 1;
        const unsigned out = ring + STAGES * STAGE_BYTES + (warp - 4) * OUT * OUT_BYTES;
        float c[MT][NC];
        int stage = 0, written = 0;
        unsigned parity = 0;
        for (int item = blockIdx.x / CN; item < items; item += gridDim.x / CN) {
            const Tile tile(before, offsets, item, across, rank);
            const int row = tile.row + wg * MT * 64 + warp % 4 * 16;  // of the warp
            int last = 0;  // the stage that was multiplied last
            for (int step = 0; step < steps; ++step) {
                mbarrier_wait(full + stage * 8, parity);
                const unsigned at = ring + stage * STAGE_BYTES;
                const unsigned long long a = wgmma_descriptor(at + wg * MT * (64 * 128), 16), b = wgmma_descriptor(at + X_BYTES, COLUMNS_IN_ROWS ? COLUMN_BYTES : 16);
                wgmma_fence();
                // A product takes 16 terms: 32 bytes along a row, or 16 rows of 128 bytes. Descriptors count in 16 bytes.
#pragma unroll
                for (int k = 0; k < 4; ++k)
#pragma unroll
                    for (int m = 0; m < MT; ++m)
                        wgmma_ss<0, COLUMNS_IN_ROWS>(c[m], a + m * (64 * 128 / 16) + k * 2, b + k * (COLUMNS_IN_ROWS ? 128 : 2), step | k);
                wgmma_commit();
                // The products of the previous stage are complete, while these run.
                wgmma_wait<1>();
                if (step > 0) release(empty + last * 8, lane);
                last = stage;
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
            wgmma_wait<0>();
            release(empty + last * 8, lane);
#pragma unroll
            for (int m = 0; m < MT; ++m) {
                wgmma_fence_operand(c[m]);
                const int first = row + m * 64;
                // Of the last rows of an expert, some are the next one's.
                const bool is_whole = first + 16 <= tile.end;
#pragma unroll
                for (int n = 0; n < BY / 64; ++n) {
                    const unsigned to = out + written++ % OUT * OUT_BYTES;
                    // The previous contents have been stored.
                    if (lane == 0) tma_store_wait_read<OUT - 1>();
                    __syncwarp();
#pragma unroll
                    for (int x = 0; x < 8; ++x)
#pragma unroll
                        for (int r = 0; r < 2; ++r) {
                            const int own = lane / 4 + r * 8, at = n * 32 + x * 4 + r * 2;
                            const float low = activated(c[m][at]) * c[m][at + NC / 2], high = activated(c[m][at + 1]) * c[m][at + 1 + NC / 2];
                            st_shared_u32(swizzle_128b(to, own, x) + lane % 4 * 4, pack_half2(low, high));
                        }
                    const int column = tile.column + n * 64;
                    if (is_whole) {
                        fence_proxy_async_shared();
                        __syncwarp();
                        if (lane == 0) tma_store_2d(y_map, column, first, to);
                    } else {
                        __syncwarp();
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const int own = lane / 8 + i * 4, x = lane % 8;
                            if (first + own < tile.end && column + x * 8 < N)
                                *reinterpret_cast<uint4*>(y + (size_t)(first + own) * N + column + x * 8) = *reinterpret_cast<const uint4*>(__cvta_shared_to_generic(swizzle_128b(to, own, x)));
                        }
                        __syncwarp();
                    }
                    if (lane == 0) tma_store_commit();
                }
            }
        }
        if (lane == 0) tma_store_wait_read<0>();
    }
}
