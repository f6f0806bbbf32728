// attention-resident for bf16, D=64 CAUSAL=0 Sk=77
// WGS=1 PASSES=4 KEYS=128 CHUNK=128 MIN_BLOCKS=2
// Attention on Hopper for short sequences: o = softmax(q k^T * scale) v, for f16.
//
// All keys and values of a head fit in shared memory. So there is no ring and no warp specialization: one thread issues
// all tensor copies (TMA) at once, in the order in which the data is needed, with a barrier for each chunk. Every
// warpgroup starts when the first chunk has arrived. A warpgroup owns 64 query rows at a time. With PASSES > 1 it then
// processes another 64, for which no keys have to be loaded.
//
// The scores of KEYS keys are in registers at once (with 256 keys in 256 that is the whole row, and nothing is ever rescaled): their
// products are started together, and maxima are taken while the later ones run. The values of a chunk are multiplied while the
// exponentials of the next one are computed. The accumulator of the scores has the very layout that the second product needs as its left
// operand, so probabilities stay in registers (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16").
//
// The time of a launch (H200, 2026-11-22, 64 heads of 256 rows, by the clock of an instrumented kernel): 0.7 us from
// the start of a block to its first chunk, 2.2 us for products and exponentials, 0.3 us for the output, and 0.9 us
// outside of all blocks. Sharing the loads in a cluster cost more than it saved, because the blocks of a cluster must
// synchronize before they may write to each other.
#include <cuda_fp16.h>

constexpr bool CAUSAL = 0;       // key j is visible to query i iff j <= i + Sk - Sq
constexpr int WGS = 1;            // warpgroups
constexpr int PASSES = 4;         // sets of 64 rows per warpgroup
constexpr int KEYS = 128;           // keys whose scores are in registers at once
constexpr int CHUNK = 128;          // keys of a copy, and of a product

constexpr int D = 64;                  // head dimension
constexpr int Sk = 77;             // keys of a head, known here: a single tile has no loop and no rescaling, and full tiles no masks
constexpr int TILES = (Sk + KEYS - 1) / KEYS;
constexpr int GROUPS = WGS * PASSES;   // of 64 query rows
constexpr int BR = GROUPS * 64;        // query rows of a block
constexpr int CHUNKS = KEYS / CHUNK;
constexpr int NS = CHUNK / 2;          // scores of a thread in a chunk
constexpr int NP = CHUNK / 16;         // steps along the keys in p v
constexpr int NO = D / 2;              // outputs of a thread
constexpr int ALL_CHUNKS = TILES * CHUNKS;  // of a head; what lies beyond the last key is zero
constexpr unsigned Q_BYTES = 64 * D * 2;  // of a group of rows
constexpr unsigned CHUNK_BYTES = CHUNK * D * 2;

