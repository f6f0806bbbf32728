// attention-decode for bf16, D=128 CAUSAL=0 WINDOW=0 SOFTCAP=0 SINK=0 LENGTHS=1 PAGE=16
// SPLITS=1 WARPS=4 GROUPS=2 STAGES=4 QROWS=8 MIN_BLOCKS=1
// Attention of few queries against many keys: o = softmax(q k^T * scale) v, bound by reading every key and value once.
//
// The time depends on the number of bytes in flight, and on how soon the kernel ends after the last of them has
// arrived. SPLITS blocks share the keys of a head (Flash-Decoding, Dao et al. 2023). One warp of a block loads stages
// of keys and values into a ring with mbarriers, by tensor copies (PTX ISA, cp.async.bulk.tensor). The query is loaded
// before them, so that it does not queue behind a full ring. GROUPS groups of warps alternate between stages, because
// the last stages arrive together, faster than one group can process them. Each warp of a group processes 16 keys of
// the stage, with its own online softmax (Milakov & Gimelshein 2018, arXiv 1805.02867).
//
// The products run on tensor cores because that takes few instructions, even though most of their results are unused
// with a single query. Scores are q k^T, where the keys are the dimension of size 8 of mma.m16n8k16, and outputs are
// v^T p^T. The scores of a thread are then exactly the elements that it needs as second operand (PTX ISA, "Matrix
// Fragments for mma.m16n8k16"). The order of the dimensions in the sum of a score is arbitrary, and so is that of the
// keys in the sum of an output. So a thread reads 16 adjacent bytes where the fragment layout has pairs, and keys that
// are in different banks.
//
// The warps of a block are merged through shared memory, and the blocks of a head by the block that finishes last
// (threadFenceReduction in the CUDA samples). The order is fixed, so the same inputs give the same bytes.
#include <cuda_bf16.h>
constexpr int D = 128;           // head dimension
constexpr bool CAUSAL = 0;     // key j is visible to query i iff j <= i + Sk - Sq
constexpr int WINDOW = 0;      // keys that a query sees on each side that it sees, with its own (0: all)
constexpr int SOFTCAP = 0;     // a score s becomes SOFTCAP * tanh(s / SOFTCAP) (0: it stays)
constexpr bool SINK = 0;        // each head has one more score, without a value
constexpr int SPLITS = 1;      // blocks that share the keys
constexpr int WARPS = 4;       // warps of a group, each with 16 keys of a stage
constexpr int GROUPS = 2;      // groups that take stages in turn
constexpr int STAGES = 4;      // stages of keys and values in shared memory
constexpr int QROWS = 8;       // queries of a block: each key is read once for all of them

