// attention-wgmma for bf16, D=64 CAUSAL=0 WINDOW=65 SOFTCAP=0 SINK=0 VARLEN=1
// WGS=1 SHARE=1 BC=64 STAGES=2 OVERLAP=0 PINGPONG=0 POLY=0 LAZY=0 SCHEDULE=1 GROUP=8 SHARED_OUT=0 TANH=0 MIN_BLOCKS=4
// Attention on Hopper: o = softmax(q k^T * scale) v, for f16 and bf16, with the tensor cores, the copy engine and the softmax at work at once.
//
// Warp specialization (FlashAttention-3, Shah et al. 2024, arXiv 2407.08608): one warpgroup, the producer, only issues
// tensor copies (TMA), and releases registers (setmaxnreg) to the consumers, warpgroups of 128 threads that own 64
// query rows each. Keys and values pass through a ring of STAGES slots in shared memory, which are handed over by
// mbarriers: "full" when the copy engine has written all bytes, "empty" when every consumer warp has read them.
//
// wgmma reads queries, keys and values from shared memory by itself and runs while its threads do something else (PTX ISA,
// "Asynchronous Warpgroup Level Matrix Instructions"). The accumulator of the scores has the very layout that the second product
// needs as its left operand, so probabilities stay in registers.
//
// Several techniques keep both the tensor cores and the special function units busy:
//  - OVERLAP: the scores of the next tile are computed while the values of this one are multiplied, so that the softmax of a tile
//    waits for its own scores only ("intra-warpgroup overlap", ibid.).
//  - PINGPONG: consumers take turns to start products, so that one's softmax falls into the other's products ("ping-pong", ibid.).
//  - POLY: some exponentials by a polynomial on the FMA pipes, because at D = 64 the special function units have as much
//    work as the tensor cores (FlashAttention-4 does this on Blackwell; Cody and Waite 1980 for the range reduction).
// LAZY rescales as FlashAttention-4 does. For short sequences, SHARE splits the keys of a row inside a block, as
// Flash-Decoding (Dao et al. 2023) does over blocks. With SCHEDULE = 2, blocks are persistent and take the next work
// item from a counter, as in FlashAttention-3's dynamic scheduler.
#include <cuda_fp16.h>

constexpr int D = 64;             // head dimension
constexpr bool CAUSAL = 0;       // key j is visible to query i iff j <= i + Sk - Sq
constexpr int WINDOW = 65;      // keys that a query sees on each side that it sees, with its own (0: all)
constexpr int SOFTCAP = 0;     // a score s becomes SOFTCAP * tanh(s / SOFTCAP) (0: it stays)
constexpr bool SINK = 0;        // each head has one more score, without a value
constexpr int WGS = 1;            // consumer warpgroups
constexpr int SHARE = 1;          // of them, those that share the keys of the same 64 query rows and merge at the end
constexpr int BC = 64;            // keys of a tile
constexpr int STAGES = 2;         // slots for tiles of keys, and as many for values
constexpr bool OVERLAP = 0;      // scores of a tile overlap with the values of the previous tile
constexpr bool PINGPONG = 0;     // consumers take turns to start their products
constexpr int POLY = 0;           // of 8 exponentials, those by polynomial
constexpr bool LAZY = 0;         // rescale only when the maximum has grown a lot
constexpr int SCHEDULE = 1;       // 0: a block has one work item, 1: a fixed list, 2: takes the next item when it is done
constexpr int GROUP = 8;          // heads that are processed at the same time
constexpr bool TANH = 0;         // tanh by its own instruction, with an error of 2^-11
constexpr bool SHARED_OUT = 0;   // the output is stored through the memory of the queries

