// attention-decode for f16, D=128 CAUSAL=0
// SPLITS=1 WARPS=1 GROUPS=4 STAGES=24 QROWS=1 MIN_BLOCKS=1
// Attention of few queries against many keys: o = softmax(q k^T * scale) v, bound by reading every key and value once.
//
// What counts is how many bytes are on their way at any time, and how soon after the last of them everything is done. SPLITS blocks
// share the keys of a head (Flash-Decoding, Dao et al. 2023). One warp of a block asks the copy engine for stages of keys and their
// values, into a ring with barriers (PTX ISA, cp.async.bulk.tensor). The query is asked for before them, so that it does not
// queue behind a full ring. GROUPS groups of warps take the stages in turn, since the last ones arrive together, faster than one
// group could work them off. In a group each warp has 16 keys of the stage, and an online softmax of its own (Milakov & Gimelshein
// 2018, arXiv 1805.02867).
//
// Tensor cores do the work, though a single query leaves most of what they compute unused: it takes few instructions.
// Scores are q k^T, the keys being the side of mma.m16n8k16 that comes in eights, and outputs are v^T p^T: what a thread has of the
// scores is then just what it needs as second operand (PTX ISA, "Matrix Fragments for mma.m16n8k16"). The order of dimensions in
// the sums of a score is free, and so is that of the keys in an output's: a thread reads 16 neighbouring bytes where the layout
// of fragments would want pairs, and keys that lie in different banks.
//
// The warps of a block are merged through shared memory, the blocks of a head by the one that comes last (threadFenceReduction of
// the CUDA samples), always in the same order, so the same inputs give the same bytes.
#include <cuda_fp16.h>

constexpr int D = 128;           // head dimension
constexpr bool CAUSAL = 0;     // key j is visible to query i iff j <= i + Sk - Sq
constexpr int SPLITS = 1;      // blocks that share the keys
constexpr int WARPS = 1;       // warps of a group, each with 16 keys of a stage
constexpr int GROUPS = 4;      // groups that take stages in turn
constexpr int STAGES = 24;      // stages of keys and values in shared memory
constexpr int QROWS = 1;       // queries of a block: each key is read once for all of them

constexpr int READERS = WARPS * GROUPS;
constexpr int KEYS = 16 * WARPS;   // keys of a stage
constexpr int HALVES = D / 64;     // 128 bytes of a key each, which is what the swizzle mixes
constexpr unsigned KEY_BYTES = KEYS * D * 2, STAGE_BYTES = 2 * KEY_BYTES;
constexpr float LOG2E = 1.44269504f;
// Finite stand-ins for minus infinity: their differences are never NaN, and exp2 of MASKED - LOWEST is 0.
constexpr float LOWEST = -1e30f;
constexpr float MASKED = -2e30f;

struct alignas(128) TensorMap {
    unsigned char bytes[128];
};

