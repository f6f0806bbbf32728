// attention-wgmma for f16, D=128 CAUSAL=1
// WGS=2 SHARE=1 BC=128 STAGES=2 OVERLAP=1 PINGPONG=1 POLY=0 LAZY=0 SCHEDULE=2 GROUP=8 SHARED_OUT=0 MIN_BLOCKS=1
// Attention on Hopper: o = softmax(q k^T * scale) v, for f16, with the tensor cores, the copy engine and the softmax at work at once.
//
// Roles (warp specialisation; FlashAttention-3, Shah et al. 2024, arXiv 2407.08608): one warpgroup, the producer, only tells the copy
// engine (TMA) what to fetch, and gives its registers away (setmaxnreg) to the consumers, warpgroups of 128 threads that own 64
// query rows each. Keys and values pass through a ring of STAGES places in shared memory, handed over by mbarriers: "full" when the
// copy engine has written all bytes, "empty" when every consumer warp has read them.
//
// wgmma reads queries, keys and values from shared memory by itself and runs while its threads do something else (PTX ISA,
// "Asynchronous Warpgroup Level Matrix Instructions"). The accumulator of the scores has the very layout that the second product
// needs as its left operand, so probabilities stay in registers.
//
// Ways to keep both the tensor cores and the exponentials busy:
//  - OVERLAP: the scores of the next tile are computed while the values of this one are multiplied, so that the softmax of a tile
//    waits for its own scores only ("intra-warpgroup overlap", ibid.).
//  - PINGPONG: consumers take turns to start products, so that one's softmax falls into the other's products ("ping-pong", ibid.).
//  - POLY: some exponentials by a polynomial on the FMA pipes, because at D = 64 the special function units have as much work as the
//    tensor cores (FlashAttention-4 does this on Blackwell; Cody and Waite 1980 for the reduction of the range).
// LAZY rescales as FlashAttention-4 does. For short sequences, SHARE splits the keys of a row inside a block (Flash-Decoding, Dao et
// al. 2023, does over blocks). With SCHEDULE = 2 blocks stay and take the next piece of work from a counter, as FlashAttention-3's
// dynamic scheduler does.
#include <cuda_fp16.h>

constexpr int D = 128;             // head dimension
constexpr bool CAUSAL = 1;       // key j is visible to query i iff j <= i + Sk - Sq
constexpr int WGS = 2;            // consumer warpgroups
constexpr int SHARE = 1;          // of them, those that share the keys of the same 64 query rows and merge at the end
constexpr int BC = 128;            // keys of a tile
constexpr int STAGES = 2;         // places for tiles of keys, and as many for values
constexpr bool OVERLAP = 1;      // scores of a tile run beside the values of the one before
constexpr bool PINGPONG = 1;     // consumers take turns to start their products
constexpr int POLY = 0;           // of 8 exponentials, those by polynomial
constexpr bool LAZY = 0;         // rescale only when the maximum has grown much
constexpr int SCHEDULE = 2;       // 0: a block has one piece of work, 1: a fixed list, 2: takes the next when it is done
constexpr int GROUP = 8;          // heads that are worked on side by side
constexpr bool SHARED_OUT = 0;   // the output leaves through the place of the queries

constexpr int QGROUPS = WGS / SHARE;   // groups of 64 query rows of a block
constexpr int BR = QGROUPS * 64;
constexpr int KX = D / 16;             // steps along the head dimension in q k^T
constexpr int NS = BC / 2;             // scores of a thread
constexpr int NP = BC / 16;            // steps along the keys in p v
constexpr int NO = D / 2;              // outputs of a thread
constexpr unsigned Q_BYTES = 64 * D * 2;  // of a group of rows
constexpr unsigned TILE_BYTES = BC * D * 2;
constexpr int PART = (NO + 4) * 128;   // floats that a warpgroup hands over when it shares keys
constexpr float LOG2E = 1.44269504f;
// A finite start for the running maximum: minus infinity minus it is minus infinity, never NaN.
constexpr float LOWEST = -1e30f;
// How much, in units of log2, the maximum may grow before outputs are rescaled: probabilities stay below 2^8, well inside FP16, and
// sums are FP32.
constexpr float SLACK = 8;

struct alignas(128) TensorMap {
    unsigned char bytes[128];
};