constexpr int QGROUPS = WGS / SHARE;   // groups of 64 query rows of a block
constexpr int BR = QGROUPS * 64;
constexpr int COLUMNS = (D + 63) / 64;  // of 64 dimensions; the copy engine fills what is beyond D with zeros
constexpr int KX = (D + 15) / 16;      // steps along the head dimension in q k^T
constexpr int NS = BC / 2;             // scores of a thread
constexpr int NP = BC / 16;            // steps along the keys in p v
constexpr int NO = D / 2;              // outputs of a thread
constexpr unsigned Q_BYTES = 64 * COLUMNS * 128;  // of a group of rows
constexpr unsigned TILE_BYTES = BC * COLUMNS * 128;
constexpr int PART = (NO + 4) * 128;   // floats that a warpgroup hands over when it shares keys
// How much, in units of log2, the maximum may grow before outputs are rescaled: probabilities stay below 2^8, well inside FP16, and
// sums are FP32.
constexpr float SLACK = 8;

// exp(x) = exp2(x * LOG2E): scores are kept in units of log2.
constexpr float LOG2E = 1.44269504f;
// A finite start for the running maximum: minus infinity minus it is minus infinity, never NaN.
constexpr float LOWEST = -1e30f;
// A tile of rows of one of the sequences that are packed into a tensor: where the sequence begins, how many rows it has, and which of its
// tiles it is.
struct SequenceTile {
    int begin, length, tile;
};
// Finds tile `tile` of all tiles of ROWS rows, in the order of the sequences. Behind the last one, the length is 0. Whole warps call it.
template <int ROWS>
__device__ inline SequenceTile sequence_of_tile(const int* borders, int sequences, int tile) {
    const int lane = threadIdx.x % 32;
    for (int first = 0; first < sequences; first += 32) {
        const int begin = borders[min(first + lane, sequences)], end = borders[min(first + lane + 1, sequences)];
        const int own = (end - begin + ROWS - 1) / ROWS;
        int sum = own;  // with the tiles of the lanes before
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int other = __shfl_up_sync(~0u, sum, step);
            if (lane >= step) sum += other;
        }
        const unsigned reached = __ballot_sync(~0u, sum > tile);
        if (reached) {
            const int at = __ffs(reached) - 1, from = __shfl_sync(~0u, begin, at);
            return {from, __shfl_sync(~0u, end, at) - from, tile - __shfl_sync(~0u, sum - own, at)};
        }
        tile -= __shfl_sync(~0u, sum, 31);
    }
    return {0, 0, 0};
}
// The warpgroup's index in the block. Broadcast from lane 0, so that the compiler knows that it is uniform in a warp.
__device__ inline int warpgroup_index() { return __shfl_sync(0xffffffffu, threadIdx.x / 128, 0); }
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
        "@done bra OVER;\nbra AGAIN;\nOVER:\n}" ::"r"(mbarrier), "r"(parity) : "memory");
}
// Arrives once, and releases the earlier writes of this thread.
__device__ inline void mbarrier_arrive(unsigned mbarrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
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
__device__ inline void tma_load_4d(unsigned to, const TensorMap& map, int x0, int x1, int x2, int x3, unsigned mbarrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
        ::"r"(to), "l"(&map), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(mbarrier) : "memory");
}
// Stores a box, except for the parts outside of the tensor. The threads that have filled the box must first call
// fence_proxy_async_shared.
__device__ inline void tma_store_4d(const TensorMap& map, int x0, int x1, int x2, int x3, unsigned from) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
        ::"l"(&map), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(from) : "memory");
}
// The stores of a thread since the last commit are a group.
__device__ inline void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all but N groups of this thread have been read from shared memory, whose memory is then free.
template <int N>
__device__ inline void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
// --- barriers for some warps of a block (PTX ISA, "bar"): number 0 is that of __syncthreads; THREADS counts all threads that arrive ---
template <int THREADS>
__device__ inline void named_barrier_sync(int number) { asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory"); }
// Waits for the other threads of the same warpgroup: all 128 call it. Warpgroup `wg` has barrier number wg + 1.
__device__ inline void warpgroup_sync(int wg) { named_barrier_sync<128>(wg + 1); }
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
// d (64 x 64) = a b over 16 terms, or += with ADD. Both are in shared memory, with the terms along
// their rows, or across them if they are transposed. These are template parameters, because the instruction takes
// constants.
template <int ADD, int A_TRANSPOSED, int B_TRANSPOSED>
__device__ inline void wgmma_ss(float (&d)[32], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, %34, 1, 1, %35, %36;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "n"(ADD), "n"(A_TRANSPOSED), "n"(B_TRANSPOSED));
}
// d (64 x 64) += a b over 16 terms: a is in registers, with the layout of the sums of a product. b
// is in shared memory, with the terms along its rows, or across them if it is transposed.
template <int B_TRANSPOSED>
__device__ inline void wgmma_rs(float (&d)[32], const unsigned (&a)[4], unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, 1, 1, 1, %37;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(B_TRANSPOSED));
}
// 2^x by the special function units (PTX ISA, "ex2"). exp2f also handles results near 0, which count as 0 here.
__device__ inline float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Rounds two numbers to BF16 and packs them into one operand register: the first in the lower half.
__device__ inline unsigned pack_half2(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
// --- over the four neighbouring lanes that share a row of a product's sums: all lanes of a warp call, and all get the result ---
__device__ inline float quad_reduce_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float quad_reduce_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// A box of the maps is 64 dimensions x rows of one head of one batch.

// 2^x for x < 127 (minus infinity gives 2^-126) without the special function units: x = n + f with |f| <= 1/2, a polynomial for 2^f (minimax in relative error, 8e-5,
// a sixth of what rounding to FP16 does), times 2^n. A NaN stays one: max.NaN keeps it, and so does the product, but adding n to the exponent would not.
__device__ inline float exp2_poly(float x) {
    float clamped;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(clamped) : "f"(x), "f"(-126.0f));
    const float above = clamped + 12582912.0f;  // 1.5 * 2^23: the sum's last bits are the nearest integer
    const float f = clamped - (above - 12582912.0f);
    const float y = fmaf(fmaf(fmaf(0.055171669f, f, 0.242611122f), f, 0.693260985f), f, 0.999928074f);
    return y * __int_as_float((__float_as_int(above) << 23) + (127 << 23));
}
// A slot of a ring and the parity of its barriers' phase.
template <int PLACES>
struct Ring {
    unsigned place = 0, parity = 0;
    __device__ inline void next() {
        if (++place == PLACES) {
            place = 0;
            parity ^= 1;
        }
    }
};

