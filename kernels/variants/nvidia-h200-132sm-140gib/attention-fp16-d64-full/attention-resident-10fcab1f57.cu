// attention-resident for f16, D=64 CAUSAL=0 Sk=512
// WGS=1 PASSES=1 KEYS=256 CHUNK=64 MIN_BLOCKS=1
// Attention on Hopper for short sequences: o = softmax(q k^T * scale) v, for f16.
//
// All keys and values of a head fit in shared memory. So there is no ring, no producer and no role: one thread asks the copy engine (TMA)
// for everything at once, in the order in which it is needed, with a barrier for each chunk, and every warpgroup starts when the first
// chunk is there. A warpgroup owns 64 query rows at a time; with PASSES > 1 it takes another 64 when it is done, for which nothing has to
// be fetched any more.
//
// The scores of KEYS keys are in registers at once (with 256 keys in 256 that is the whole row, and nothing is ever rescaled): their
// products are started together, and maxima are taken while the later ones run. The values of a chunk are multiplied while the
// exponentials of the next one are computed. The accumulator of the scores has the very layout that the second product needs as its left
// operand, so probabilities stay in registers (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16").
//
// What a launch is made of (H200, 2026-11-22, 64 heads of 256 rows, by the clock of an instrumented kernel): 0.7 us from the start of a block
// to its first chunk, 2.2 us of products and exponentials, 0.3 us for the output, and 0.9 us outside of all blocks. To share what is fetched in a
// cluster cost more than it saved, since a cluster's blocks must meet before they may write to each other.
#include <cuda_fp16.h>

constexpr bool CAUSAL = 0;       // key j is visible to query i iff j <= i + Sk - Sq
constexpr int WGS = 1;            // warpgroups
constexpr int PASSES = 1;         // times 64 rows of a warpgroup
constexpr int KEYS = 256;           // keys whose scores are in registers at once
constexpr int CHUNK = 64;          // keys of a copy, and of a product

constexpr int D = 64;                  // head dimension
constexpr int Sk = 512;             // keys of a head, known here: a single tile has no loop and no rescaling, and full tiles no masks
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
constexpr float LOG2E = 1.44269504f;
// A finite start for the running maximum: minus infinity minus it is minus infinity, never NaN.
constexpr float LOWEST = -1e30f;

struct alignas(128) TensorMap {
    unsigned char bytes[128];
};

// --- mbarriers (PTX ISA, "mbarrier") ---
__device__ inline void barrier_init(unsigned barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
// A barrier is used once: its first phase ends when all bytes have arrived.
__device__ inline void wait(unsigned barrier) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], 0;\n"
        "@done bra over;\n"
        "bra again;\n"
        "over:\n"
        "}" ::"r"(barrier) : "memory");
}

// --- the copy engine (PTX ISA, "cp.async.bulk.tensor"); a box is 64 dimensions x rows x one head ---
__device__ inline void prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
__device__ inline void fetch(unsigned to, const TensorMap& map, int row, int head, unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
        ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(head), "r"(barrier) : "memory");
}
__device__ inline void put(const TensorMap& map, int row, int head, unsigned from) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
                 ::"l"(&map), "r"(0), "r"(row), "r"(head), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// --- wgmma ---