constexpr int READERS = WARPS * GROUPS;
constexpr int KEYS = 16 * WARPS;   // keys of a stage
constexpr int HALVES = D / 64;     // 128 bytes of a key each, which is what the swizzle mixes
constexpr unsigned KEY_BYTES = KEYS * D * 2, STAGE_BYTES = 2 * KEY_BYTES;
constexpr int PAGE = 16;         // keys of a page
constexpr int BOX = PAGE < KEYS ? PAGE : KEYS, BOXES = KEYS / BOX;  // a stage is copied in boxes, each from one page
// exp(x) = exp2(x * LOG2E): scores are kept in units of log2.
constexpr float LOG2E = 1.44269504f;
// A finite start for the running maximum: minus infinity minus it is minus infinity, never NaN.
constexpr float LOWEST = -1e30f;
// A finite replacement for a masked score: exp2 of MASKED - LOWEST is 0.
constexpr float MASKED = -2e30f;
// The warp's index in the block. Broadcast from lane 0, so that the compiler knows that it is uniform in a warp, and
// does not guard every shuffle against divergence.
__device__ inline int warp_index() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0); }
// --- shared memory as PTX addresses it (PTX ISA, "State Spaces"): 32 bits, in the window of the block ---
__device__ inline unsigned shared_address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }
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
// --- the copy engine, TMA (PTX ISA, "cp.async.bulk.tensor"): one thread copies boxes of a tensor ---
// The driver's encoding of a [[tensor_map]]. A kernel takes it as `const __grid_constant__ TensorMap`.
struct alignas(128) TensorMap {
    unsigned char bytes[128];
};
// Makes writes and mbarriers of this thread visible to the copy engine.
__device__ inline void fence_proxy_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// --- barriers for some warps of a block (PTX ISA, "bar"): number 0 is that of __syncthreads; THREADS counts all threads that arrive ---
template <int THREADS>
__device__ inline void named_barrier_sync(int number) { asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory"); }
// --- mma.sync (PTX ISA, "Matrix Fragments for mma.m16n8k16"): all lanes of a warp; d (16 x 8) += a (16 x 16) b (16 x 8), f16 with f32 sums ---
__device__ inline void mma_m16n8k16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
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
// Loads BOX complete rows of a head, starting at `row` of a batch entry or page. Rows beyond its end, and those of page -1, are filled
// with zeros. The maps have batch and head apart, so that keys and values may have any strides.
__device__ inline void load_rows(unsigned to, const TensorMap& map, int row, int head, int batch, unsigned mbarrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {0, 0, %2, %3, %4}], [%5];"
                 ::"r"(to), "l"(&map), "r"(row), "r"(head), "r"(batch), "r"(mbarrier) : "memory");
}
__device__ inline uint4 ld_shared_v4(unsigned address) {
    uint4 r;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(address) : "memory");
    return r;
}
// Returns the swizzled address of the 16 bytes at `chunk` in a row of 128 bytes.
__device__ inline uint4 read_swizzled(unsigned rows, int line, int chunk) {
    return ld_shared_v4(swizzle_128b(rows, line, chunk));
}
__device__ inline unsigned word(const uint4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }
__device__ inline unsigned low_halves(unsigned first, unsigned second) { return __byte_perm(first, second, 0x5410); }
__device__ inline unsigned high_halves(unsigned first, unsigned second) { return __byte_perm(first, second, 0x7632); }

// The running softmax of a warp, distributed over its lanes: lane 4 g + t has the maximum and a part of the sum of
// query g, and dimensions 8 g to 8 g + 7 of every half of the un-normalised outputs of queries 2 t and 2 t + 1. A
// single query occupies all eight columns.
struct State {
    float top, sum, out[HALVES][4][4];
};

// The row of a stage's 16 keys that is column 2 pair + odd of the mma in half j. With this order, lane 4 g + t = pair
// has the probabilities of the value rows that it reads, and simultaneous reads of different lanes hit different banks.
__device__ inline int row_of(int j, int pair, int odd) { return 8 * j + 4 * odd + (pair ^ 2 * odd); }

