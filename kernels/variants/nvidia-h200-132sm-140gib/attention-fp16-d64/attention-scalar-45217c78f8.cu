// attention-scalar for f16, D=4 CAUSAL=1
// BR=64 BC=8 THREADS=256 TPR=1 ROWS=1 KEYS=4 VEC=1 PAD=0 QREG=1 SKIP=0 UNROLL=1 MIN_BLOCKS=4
// Attention without tensor cores: o = softmax(q k^T * scale) v, one pass over the keys.
//
// A block owns BR consecutive queries of one head and walks the keys in tiles of BC, copied to shared memory. Softmax
// is computed online (Milakov & Gimelshein 2018, arXiv 1805.02867), so no score is ever stored; the order of the loops
// (queries outside, keys inside) is FlashAttention-2's (arXiv 2307.08691). Each query row belongs to a group of TPR
// neighbouring threads that share its head dimension (the notebook's "split queries across threads").
constexpr int D = 4;            // head dimension
constexpr bool CAUSAL = 1;      // key j is visible to query i iff j <= i + Sk - Sq
constexpr int BR = 64;           // query rows of a block
constexpr int BC = 8;           // keys of a tile
constexpr int THREADS = 256;     // threads of a block; all copy, the first WORKERS compute
constexpr int TPR = 1;           // threads that share a query row
constexpr int ROWS = 1;          // query rows of a group of TPR threads
constexpr int KEYS = 4;          // keys that a thread scores at once
constexpr int VEC = 1;           // elements of one shared-memory load
constexpr int PAD = 0;           // elements between rows in shared memory, against bank conflicts
constexpr int UNROLL = 1;        // loads per row in one body of the score loop; all of them with QREG
constexpr bool SKIP = 0;        // skip the keys that the causal mask hides
constexpr bool QREG = 1;        // the query fragment lives in registers, not in shared memory

constexpr int PITCH = D + PAD;
constexpr int SCORE_UNROLL = QREG ? D / TPR / VEC : UNROLL;  // registers cannot be indexed by a loop variable

// exp(x) = exp2(x * LOG2E): scores are kept in units of log2.
constexpr float LOG2E = 1.44269504f;
// A finite start for the running maximum: minus infinity minus it is minus infinity, never NaN.
constexpr float LOWEST = -1e30f;
// A finite replacement for a masked score: exp2 of MASKED - LOWEST is 0.
constexpr float MASKED = -2e30f;
#include <cuda_fp16.h>

// --- the element type of the workload; sums are in FP32 ---
using Elem = __half;
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline void narrow(float x, float& to) { to = x; }
__device__ inline void narrow(float x, __half& to) { to = __float2half_rn(x); }

// --- loads and stores of N neighbouring elements at once, aligned to their size ---
template <int N>
struct alignas(N * sizeof(Elem)) Pack {
    Elem at[N];
};
// The same as 32-bit words, which the compiler does not split into loads and stores of single elements.
template <int N>
struct alignas(N * 4) Words {
    unsigned at[N];
};
template <int N>
__device__ inline void load_vector(float (&to)[N], const Elem* from) {
    const Pack<N> pack = *reinterpret_cast<const Pack<N>*>(from);
#pragma unroll
    for (int x = 0; x < N; ++x) to[x] = widen(pack.at[x]);
}
template <int N>
__device__ inline void store_vector(Elem* to, const float (&from)[N], float factor) {
    Pack<N> pack;
#pragma unroll
    for (int x = 0; x < N; ++x) narrow(from[x] * factor, pack.at[x]);
    if constexpr (N * sizeof(Elem) >= 4) {
        Words<N * sizeof(Elem) / 4> words;
        memcpy(&words, &pack, sizeof(words));
        *reinterpret_cast<Words<N * sizeof(Elem) / 4>*>(to) = words;
    } else {
        *reinterpret_cast<Pack<N>*>(to) = pack;
    }
}

