// Attention on the tensor cores in the manner of FlashAttention-2 (arXiv 2307.08691): o = softmax(q k^T * scale) v for
// f16 and a head dimension of 64.
//
// A block of four warps owns 64 consecutive queries of one head, 16 per warp, and walks the keys in tiles of 64. Scores,
// probabilities and the output never leave registers: the accumulator of q k^T has the very layout that the next product
// needs as its left operand. Key and value tiles come by cp.async into two buffers each, so that one tile is on its way
// while the other is used.
#include <cuda_fp16.h>

constexpr int D = 64;        // head dimension
constexpr int BR = 64;       // query rows of a block
constexpr int BC = 64;       // keys of a tile
constexpr int WARPS = 4;     // 16 query rows each
constexpr int CHUNKS = 8;    // 16-byte chunks of a row
constexpr float LOG2E = 1.44269504f;
// A finite start for the running maximum: minus infinity minus it is minus infinity, never NaN.
constexpr float LOWEST = -1e30f;

// Place of a 16-byte chunk in a tile of rows of 128 bytes. Without the exclusive or, the eight rows that one ldmatrix
// reads at the same chunk would all start in the same banks.
__device__ inline unsigned place(int row, int chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

// Starts to copy `rows` rows of a matrix into a tile; rows that do not exist become zero, since a masked key has
// probability 0 and 0 times whatever was there must not be NaN.
__device__ inline void copy_async(unsigned tile, const __half* from, int valid) {
#pragma unroll
    for (int n = 0; n < 64 * CHUNKS / (WARPS * 32); ++n) {
        const int i = n * WARPS * 32 + threadIdx.x;
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        const int bytes = row < valid ? 16 : 0;
        // With no bytes to read the address still has to be a good one.
        const __half* source = from + (row < valid ? row * D + chunk * 8 : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(tile + place(row, chunk)), "l"(source), "r"(bytes) : "memory");
    }
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ inline void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

__device__ inline void load_matrices(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
__device__ inline void load_transposed(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
// d (16 x 8) += a (16 x 16) b (16 x 8)
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline unsigned pack(float low, float high) {
    const __half2 h = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&h);
}

// CAUSAL: key j is visible to query i iff j <= i + Sk - Sq.
template <bool CAUSAL>
__device__ inline void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    __shared__ __align__(128) __half q_tile[BR * D];
    __shared__ __align__(128) __half k_tile[2][BC * D];
    __shared__ __align__(128) __half v_tile[2][BC * D];
    const unsigned q_at = (unsigned)__cvta_generic_to_shared(q_tile);
    const unsigned k_at = (unsigned)__cvta_generic_to_shared(k_tile);
    const unsigned v_at = (unsigned)__cvta_generic_to_shared(v_tile);
    constexpr unsigned TILE_BYTES = BC * D * 2;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // The last queries see the most keys when causal: they start first, so that no long block is left at the end.
    const int block_row = (CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * BR;
    const size_t head = blockIdx.y;
    q += (head * Sq + block_row) * D;
    o += (head * Sq + block_row) * D;
    k += head * Sk * D;
    v += head * Sk * D;
    const int rows = min(BR, Sq - block_row);
    const int diagonal = block_row + Sk - Sq;  // the last key that the block's first row sees, when causal
    const int end = CAUSAL ? min(Sk, diagonal + rows) : Sk;
    const int tiles = max(0, (end + BC - 1) / BC);

    copy_async(q_at, q, rows);
    commit();
    if (tiles > 0) {
        copy_async(k_at, k, Sk);
        copy_async(v_at, v, Sk);
    }
    commit();

    // The warp's 16 queries as left operands, one per 16 dimensions: they stay in registers.
    wait<1>();
    __syncthreads();
    unsigned q_part[D / 16][4];
#pragma unroll
    for (int x = 0; x < D / 16; ++x)
        load_matrices(q_part[x], q_at + place(warp * 16 + lane % 16, x * 2 + lane / 16));

    float acc[D / 8][4] = {};                // un-normalised output: 16 x 64
    float top[2] = {LOWEST, LOWEST};         // running maximum, in units of log2; rows lane / 4 and lane / 4 + 8
    float sum[2] = {0, 0};                   // this thread's part of the running sum
    const float factor = scale * LOG2E;      // exp(scale * x) = exp2(factor * x), one multiplication for both

    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) {
            const unsigned next = ((t + 1) & 1) * TILE_BYTES;
            const size_t first = (size_t)(t + 1) * BC;
            copy_async(k_at + next, k + first * D, Sk - (int)first);
            copy_async(v_at + next, v + first * D, Sk - (int)first);
        }
        commit();  // an empty group at the end, so that the number to wait for is always the same
        wait<1>();
        __syncthreads();
        const unsigned k_now = k_at + (t & 1) * TILE_BYTES, v_now = v_at + (t & 1) * TILE_BYTES;

        // Scores of 16 queries and 64 keys. One load gives the right operands of two groups of 8 keys.
        float score[BC / 8][4] = {};
#pragma unroll
        for (int x = 0; x < D / 16; ++x) {
#pragma unroll
            for (int n = 0; n < BC / 16; ++n) {
                unsigned b[4];
                load_matrices(b, k_now + place(n * 16 + lane / 16 * 8 + lane % 8, x * 2 + lane / 8 % 2));
                multiply(score[n * 2], q_part[x], b[0], b[1]);
                multiply(score[n * 2 + 1], q_part[x], b[2], b[3]);
            }
        }

        // Only a tile at the end of the keys or on the diagonal has anything to mask.
        const int first = t * BC;
        if (first + BC > Sk || (CAUSAL && first + BC - 1 > diagonal + warp * 16)) {
#pragma unroll
            for (int n = 0; n < BC / 8; ++n) {
#pragma unroll
                for (int x = 0; x < 4; ++x) {
                    const int key = first + n * 8 + lane % 4 * 2 + x % 2;
                    const int row = warp * 16 + lane / 4 + x / 2 * 8;
                    if (key >= Sk || (CAUSAL && key > diagonal + row)) score[n][x] = -__int_as_float(0x7f800000);
                }
            }
        }

        // Online softmax: four neighbouring threads share a row.
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float most = score[0][r * 2];
#pragma unroll
            for (int n = 0; n < BC / 8; ++n) most = fmaxf(most, fmaxf(score[n][r * 2], score[n][r * 2 + 1]));
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
            const float grown = fmaxf(top[r], most * factor);
            const float shrink = exp2f(top[r] - grown);
            top[r] = grown;
            sum[r] *= shrink;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) acc[n][r * 2] *= shrink, acc[n][r * 2 + 1] *= shrink;
#pragma unroll
            for (int n = 0; n < BC / 8; ++n) {
#pragma unroll
                for (int x = r * 2; x < r * 2 + 2; ++x) {
                    score[n][x] = exp2f(fmaf(score[n][x], factor, -grown));
                    sum[r] += score[n][x];
                }
            }
        }

        // Output += probabilities x values: 16 keys at a time, the values transposed while loading.
#pragma unroll
        for (int n = 0; n < BC / 16; ++n) {
            const unsigned p[4] = {pack(score[n * 2][0], score[n * 2][1]), pack(score[n * 2][2], score[n * 2][3]),
                                   pack(score[n * 2 + 1][0], score[n * 2 + 1][1]), pack(score[n * 2 + 1][2], score[n * 2 + 1][3])};
#pragma unroll
            for (int x = 0; x < D / 16; ++x) {
                unsigned b[4];
                load_transposed(b, v_now + place(n * 16 + lane % 16, x * 2 + lane / 16));
                multiply(acc[x * 2], p, b[0], b[1]);
                multiply(acc[x * 2 + 1], p, b[2], b[3]);
            }
        }
        __syncthreads();  // every warp is done with the buffers that the next round fills
    }
    wait<0>();

    // The warp's rows of the query tile are its own and no longer needed: through them every store moves 16 bytes.
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float whole = sum[r];
        whole += __shfl_xor_sync(0xffffffffu, whole, 1);
        whole += __shfl_xor_sync(0xffffffffu, whole, 2);
        const float inverse = whole > 0 ? 1 / whole : 0;  // a query that sees no key gives 0
        const int row = warp * 16 + lane / 4 + r * 8;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
            unsigned* to = reinterpret_cast<unsigned*>(reinterpret_cast<char*>(q_tile) + place(row, n)) + lane % 4;
            *to = pack(acc[n][r * 2] * inverse, acc[n][r * 2 + 1] * inverse);
        }
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < 16 * CHUNKS / 32; ++n) {
        const int row = warp * 16 + n * 4 + lane / 8, chunk = lane % 8;
        const uint4 part = *reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(q_tile) + place(row, chunk));
        if (row < rows) *reinterpret_cast<uint4*>(o + row * D + chunk * 8) = part;
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v, __half* __restrict__ o,
          int Sq, int Sk, float scale) {
    attend<false>(q, k, v, o, Sq, Sk, scale);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
attention_causal(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
                 __half* __restrict__ o, int Sq, int Sk, float scale) {
    attend<true>(q, k, v, o, Sq, Sk, scale);
}