// Processes 16 keys of a stage. The first one is `key` of the head and row `first` of the stage.
__device__ inline void take(State& state, const unsigned (&q)[HALVES][8], unsigned keys, unsigned values, int first, int key, int limit,
                            int length, float scale) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    // All reads come before the first product, if there are enough registers.
    uint4 k[2][HALVES][2], v[HALVES][4];
    const auto read_keys = [&](int j) {
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
#pragma unroll
            for (int c = 0; c < 2; ++c) k[j][h][c] = read_swizzled(keys, (first + row_of(j, g / 2, g % 2)) * HALVES + h, t + c * 4);
    };
    const auto read_values = [&] {
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
#pragma unroll
            for (int i = 0; i < 4; ++i) v[h][i] = read_swizzled(values, (first + row_of(i / 2, t, i % 2)) * HALVES + h, g);
// What lies behind the keys may be NaN, and 0 times NaN is not 0.
        if (key + 16 > length)
#pragma unroll
            for (int h = 0; h < HALVES; ++h)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    if (key + row_of(i / 2, t, i % 2) >= length) v[h][i] = {0, 0, 0, 0};
};
    read_keys(0);
    if (HALVES <= 2) read_keys(1), read_values();
    // Two alternating sums, so that a product depends only on the one before the previous one.
    float score[2][4], other[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        if (HALVES > 2 && j == 1) read_keys(1);
#pragma unroll
        for (int i = 0; i < 4; ++i) score[j][i] = other[j][i] = 0.f;
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                // A single query is in all rows. With eight queries, rows 8 to 15 are unused.
                const auto product = [&](float (&sums)[4], int i, unsigned b0, unsigned b1) {
                    mma_m16n8k16(sums, q[h][i], QROWS == 1 ? q[h][i] : 0, q[h][i + 1], QROWS == 1 ? q[h][i + 1] : 0, b0, b1);
                };
                product(score[j], c * 4, k[j][h][c].x, k[j][h][c].y);
                product(other[j], c * 4 + 2, k[j][h][c].z, k[j][h][c].w);
            }
    }
    float p[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        // The scale and log2(e) turn a score into an exponent of two.
        p[i] = score[i / 2][i % 2] + other[i / 2][i % 2];
        p[i] *= scale * LOG2E;
    }
    if (key + 16 > limit) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (key + row_of(i / 2, t, i % 2) >= limit) p[i] = MASKED;
    }
    float top = fmaxf(fmaxf(p[0], p[1]), fmaxf(p[2], p[3]));
    // Rare after the first keys.
    if (__any_sync(~0u, top > state.top)) {
        top = fmaxf(quad_reduce_max(top), state.top);
        const float keep = exp2f(state.top - top);
        state.top = top;
        state.sum *= keep;
        const float even = QROWS == 1 ? keep : __shfl_sync(~0u, keep, 8 * t), odd = QROWS == 1 ? keep : __shfl_sync(~0u, keep, 8 * t + 4);
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int x = 0; x < 4; ++x) state.out[h][i][x] *= x % 2 ? odd : even;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) p[i] = exp2f(p[i] - state.top);
    state.sum += (p[0] + p[1]) + (p[2] + p[3]);
    const unsigned p0 = pack_half2(p[0], p[1]), p1 = pack_half2(p[2], p[3]);
    if (HALVES > 2) read_values();
#pragma unroll
    for (int h = 0; h < HALVES; ++h)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            mma_m16n8k16(state.out[h][i], low_halves(word(v[h][0], i), word(v[h][1], i)), high_halves(word(v[h][0], i), word(v[h][1], i)),
                     low_halves(word(v[h][2], i), word(v[h][3], i)), high_halves(word(v[h][2], i), word(v[h][3], i)), p0, p1);
}

// The results of the warps of a block.
struct Shares {
    float out[READERS][QROWS][D];
    float2 top_sum[READERS][QROWS];
};

extern "C" __global__ void __launch_bounds__(288, 1)
decode(const __nv_bfloat16* __restrict__ q, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
       __nv_bfloat16* __restrict__ o, float2* parts, unsigned* arrived, const int* __restrict__ lengths, const int* __restrict__ page_table, int Hkv, int Sq, int Sk, float scale) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ __align__(16) __nv_bfloat16 queries[QROWS][D];
    __shared__ unsigned long long full_barriers[STAGES], empty_barriers[STAGES], query_barrier;
    __shared__ bool is_last;
    // The swizzle depends on the address, so stages start at multiples of 1,024.
    const unsigned start = shared_address(dynamic), ring = (start + 1023) & ~1023u;
    Shares& shares = *reinterpret_cast<Shares*>(dynamic + (ring - start) + STAGES * STAGE_BYTES);
    const unsigned full = shared_address(full_barriers), empty = shared_address(empty_barriers), query_full = shared_address(&query_barrier);
    const int warp = warp_index(), lane = threadIdx.x % 32;
    const int split = blockIdx.x, first_row = blockIdx.y * QROWS, head = blockIdx.z;
    const int rows = min(QROWS, Sq - first_row);
// The table is on its way to L2 while the length is read, on which the first page depends.
    const int* const pages = page_table + head / Hkv * (Sk / PAGE);
    if (warp == READERS)
        for (int at = lane * 32; at < Sk / PAGE; at += 32 * 32) asm volatile("prefetch.global.L2 [%0];" ::"l"(pages + at));