// Copies `valid` rows of COLUMNS elements to rows that are PITCH apart, and fills the rest up to `rows` with zeros: a
// masked key has probability 0, and 0 times stale shared memory must not be NaN. All THREADS threads of the block call
// it. The loads have the largest size that divides a row: 16 bytes, or 8 for an odd multiple of 4 elements.
template <int COLUMNS, int PITCH, int THREADS>
__device__ inline void copy_rows(Elem* to, const Elem* from, int rows, int valid) {
    constexpr int WORDS = COLUMNS * sizeof(Elem) % 16 == 0 ? 4 : 2;
    constexpr int COPY = WORDS * 4 / sizeof(Elem), PER_ROW = COLUMNS / COPY;
    for (int i = threadIdx.x; i < rows * PER_ROW; i += THREADS) {
        const int row = i / PER_ROW;
        const int column = i % PER_ROW * COPY;
        Words<WORDS> words = {};
        if (row < valid) words = *reinterpret_cast<const Words<WORDS>*>(from + (size_t)row * COLUMNS + column);
        *reinterpret_cast<Words<WORDS>*>(to + row * PITCH + column) = words;
    }
}
// The warp's index in the block. Broadcast from lane 0, so that the compiler knows that it is uniform in a warp, and
// does not guard every shuffle against divergence.
__device__ inline int warp_index() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0); }
// The sum over WIDTH neighbouring lanes, a power of two: all lanes of a warp call, and all get the same bits.
template <int WIDTH>
__device__ inline float warp_reduce_sum(float x) {
#pragma unroll
    for (int lane = WIDTH / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}

// --- attention without tensor cores: ROWS queries of a group of TPR neighbouring threads, KEYS keys at once ---
constexpr int WORKERS = BR / ROWS * TPR;
constexpr int PART = D / TPR;       // head dimensions of a thread
constexpr int CHUNKS = PART / VEC;  // its loads per row

// The head dimension is divided among the threads of a group in units of VEC elements. Adjacent threads read adjacent
// addresses, so a group's load has no bank conflict, and all groups of a warp share it by broadcast.
__device__ inline int dimension(int chunk) { return (chunk * TPR + (int)threadIdx.x % TPR) * VEC; }

extern "C" __global__ void __launch_bounds__(THREADS, 4)
attention(const Elem* __restrict__ q, const Elem* __restrict__ k, const Elem* __restrict__ v, Elem* __restrict__ o,
          int ratio, int Sq, int Sk, float scale) {
    extern __shared__ __align__(16) unsigned char shared[];
    Elem* k_tile = reinterpret_cast<Elem*>(shared);
    Elem* v_tile = k_tile + BC * PITCH;
    Elem* q_tile = v_tile + BC * PITCH;  // only there without QREG

    // With a causal mask, the last query tile sees the most keys. It starts first, so that no long block is left at the
    // end.
    const int tile = SKIP ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const int block_row = tile * BR;
    const size_t head = blockIdx.y, keys_of = blockIdx.y / ratio;
    q += (head * Sq + block_row) * D;
    o += (head * Sq + block_row) * D;
    k += keys_of * Sk * D;
    v += keys_of * Sk * D;

    // The state of a thread before the first key. (Include this inside the kernel, which defines block_row, q and
    // q_tile.)
    const int rows = min(BR, Sq - block_row);
    const int warp = warp_index();
    const bool works = warp * 32 < WORKERS;  // whole warps: WORKERS is a multiple of 32
    const int group_row = threadIdx.x / TPR * ROWS;
    const int diagonal = block_row + Sk - Sq;  // the last key that the block's first row sees, when causal

    float q_part[ROWS][QREG ? PART : 1];
    if constexpr (QREG) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) {
                float part[VEC] = {};
                if (works && group_row + r < rows) load_vector(part, q + (size_t)(group_row + r) * D + dimension(c));
#pragma unroll
                for (int x = 0; x < VEC; ++x) q_part[r][c * VEC + x] = part[x];
            }
        }
    } else {
        copy_rows<D, PITCH, THREADS>(q_tile, q, BR, rows);
    }

    float acc[ROWS][PART];  // un-normalised output
    float top[ROWS];        // running maximum of the scores, in units of log2
    float sum[ROWS];        // running sum of exp2(score - top)
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        top[r] = LOWEST;
        sum[r] = 0;