__device__ inline unsigned address_of(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

// Barriers in shared memory: `full` when a stage has arrived, `empty` when every warp of the group has read it.
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
// Asks for KEYS rows of a head from `row` on; what is beyond its end comes as zeros.
__device__ inline void load(unsigned to, const TensorMap& map, int row, int head, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {0, 0, %2, %3}], [%4];"
                 ::"r"(to), "l"(&map), "r"(row), "r"(head), "r"(barrier) : "memory");
}
__device__ inline uint4 read(unsigned address) {
    uint4 r;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(address) : "memory");
    return r;
}
// The 16 bytes at `chunk` of 128, where the copy engine has put them.
__device__ inline uint4 read_swizzled(unsigned rows, int line, int chunk) {
    return read(rows + line * 128 + ((chunk ^ (line & 7)) << 4));
}
__device__ inline unsigned word(const uint4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }
__device__ inline unsigned low_halves(unsigned first, unsigned second) { return __byte_perm(first, second, 0x5410); }
__device__ inline unsigned high_halves(unsigned first, unsigned second) { return __byte_perm(first, second, 0x7632); }
__device__ inline unsigned pack(float low, float high) {
    const __half2 h = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&h);
}
__device__ inline void multiply(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The softmax of a warp so far, in its lanes' layout: lane 4 g + t has the maximum and a part of the sum of query g, and of the
// un-normalised outputs of queries 2 t and 2 t + 1 the dimensions 8 g to 8 g + 7 of every half. A single query is all eight of them.
struct State {
    float top, sum, out[HALVES][4][4];
};

// The row of a stage's 16 keys that is number 2 pair + odd of mma's eight in half j. So it is lane 4 g + t = pair that has the
// probability of the rows that it reads of the values, and lanes that read at once do so from different banks.
__device__ inline int row_of(int j, int pair, int odd) { return 8 * j + 4 * odd + (pair ^ 2 * odd); }

// Takes up 16 keys of a stage, of which the first is `key` in the head; `first` is its row in the stage.
__device__ inline void take(State& state, const unsigned (&q)[HALVES][8], unsigned keys, unsigned values, int first, int key, int limit,
                            float factor) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    // All reads come before the first product, if there are registers for so much.
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
    };
    read_keys(0);
    if (HALVES <= 2) read_keys(1), read_values();
    // Two sums in turn, so that a product waits for every other one only.
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
                // A single query is in all rows; of eight, rows 8 to 15 are none.
                const auto product = [&](float (&sums)[4], int i, unsigned b0, unsigned b1) {
                    multiply(sums, q[h][i], QROWS == 1 ? q[h][i] : 0, q[h][i + 1], QROWS == 1 ? q[h][i + 1] : 0, b0, b1);
                };
                product(score[j], c * 4, k[j][h][c].x, k[j][h][c].y);
                product(other[j], c * 4 + 2, k[j][h][c].z, k[j][h][c].w);
            }
    }
    float p[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) p[i] = (score[i / 2][i % 2] + other[i / 2][i % 2]) * factor;
    if (key + 16 > limit) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (key + row_of(i / 2, t, i % 2) >= limit) p[i] = MASKED;
    }
    float top = fmaxf(fmaxf(p[0], p[1]), fmaxf(p[2], p[3]));
    // Seldom after the first keys.
    if (__any_sync(~0u, top > state.top)) {
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        top = fmaxf(top, state.top);
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
    const unsigned p0 = pack(p[0], p[1]), p1 = pack(p[2], p[3]);
    if (HALVES > 2) read_values();
#pragma unroll
    for (int h = 0; h < HALVES; ++h)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            multiply(state.out[h][i], low_halves(word(v[h][0], i), word(v[h][1], i)), high_halves(word(v[h][0], i), word(v[h][1], i)),
                     low_halves(word(v[h][2], i), word(v[h][3], i)), high_halves(word(v[h][2], i), word(v[h][3], i)), p0, p1);
}

// What the warps of a block have found.
struct Shares {
    float out[READERS][QROWS][D];
    float2 top_sum[READERS][QROWS];
};

