// attention-mma for f16, D=64 CAUSAL=1
// QWARPS=2 KWARPS=2 MT=1 BC=64 STAGES=1 QDIRECT=0 VLATE=0 MIN_BLOCKS=0
// Attention on the tensor cores through mma.sync: o = softmax(q k^T * scale) v, for f16.
//
// After FlashAttention-2 (Dao 2023, arXiv 2307.08691): a warp owns 16 * MT query rows and walks the keys in tiles. Scores,
// probabilities and the output never leave registers, since the accumulator of q k^T has the very layout that the next product
// needs as its left operand (PTX ISA, "Matrix Fragments for mma.m16n8k16"). Keys and values come by cp.async, STAGES - 1 tiles
// ahead of the one in use.
//
// Short sequences have too few query rows to fill the GPU, so KWARPS warps can share a row's keys: each takes its part of every
// tile, and at the end the block merges their outputs by maximum and sum (as Flash-Decoding does between blocks).
#include <cuda_fp16.h>

constexpr int D = 64;             // head dimension
constexpr bool CAUSAL = 1;       // key j is visible to query i iff j <= i + Sk - Sq
constexpr int QWARPS = 2;         // warps along the queries
constexpr int KWARPS = 2;         // warps that share the keys of the same queries
constexpr int MT = 1;             // groups of 16 query rows of a warp
constexpr int BC = 64;            // keys of a warp in a tile
constexpr int STAGES = 1;         // tiles in shared memory: one in use, the others in flight
constexpr bool QDIRECT = 0;      // queries go from global memory to registers, without a tile
constexpr bool VLATE = 0;        // scores start as soon as the keys are there, before the values

constexpr int WARPS = QWARPS * KWARPS;
constexpr int THREADS = WARPS * 32;
constexpr int BR = QWARPS * MT * 16;   // query rows of a block
constexpr int KEYS = BC * KWARPS;      // keys of a tile
constexpr int CHUNKS = D / 8;          // 16-byte chunks of a row
constexpr int KX = D / 16;             // steps along the head dimension in q k^T
constexpr int NX = BC / 8;             // groups of 8 keys of a warp
constexpr int OX = D / 8;              // groups of 8 output dimensions
constexpr unsigned Q_BYTES = QDIRECT ? 0 : BR * D * 2;
constexpr unsigned TILE_BYTES = KEYS * D * 2;
// Rows of the merged output are apart by this many floats, so that the rows of a quad's threads start in other banks.
constexpr int PITCH = D + 4;