// --- mbarriers (PTX ISA, "mbarrier") ---
__device__ inline void barrier_init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives, and makes the phase wait for that many bytes, too.
__device__ inline void expect_bytes(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void wait_phase(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
        "@done bra over;\n"
        "bra again;\n"
        "over:\n"
        "}" ::"r"(barrier), "r"(parity) : "memory");
}
// A place in a ring and the parity of its barriers' phase.
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

// --- the copy engine (PTX ISA, "cp.async.bulk.tensor"); a box is 64 dimensions x rows x columns of 64 dimensions x one head ---
__device__ inline void prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
__device__ inline void fetch(unsigned to, const TensorMap& map, int row, int head, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
        ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(0), "r"(head), "r"(barrier) : "memory");
}
__device__ inline void put(const TensorMap& map, int row, int head, unsigned from) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
                 ::"l"(&map), "r"(0), "r"(row), "r"(0), "r"(head), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// --- wgmma ---
// Describes a matrix in shared memory with 128-byte swizzle: 8 rows take 1,024 bytes. `column_bytes` is from one column of 64
// elements to the next, which only matters where a product reads more than one of them.
__device__ inline unsigned long long descriptor(unsigned address, unsigned column_bytes) {
    return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(column_bytes >> 4) << 16 |
           (unsigned long long)(1024 >> 4) << 32 | 1ull << 62;
}
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ inline void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// Tells the compiler that registers change here: wgmma writes them behind its back, up to the wait before.
template <int N>
__device__ inline void changed(float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
// s (64 x BC) = q k^T over 16 dimensions, added to what is there if ADD.
template <int ADD>
__device__ inline void multiply_qk(float (&s)[NS], unsigned long long q, unsigned long long k) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, %66, 1, 1, 0, 0;"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]), "+f"(s[32]), "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), "+f"(s[40]), "+f"(s[41]), "+f"(s[42]), "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), "+f"(s[48]), "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), "+f"(s[55]), "+f"(s[56]), "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]), "+f"(s[63])
        : "l"(q), "l"(k), "n"(ADD));
}
// o (64 x D) += p v over 16 keys: the values lie with the head dimension along their rows, so they are read transposed.
__device__ inline void multiply_pv(float (&o)[NO], const unsigned (&p)[4], unsigned long long v) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
        : "+f"(o[0]), "+f"(o[1]), "+f"(o[2]), "+f"(o[3]), "+f"(o[4]), "+f"(o[5]), "+f"(o[6]), "+f"(o[7]), "+f"(o[8]), "+f"(o[9]), "+f"(o[10]), "+f"(o[11]), "+f"(o[12]), "+f"(o[13]), "+f"(o[14]), "+f"(o[15]), "+f"(o[16]), "+f"(o[17]), "+f"(o[18]), "+f"(o[19]), "+f"(o[20]), "+f"(o[21]), "+f"(o[22]), "+f"(o[23]), "+f"(o[24]), "+f"(o[25]), "+f"(o[26]), "+f"(o[27]), "+f"(o[28]), "+f"(o[29]), "+f"(o[30]), "+f"(o[31]), "+f"(o[32]), "+f"(o[33]), "+f"(o[34]), "+f"(o[35]), "+f"(o[36]), "+f"(o[37]), "+f"(o[38]), "+f"(o[39]), "+f"(o[40]), "+f"(o[41]), "+f"(o[42]), "+f"(o[43]), "+f"(o[44]), "+f"(o[45]), "+f"(o[46]), "+f"(o[47]), "+f"(o[48]), "+f"(o[49]), "+f"(o[50]), "+f"(o[51]), "+f"(o[52]), "+f"(o[53]), "+f"(o[54]), "+f"(o[55]), "+f"(o[56]), "+f"(o[57]), "+f"(o[58]), "+f"(o[59]), "+f"(o[60]), "+f"(o[61]), "+f"(o[62]), "+f"(o[63])
        : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v));
}

