// linear-w4-mma for bf16, GROUP=128 LAYOUT=0
// ROWS=8 BYTES=4 WARPS=8 SPLITS=2 AHEAD=2 PREPARED=1
// Linear layer with few rows and weights of 4 bits on tensor cores (mma.sync): each warp streams weights from memory to registers.
//
// Operands are swapped, so that columns of w use the dimension of 16, and the rows of x that of 8. A byte of w has the weights of two
// adjacent terms of a column, which is what a register of the first operand holds. Columns and terms may be in any order, if those of x
// and y follow it. So a thread loads BYTES adjacent columns of four adjacent pairs of terms, and the same eight terms of its row of x:
// both as whole words, with no way through shared memory. A chunk is 32 terms: 16 bytes of x for each of four lanes.
//
// The warps of the SPLITS blocks of a cluster have shares of the terms. Loads for the next AHEAD chunks are in flight. In the end, the
// first block adds the sums of all warps and then those of the other blocks, in their order: the same inputs give the same bytes.
//
// The products have 2^p + q in place of q - zero, which takes two instructions for two weights. What is too much is 2^p + zero times the
// sum of the terms of x. One more product, of ones and x, gives it. Sums of a group are then multiplied by its scale.
//
// `repack` puts what a warp loads of w for a chunk into adjacent bytes, 16 for each lane at a time. It runs once for a matrix w.
#include <cuda_bf16.h>
using Elem = __nv_bfloat16;
using Pair = __nv_bfloat162;
__device__ inline Pair both(float x) { return __float2bfloat162_rn(x); }
constexpr float POWER = 128.f;
constexpr unsigned BITS_OF_POWER = 0x43004300u;

// --- weights of 4 bits: (q - zero) * scale ---
// One of several numbers, for both terms of a pair.
template <int WORDS>
__device__ inline Pair repeated(const unsigned (&numbers)[WORDS], int i) {
    const unsigned pair = __byte_perm(numbers[i / 2], 0, i % 2 ? 0x3232 : 0x1010);
    return *reinterpret_cast<const Pair*>(&pair);
}
// Returns POWER + q for the weights of two adjacent terms of a column, from byte `i` of `bytes`. The even term is in the lower half of the
// byte. POWER is 2^p in a format with p bits after the point, so setting its bits above q adds it.
__device__ inline unsigned raised(unsigned bytes, int i) {
    unsigned pair;
    // One instruction. The compiler makes two of (a & b) | c if b and c are constants.
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(pair) : "r"(__byte_perm(bytes, bytes >> 4, 0x4400 + 0x1111 * i)), "r"(0x000f000fu), "r"(BITS_OF_POWER));
    return pair;
}
constexpr int ROWS = 8;    // rows of x that a block computes
constexpr int BYTES = 4;    // adjacent columns of a thread
constexpr int WARPS = 8;
constexpr int SPLITS = 2;   // blocks that share the terms of a sum
constexpr int AHEAD = 2;    // chunks of terms in flight
constexpr int GROUP = 128;  // terms that share a scale

constexpr int COLUMNS = 8 * BYTES;     // of a block
constexpr int TILES = BYTES / 2;       // products of 16 columns
constexpr int EIGHTS = ROWS / 8;       // products of 8 rows
constexpr int WORDS = BYTES / 4, NUMBERS = BYTES / 2;
constexpr int CHUNKS = GROUP / 32;     // of a group
constexpr unsigned ONES = 0x3f803f80u;  // twice