__device__ inline void st_shared_f32(unsigned to, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory"); }
__device__ inline float ld_shared_f32(unsigned from) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}

// First row, head, and the first and last key tile (exclusive) of a work item.
struct Work {
    int row, head, first, tiles;
    int begin;  // the first token of its sequence, in whose rows and keys the others count
};

extern "C" __global__ void __launch_bounds__(256, 4)
attend(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
       const __grid_constant__ TensorMap o_map, unsigned* __restrict__ taken, unsigned short* __restrict__ o, const int* __restrict__ borders, int B, int H, int ratio, int Sq, int Sk, float scale) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ __align__(8) unsigned long long barriers[4 * STAGES + 2 * QGROUPS + 5];
    __shared__ int upcoming[2];  // work items that the producer passes to the consumers
    const unsigned bars = shared_address(barriers);
    // The barriers of slot s of the rings, and of the queries of group g.
    const auto k_full = [&](int s) { return bars + 8 * s; };
    const auto v_full = [&](int s) { return bars + 8 * (STAGES + s); };
    const auto k_empty = [&](int s) { return bars + 8 * (2 * STAGES + s); };
    const auto v_empty = [&](int s) { return bars + 8 * (3 * STAGES + s); };
    const auto q_full = [&](int g) { return bars + 8 * (4 * STAGES + g); };
    const auto q_empty = [&](int g) { return bars + 8 * (4 * STAGES + QGROUPS + g); };
    const auto work_full = [&](int i) { return bars + 8 * (4 * STAGES + 2 * QGROUPS + i); };
    const auto work_empty = [&](int i) { return bars + 8 * (4 * STAGES + 2 * QGROUPS + 2 + i); };
    const unsigned v_raw = bars + 8 * (4 * STAGES + 2 * QGROUPS + 4);  // values that have yet to be cleared

    // The swizzle depends on the address, so tiles start at multiples of 1,024.
    const unsigned q_at = (shared_address(dynamic) + 1023) & ~1023u;
    const unsigned o_at = SHARED_OUT ? q_at : q_at + QGROUPS * Q_BYTES;
    const unsigned k_at = o_at + QGROUPS * Q_BYTES, v_at = k_at + STAGES * TILE_BYTES;
    const unsigned parts_at = v_at + STAGES * TILE_BYTES;

    // The copy engine first reads the map from memory, which overlaps with the initialization of the barriers.
    if (threadIdx.x == 32) tma_prefetch(q_map);
    if (threadIdx.x == 64) tma_prefetch(k_map);
    if (threadIdx.x == 96) tma_prefetch(v_map);
    if (threadIdx.x == 128) tma_prefetch(o_map);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(k_full(s), 1);
            mbarrier_init(v_full(s), 1);
            mbarrier_init(k_empty(s), QGROUPS * 4);  // one arrival of every warp that reads it
            mbarrier_init(v_empty(s), QGROUPS * 4);
        }
        for (int g = 0; g < QGROUPS; ++g) {
            mbarrier_init(q_full(g), 1);
            mbarrier_init(q_empty(g), SHARE * 4);
        }
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(work_full(i), 1);
            mbarrier_init(work_empty(i), WGS * 4);
        }
        mbarrier_init(v_raw, 1);
        // Makes the barriers visible to the copy engine.
        mbarrier_init_fence();
        fence_proxy_async_shared();
    }
    __syncthreads();

    // As many blocks as sequences of any lengths have. The last ones may have nothing to do.
    const int heads = H, blocks = Sq / BR + B, works = SCHEDULE == 0 ? 1 : blocks * heads;
    // The first key that a row sees, and the first after those that it sees, before the limits of the keys.
    const auto first_key = [&](int row) { return WINDOW > 0 ? row + (Sk - Sq) - WINDOW + 1 : 0; };
    const auto keys_end = [&](int row) { return CAUSAL ? row + (Sk - Sq) + 1 : WINDOW > 0 ? row + (Sk - Sq) + WINDOW : Sk; };
    // Heads are processed in groups, so that the keys and values in use fit in L2. Within a group, the rows with the
    // most visible keys come first, so that no long work item is left at the end.
    const auto work = [&](int number) {
        int head = blockIdx.x, block = blockIdx.y;  // one work item per block: all heads at the same time, and no division
        if (SCHEDULE > 0) {
            const int group = number / (GROUP * blocks), within = number % (GROUP * blocks);
            const int size = min(GROUP, heads - group * GROUP);
            head = group * GROUP + within % size;
            block = within / size;
        }
        Work w;
        w.head = head;
// From here on, the numbers of queries and keys are those of the sequence.
        const SequenceTile own = sequence_of_tile<BR>(borders, B, block);
        w.begin = own.begin;
        Sq = Sk = own.length;
        w.row = (CAUSAL && Sq > 0 ? (Sq - 1) / BR - own.tile : own.tile) * BR;
        w.first = max(0, first_key(w.row)) / BC;
        w.tiles = (min(Sk, keys_end(w.row + BR - 1)) + BC - 1) / BC;
        return w;
    };

    const int warpgroup = warpgroup_index();
    if (warpgroup == 0) {
        setmaxnreg_dec<24>();
// A warp: it also clears what follows the end of a sequence in its last tile of values, where the rows of the next one are.
        // A weight of 0 times NaN is not 0.
        if (threadIdx.x < 32) {
            const int lane = threadIdx.x;
            Ring<STAGES> kr, vr;
            Ring<2> nr;
            unsigned q_parity = 0, raw_parity = 0;
            int number = blockIdx.x;
            const auto publish = [&] {
                mbarrier_wait(work_empty(nr.place), nr.parity ^ 1);
                if (lane == 0) {
                    upcoming[nr.place] = number;
                    mbarrier_arrive(work_full(nr.place));
                }
                nr.next();
            };
            // Loads a tile into memory that is free.
            const auto load = [&](unsigned to, const TensorMap& map, int row, int head, unsigned full) {
                if (lane > 0) return;
                mbarrier_arrive_expect_tx(full, TILE_BYTES);
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) tma_load_4d(to + c * (BC * 128), map, c * 64, row, head, 0, full);
            };
            while (number < works) {
                if (SCHEDULE == 2) publish();
                const Work w = work(number);
                const int keys = w.head / ratio;
                // From the last tile to the first; values are needed one step after their keys.
                for (int t = w.tiles - 1; w.tiles > 0 && t >= w.first - 1; --t) {
                    if (t >= w.first) {
                        if (t == w.tiles - 1) {
                            for (int g = 0; g < QGROUPS; ++g) {
                                mbarrier_wait(q_empty(g), q_parity ^ 1);
                                if (lane > 0) continue;
                                mbarrier_arrive_expect_tx(q_full(g), Q_BYTES);
#pragma unroll
                                for (int c = 0; c < COLUMNS; ++c)
                                    tma_load_4d(q_at + g * Q_BYTES + c * (64 * 128), q_map, c * 64, w.begin + w.row + g * 64, w.head, 0, q_full(g));
                            }
                            q_parity ^= 1;
                        }
                        mbarrier_wait(k_empty(kr.place), kr.parity ^ 1);
                        load(k_at + kr.place * TILE_BYTES, k_map, w.begin + t * BC, keys, k_full(kr.place));
                        kr.next();
                    }
                    if (t < w.tiles - 1) {
                        mbarrier_wait(v_empty(vr.place), vr.parity ^ 1);
                        const unsigned to = v_at + vr.place * TILE_BYTES;
                        const int rows = Sk - (t + 1) * BC;  // of this sequence, from the tile's first on
                        load(to, v_map, w.begin + (t + 1) * BC, keys, rows < BC ? v_raw : v_full(vr.place));
                        if (rows < BC) {
                            mbarrier_wait(v_raw, raw_parity);
                            raw_parity ^= 1;
#pragma unroll
                            for (int c = 0; c < COLUMNS; ++c)
                                for (int at = rows * 128 + lane * 16; at < BC * 128; at += 32 * 16)
                                    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to + c * (BC * 128) + at), "r"(0) : "memory");
                            fence_proxy_async_shared();
                            __syncwarp();
                            if (lane == 0) mbarrier_arrive(v_full(vr.place));
                        }
                        vr.next();
                    }
                }
                // Consumers still have the last tiles before them.
                if (SCHEDULE == 1) {
                    number += gridDim.x;
                } else {
                    if (lane == 0) number = gridDim.x + atomicAdd(&taken[0], 1);
                    number = __shfl_sync(0xffffffffu, number, 0);
                }
            }
            if (SCHEDULE == 2) {
                publish();
                // As without sequences: the last block resets the counters.
                __threadfence();
                if (lane == 0 && atomicAdd(&taken[1], 1) == gridDim.x - 1) {
                    __threadfence();
                    taken[0] = taken[1] = 0;
                }
            }
        }
        return;
    }

    setmaxnreg_inc<104>();
    const int wg = warpgroup - 1, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    // The warpgroups that share keys take the tiles of the ring in turn. This one takes those whose slot is `part`
    // modulo SHARE.
    const int group = wg / SHARE, part = wg % SHARE;
    const unsigned my_q = q_at + group * Q_BYTES, my_o = o_at + group * Q_BYTES;
    // Turns: warpgroup w starts its products after the previous warpgroup has started.
    const auto take_turn = [&] {
        if (PINGPONG && WGS > 1) named_barrier_sync<256>(8 + wg);
    };
    const auto pass_turn = [&] {
        if (PINGPONG && WGS > 1) named_barrier_arrive<256>(8 + (wg + 1) % WGS);
    };
    if (wg == WGS - 1) pass_turn();

    float score[NS], out[NO];
    unsigned p[NP][4];
    float top[2], sum[2], shrink[2];  // maximum in units of log2, this thread's part of the sum, what outputs shrink by
    // exp(scale * x) = exp2(factor * x), one multiplication for both. A cap replaces x by its hyperbolic tangent.
    const float factor = SOFTCAP > 0 ? SOFTCAP * LOG2E : scale * LOG2E;
    Ring<STAGES / SHARE> kr, vr;
    Ring<2> nr;
    unsigned q_parity = 0;
    int passed = 0;  // tiles of all work so far, modulo SHARE
    const auto k_place = [&] { return kr.place * SHARE + part; };
    const auto v_place = [&] { return vr.place * SHARE + part; };

    const auto start_scores = [&] {
        const unsigned long long rows = wgmma_descriptor(my_q, 16), keys = wgmma_descriptor(k_at + k_place() * TILE_BYTES, 16);
#pragma unroll
        for (int x = 0; x < KX; ++x) {
            // Four steps of 32 bytes along a row, then the next column; addresses in a descriptor count 16 bytes.
            const unsigned q_step = (x / 4 * (64 * 128) + x % 4 * 32) / 16, k_step = (x / 4 * (BC * 128) + x % 4 * 32) / 16;
            if (x == 0) {
                wgmma_ss<0, 0, 0>(score, rows + q_step, keys + k_step);
            } else {
                wgmma_ss<1, 0, 0>(score, rows + q_step, keys + k_step);
            }
        }
        wgmma_commit();
    };
    const auto start_values = [&] {
        const unsigned long long values = wgmma_descriptor(v_at + v_place() * TILE_BYTES, BC * 128);
#pragma unroll
        for (int x = 0; x < NP; ++x) wgmma_rs<1>(out, p[x], values + x * (2048 / 16));
        wgmma_commit();
    };
    const auto keys_read = [&] {
        if (lane == 0) mbarrier_arrive(k_empty(k_place()));
        kr.next();
    };
    const auto values_read = [&] {
        if (lane == 0) mbarrier_arrive(v_empty(v_place()));
        vr.next();
    };
    const auto mask = [&](const Work& w, int tile) {
        const int row = w.row + group * 64 + warp * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < NS; ++i) {
            const int key = tile * BC + i / 4 * 8 + lane % 4 * 2 + i % 2;
            const int own = row + i / 2 % 2 * 8;
            if (key >= min(Sk, keys_end(own)) || key < first_key(own)) score[i] = -__int_as_float(0x7f800000);
        }
    };
    const auto cap = [&] {
};
    // Online softmax: four neighbouring threads share a row, and a thread has two rows.
    const auto softmax = [&] {
        float most[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            // Four independent chains, because each maximum depends on the previous one.
            float strand[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) strand[i] = score[i / 2 * 4 + r * 2 + i % 2];
#pragma unroll
            for (int n = 2; n < NS / 4; ++n)
#pragma unroll
                for (int x = 0; x < 2; ++x) strand[n % 2 * 2 + x] = fmaxf(strand[n % 2 * 2 + x], score[n * 4 + r * 2 + x]);
            most[r] = fmaxf(fmaxf(strand[0], strand[1]), fmaxf(strand[2], strand[3]));
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            most[r] = fmaxf(top[r], quad_reduce_max(most[r]) * factor);
            if (!LAZY) shrink[r] = exp2_approx(top[r] - most[r]);
        }
        if (LAZY) {
            // Any maximum will do that keeps probabilities in range: it cancels out at the end.
            const bool far = most[0] > top[0] + SLACK || most[1] > top[1] + SLACK;
            if (__any_sync(0xffffffffu, far)) {
#pragma unroll
                for (int r = 0; r < 2; ++r) shrink[r] = exp2_approx(top[r] - most[r]);
            } else {
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    shrink[r] = 1;
                    most[r] = top[r];
                }
            }
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            top[r] = most[r];
            float added[2] = {0, 0};
#pragma unroll
            for (int n = 0; n < NS / 4; ++n)
#pragma unroll
                for (int x = 0; x < 2; ++x) {
                    float& s = score[n * 4 + r * 2 + x];
                    s = fmaf(s, factor, -top[r]);
                    s = (n * 2 + x) % 8 < POLY ? exp2_poly(s) : exp2_approx(s);
                    added[x] += s;
                }
            sum[r] = sum[r] * shrink[r] + (added[0] + added[1]);
        }
    };
    const auto rescale = [&] {
        if (LAZY && __all_sync(0xffffffffu, shrink[0] == 1 && shrink[1] == 1)) return;
#pragma unroll
        for (int i = 0; i < NO; ++i) out[i] *= shrink[i / 2 % 2];
    };
    const auto to_halves = [&] {
#pragma unroll
        for (int x = 0; x < NP; ++x)
#pragma unroll
            for (int i = 0; i < 4; ++i) p[x][i] = pack_half2(score[x * 8 + i * 2], score[x * 8 + i * 2 + 1]);
    };

    for (int number = SCHEDULE == 0 ? 0 : blockIdx.x;; number += SCHEDULE == 0 ? works : gridDim.x) {
        if (SCHEDULE == 2) {
            mbarrier_wait(work_full(nr.place), nr.parity);
            number = upcoming[nr.place];
            __syncwarp();
            if (lane == 0) mbarrier_arrive(work_empty(nr.place));
            nr.next();
        }
        if (number >= works) break;
        const Work w = work(number);
        if (w.tiles == 0) continue;
        // Only tiles at the end of the keys or on the diagonal need a mask. They come first.
        const int clear = min(Sk, keys_end(w.row)) / BC;
        // With a window, so do the last tiles: those that begin before the first key of this warpgroup's last row.
        const int from = WINDOW > 0 ? (max(0, first_key(w.row + group * 64 + 63)) + BC - 1) / BC : 0;
        const auto is_masked = [&](int tile) { return tile >= clear || tile < from; };
        top[0] = top[1] = LOWEST;
        sum[0] = sum[1] = 0;
#pragma unroll
        for (int i = 0; i < NO; ++i) out[i] = 0;

        mbarrier_wait(q_full(group), q_parity);
        q_parity ^= 1;
        // The position of this warpgroup among those that share keys. The warpgroup with the last tile always comes
        // first in the merge, so that the sums do not depend on earlier work of the block.
        const int order = SHARE > 1 ? (part + SHARE - passed) % SHARE : 0;
        int tile = w.tiles - 1 - order;
        passed = (passed + w.tiles - w.first) % SHARE;
if (CAUSAL || WINDOW > 0) {
            // Tiles that only later rows of the block see.
            const int own = (min(Sk, keys_end(w.row + group * 64 + 63)) + BC - 1) / BC;
            for (; tile >= own; tile -= SHARE) {
                mbarrier_wait(k_full(k_place()), kr.parity);
                // The same number of turns as for a tile with products.
                for (int n = OVERLAP ? 1 : 2; n > 0; --n) {
                    take_turn();
                    pass_turn();
                }
                // No lane may release the slot while another lane still waits for it.
                __syncwarp();
                keys_read();
                mbarrier_wait(v_full(v_place()), vr.parity);
                __syncwarp();
                values_read();
            }
        }
        const auto first = [&] {
            mbarrier_wait(k_full(k_place()), kr.parity);
            take_turn();
            wgmma_fence();
            start_scores();
            pass_turn();
            wgmma_wait<0>();
            wgmma_fence_operand(score);
            keys_read();
            cap();
            if (is_masked(tile)) mask(w, tile);
            softmax();
            to_halves();
            tile -= SHARE;
        };
        const auto overlapped = [&](bool masked) {
            mbarrier_wait(k_full(k_place()), kr.parity);
            take_turn();
            wgmma_fence();
            start_scores();
            mbarrier_wait(v_full(v_place()), vr.parity);
            start_values();
            pass_turn();
            wgmma_wait<1>();
            wgmma_fence_operand(score);
            keys_read();
            cap();
            if (masked) mask(w, tile);
            softmax();
            wgmma_wait<0>();
            wgmma_fence_operand(out);
            values_read();
            rescale();
            to_halves();
            tile -= SHARE;
        };
        const auto last = [&] {
            mbarrier_wait(v_full(v_place()), vr.parity);
            take_turn();
            wgmma_fence();
            start_values();
            pass_turn();
            wgmma_wait<0>();
            wgmma_fence_operand(out);
            values_read();
        };
        // Adds the results of the other warpgroups, on other keys of the same rows, to those of the first. Each thread
        // passes its values to the corresponding thread of the first warpgroup.
        const auto merge = [&] {
            const auto at = [&](int from, int i) {
                return parts_at + 4 * ((group * (SHARE - 1) + from - 1) * PART + i * 128 + threadIdx.x % 128);
            };
            if (order > 0) {
#pragma unroll
                for (int i = 0; i < NO; ++i) st_shared_f32(at(order, i), out[i]);
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    st_shared_f32(at(order, NO + r), top[r]);
                    st_shared_f32(at(order, NO + 2 + r), sum[r]);
                }
            }
            named_barrier_sync<SHARE * 128>(12 + group);
            if (order == 0) {
#pragma unroll 1
                for (int from = 1; from < SHARE; ++from) {
                    float own[2], other[2];
#pragma unroll
                    for (int r = 0; r < 2; ++r) {
                        const float their_top = ld_shared_f32(at(from, NO + r)), most = fmaxf(top[r], their_top);
                        own[r] = exp2_approx(top[r] - most);
                        other[r] = exp2_approx(their_top - most);
                        top[r] = most;
                        sum[r] = sum[r] * own[r] + ld_shared_f32(at(from, NO + 2 + r)) * other[r];
                    }
#pragma unroll
                    for (int i = 0; i < NO; ++i) out[i] = out[i] * own[i / 2 % 2] + ld_shared_f32(at(from, i)) * other[i / 2 % 2];
                }
            }
            // The slot is free for the next work item.
            if (SCHEDULE > 0) named_barrier_sync<SHARE * 128>(12 + group);
        };
        const auto release_queries = [&] {
            if (!SHARED_OUT && lane == 0) mbarrier_arrive(q_empty(group));
        };
        if (SHARE > 1 && tile < w.first) {
            // There are fewer tiles than warpgroups that share them.
            release_queries();
        } else if (OVERLAP) {
            first();
#pragma unroll 1
            while (tile >= w.first && tile >= clear) overlapped(true);
#pragma unroll 1
            while (tile >= max(w.first, from)) overlapped(false);
            if (WINDOW > 0) {
#pragma unroll 1
                while (tile >= w.first) overlapped(true);
            }
            release_queries();
            last();
        } else {
#pragma unroll 1
            while (tile >= w.first) {
                first();
                rescale();
                if (tile < w.first) release_queries();
                last();
            }
        }
        if (SHARE > 1) {
            merge();
            if (order > 0) {
                if (SHARED_OUT && lane == 0) mbarrier_arrive(q_empty(group));
                continue;
            }
        }

        // The output goes through shared memory. The copy engine stores it from there and omits rows that do not exist.
        warpgroup_sync(wg);
        const bool is_whole = w.row + group * 64 + 64 <= Sq;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            sum[r] = quad_reduce_sum(sum[r]);
            const float inverse = sum[r] > 0 ? 1 / sum[r] : 0;  // a query that sees no key gives 0
            const int row = warp * 16 + lane / 4 + r * 8;
            const int query = w.row + group * 64 + row;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
                const unsigned at = swizzle_128b(my_o + n / 8 * (64 * 128), row, n % 8) + lane % 4 * 4;
                const unsigned pair = pack_half2(out[n * 4 + r * 2] * inverse, out[n * 4 + r * 2 + 1] * inverse);
// The copy engine would also store to the rows of the next sequence.
                if (is_whole) {
                    st_shared_u32(at, pair);
                } else if (query < Sq) {
                    *reinterpret_cast<unsigned*>(o + ((size_t)(w.begin + query) * H + w.head) * D + n * 8 + lane % 4 * 2) = pair;
                }
            }
        }
        fence_proxy_async_shared();
        warpgroup_sync(wg);
        if (warp == 0 && lane == 0 && is_whole) {
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) tma_store_4d(o_map, c * 64, w.begin + w.row + group * 64, w.head % H, w.head / H, my_o + c * (64 * 128));
            tma_store_commit();
            // The memory is free when it has been read. The end of the launch guarantees that everything is written.
            tma_store_wait_read<0>();
        }
        __syncwarp();
        if (SHARED_OUT) {
            warpgroup_sync(wg);
            if (lane == 0) mbarrier_arrive(q_empty(group));
        }
    }
}