// exp(x) = exp2(x * LOG2E): scores are kept in units of log2.
constexpr float LOG2E = 1.44269504f;
// A finite start for the running maximum: minus infinity minus it is minus infinity, never NaN.
constexpr float LOWEST = -1e30f;
// --- shared memory as PTX addresses it (PTX ISA, "State Spaces"): 32 bits, in the window of the block ---
__device__ inline unsigned shared_address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }
// --- copies to shared memory by each thread (PTX ISA, "cp.async"), bypassing L1 ---
// Starts to copy `bytes` of 16 bytes, and fills the others with zeros. The address must be valid even if nothing is
// read.
template <class T>
__device__ inline void cp_async_16(unsigned to, const T* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// The copies of a thread since the last commit are a group, which may be empty.
__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most N groups of this thread are in flight.
template <int N>
__device__ inline void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
// --- ldmatrix (PTX ISA, "ldmatrix"): all lanes of a warp; lane i has the address of row i % 8 of matrix i / 8, 8 x 8 of 16 bits each ---
__device__ inline void ldmatrix_x4(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
__device__ inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
// --- mma.sync (PTX ISA, "Matrix Fragments for mma.m16n8k16"): all lanes of a warp; d (16 x 8) += a (16 x 16) b (16 x 8), f16 with f32 sums ---
__device__ inline void mma_m16n8k16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// The same with a as ldmatrix gives it.
__device__ inline void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    mma_m16n8k16(d, a[0], a[1], a[2], a[3], b0, b1);
}
// Rounds two numbers to FP16 and packs them into one operand register: the first in the lower half.
__device__ inline unsigned pack_half2(float low, float high) {
    const __half2 h = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&h);
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

// Place of a 16-byte chunk in a tile. ldmatrix reads the same chunk of eight rows at once: without the exclusive or
// they would start in the same banks. Rows shorter than 128 bytes share a line of banks, so there fewer rows need it.
__device__ inline unsigned place(int row, int chunk) {
    constexpr int ROWS_PER_LINE = CHUNKS >= 8 ? 1 : 8 / CHUNKS;
    constexpr int MASK = CHUNKS >= 8 ? 7 : CHUNKS - 1;
    return row * (D * 2) + ((chunk ^ ((row / ROWS_PER_LINE) & MASK)) << 4);
}

// Starts to copy ROWS rows into a tile. Rows that do not exist become zero, because a masked key has probability 0, and
// 0 times stale data must not be NaN.
template <int ROWS>
__device__ inline void copy_rows_async(unsigned tile, const __half* from, int valid) {
    constexpr int WORK = ROWS * CHUNKS;
#pragma unroll
    for (int n = 0; n < (WORK + THREADS - 1) / THREADS; ++n) {
        const int i = n * THREADS + threadIdx.x;
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        const int bytes = row < valid ? 16 : 0;
        // The address must be valid even if no bytes are read.
        const __half* source = from + (row < valid ? (size_t)row * D + chunk * 8 : 0);
        if (WORK % THREADS == 0 || i < WORK) cp_async_16(tile + place(row, chunk), source, bytes);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
attend(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v, __half* __restrict__ o,
       int Sq, int Sk, float scale) {
    extern __shared__ __align__(128) unsigned char shared[];
    const unsigned q_at = shared_address(shared);
    const unsigned k_at = q_at + Q_BYTES, v_at = k_at + STAGES * TILE_BYTES;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int kw = warp % KWARPS;                      // the warp's part of every tile
    const int warp_row = warp / KWARPS * (MT * 16);    // its first query row in the block
    // With a causal mask, the last queries see the most keys. They start first, so that no long block is left at the
    // end.
    const int block_row = (CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * BR;
    const size_t head = blockIdx.y;
    q += (head * Sq + block_row) * D;
    o += (head * Sq + block_row) * D;
    k += head * Sk * D;
    v += head * Sk * D;
    const int rows = min(BR, Sq - block_row);
    const int diagonal = block_row + Sk - Sq;  // the last key that the block's first row sees, when causal
    const int end = CAUSAL ? min(Sk, diagonal + rows) : Sk;
    const int tiles = max(0, (end + KEYS - 1) / KEYS);

    // A tile's keys and values are one group of copies, or two with VLATE. Groups are counted, so empty ones are committed, too.
    const auto fetch = [&](int tile) {
        const unsigned slot = tile % STAGES * TILE_BYTES;
        const size_t first = (size_t)tile * KEYS;
        if (tile < tiles) copy_rows_async<KEYS>(k_at + slot, k + first * D, Sk - (int)first);
        if (VLATE) cp_async_commit();
        if (tile < tiles) copy_rows_async<KEYS>(v_at + slot, v + first * D, Sk - (int)first);
        cp_async_commit();
    };
    if (!QDIRECT) {
        copy_rows_async<BR>(q_at, q, rows);
        cp_async_commit();
    }
#pragma unroll
    for (int tile = 0; tile < (STAGES == 1 ? 1 : STAGES - 1); ++tile) fetch(tile);

    // The warp's queries as left operands, 16 dimensions each: they stay in registers.
    unsigned q_part[MT][KX][4];
    if (QDIRECT) {
#pragma unroll
        for (int m = 0; m < MT; ++m)
#pragma unroll
            for (int x = 0; x < KX; ++x)
#pragma unroll
                for (int n = 0; n < 4; ++n) {
                    const int row = warp_row + m * 16 + lane / 4 + n % 2 * 8;
                    const int column = x * 16 + lane % 4 * 2 + n / 2 * 8;
                    q_part[m][x][n] = row < rows ? *reinterpret_cast<const unsigned*>(q + (size_t)row * D + column) : 0;
                }
    } else {
        cp_async_wait<(STAGES == 1 ? 1 : STAGES - 1) * (VLATE ? 2 : 1)>();
        __syncthreads();
#pragma unroll
        for (int m = 0; m < MT; ++m)
#pragma unroll
            for (int x = 0; x < KX; ++x)
                ldmatrix_x4(q_part[m][x], q_at + place(warp_row + m * 16 + lane % 16, x * 2 + lane / 16));
    }

    float acc[MT][OX][4] = {};                 // un-normalised output
    float top[MT][2], sum[MT][2];              // running maximum in units of log2, this thread's part of the running sum
#pragma unroll
    for (int m = 0; m < MT; ++m) top[m][0] = top[m][1] = LOWEST, sum[m][0] = sum[m][1] = 0;
    const float factor = scale * LOG2E;        // exp(scale * x) = exp2(factor * x), one multiplication for both

    for (int t = 0; t < tiles; ++t) {
        // The keys of tile t have arrived when only the later groups are pending. All warps are then done with the
        // previous tile, whose memory the next copies reuse.
        if (STAGES == 1) {
            cp_async_wait<VLATE ? 1 : 0>();
        } else {
            cp_async_wait<VLATE ? 2 * (STAGES - 2) + 1 : STAGES - 2>();
        }
        __syncthreads();
        if (STAGES > 1) fetch(t + STAGES - 1);
        const unsigned k_now = k_at + t % STAGES * TILE_BYTES, v_now = v_at + t % STAGES * TILE_BYTES;
        const int first = t * KEYS + kw * BC;  // the warp's first key
        // A warp whose keys are all masked only takes part in the barriers.
        const bool idle = first >= end || (CAUSAL && first > diagonal + warp_row + MT * 16 - 1);

        float score[MT][NX][4] = {};
        if (!idle) {
#pragma unroll
            for (int x = 0; x < KX; ++x) {
#pragma unroll
                for (int n = 0; n < NX / 2; ++n) {
                    // One load gives the right operands of two groups of 8 keys.
                    unsigned b[4];
                    ldmatrix_x4(b, k_now + place(kw * BC + n * 16 + lane / 16 * 8 + lane % 8, x * 2 + lane / 8 % 2));
#pragma unroll
                    for (int m = 0; m < MT; ++m) {
                        mma_m16n8k16(score[m][n * 2], q_part[m][x], b[0], b[1]);
                        mma_m16n8k16(score[m][n * 2 + 1], q_part[m][x], b[2], b[3]);
                    }
                }
            }
#pragma unroll
            for (int m = 0; m < MT; ++m) {
                // Only a tile at the end of the keys or on the diagonal needs a mask.
                if (first + BC > Sk || (CAUSAL && first + BC - 1 > diagonal + warp_row + m * 16)) {
#pragma unroll
                    for (int n = 0; n < NX; ++n) {
#pragma unroll
                        for (int x = 0; x < 4; ++x) {
                            const int key = first + n * 8 + lane % 4 * 2 + x % 2;
                            const int row = warp_row + m * 16 + lane / 4 + x / 2 * 8;
                            if (key >= Sk || (CAUSAL && key > diagonal + row)) score[m][n][x] = -__int_as_float(0x7f800000);
                        }
                    }
                }
                // Online softmax: four neighbouring threads share a row.
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    float most = score[m][0][r * 2];
#pragma unroll
                    for (int n = 0; n < NX; ++n) most = fmaxf(most, fmaxf(score[m][n][r * 2], score[m][n][r * 2 + 1]));
                    const float grown = fmaxf(top[m][r], quad_reduce_max(most) * factor);
                    const float shrink = exp2f(top[m][r] - grown);
                    top[m][r] = grown;
                    sum[m][r] *= shrink;
#pragma unroll
                    for (int n = 0; n < OX; ++n) acc[m][n][r * 2] *= shrink, acc[m][n][r * 2 + 1] *= shrink;
#pragma unroll
                    for (int n = 0; n < NX; ++n) {
#pragma unroll
                        for (int x = r * 2; x < r * 2 + 2; ++x) {
                            score[m][n][x] = exp2f(fmaf(score[m][n][x], factor, -grown));
                            sum[m][r] += score[m][n][x];
                        }
                    }
                }
            }
        }
        if (VLATE) {
            // The next tile's keys and values, two groups each, may still be in flight.
            if (STAGES == 1) {
                cp_async_wait<0>();
            } else {
                cp_async_wait<2 * (STAGES - 1)>();
            }
            __syncthreads();
        }
        if (!idle) {
            // Output += probabilities x values: 16 keys at a time, the values transposed while loading.
#pragma unroll
            for (int n = 0; n < NX / 2; ++n) {
                unsigned p[MT][4];
#pragma unroll
                for (int m = 0; m < MT; ++m) {
#pragma unroll
                    for (int x = 0; x < 4; ++x)
                        p[m][x] = pack_half2(score[m][n * 2 + x / 2][x % 2 * 2], score[m][n * 2 + x / 2][x % 2 * 2 + 1]);
                }
#pragma unroll
                for (int x = 0; x < OX / 2; ++x) {
                    unsigned b[4];
                    ldmatrix_x4_trans(b, v_now + place(kw * BC + n * 16 + lane % 16, x * 2 + lane / 16));
#pragma unroll
                    for (int m = 0; m < MT; ++m) {
                        mma_m16n8k16(acc[m][x * 2], p[m], b[0], b[1]);
                        mma_m16n8k16(acc[m][x * 2 + 1], p[m], b[2], b[3]);
                    }
                }
            }
        }
        if (STAGES == 1) {
            __syncthreads();  // every warp is done with the tile before it is overwritten
            if (t + 1 < tiles) fetch(t + 1);
        }
    }
    cp_async_wait<0>();
    __syncthreads();  // from here on the tiles' memory is free

    // The sums of the four threads of a row.
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) sum[m][r] = quad_reduce_sum(sum[m][r]);

    if constexpr (KWARPS == 1) {
        // Through shared memory, so that every store to global memory moves 16 bytes: rows are the warp's own.
#pragma unroll
        for (int m = 0; m < MT; ++m)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const float inverse = sum[m][r] > 0 ? 1 / sum[m][r] : 0;  // a query that sees no key gives 0
                const int row = warp_row + m * 16 + lane / 4 + r * 8;
#pragma unroll
                for (int n = 0; n < OX; ++n)
                    reinterpret_cast<unsigned*>(shared + place(row, n))[lane % 4] =
                        pack_half2(acc[m][n][r * 2] * inverse, acc[m][n][r * 2 + 1] * inverse);
            }
        __syncwarp();
#pragma unroll
        for (int n = 0; n < MT * 16 * CHUNKS / 32; ++n) {
            const int row = warp_row + (n * 32 + lane) / CHUNKS, chunk = (n * 32 + lane) % CHUNKS;
            const uint4 part = *reinterpret_cast<const uint4*>(shared + place(row, chunk));
            if (row < rows) *reinterpret_cast<uint4*>(o + (size_t)row * D + chunk * 8) = part;
        }
    } else {
        // Each warp leaves its output, maximum and sum; then the block merges them, 8 dimensions a thread.
        float* outs = reinterpret_cast<float*>(shared);
        float* tops = outs + KWARPS * BR * PITCH;
        float* sums = tops + KWARPS * BR;
#pragma unroll
        for (int m = 0; m < MT; ++m)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int row = kw * BR + warp_row + m * 16 + lane / 4 + r * 8;
#pragma unroll
                for (int n = 0; n < OX; ++n)
                    *reinterpret_cast<float2*>(outs + row * PITCH + n * 8 + lane % 4 * 2) =
                        make_float2(acc[m][n][r * 2], acc[m][n][r * 2 + 1]);
                if (lane % 4 == 0) tops[row] = top[m][r], sums[row] = sum[m][r];
            }
        __syncthreads();
        for (int i = threadIdx.x; i < rows * CHUNKS; i += THREADS) {
            const int row = i / CHUNKS, chunk = i % CHUNKS;
            float most = LOWEST;
#pragma unroll
            for (int w = 0; w < KWARPS; ++w) most = fmaxf(most, tops[w * BR + row]);
            float whole = 0, out[8] = {};
#pragma unroll
            for (int w = 0; w < KWARPS; ++w) {
                const float weight = exp2f(tops[w * BR + row] - most);
                whole += weight * sums[w * BR + row];
                const float* from = outs + (w * BR + row) * PITCH + chunk * 8;
#pragma unroll
                for (int x = 0; x < 8; ++x) out[x] += weight * from[x];
            }
            const float inverse = whole > 0 ? 1 / whole : 0;  // a query that sees no key gives 0
            uint4 part;
            part.x = pack_half2(out[0] * inverse, out[1] * inverse);
            part.y = pack_half2(out[2] * inverse, out[3] * inverse);
            part.z = pack_half2(out[4] * inverse, out[5] * inverse);
            part.w = pack_half2(out[6] * inverse, out[7] * inverse);
            *reinterpret_cast<uint4*>(o + (size_t)row * D + chunk * 8) = part;
        }
    }
}