// --- arithmetic ---
__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// 2^x for x < 127 (minus infinity gives 2^-126) without the special function units: x = n + f with |f| <= 1/2, a polynomial for 2^f (minimax in relative error, 8e-5,
// a sixth of what rounding to FP16 does), and n added to the exponent.
__device__ inline float exp2_poly(float x) {
    const float above = fmaxf(x, -126.0f) + 12582912.0f;  // 1.5 * 2^23: the sum's last bits are the nearest integer
    const float f = fmaxf(x, -126.0f) - (above - 12582912.0f);
    const float y = fmaf(fmaf(fmaf(0.055171669f, f, 0.242611122f), f, 0.693260985f), f, 0.999928074f);
    return __int_as_float(__float_as_int(y) + (__float_as_int(above) << 23));
}
__device__ inline unsigned pack(float low, float high) {
    const __half2 h = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&h);
}
__device__ inline void store(unsigned to, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory"); }
__device__ inline float load(unsigned from) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}
// Waits for the other threads of the same warpgroup.
__device__ inline void meet(int wg) { asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory"); }

// First row, head and number of key tiles of what a block works on.
struct Work {
    int row, head, tiles;
};

extern "C" __global__ void __launch_bounds__(384, 1)
attend(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
       const __grid_constant__ TensorMap o_map, unsigned* __restrict__ taken, int heads, int Sq, int Sk, float scale) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ __align__(8) unsigned long long barriers[4 * STAGES + 2 * QGROUPS + 4];
    __shared__ int upcoming[2];  // numbers of work, on their way from the producer to the consumers
    const unsigned bars = (unsigned)__cvta_generic_to_shared(barriers);
    // Of place s in the rings, and of the queries of group g.
    const auto k_full = [&](int s) { return bars + 8 * s; };
    const auto v_full = [&](int s) { return bars + 8 * (STAGES + s); };
    const auto k_empty = [&](int s) { return bars + 8 * (2 * STAGES + s); };
    const auto v_empty = [&](int s) { return bars + 8 * (3 * STAGES + s); };
    const auto q_full = [&](int g) { return bars + 8 * (4 * STAGES + g); };
    const auto q_empty = [&](int g) { return bars + 8 * (4 * STAGES + QGROUPS + g); };
    const auto work_full = [&](int i) { return bars + 8 * (4 * STAGES + 2 * QGROUPS + i); };
    const auto work_empty = [&](int i) { return bars + 8 * (4 * STAGES + 2 * QGROUPS + 2 + i); };

    // The swizzle goes by the address: tiles start at multiples of 1,024.
    const unsigned q_at = ((unsigned)__cvta_generic_to_shared(dynamic) + 1023) & ~1023u;
    const unsigned o_at = SHARED_OUT ? q_at : q_at + QGROUPS * Q_BYTES;
    const unsigned k_at = o_at + QGROUPS * Q_BYTES, v_at = k_at + STAGES * TILE_BYTES;
    const unsigned parts_at = v_at + STAGES * TILE_BYTES;

    // The copy engine reads a map from memory first: it may begin while barriers are made.
    if (threadIdx.x == 32) prefetch(q_map);
    if (threadIdx.x == 64) prefetch(k_map);
    if (threadIdx.x == 96) prefetch(v_map);
    if (threadIdx.x == 128) prefetch(o_map);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(k_full(s), 1);
            barrier_init(v_full(s), 1);
            barrier_init(k_empty(s), QGROUPS * 4);  // one arrival of every warp that reads it
            barrier_init(v_empty(s), QGROUPS * 4);
        }
        for (int g = 0; g < QGROUPS; ++g) {
            barrier_init(q_full(g), 1);
            barrier_init(q_empty(g), SHARE * 4);
        }
        for (int i = 0; i < 2; ++i) {
            barrier_init(work_full(i), 1);
            barrier_init(work_empty(i), WGS * 4);
        }
        // The copy engine must see them, too.
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();

    const int blocks = (Sq + BR - 1) / BR, works = SCHEDULE == 0 ? 1 : blocks * heads;
    // Heads in groups, so that the keys and values at work fit in L2; in a group the rows with the most visible keys first, so that no
    // long work is left at the end.
    const auto work = [&](int number) {
        int head = blockIdx.x, block = blockIdx.y;  // a block with one piece of work: all heads side by side, and nothing to divide
        if (SCHEDULE > 0) {
            const int group = number / (GROUP * blocks), within = number % (GROUP * blocks);
            const int size = min(GROUP, heads - group * GROUP);
            head = group * GROUP + within % size;
            block = within / size;
        }
        Work w;
        w.head = head;
        w.row = (CAUSAL ? blocks - 1 - block : block) * BR;
        const int end = CAUSAL ? min(Sk, w.row + BR + Sk - Sq) : Sk;
        w.tiles = (end + BC - 1) / BC;
        return w;
    };

    // The same for all threads of a warp, which the compiler cannot see by itself.
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            Ring<STAGES> kr, vr;
            Ring<2> nr;
            unsigned q_parity = 0;
            int number = SCHEDULE == 0 ? 0 : blockIdx.x;
            const auto publish = [&] {
                wait_phase(work_empty(nr.place), nr.parity ^ 1);
                upcoming[nr.place] = number;
                arrive(work_full(nr.place));
                nr.next();
            };
            while (number < works) {
                if (SCHEDULE == 2) publish();
                const Work w = work(number);
                // From the last tile to the first; values are needed one step after their keys.
                for (int t = w.tiles - 1; t >= -1; --t) {
                    if (t >= 0) {
                        if (t == w.tiles - 1) {
                            for (int g = 0; g < QGROUPS; ++g) {
                                wait_phase(q_empty(g), q_parity ^ 1);
                                expect_bytes(q_full(g), Q_BYTES);
                                fetch(q_at + g * Q_BYTES, q_map, w.row + g * 64, w.head, q_full(g));
                            }
                            q_parity ^= 1;
                        }
                        wait_phase(k_empty(kr.place), kr.parity ^ 1);
                        expect_bytes(k_full(kr.place), TILE_BYTES);
                        fetch(k_at + kr.place * TILE_BYTES, k_map, t * BC, w.head, k_full(kr.place));
                        kr.next();
                    }
                    if (t < w.tiles - 1) {
                        wait_phase(v_empty(vr.place), vr.parity ^ 1);
                        expect_bytes(v_full(vr.place), TILE_BYTES);
                        fetch(v_at + vr.place * TILE_BYTES, v_map, (t + 1) * BC, w.head, v_full(vr.place));
                        vr.next();
                    }
                }
                // Consumers still have the last tiles before them.
                number = SCHEDULE == 0 ? works : SCHEDULE == 1 ? number + gridDim.x : gridDim.x + atomicAdd(&taken[0], 1);
            }
            if (SCHEDULE == 2) {
                publish();
                // The last block to see that nothing is left prepares the next launch: nobody takes anything after it was counted.
                __threadfence();
                if (atomicAdd(&taken[1], 1) == gridDim.x - 1) {
                    __threadfence();
                    taken[0] = taken[1] = 0;
                }
            }
        }
        return;
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int wg = warpgroup - 1, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    // The tiles of the ring go round the warpgroups that share keys: this one takes those whose place is `part` modulo SHARE.
    const int group = wg / SHARE, part = wg % SHARE;
    const unsigned my_q = q_at + group * Q_BYTES, my_o = o_at + group * Q_BYTES;
    // Turns: warpgroup w starts products when the one before it has.
    const auto take_turn = [&] {
        if (PINGPONG && WGS > 1) asm volatile("bar.sync %0, 256;" ::"r"(8 + wg) : "memory");
    };
    const auto pass_turn = [&] {
        if (PINGPONG && WGS > 1) asm volatile("bar.arrive %0, 256;" ::"r"(8 + (wg + 1) % WGS) : "memory");
    };
    if (wg == WGS - 1) pass_turn();

    float score[NS], out[NO];
    unsigned p[NP][4];
    float top[2], sum[2], shrink[2];  // maximum in units of log2, this thread's part of the sum, what outputs shrink by
    const float factor = scale * LOG2E;  // exp(scale * x) = exp2(factor * x), one multiplication for both
    Ring<STAGES / SHARE> kr, vr;
    Ring<2> nr;
    unsigned q_parity = 0;
    int passed = 0;  // tiles of all work so far, modulo SHARE
    const auto k_place = [&] { return kr.place * SHARE + part; };
    const auto v_place = [&] { return vr.place * SHARE + part; };

    const auto start_scores = [&] {
        const unsigned long long rows = descriptor(my_q, 16), keys = descriptor(k_at + k_place() * TILE_BYTES, 16);
#pragma unroll
        for (int x = 0; x < KX; ++x) {
            // Four steps of 32 bytes along a row, then the next column; addresses in a descriptor count 16 bytes.
            const unsigned q_step = (x / 4 * (64 * 128) + x % 4 * 32) / 16, k_step = (x / 4 * (BC * 128) + x % 4 * 32) / 16;
            if (x == 0) {
                multiply_qk<0>(score, rows + q_step, keys + k_step);
            } else {
                multiply_qk<1>(score, rows + q_step, keys + k_step);
            }
        }
        wgmma_commit();
    };
    const auto start_values = [&] {
        const unsigned long long values = descriptor(v_at + v_place() * TILE_BYTES, BC * 128);
#pragma unroll
        for (int x = 0; x < NP; ++x) multiply_pv(out, p[x], values + x * (2048 / 16));
        wgmma_commit();
    };
    const auto keys_read = [&] {
        if (lane == 0) arrive(k_empty(k_place()));
        kr.next();
    };
    const auto values_read = [&] {
        if (lane == 0) arrive(v_empty(v_place()));
        vr.next();
    };
    const auto mask = [&](const Work& w, int tile) {
        const int first_row = w.row + group * 64 + warp * 16 + lane / 4 + (Sk - Sq);  // the last key that it sees, when causal
#pragma unroll
        for (int i = 0; i < NS; ++i) {
            const int key = tile * BC + i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (key >= Sk || (CAUSAL && key > first_row + i / 2 % 2 * 8)) score[i] = -__int_as_float(0x7f800000);
        }
    };
    // Online softmax: four neighbouring threads share a row, and a thread has two rows.
    const auto softmax = [&] {
        float most[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            // Four strands, since each maximum waits for the one before.
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
            most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 1));
            most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 2));
            most[r] = fmaxf(top[r], most[r] * factor);
            if (!LAZY) shrink[r] = exp2_fast(top[r] - most[r]);
        }
        if (LAZY) {
            // Any maximum will do that keeps probabilities in range: it cancels out at the end.
            const bool far = most[0] > top[0] + SLACK || most[1] > top[1] + SLACK;
            if (__any_sync(0xffffffffu, far)) {
#pragma unroll
                for (int r = 0; r < 2; ++r) shrink[r] = exp2_fast(top[r] - most[r]);
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
                    s = (n * 2 + x) % 8 < POLY ? exp2_poly(s) : exp2_fast(s);
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
            for (int i = 0; i < 4; ++i) p[x][i] = pack(score[x * 8 + i * 2], score[x * 8 + i * 2 + 1]);
    };

    for (int number = SCHEDULE == 0 ? 0 : blockIdx.x;; number += SCHEDULE == 0 ? works : gridDim.x) {
        if (SCHEDULE == 2) {
            wait_phase(work_full(nr.place), nr.parity);
            number = upcoming[nr.place];
            __syncwarp();
            if (lane == 0) arrive(work_empty(nr.place));
            nr.next();
        }
        if (number >= works) break;
        const Work w = work(number);
        // Only tiles at the end of the keys or on the diagonal have anything to mask: they come first.
        const int clear = CAUSAL ? min(Sk, w.row + (Sk - Sq) + 1) / BC : Sk / BC;
        top[0] = top[1] = LOWEST;
        sum[0] = sum[1] = 0;
#pragma unroll
        for (int i = 0; i < NO; ++i) out[i] = 0;

        wait_phase(q_full(group), q_parity);
        q_parity ^= 1;
        // Where this warpgroup stands among those that share: the one with the last tile comes first when they merge, whichever it is,
        // so that the sums do not depend on what a block worked on before.
        const int order = SHARE > 1 ? (part + SHARE - passed) % SHARE : 0;
        int tile = w.tiles - 1 - order;
        passed = (passed + w.tiles) % SHARE;
        if (CAUSAL) {
            // Tiles that only later rows of the block see.
            const int own = (min(Sk, w.row + group * 64 + 64 + Sk - Sq) + BC - 1) / BC;
            for (; tile >= own; tile -= SHARE) {
                wait_phase(k_full(k_place()), kr.parity);
                // As many turns as a tile has with products.
                for (int n = OVERLAP ? 1 : 2; n > 0; --n) {
                    take_turn();
                    pass_turn();
                }
                // No lane may give the place back while another still waits for it.
                __syncwarp();
                keys_read();
                wait_phase(v_full(v_place()), vr.parity);
                __syncwarp();
                values_read();
            }
        }
        const auto first = [&] {
            wait_phase(k_full(k_place()), kr.parity);
            take_turn();
            wgmma_fence();
            start_scores();
            pass_turn();
            wgmma_wait<0>();
            changed(score);
            keys_read();
            if (tile >= clear) mask(w, tile);
            softmax();
            to_halves();
            tile -= SHARE;
        };
        const auto overlapped = [&](bool masked) {
            wait_phase(k_full(k_place()), kr.parity);
            take_turn();
            wgmma_fence();
            start_scores();
            wait_phase(v_full(v_place()), vr.parity);
            start_values();
            pass_turn();
            wgmma_wait<1>();
            changed(score);
            keys_read();
            if (masked) mask(w, tile);
            softmax();
            wgmma_wait<0>();
            changed(out);
            values_read();
            rescale();
            to_halves();
            tile -= SHARE;
        };
        const auto last = [&] {
            wait_phase(v_full(v_place()), vr.parity);
            take_turn();
            wgmma_fence();
            start_values();
            pass_turn();
            wgmma_wait<0>();
            changed(out);
            values_read();
        };
        // Adds what the others found on other keys of the same rows to the first one's sums. Every thread hands over what the same
        // thread of the first has.
        const auto merge = [&] {
            const auto at = [&](int from, int i) {
                return parts_at + 4 * ((group * (SHARE - 1) + from - 1) * PART + i * 128 + threadIdx.x % 128);
            };
            if (order > 0) {
#pragma unroll
                for (int i = 0; i < NO; ++i) store(at(order, i), out[i]);
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    store(at(order, NO + r), top[r]);
                    store(at(order, NO + 2 + r), sum[r]);
                }
            }
            asm volatile("bar.sync %0, %1;" ::"r"(12 + group), "n"(SHARE * 128) : "memory");
            if (order == 0) {
#pragma unroll 1
                for (int from = 1; from < SHARE; ++from) {
                    float own[2], other[2];
#pragma unroll
                    for (int r = 0; r < 2; ++r) {
                        const float their_top = load(at(from, NO + r)), most = fmaxf(top[r], their_top);
                        own[r] = exp2_fast(top[r] - most);
                        other[r] = exp2_fast(their_top - most);
                        top[r] = most;
                        sum[r] = sum[r] * own[r] + load(at(from, NO + 2 + r)) * other[r];
                    }
#pragma unroll
                    for (int i = 0; i < NO; ++i) out[i] = out[i] * own[i / 2 % 2] + load(at(from, i)) * other[i / 2 % 2];
                }
            }
            // The place is free for the next work.
            if (SCHEDULE > 0) asm volatile("bar.sync %0, %1;" ::"r"(12 + group), "n"(SHARE * 128) : "memory");
        };
        const auto release_queries = [&] {
            if (!SHARED_OUT && lane == 0) arrive(q_empty(group));
        };
        if (SHARE > 1 && tile < 0) {
            // There are fewer tiles than warpgroups that share them.
            release_queries();
        } else if (OVERLAP) {
            first();
#pragma unroll 1
            while (tile >= 0 && tile >= clear) overlapped(true);
#pragma unroll 1
            while (tile >= 0) overlapped(false);
            release_queries();
            last();
        } else {
#pragma unroll 1
            while (tile >= 0) {
                first();
                rescale();
                if (tile < 0) release_queries();
                last();
            }
        }
        if (SHARE > 1) {
            merge();
            if (order > 0) {
                if (SHARED_OUT && lane == 0) arrive(q_empty(group));
                continue;
            }
        }

        // The output goes through shared memory, from where the copy engine takes it and leaves out rows that do not exist.
        meet(wg);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
            const float inverse = sum[r] > 0 ? 1 / sum[r] : 0;  // a query that sees no key gives 0
            const int row = warp * 16 + lane / 4 + r * 8;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
                const unsigned at = my_o + n / 8 * (64 * 128) + row * 128 + ((n % 8 ^ row % 8) << 4) + lane % 4 * 4;
                const unsigned pair = pack(out[n * 4 + r * 2] * inverse, out[n * 4 + r * 2 + 1] * inverse);
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pair) : "memory");
            }
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        meet(wg);
        if (warp == 0 && lane == 0) {
            put(o_map, w.row + group * 64, w.head, my_o);
            // Its place is free when it has been read; that all is written, the end of the launch sees to.
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncwarp();
        if (SHARED_OUT) {
            meet(wg);
            if (lane == 0) arrive(q_empty(group));
        }
    }
}