const int length = min(lengths[head / Hkv], Sk);
// The keys visible to the last query, and this block's share of them in whole stages. With a window, there is one query, whose
    // position is that of the last key.
    const int visible = max(0, CAUSAL && WINDOW == 0 ? min(length, first_row + rows + length - Sq) : length);
    const int first_key = WINDOW > 0 ? max(0, length - WINDOW) : 0;
    const int all_steps = (visible - first_key + KEYS - 1) / KEYS;
    const int first_step = all_steps * split / SPLITS, steps = all_steps * (split + 1) / SPLITS - first_step;

    // The last warp loads. Each of its lanes copies a box of a stage, from a batch entry or a page.
const auto place_of = [&](int step) {
        // The page is read while the length is. Nothing is said of pages that no query needs.
        const int key = (first_step + step) * KEYS + lane * BOX, page = lane < BOXES && key < Sk ? pages[key / PAGE] : -1;
        return key < visible ? page : -1;
    };
const auto request = [&](int step, int stage, int place) {
        const unsigned to = ring + stage * STAGE_BYTES + lane * (BOX * D * 2), barrier = full + stage * 8;
        const int key = first_key + (first_step + step) * KEYS + lane * BOX, row = key % PAGE;
        if (lane == 0) mbarrier_arrive_expect_tx(barrier, STAGE_BYTES);
        __syncwarp();
        if (lane < BOXES) {
            load_rows(to, k_map, row, head % Hkv, place, barrier);
            load_rows(to + KEY_BYTES, v_map, row, head % Hkv, place, barrier);
        }
    };
    if (warp == READERS) {
        // Pages are read ahead of the copies that need them.
        int places[STAGES];
#pragma unroll
        for (int step = 0; step < STAGES; ++step) places[step] = place_of(step);
        // One thread initializes the barriers before other threads use them, and the first stages are loaded at once.
        // (One lane per barrier was slower: 33.0 us instead of 32.6 on 32 heads of 8192 keys; H200, 2026-11-22.)
        if (lane == 0) {
            for (int stage = 0; stage < STAGES; ++stage) {
                mbarrier_init(full + stage * 8, 1);
                mbarrier_init(empty + stage * 8, WARPS);
            }
            mbarrier_init(query_full, 1);
            mbarrier_init_fence();
            fence_proxy_async_shared();
            mbarrier_arrive_expect_tx(query_full, rows * D * 2);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         ::"r"(shared_address(queries)), "l"(q + ((size_t)head * Sq + first_row) * D), "r"(rows * D * 2), "r"(query_full)
                         : "memory");
        }
#pragma unroll
        for (int step = 0; step < STAGES; ++step)
            if (step < steps) request(step, step, places[step]);
    }
    __syncthreads();
    if (warp == READERS) {
        int stage = 0, place = place_of(STAGES);
        unsigned parity = 0;
        for (int step = STAGES; step < steps; ++step) {
            const int next = place_of(step + 1);
            mbarrier_wait(empty + stage * 8, parity);
            request(step, stage, place);
            place = next;
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        return;
    }

    const int g = lane / 4, t = lane % 4, group = warp / WARPS, first = warp % WARPS * 16;
    State state;
    state.top = LOWEST;
    state.sum = 0.f;
#pragma unroll
    for (int h = 0; h < HALVES; ++h)
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int x = 0; x < 4; ++x) state.out[h][i][x] = 0.f;
    const int row = QROWS == 1 ? 0 : g;
    const int limit = row < rows ? (CAUSAL && WINDOW == 0 ? min(length, first_row + row + 1 + length - Sq) : length) : 0;
    unsigned query[HALVES][8];
    mbarrier_wait(query_full, 0);