extern "C" __global__ void __launch_bounds__(160, 1)
decode(const __half* __restrict__ q, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
       __half* __restrict__ o, float2* parts, unsigned* arrived, int Sq, int Sk, float scale) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ __align__(16) __half queries[QROWS][D];
    __shared__ unsigned long long full_barriers[STAGES], empty_barriers[STAGES], query_barrier;
    __shared__ bool is_last;
    // The swizzle goes by the address: stages start at multiples of 1,024.
    const unsigned start = address_of(dynamic), ring = (start + 1023) & ~1023u;
    Shares& shares = *reinterpret_cast<Shares*>(dynamic + (ring - start) + STAGES * STAGE_BYTES);
    const unsigned full = address_of(full_barriers), empty = address_of(empty_barriers), query_full = address_of(&query_barrier);
    // Asked from lane 0, so that the compiler knows it to be one number a warp.
    const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int split = blockIdx.x, first_row = blockIdx.y * QROWS, head = blockIdx.z;
    const int rows = min(QROWS, Sq - first_row);
    // The keys that the last query sees, and this block's share of them in whole stages.
    const int visible = max(0, CAUSAL ? min(Sk, first_row + rows + Sk - Sq) : Sk);
    const int all_steps = (visible + KEYS - 1) / KEYS;
    const int first_step = all_steps * split / SPLITS, steps = all_steps * (split + 1) / SPLITS - first_step;

    const auto request = [&](int step, int stage) {
        const unsigned to = ring + stage * STAGE_BYTES, barrier = full + stage * 8;
        barrier_expect(barrier, STAGE_BYTES);
        load(to, k_map, (first_step + step) * KEYS, head, barrier);
        load(to + KEY_BYTES, v_map, (first_step + step) * KEYS, head, barrier);
    };
    // One thread makes the barriers and asks for the first stages at once, before the others know of any. (A lane for each barrier
    // was slower: 33.0 us where 32.6; H200, 2026-11-22, a standalone harness.)
    if (threadIdx.x == READERS * 32) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full + stage * 8, 1);
            barrier_init(empty + stage * 8, WARPS);
        }
        barrier_init(query_full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
        barrier_expect(query_full, rows * D * 2);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(address_of(queries)), "l"(q + ((size_t)head * Sq + first_row) * D), "r"(rows * D * 2), "r"(query_full)
                     : "memory");
        for (int step = 0; step < min(steps, STAGES); ++step) request(step, step);
    }
    __syncthreads();
    if (warp == READERS) {
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
    const int limit = row < rows ? (CAUSAL ? min(Sk, first_row + row + 1 + Sk - Sq) : Sk) : 0;
    unsigned query[HALVES][8];
    barrier_wait(query_full, 0);
#pragma unroll
    for (int h = 0; h < HALVES; ++h)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            // What lies beyond the last query has never been written.
            const uint4 x = row < rows ? read(address_of(queries[row]) + h * 128 + c * 64 + t * 16) : uint4{0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < 4; ++i) query[h][c * 4 + i] = word(x, i);
        }
    int stage = group;
    unsigned parity = 0;
    for (int step = group; step < steps; step += GROUPS) {
        barrier_wait(full + stage * 8, parity);
        const unsigned keys = ring + stage * STAGE_BYTES;
        // The scale and log2(e) make a score a power of two's exponent.
        take(state, query, keys, keys + KEY_BYTES, first, (first_step + step) * KEYS + first, limit, scale * LOG2E);
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + stage * 8);
        if ((stage += GROUPS) >= STAGES) stage = group, parity ^= 1;
    }

    // The warps of the block.
    state.sum += __shfl_xor_sync(~0u, state.sum, 1);
    state.sum += __shfl_xor_sync(~0u, state.sum, 2);
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
    const auto meet = [] { asm volatile("bar.sync 1, 128;" ::: "memory"); };
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

    // The blocks that share these keys.
    const size_t tile = (size_t)head * gridDim.y + blockIdx.y;
    __half* const to = o + ((size_t)head * Sq + first_row) * D;
    const int elements = rows * D;
    if constexpr (SPLITS == 1) {
        for (int at = threadIdx.x; at < elements; at += READERS * 32) {
            float top, sum, out;
            merge(at / D, at % D, top, sum, out);
            to[at] = __float2half_rn(out / sum);
        }
    } else {
        // Every element comes with its maximum and its sum, beside one another in `parts`.
        float* const outs = reinterpret_cast<float*>(parts + gridDim.z * gridDim.y * (size_t)(SPLITS * QROWS));
        for (int at = threadIdx.x; at < elements; at += READERS * 32) {
            float top, sum, out;
            merge(at / D, at % D, top, sum, out);
            __stcg(outs + (tile * SPLITS + split) * (QROWS * D) + at, out);
            if (at % D == 0) __stcg(parts + (tile * SPLITS + split) * QROWS + at / D, make_float2(top, sum));
        }
        meet();
        // What the others of this block wrote is released with this arrival, and what the other blocks wrote acquired.
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
            to[at] = __float2half_rn(out / sum);
        }
        // The next launch finds what this one found.
        if (threadIdx.x == 0) arrived[tile] = 0;
    }
}