#pragma unroll
        for (int x = 0; x < PART; ++x) acc[r][x] = 0;
    }

    const int end = CAUSAL && SKIP ? min(Sk, diagonal + rows) : Sk;
    // The warp's last row bounds the keys of a tile that the warp has to process.
    const int warp_rows = (warp + 1) * (32 / TPR) * ROWS;
    const int warp_end = CAUSAL && SKIP ? min(end, diagonal + warp_rows) : end;

    for (int first = 0; first < end; first += BC) {
        const int keys = min(BC, end - first);
        __syncthreads();  // every warp is done with the previous tile
        const int filled = (keys + KEYS - 1) / KEYS * KEYS;
        copy_rows<D, PITCH, THREADS>(k_tile, k + (size_t)first * D, filled, keys);
        copy_rows<D, PITCH, THREADS>(v_tile, v + (size_t)first * D, filled, keys);
        __syncthreads();
        if (!works) continue;

        const bool edge = filled > keys || (CAUSAL && first + filled - 1 > diagonal);
        const int stop = min(keys, warp_end - first);
        for (int j = 0; j < stop; j += KEYS) {
            // Processes KEYS keys, starting at `first + j`. (Include this inside the kernel, where all threads of a group execute it.)
            // ROWS x KEYS scores at once: every value loaded from shared memory is used ROWS or KEYS times.
            float score[ROWS][KEYS] = {};
#pragma unroll(SCORE_UNROLL)
            for (int c = 0; c < CHUNKS; ++c) {
                float k_part[KEYS][VEC];
#pragma unroll
                for (int n = 0; n < KEYS; ++n) load_vector(k_part[n], k_tile + (j + n) * PITCH + dimension(c));
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    float q_now[VEC];
                    if constexpr (QREG) {
#pragma unroll
                        for (int x = 0; x < VEC; ++x) q_now[x] = q_part[r][c * VEC + x];
                    } else {
                        load_vector(q_now, q_tile + (group_row + r) * PITCH + dimension(c));
                    }
#pragma unroll
                    for (int n = 0; n < KEYS; ++n) {
#pragma unroll
                        for (int x = 0; x < VEC; ++x) score[r][n] += q_now[x] * k_part[n][x];
                    }
                }
            }
            // The group's threads add up their parts of each dot product. All get the same bits.
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
#pragma unroll
                for (int n = 0; n < KEYS; ++n) score[r][n] = warp_reduce_sum<TPR>(score[r][n]);
            }
            // Online softmax: when the maximum grows, the sums so far are rescaled to it, once per KEYS keys.
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const int last = CAUSAL ? min(end - 1, diagonal + group_row + r) : end - 1;
                float grown = top[r];
#pragma unroll
                for (int n = 0; n < KEYS; ++n) {
                    score[r][n] *= scale * LOG2E;
                    if (edge && first + j + n > last) score[r][n] = MASKED;
                    grown = fmaxf(grown, score[r][n]);
                }
                const float shrink = exp2f(top[r] - grown);
                top[r] = grown;
                sum[r] *= shrink;
#pragma unroll
                for (int x = 0; x < PART; ++x) acc[r][x] *= shrink;
#pragma unroll
                for (int n = 0; n < KEYS; ++n) {
                    score[r][n] = exp2f(score[r][n] - grown);
                    sum[r] += score[r][n];
                }
            }
#pragma unroll
            for (int n = 0; n < KEYS; ++n) {
#pragma unroll
                for (int c = 0; c < CHUNKS; ++c) {
                    float v_part[VEC];
                    load_vector(v_part, v_tile + (j + n) * PITCH + dimension(c));
#pragma unroll
                    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
                        for (int x = 0; x < VEC; ++x) acc[r][c * VEC + x] += score[r][n] * v_part[x];
                    }
                }
            }
        }
    }

    if (!works) return;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        if (group_row + r >= rows) continue;
        const float inverse = sum[r] > 0 ? 1 / sum[r] : 0;  // a query that sees no key gives 0
#pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
            float part[VEC];
#pragma unroll
            for (int x = 0; x < VEC; ++x) part[x] = acc[r][c * VEC + x];
            store_vector(o + (size_t)(group_row + r) * D + dimension(c), part, inverse);
        }
    }
}