// The warp's index in the block. Broadcast from lane 0, so that the compiler knows that it is uniform in a warp, and
// does not guard every shuffle against divergence.
__device__ inline int warp_index() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0); }
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
// --- shared memory as PTX addresses it (PTX ISA, "State Spaces"): 32 bits, in the window of the block ---
__device__ inline unsigned shared_address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }
// --- clusters (PTX ISA, "mapa"): the shared memory of other blocks ---
// Returns the same address in the shared memory of the block with this rank.
__device__ inline unsigned map_shared_rank(unsigned here, int rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    return there;
}
__device__ inline void cluster_sync() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline void st_cluster(unsigned to, float x) { asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory"); }
template <int N>
__device__ inline void load(unsigned (&to)[N], const void* from) {
    if constexpr (N == 1) to[0] = __ldg(reinterpret_cast<const unsigned*>(from));
    else if constexpr (N == 2) {
        const uint2 x = __ldg(reinterpret_cast<const uint2*>(from));
        to[0] = x.x, to[1] = x.y;
    } else {
#pragma unroll
        for (int i = 0; i < N / 4; ++i) {
            const uint4 x = __ldg(reinterpret_cast<const uint4*>(from) + i);
            to[i * 4] = x.x, to[i * 4 + 1] = x.y, to[i * 4 + 2] = x.z, to[i * 4 + 3] = x.w;
        }
    }
}

// What a thread has of a chunk.
struct Chunk {
    unsigned w[4][WORDS];  // its columns of four pairs of terms
    unsigned x[EIGHTS][4];  // the same terms of its row of each eight
};
// What a thread has of a group: numbers of its columns.
struct Numbers {
    unsigned scales[NUMBERS], zeros[NUMBERS];
};

constexpr unsigned CHUNK_BYTES = COLUMNS * 16;  // of w

// A warp repacks a chunk of a block's columns.
extern "C" __global__ void __launch_bounds__(256)
repack(const unsigned char* __restrict__ w, uint4* __restrict__ packed, int N, int K) {
    const int lane = threadIdx.x % 32, chunks = K / 32, item = blockIdx.x * 8 + threadIdx.x / 32, tile = item / chunks;
    if (tile * COLUMNS >= N) return;
    // Columns outside of the matrix are those of its end.
    const int k = item % chunks * 32 + lane % 4 * 8, from = min(tile * COLUMNS + lane / 4 * BYTES, N - BYTES);
    unsigned words[4][WORDS];
#pragma unroll
    for (int i = 0; i < 4; ++i) load(words[i], w + (size_t)(k / 2 + i) * N + from);
#pragma unroll
    for (int j = 0; j < WORDS; ++j) {
        const unsigned* const four = &words[0][0] + j * 4;
        packed[(size_t)item * (CHUNK_BYTES / 16) + j * 32 + lane] = make_uint4(four[0], four[1], four[2], four[3]);
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
multiply(const Elem* __restrict__ x, const unsigned char* __restrict__ w, const Elem* __restrict__ scales, const Elem* __restrict__ zeros,
         Elem* __restrict__ y, int M, int N, int K) {
    __shared__ float shares[WARPS > 1 ? WARPS - 1 : 1][TILES * EIGHTS * 4][32];
__shared__ float of_blocks[SPLITS - 1][TILES * EIGHTS * 4][32];
const int warp = warp_index(), lane = threadIdx.x % 32, part = blockIdx.x % SPLITS * WARPS + warp, tile = blockIdx.x / SPLITS;
    // Blocks that need the same columns of w follow each other, so that they find them in L2.
    const int tiles = (M + ROWS - 1) / ROWS, row = tile % tiles * ROWS, column = tile / tiles * COLUMNS + lane / 4 * BYTES;
    const int groups = K / GROUP, first = groups * part / (SPLITS * WARPS), last = groups * (part + 1) / (SPLITS * WARPS);
    const int chunks = (last - first) * CHUNKS;
    // Columns outside of the matrix compute something that nobody reads.
    const int from = min(column, N - BYTES), k = first * GROUP + lane % 4 * 8;

    // Where the next chunk is. Offsets of 32 bits take fewer instructions: no tensor has 2^31 elements.
    unsigned of_w = (unsigned)(tile / tiles * (K / 32) + first * CHUNKS) * CHUNK_BYTES + lane * 16, of_x[EIGHTS];
#pragma unroll
    for (int e = 0; e < EIGHTS; ++e) of_x[e] = (unsigned)(row + e * 8 + lane / 4) * K + k;
    const auto load_chunk = [&](Chunk& to) {
#pragma unroll
        for (int j = 0; j < WORDS; ++j) {
            const uint4 four = __ldg(reinterpret_cast<const uint4*>(w + of_w + j * 512));
            unsigned* const words = &to.w[0][0] + j * 4;
            words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
        }
        of_w += CHUNK_BYTES;
#pragma unroll
        for (int e = 0; e < EIGHTS; ++e) {
            // Rows outside of the matrix stay zero.
            if (row + e * 8 + lane / 4 < M) load(to.x[e], x + of_x[e]);
            of_x[e] += 32;
        }
    };
    const auto load_numbers = [&](Numbers& to, int group) {
        const size_t at = (size_t)group * N + from;
        load(to.scales, scales + at);
        load(to.zeros, zeros + at);
    };

    float sums[TILES][EIGHTS][4] = {};
    Chunk ahead[AHEAD] = {};
    Numbers next;
    if (chunks > 0) {
        load_numbers(next, first);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            if (i < chunks) load_chunk(ahead[i]);
    }
    for (int group = first; group < last; ++group) {
        const Numbers now = next;
        if (group + 1 < last) load_numbers(next, group + 1);
        float of_group[TILES][EIGHTS][4] = {}, of_ones[EIGHTS][4] = {};
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            Chunk& chunk = ahead[i % AHEAD];
#pragma unroll
            for (int t = 0; t < TILES; ++t) {
                // Two products of 16 terms: a lane's first and second, and its third and fourth pair.
                unsigned a[4][2];
#pragma unroll
                for (int pair = 0; pair < 4; ++pair)
#pragma unroll
                    for (int half = 0; half < 2; ++half) a[pair][half] = raised(chunk.w[pair][(t * 2 + half) / 4], (t * 2 + half) % 4);
#pragma unroll
                for (int e = 0; e < EIGHTS; ++e) {
                    mma_m16n8k16(of_group[t][e], a[0][0], a[0][1], a[1][0], a[1][1], chunk.x[e][0], chunk.x[e][1]);
                    mma_m16n8k16(of_group[t][e], a[2][0], a[2][1], a[3][0], a[3][1], chunk.x[e][2], chunk.x[e][3]);
                }
            }
#pragma unroll
            for (int e = 0; e < EIGHTS; ++e) {
                mma_m16n8k16(of_ones[e], ONES, ONES, ONES, ONES, chunk.x[e][0], chunk.x[e][1]);
                mma_m16n8k16(of_ones[e], ONES, ONES, ONES, ONES, chunk.x[e][2], chunk.x[e][3]);
            }
            if ((group - first) * CHUNKS + i + AHEAD < chunks) load_chunk(chunk);
        }
#pragma unroll
        for (int own = 0; own < BYTES; ++own) {
            const float scale = __low2float(repeated(now.scales, own)), zero = POWER + __low2float(repeated(now.zeros, own));
#pragma unroll
            for (int e = 0; e < EIGHTS; ++e)
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    const int i = own % 2 * 2 + r;
                    float& sum = sums[own / 2][e][i];
                    sum = fmaf(scale, fmaf(-zero, of_ones[e][r], of_group[own / 2][e][i]), sum);
                }
        }
    }

    constexpr int SUMS = TILES * EIGHTS * 4;
    if (WARPS > 1) {
        if (warp > 0) {
#pragma unroll
            for (int i = 0; i < SUMS; ++i) shares[warp - 1][i][lane] = sums[i / (EIGHTS * 4)][i / 4 % EIGHTS][i % 4];
        }
        __syncthreads();
        if (warp == 0) {
#pragma unroll 1
            for (int other = 0; other < WARPS - 1; ++other)
#pragma unroll
                for (int i = 0; i < SUMS; ++i) sums[i / (EIGHTS * 4)][i / 4 % EIGHTS][i % 4] += shares[other][i][lane];
        }
    }
// The first block has begun before others write to its shared memory.
    cluster_sync();
    if (blockIdx.x % SPLITS > 0 && warp == 0) {
        const unsigned to = map_shared_rank(shared_address(&of_blocks[blockIdx.x % SPLITS - 1][0][lane]), 0);
#pragma unroll
        for (int i = 0; i < SUMS; ++i) st_cluster(to + i * 128, sums[i / (EIGHTS * 4)][i / 4 % EIGHTS][i % 4]);
    }
    cluster_sync();
    if (blockIdx.x % SPLITS > 0) return;
    if (warp == 0) {
#pragma unroll
        for (int other = 0; other < SPLITS - 1; ++other)
#pragma unroll
            for (int i = 0; i < SUMS; ++i) sums[i / (EIGHTS * 4)][i / 4 % EIGHTS][i % 4] += of_blocks[other][i][lane];
    }
if (warp > 0 || column >= N) return;

    // A thread has all its columns of two rows of each eight.
#pragma unroll
    for (int e = 0; e < EIGHTS; ++e)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int at_row = row + e * 8 + lane % 4 * 2 + r;
            unsigned out[NUMBERS];
#pragma unroll
            for (int t = 0; t < TILES; ++t) out[t] = pack_half2(sums[t][e][r], sums[t][e][2 + r]);
            if (at_row < M) {
#pragma unroll
                for (int i = 0; i < NUMBERS / 2; ++i)
                    reinterpret_cast<uint2*>(y + (size_t)at_row * N + column)[i] = make_uint2(out[i * 2], out[i * 2 + 1]);
            }
        }
}