// exp(x) = exp2(x * LOG2E): scores are kept in units of log2.
constexpr float LOG2E = 1.44269504f;
// A finite start for the running maximum: minus infinity minus it is minus infinity, never NaN.
constexpr float LOWEST = -1e30f;
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
// Waits until the first phase of an mbarrier has completed, if it has no second phase. Every thread that reads the data
// must wait itself.
__device__ inline void mbarrier_wait_once(unsigned mbarrier) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
        "@done bra OVER;\nbra AGAIN;\nOVER:\n}" ::"r"(mbarrier) : "memory");
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
// d (64 x 128) = a b over 16 terms, or += with ADD. Both are in shared memory, with the terms along
// their rows, or across them if they are transposed. These are template parameters, because the instruction takes
// constants.
template <int ADD, int A_TRANSPOSED, int B_TRANSPOSED>
__device__ inline void wgmma_ss(float (&d)[64], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, %66, 1, 1, %67, %68;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
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

// A box is 64 dimensions x rows x one head of one batch. The maps have both apart, so that tensors may have any strides.
__device__ inline void fetch(unsigned to, const TensorMap& map, int row, int head, int batch, unsigned mbarrier, unsigned bytes) {
    mbarrier_arrive_expect_tx(mbarrier, bytes);
    tma_load_4d(to, map, 0, row, head, batch, mbarrier);
}

extern "C" __global__ void __launch_bounds__(128, 2)
attend(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
       const __grid_constant__ TensorMap o_map, int H, int Sq, float scale) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ __align__(8) unsigned long long barriers[2 * ALL_CHUNKS + GROUPS];
    const unsigned bars = shared_address(barriers);
    const auto k_full = [&](int chunk) { return bars + 8 * chunk; };
    const auto v_full = [&](int chunk) { return bars + 8 * (ALL_CHUNKS + chunk); };
    const auto q_full = [&](int group) { return bars + 8 * (2 * ALL_CHUNKS + group); };
    // The swizzle depends on the address, so chunks start at multiples of 1,024.
    const unsigned q_at = (shared_address(dynamic) + 1023) & ~1023u;
    const unsigned k_at = q_at + GROUPS * Q_BYTES, v_at = k_at + ALL_CHUNKS * CHUNK_BYTES;

    // With a causal mask, the last queries see the most keys. Nearly all blocks of a launch are resident at once, by
    // default two on a multiprocessor. So the rows of all heads are ordered from the longest down, and then from the
    // shortest up, which pairs long blocks with short ones. Without a mask, the blocks of a head start together and
    // load the same keys at the same time.
    const int blocks = CAUSAL ? gridDim.y : gridDim.x, number = CAUSAL ? blockIdx.y : blockIdx.x;
    const int head_of_all = CAUSAL ? blockIdx.x : blockIdx.y, batch = head_of_all / H, head = head_of_all % H;
    const int block_row = (!CAUSAL ? number : 2 * number < blocks ? blocks - 1 - number : number - (blocks + 1) / 2) * BR;
    // Tiles of KEYS keys that the rows before `end` see.
    const auto tiles_before = [&](int end) { return CAUSAL ? (min(Sk, end + Sk - Sq) + KEYS - 1) / KEYS : TILES; };

    if (threadIdx.x == 0) {
        // The copy engine first reads the map from memory, which overlaps with the initialization of the barriers.
        tma_prefetch(q_map);
        tma_prefetch(k_map);
        tma_prefetch(v_map);
        for (int c = 0; c < ALL_CHUNKS; ++c) {
            mbarrier_init(k_full(c), 1);
            mbarrier_init(v_full(c), 1);
        }
        for (int g = 0; g < GROUPS; ++g) mbarrier_init(q_full(g), 1);
        // Makes the barriers visible to the copy engine.
        mbarrier_init_fence();
        fence_proxy_async_shared();
        const int chunks = tiles_before(block_row + BR) * CHUNKS;
        // Rows that do not exist are not loaded: no thread waits for them, so their copies could outlive the block.
        const auto fetch_queries = [&](int g) {
            if (block_row + g * 64 < Sq) fetch(q_at + g * Q_BYTES, q_map, block_row + g * 64, head, batch, q_full(g), Q_BYTES);
        };
        const auto fetch_keys = [&](int c) {
            if (c < chunks) fetch(k_at + c * CHUNK_BYTES, k_map, c * CHUNK, head, batch, k_full(c), CHUNK_BYTES);
        };
        fetch_queries(0);
        fetch_keys(0);
#pragma unroll
        for (int g = 1; g < WGS; ++g) fetch_queries(g);
#pragma unroll
        for (int c = 1; c < ALL_CHUNKS; ++c) fetch_keys(c);
#pragma unroll
        for (int c = 0; c < ALL_CHUNKS; ++c)
            if (c < chunks) fetch(v_at + c * CHUNK_BYTES, v_map, c * CHUNK, head, batch, v_full(c), CHUNK_BYTES);
#pragma unroll
        for (int g = WGS; g < GROUPS; ++g) fetch_queries(g);
    }
    __syncthreads();

    const int wg = warpgroup_index();
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const float factor = scale * LOG2E;  // exp(scale * x) = exp2(factor * x), one multiplication for both

#pragma unroll 1
    for (int pass = 0; pass < PASSES; ++pass) {
        // With a causal mask, the warpgroup that had the fewest keys gets the most next.
        const int group = pass * WGS + (CAUSAL && pass % 2 == 1 ? WGS - 1 - wg : wg), row = block_row + group * 64;
        if (row >= Sq) continue;
        const unsigned my_q = q_at + group * Q_BYTES;
        float out[NO], top[2] = {LOWEST, LOWEST}, sum[2] = {0, 0};  // maximum in units of log2, this thread's part of the sum
#pragma unroll
        for (int i = 0; i < NO; ++i) out[i] = 0;
        mbarrier_wait_once(q_full(group));

        const int tiles = tiles_before(row + 64);
#pragma unroll 1
        for (int t = 0; t < tiles; ++t) {
            float score[CHUNKS][NS];
            unsigned p[CHUNKS][NP][4];
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) {
                const int chunk = t * CHUNKS + c;
                mbarrier_wait_once(k_full(chunk));
                wgmma_fence();
                const unsigned long long queries = wgmma_descriptor(my_q, 16), keys = wgmma_descriptor(k_at + chunk * CHUNK_BYTES, 16);
                // 16 dimensions are 32 bytes; addresses in a descriptor count 16 bytes.
                wgmma_ss<0, 0, 0>(score[c], queries, keys);
#pragma unroll
                for (int x = 1; x < D / 16; ++x) wgmma_ss<1, 0, 0>(score[c], queries + x * 2, keys + x * 2);
                wgmma_commit();
            }

            float most[2] = {LOWEST, LOWEST}, shrink[2];
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) {
                if (c == CHUNKS - 1) {
                    wgmma_wait<0>();
                } else if (c == CHUNKS - 2) {
                    wgmma_wait<1>();
                } else if (c == CHUNKS - 3) {
                    wgmma_wait<2>();
                } else {
                    wgmma_wait<3>();
                }
                wgmma_fence_operand(score[c]);
                // Only a chunk at the end of the keys or on the diagonal needs a mask.
                const int first = (t * CHUNKS + c) * CHUNK, diagonal = row + Sk - Sq;
                if ((Sk % KEYS != 0 && first + CHUNK > Sk) || (CAUSAL && first + CHUNK - 1 > diagonal)) {
#pragma unroll
                    for (int i = 0; i < NS; ++i) {
                        const int key = first + i / 4 * 8 + lane % 4 * 2 + i % 2;
                        const int last = diagonal + warp * 16 + lane / 4 + i / 2 % 2 * 8;
                        if (key >= Sk || (CAUSAL && key > last)) score[c][i] = -__int_as_float(0x7f800000);
                    }
                }
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    // Two independent chains, because each maximum depends on the previous one.
                    float strand[2] = {score[c][r * 2], score[c][r * 2 + 1]};
#pragma unroll
                    for (int n = 1; n < NS / 4; ++n)
#pragma unroll
                        for (int x = 0; x < 2; ++x) strand[x] = fmaxf(strand[x], score[c][n * 4 + r * 2 + x]);
                    most[r] = fmaxf(most[r], fmaxf(strand[0], strand[1]));
                }
            }
            // Online softmax: four neighbouring threads share a row, and a thread has two rows.
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                most[r] = fmaxf(top[r], quad_reduce_max(most[r]) * factor);
                shrink[r] = exp2_approx(top[r] - most[r]);
                top[r] = most[r];
                sum[r] *= shrink[r];
            }
            if (t > 0) {
#pragma unroll
                for (int i = 0; i < NO; ++i) out[i] *= shrink[i / 2 % 2];
            }
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) {
                float added[2][2] = {};
#pragma unroll
                for (int i = 0; i < NS; ++i) {
                    float& s = score[c][i];
                    s = exp2_approx(fmaf(s, factor, -top[i / 2 % 2]));
                    added[i / 2 % 2][i % 2] += s;
                }
#pragma unroll
                for (int r = 0; r < 2; ++r) sum[r] += added[r][0] + added[r][1];
#pragma unroll
                for (int x = 0; x < NP; ++x)
#pragma unroll
                    for (int i = 0; i < 4; ++i) p[c][x][i] = pack_half2(score[c][x * 8 + i * 2], score[c][x * 8 + i * 2 + 1]);
                const int chunk = t * CHUNKS + c;
                mbarrier_wait_once(v_full(chunk));
                wgmma_fence();
                const unsigned long long values = wgmma_descriptor(v_at + chunk * CHUNK_BYTES, 16);
#pragma unroll
                for (int x = 0; x < NP; ++x) wgmma_rs<1>(out, p[c][x], values + x * (2048 / 16));
                wgmma_commit();
            }
            wgmma_wait<0>();
            wgmma_fence_operand(out);
        }

        // The output goes through the memory of the queries. The copy engine stores it from there and omits rows that
        // do not exist.
        warpgroup_sync(wg);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float inverse = 1 / quad_reduce_sum(sum[r]);  // causal or not, every query sees a key
            const int to_row = warp * 16 + lane / 4 + r * 8;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
                const unsigned at = swizzle_128b(my_q, to_row, n) + lane % 4 * 4;
                const unsigned pair = pack_half2(out[n * 4 + r * 2] * inverse, out[n * 4 + r * 2 + 1] * inverse);
                st_shared_u32(at, pair);
            }
        }
        fence_proxy_async_shared();
        warpgroup_sync(wg);
        if (threadIdx.x % 128 == 0) {
            tma_store_4d(o_map, 0, row, head, batch, my_q);
            tma_store_commit();
        }
    }
    // Shared memory must live until the copy engine has read it. The end of the launch guarantees that everything is
    // written.
    if (threadIdx.x % 128 == 0) tma_store_wait_read<0>();
}