// Describes a matrix in shared memory with 128-byte swizzle: 8 rows take 1,024 bytes.
__device__ inline unsigned long long descriptor(unsigned address) {
    return (unsigned long long)((address & 0x3ffff) >> 4) | 1ull << 16 | (unsigned long long)(1024 >> 4) << 32 | 1ull << 62;
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
// s (64 x CHUNK) = q k^T over 16 dimensions, added to what is there if ADD.
template <int ADD>
__device__ inline void multiply_qk(float (&s)[NS], unsigned long long q, unsigned long long k) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, %34, 1, 1, 0, 0;"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31])
        : "l"(q), "l"(k), "n"(ADD));
}
// o (64 x D) += p v over 16 keys: the values lie with the head dimension along their rows, so they are read transposed.
__device__ inline void multiply_pv(float (&o)[NO], const unsigned (&p)[4], unsigned long long v) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
        : "+f"(o[0]), "+f"(o[1]), "+f"(o[2]), "+f"(o[3]), "+f"(o[4]), "+f"(o[5]), "+f"(o[6]), "+f"(o[7]), "+f"(o[8]), "+f"(o[9]), "+f"(o[10]), "+f"(o[11]), "+f"(o[12]), "+f"(o[13]), "+f"(o[14]), "+f"(o[15]), "+f"(o[16]), "+f"(o[17]), "+f"(o[18]), "+f"(o[19]), "+f"(o[20]), "+f"(o[21]), "+f"(o[22]), "+f"(o[23]), "+f"(o[24]), "+f"(o[25]), "+f"(o[26]), "+f"(o[27]), "+f"(o[28]), "+f"(o[29]), "+f"(o[30]), "+f"(o[31])
        : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v));
}

// --- arithmetic ---
__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ inline unsigned pack(float low, float high) {
    const __half2 h = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&h);
}
// Waits for the other threads of the same warpgroup.
__device__ inline void meet(int wg) { asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory"); }

extern "C" __global__ void __launch_bounds__(128, 1)
attend(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
       const __grid_constant__ TensorMap o_map, int Sq, float scale) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ __align__(8) unsigned long long barriers[2 * ALL_CHUNKS + GROUPS];
    const unsigned bars = (unsigned)__cvta_generic_to_shared(barriers);
    const auto k_full = [&](int chunk) { return bars + 8 * chunk; };
    const auto v_full = [&](int chunk) { return bars + 8 * (ALL_CHUNKS + chunk); };
    const auto q_full = [&](int group) { return bars + 8 * (2 * ALL_CHUNKS + group); };
    // The swizzle goes by the address: chunks start at multiples of 1,024.
    const unsigned q_at = ((unsigned)__cvta_generic_to_shared(dynamic) + 1023) & ~1023u;
    const unsigned k_at = q_at + GROUPS * Q_BYTES, v_at = k_at + ALL_CHUNKS * CHUNK_BYTES;

    // The last queries see the most keys when causal. The blocks of a launch are nearly all at work at once, two on a multiprocessor: so the
    // rows of all heads come from the longest down, and then from the shortest up, and long ones get short ones beside them. Without
    // causality the blocks of a head start together, and fetch the same keys at the same time.
    const int blocks = CAUSAL ? gridDim.y : gridDim.x, number = CAUSAL ? blockIdx.y : blockIdx.x;
    const int head = CAUSAL ? blockIdx.x : blockIdx.y;
    const int block_row = (!CAUSAL ? number : 2 * number < blocks ? blocks - 1 - number : number - (blocks + 1) / 2) * BR;
    // Tiles of KEYS keys that the rows before `end` see.
    const auto tiles_before = [&](int end) { return CAUSAL ? (min(Sk, end + Sk - Sq) + KEYS - 1) / KEYS : TILES; };

    if (threadIdx.x == 0) {
        // The copy engine reads a map from memory first: it may begin while barriers are made.
        prefetch(q_map);
        prefetch(k_map);
        prefetch(v_map);
        for (int c = 0; c < ALL_CHUNKS; ++c) {
            barrier_init(k_full(c));
            barrier_init(v_full(c));
        }
        for (int g = 0; g < GROUPS; ++g) barrier_init(q_full(g));
        // The copy engine must see them, too.
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        const int chunks = tiles_before(block_row + BR) * CHUNKS;
        const auto fetch_queries = [&](int g) { fetch(q_at + g * Q_BYTES, q_map, block_row + g * 64, head, q_full(g), Q_BYTES); };
        const auto fetch_keys = [&](int c) {
            if (c < chunks) fetch(k_at + c * CHUNK_BYTES, k_map, c * CHUNK, head, k_full(c), CHUNK_BYTES);
        };
        fetch_queries(0);
        fetch_keys(0);
#pragma unroll
        for (int g = 1; g < WGS; ++g) fetch_queries(g);
#pragma unroll
        for (int c = 1; c < ALL_CHUNKS; ++c) fetch_keys(c);
#pragma unroll
        for (int c = 0; c < ALL_CHUNKS; ++c)
            if (c < chunks) fetch(v_at + c * CHUNK_BYTES, v_map, c * CHUNK, head, v_full(c), CHUNK_BYTES);
#pragma unroll
        for (int g = WGS; g < GROUPS; ++g) fetch_queries(g);
    }
    __syncthreads();

    // The same for all threads of a warp, which the compiler cannot see by itself.
    const int wg = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const float factor = scale * LOG2E;  // exp(scale * x) = exp2(factor * x), one multiplication for both

#pragma unroll 1
    for (int pass = 0; pass < PASSES; ++pass) {
        // When causal, who had the fewest keys gets the most next.
        const int group = pass * WGS + (CAUSAL && pass % 2 == 1 ? WGS - 1 - wg : wg), row = block_row + group * 64;
        if (row >= Sq) continue;
        const unsigned my_q = q_at + group * Q_BYTES;
        float out[NO], top[2] = {LOWEST, LOWEST}, sum[2] = {0, 0};  // maximum in units of log2, this thread's part of the sum
#pragma unroll
        for (int i = 0; i < NO; ++i) out[i] = 0;
        wait(q_full(group));

        const int tiles = tiles_before(row + 64);
#pragma unroll 1
        for (int t = 0; t < tiles; ++t) {
            float score[CHUNKS][NS];
            unsigned p[CHUNKS][NP][4];
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) {
                const int chunk = t * CHUNKS + c;
                wait(k_full(chunk));
                wgmma_fence();
                const unsigned long long queries = descriptor(my_q), keys = descriptor(k_at + chunk * CHUNK_BYTES);
                // 16 dimensions are 32 bytes; addresses in a descriptor count 16 bytes.
                multiply_qk<0>(score[c], queries, keys);
#pragma unroll
                for (int x = 1; x < D / 16; ++x) multiply_qk<1>(score[c], queries + x * 2, keys + x * 2);
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
                changed(score[c]);
                // Only a chunk at the end of the keys or on the diagonal has anything to mask.
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
                    // Two strands, since each maximum waits for the one before.
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
                most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 1));
                most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 2));
                most[r] = fmaxf(top[r], most[r] * factor);
                shrink[r] = exp2_fast(top[r] - most[r]);
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
                    s = exp2_fast(fmaf(s, factor, -top[i / 2 % 2]));
                    added[i / 2 % 2][i % 2] += s;
                }