#pragma unroll
    for (int h = 0; h < HALVES; ++h)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            // Rows beyond the last query were never written.
            const uint4 x = row < rows ? ld_shared_v4(shared_address(queries[row]) + h * 128 + c * 64 + t * 16) : uint4{0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < 4; ++i) query[h][c * 4 + i] = word(x, i);
        }
    int stage = group;
    unsigned parity = 0;
    for (int step = group; step < steps; step += GROUPS) {
        mbarrier_wait(full + stage * 8, parity);
        const unsigned keys = ring + stage * STAGE_BYTES;
        take(state, query, keys, keys + KEY_BYTES, first, first_key + (first_step + step) * KEYS + first, limit, length, scale);
        __syncwarp();
        if (lane == 0) mbarrier_arrive(empty + stage * 8);
        if ((stage += GROUPS) >= STAGES) stage = group, parity ^= 1;
    }

    // Merges the warps of the block.
    state.sum = quad_reduce_sum(state.sum);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        const int r = QROWS == 1 ? 0 : 2 * t + e;
        if (QROWS > 1 || (t == 0 && e == 0)) {
#pragma unroll
            for (int h = 0; h < HALVES; ++h)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    *reinterpret_cast<float2*>(&shares.out[warp][r][h * 64 + g * 8 + i * 2]) =
                        make_float2(state.out[h][i][e], state.out[h][i][e + 2]);
        }
    }
    if (t == 0 && row == g) shares.top_sum[warp][row] = make_float2(state.top, state.sum);
    const auto meet = [] { named_barrier_sync<READERS * 32>(1); };
    meet();
    const auto merge = [&](int r, int x, float& top, float& sum, float& out) {
        top = LOWEST, sum = 0.f, out = 0.f;
#pragma unroll
        for (int w = 0; w < READERS; ++w) top = fmaxf(top, shares.top_sum[w][r].x);
#pragma unroll
        for (int w = 0; w < READERS; ++w) {
            const float weight = exp2f(shares.top_sum[w][r].x - top);
            sum += shares.top_sum[w][r].y * weight;
            out += shares.out[w][r][x] * weight;
        }
    };

    // Returns an output, given the maximum and sum of its row. A sink has a weight, and no value. A query without keys gives 0.
    const auto weighted = [&](int r, float out, float top, float sum) {
return sum == 0 ? 0 : out / sum;
    };
    // Merges the blocks that share these keys.
    const size_t tile = (size_t)head * gridDim.y + blockIdx.y;
    __nv_bfloat16* const to = o + ((size_t)head * Sq + first_row) * D;
    const int elements = rows * D;
    if constexpr (SPLITS == 1) {
        for (int at = threadIdx.x; at < elements; at += READERS * 32) {
            float top, sum, out;
            merge(at / D, at % D, top, sum, out);
            to[at] = __float2bfloat16_rn(weighted(at / D, out, top, sum));
        }
    } else {
        // Every partial output has its maximum and its sum next to each other in `parts`.
        float* const outs = reinterpret_cast<float*>(parts + gridDim.z * gridDim.y * (size_t)(SPLITS * QROWS));
        for (int at = threadIdx.x; at < elements; at += READERS * 32) {
            float top, sum, out;
            merge(at / D, at % D, top, sum, out);
            __stcg(outs + (tile * SPLITS + split) * (QROWS * D) + at, out);
            if (at % D == 0) __stcg(parts + (tile * SPLITS + split) * QROWS + at / D, make_float2(top, sum));
        }
        meet();
        // This arrival releases the writes of this block and acquires those of the other blocks.
        if (threadIdx.x == 0) {
            unsigned before;
            asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived + tile) : "memory");
            is_last = before == SPLITS - 1;
        }
        meet();
        if (!is_last) return;
        for (int at = threadIdx.x; at < elements; at += READERS * 32) {
            const int r = at / D;
            float2 top_sum[SPLITS];
            float outs_of[SPLITS];
            float top = LOWEST, sum = 0.f, out = 0.f;
#pragma unroll
            for (int s = 0; s < SPLITS; ++s) {
                top_sum[s] = __ldcg(parts + (tile * SPLITS + s) * QROWS + r);
                outs_of[s] = __ldcg(outs + (tile * SPLITS + s) * (QROWS * D) + at);
            }
#pragma unroll
            for (int s = 0; s < SPLITS; ++s) top = fmaxf(top, top_sum[s].x);
#pragma unroll
            for (int s = 0; s < SPLITS; ++s) {
                const float weight = exp2f(top_sum[s].x - top);
                sum += top_sum[s].y * weight;
                out += outs_of[s] * weight;
            }
            to[at] = __float2bfloat16_rn(weighted(r, out, top, sum));
        }
        // Restores the initial state for the next launch.
        if (threadIdx.x == 0) arrived[tile] = 0;
    }
}