#pragma unroll
                for (int r = 0; r < 2; ++r) sum[r] += added[r][0] + added[r][1];
#pragma unroll
                for (int x = 0; x < NP; ++x)
#pragma unroll
                    for (int i = 0; i < 4; ++i) p[c][x][i] = pack(score[c][x * 8 + i * 2], score[c][x * 8 + i * 2 + 1]);
                const int chunk = t * CHUNKS + c;
                wait(v_full(chunk));
                wgmma_fence();
                const unsigned long long values = descriptor(v_at + chunk * CHUNK_BYTES);
#pragma unroll
                for (int x = 0; x < NP; ++x) multiply_pv(out, p[c][x], values + x * (2048 / 16));
                wgmma_commit();
            }
            wgmma_wait<0>();
            changed(out);
        }

        // The output goes through the place of the queries, from where the copy engine takes it and leaves out rows that do not exist.
        meet(wg);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
            const float inverse = 1 / sum[r];  // causal or not, every query sees a key
            const int to_row = warp * 16 + lane / 4 + r * 8;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
                const unsigned at = my_q + to_row * (D * 2) + ((n ^ to_row % 8) << 4) + lane % 4 * 4;
                const unsigned pair = pack(out[n * 4 + r * 2] * inverse, out[n * 4 + r * 2 + 1] * inverse);
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pair) : "memory");
            }
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        meet(wg);
        if (threadIdx.x % 128 == 0) put(o_map, row, head, my_q);
    }
    // Shared memory must live until the copy engine has read it; that all is written, the end of the launch sees to.
    if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
