// attention-large-d for f32, D=8192 Sq=16 Sk=16 CAUSAL=0
// CLUSTER=16 BR=4 BC=16 WARPS=4 KWARPS=1 GROUPS=2 HOPS=1 EARLY=1
// Attention in fp32 with a head dimension of hundreds to thousands: o = softmax(q k^T * scale) v.
//
// A head has few queries and keys, so a block per query tile would leave most of the GPU idle and load for long. Here a cluster of
// CLUSTER blocks owns BR queries of one head, and each block DS = D / CLUSTER of the head's dimensions: it loads its slices of q, k and v, all
// requested before the first is used, and computes its share of every score. The shares go round through distributed shared memory, by
// stores that report to an mbarrier of the receiver (PTX ISA, st.async); then each block has all scores, and what it computes of the output
// is its own. HOPS = 1: each block sends its shares of all scores to all, and sums for itself; few scores arrive soonest that way.
// HOPS = 2: each block sums those of some scores and gives the sums to all (reduce-scatter and all-gather), which sends far less.
//
// Products run on the tensor cores, in three TF32 products for one in fp32: x = big + small, each with the 11 bits that TF32 keeps,
// and x y = big big + big small + small big up to 2^-22 (the idea is CUTLASS's, "3xTF32"; Ootomo & Yokota 2022, arXiv 2203.03341).
// Scores are computed transposed, keys x queries, and so is the output: queries are the side of mma.m16n8k8 that comes in eights.
// Four queries fill such a side with both halves of each: columns 0 to 3 are the big ones, 4 to 7 the small ones of the same queries,
// and two products do what otherwise takes three.
//
// The order of the head dimension inside a product is free as long as both operands agree, and so is that of the keys. So a thread takes
// four neighbours where the layout of fragments (PTX ISA, "Matrix Fragments for mma.m16n8k8") would want every fourth, and its loads
// are of 16 bytes. A warp copies queries and keys of its own dimensions to shared memory (cp.async, as long pieces of a row as it
// has: 8 rows of 64 bytes at a time arrive much later than 2 of 256), so that it waits for nobody else. Values land in the
// registers of whoever multiplies them; they are only asked for when the keys have come, since these are waited for first.

constexpr int D = 8192;            // head dimension
constexpr int Sq = 16, Sk = 16; // queries and keys of a head: constants, since they are few, and nothing is asked that is known
constexpr bool CAUSAL = 0;     // key j is visible to query i iff j <= i + Sk - Sq
constexpr int CLUSTER = 16;      // blocks that share the head dimension
constexpr int BR = 4;           // queries of a cluster
constexpr int BC = 16;           // keys of a tile
constexpr int WARPS = 4;
constexpr int KWARPS = 1;       // warps along the keys while scores are computed; the others share the dimensions
constexpr int GROUPS = 2;       // groups of copies in which a tile's keys arrive
constexpr int HOPS = 1;         // stores on a share's way to all blocks of the cluster
constexpr bool EARLY = 1;      // values are split while the shares go round

constexpr int THREADS = WARPS * 32;
constexpr int DS = D / CLUSTER;           // dimensions of a block
constexpr int DWARPS = WARPS / KWARPS;    // warps along the dimensions while scores are computed
constexpr int UNITS = DS / DWARPS / 16;   // a warp's dimensions there, in units of two mma: four of each thread of a quad
constexpr int KEYS = BC / KWARPS;         // a warp's keys there
constexpr int MX = KEYS / 16;             // the same in mma tiles
constexpr bool FOLD = BR == 4;            // the small halves of queries and probabilities have columns of their own
constexpr int NX = FOLD ? 1 : BR / 8;     // queries in mma tiles
constexpr int KINDS = FOLD ? 2 : 3;       // TF32 products for one in fp32
constexpr int VW = DS / WARPS;            // output dimensions of a warp
constexpr int VEC = VW % 32 == 0 ? 4 : 2; // of which a thread loads so many neighbours
constexpr int OX = VW / (8 * VEC);        // and so many times
constexpr int OM = VEC / 2;               // mma tiles of one of these
constexpr int STEPS = BC / 16;            // keys of a tile, in units of two mma
constexpr int QUADS = BR * BC / 4;        // scores of a tile, in fours of neighbouring keys
constexpr int OWN = QUADS / CLUSTER;      // those that this block sums over the cluster, with two hops
// A thread's part in sums and softmax of the scores. Where there are more threads than fours of scores, several send the same four.
constexpr int QUARTERS = BC / 4, PASSES = (QUADS + THREADS - 1) / THREADS;
constexpr int SENDERS = HOPS == 1 && THREADS > QUADS ? THREADS / QUADS : 1;
// Floats between rows, so that what a warp accesses lies in different banks: of scores, and of what lands.
constexpr int PITCH = BC + 4, ROW = DS + 8;
constexpr float LOG2E = 1.44269504f;
// Finite stand-ins for minus infinity: their differences are never NaN, and exp2 of MASKED - LOWEST is 0.
constexpr float LOWEST = -1e30f;
constexpr float MASKED = -2e30f;

// Everything in shared memory. Each warp along the keys has queries of its own.
struct Shared {
    alignas(16) float q[KWARPS][BR][ROW];
    alignas(16) float k[BC][ROW];
    alignas(16) float share[DWARPS][BR][PITCH];  // scores by the dimensions of warps
    // By the dimensions of blocks: with one hop all scores of this tile and the next, which a quick peer may send already; with two
    // hops those that this block sums, and the sums of all.
    float4 inbox[HOPS == 1 ? 2 : 1][CLUSTER][HOPS == 1 ? QUADS : OWN];
    float4 score[HOPS == 1 ? 1 : QUADS];
    alignas(16) float p[BR][PITCH];              // probabilities, not normalised
    float2 factors[BR];                          // what the output so far is to be multiplied with, and that of the end
    unsigned long long inbox_full[2], score_full;  // mbarriers
};
static_assert(sizeof(Shared) <= 51472, "the manifest's SMEM");

__device__ inline unsigned address_of(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

// The key of a thread's row in a tile of eight: neighbours are two apart, which with ROW keeps them out of each other's banks.
__device__ inline int spread(int quad) { return (quad & 4) | (quad & 1) << 1 | (quad >> 1 & 1); }

// Starts to copy 16 bytes to shared memory, or fills with zeros where there is nothing: a masked key has probability 0, and 0 times
// whatever was there must not be NaN.
__device__ inline void copy_async(float* to, const float* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address_of(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `later` groups are on their way.
__device__ inline void wait(int later) {
    if (later == 0) asm volatile("cp.async.wait_group 0;" ::: "memory");
    if (later == 1) asm volatile("cp.async.wait_group 1;" ::: "memory");
    if (later == 2) asm volatile("cp.async.wait_group 2;" ::: "memory");
    if (later == 3) asm volatile("cp.async.wait_group 3;" ::: "memory");
}

// The address of the same thing in the block of this rank.
__device__ inline unsigned peer(const void* here, int rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address_of(here)), "r"(rank));
    return there;
}
// Sends 16 bytes to a block of the cluster, which has them when so many bytes have come to its mbarrier.
__device__ inline void send(unsigned to, unsigned mbarrier, const float4& x) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                 ::"r"(to), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(mbarrier) : "memory");
}
// An mbarrier's phase is over when the one arrival of its block has come, and the bytes that this has announced.
__device__ inline void expect(unsigned long long* mbarrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(mbarrier)), "r"(bytes) : "memory");
}
__device__ inline void wait_for(unsigned long long* mbarrier, int phase) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(address_of(mbarrier)), "r"(phase % 2) : "memory");
}

// Loads that pass by L1, since nobody here needs the same again.
__device__ inline float4 load4(const float* from) {
    float4 x;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "l"(from));
    return x;
}
__device__ inline float2 load2(const float* from) {
    float2 x;
    asm volatile("ld.global.nc.L1::no_allocate.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "l"(from));
    return x;
}

// 2^x, and 1 / x to an ulp: what exp2f and a division add is for numbers next to 0 and to infinity, which do not come here.
__device__ inline float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ inline float inverse_of(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y * (2 - x * y);
}

// A number as two of TF32: the first is rounded to nearest by adding half of what is cut off, the second is what remains, of which
// the tensor cores cut off what they do not keep.
struct Split {
    unsigned big, small;
    __device__ Split() {}
    __device__ explicit Split(float x) {
        big = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
        small = __float_as_uint(x - __uint_as_float(big));
    }
    // As the side with the queries: in a folded tile the upper columns multiply what the lower ones cut off.
    __device__ Split(float x, bool upper) : Split(x) {
        if (FOLD && upper) big = small;
    }
};

// Sums of 16 x 8 products, in CHAINS parts: a product waits only for the one before it in its part. With two, those of the big halves
// are apart from the others; with KINDS, each kind; with twice as many, every other step, too.
template <int CHAINS>
struct Sums {
    float parts[CHAINS][4];
    __device__ float operator[](int i) const {
        float sum = parts[CHAINS - 1][i];
#pragma unroll
        for (int chain = CHAINS - 2; chain >= 0; --chain) sum += parts[chain][i];
        return sum;
    }
    __device__ void operator*=(const float (&factors)[2]) {
#pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain)
#pragma unroll
            for (int i = 0; i < 4; ++i) parts[chain][i] *= factors[i % 2];
    }
};
// Few tiles need more chains to keep the tensor cores busy: a product takes some 30 clocks, and a new one could start every few.
__device__ constexpr int chains(int tiles) { return tiles >= 6 ? 2 : tiles >= 3 ? KINDS : 2 * KINDS; }

__device__ inline void multiply(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
template <int CHAINS>
__device__ inline void multiply(Sums<CHAINS>& sums, int step, const Split (&a)[4], const Split (&b)[2]) {
    const int first = CHAINS == 2 * KINDS ? step % 2 * KINDS : 0;
    multiply(sums.parts[first + 1], a[0].small, a[1].small, a[2].small, a[3].small, b[0].big, b[1].big);
    multiply(sums.parts[first], a[0].big, a[1].big, a[2].big, a[3].big, b[0].big, b[1].big);
    if (!FOLD) multiply(sums.parts[first + (CHAINS == 2 ? 1 : 2)], a[0].big, a[1].big, a[2].big, a[3].big, b[0].small, b[1].small);
}
// Adds up the two columns of a query in a folded tile, which lie two threads apart: each of them keeps one of two numbers.
__device__ inline float fold(float lower, float upper, int turn) {
    return (turn < 2 ? lower : upper) + __shfl_xor_sync(~0u, turn < 2 ? upper : lower, 2);
}

__device__ inline void operator+=(float4& x, const float4& y) { x.x += y.x, x.y += y.y, x.z += y.z, x.w += y.w; }
__device__ inline float at(const float4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

extern "C" __global__ void __launch_bounds__(THREADS)
attend(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v, float* __restrict__ o,
       float scale) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);

    // Asked from lane 0, so that the compiler knows it to be one number per warp.
    const int me = threadIdx.x, warp = __shfl_sync(~0u, me / 32, 0), lane = me % 32, quad = lane / 4, turn = lane % 4;
    const int key_warp = warp % KWARPS, dim_warp = warp / KWARPS;
    const int rank = blockIdx.x;
    // The last queries see the most keys when causal: they start first, so that no long block is left at the end.
    const int block_row = (CAUSAL ? gridDim.y - 1 - blockIdx.y : blockIdx.y) * BR;
    const size_t head = blockIdx.z;
    const int rows = Sq % BR == 0 ? BR : min(BR, Sq - block_row);
    const int diagonal = block_row + Sk - Sq;  // the last key that the tile's first row sees, when causal
    const int end = CAUSAL ? min(Sk, diagonal + rows) : Sk;
    const int tiles = CAUSAL && Sk > BC ? (end + BC - 1) / BC : (Sk + BC - 1) / BC;

    // A warp's first dimension in scores, and a thread's in the output.
    const int score_dim = dim_warp * UNITS * 16, out_dim = warp * VW + quad * VEC;
    q += (head * Sq + block_row) * D + rank * DS;
    k += head * Sk * D + rank * DS;
    v += head * Sk * D + rank * DS;
    o += (head * Sq + block_row) * D + rank * DS;

    // Keys come in GROUPS groups of dimensions, so that the first are worked on while the others are on their way; in the first tile
    // with the queries. A group has PIECES of 16 bytes of each row, of which a warp copies ACROSS x DOWN at a time. Of a row that is not
    // there no bytes are read, but the address still has to be a good one.
    constexpr int PIECES = UNITS / GROUPS * 4, ACROSS = PIECES % 32 == 0 ? 32 : PIECES % 16 == 0 ? 16 : PIECES % 8 == 0 ? 8 : 4;
    constexpr int DOWN = 32 / ACROSS;
    const auto copy_rows = [&](float (*to)[ROW], const float* from, int count, bool whole, int valid, int group) {
        const int row = lane / ACROSS, dim = score_dim + lane % ACROSS * 4 + group * PIECES * 4;
        const float* const first = from + (size_t)row * D + dim;
#pragma unroll
        for (int n = 0; n < count; n += DOWN) {
            if (DOWN > count && row >= count) continue;
            const bool there = whole || row + n < valid;
#pragma unroll
            for (int x = 0; x < PIECES * 4; x += ACROSS * 4)
                copy_async(&to[row + n][dim + x], there ? first + (size_t)n * D + x : from, there);
        }
    };
    const auto fetch_keys = [&](int tile) {
        const int first = tile * BC + key_warp * KEYS;
        const bool none = Sk % BC != 0 && first >= Sk;
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            if (tile == 0) copy_rows(s.q[key_warp], q, BR, Sq % BR == 0, rows, group);
            copy_rows(s.k + key_warp * KEYS, none ? k : k + (size_t)first * D, KEYS, Sk % BC == 0, Sk - first, group);
            commit();
        }
    };
    // Has a tile's values brought to L2, one row of as many as there are clusters that are about to load them.
    const auto prefetch_values = [&](int tile) {
        constexpr int LINES = (DS + 31) / 32;  // of 128 bytes
        const int first = tile * BC;
        for (int i = me;; i += THREADS) {
            const int row = i / LINES * gridDim.y + blockIdx.y;
            if (row >= BC || first + row >= Sk) break;
            asm volatile("prefetch.global.L2 [%0];" ::"l"(v + (size_t)(first + row) * D + i % LINES * 32) : "memory");
        }
    };
    // Thread `turn` of a quad takes four neighbouring keys of each sixteen.
    float values[STEPS][OX][4][VEC];
    const auto fetch_values = [&](int tile) {
        const int first = tile * BC + turn * 4;
        const float* const first_v = v + (size_t)first * D + out_dim;
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int key = step * 16 + i;
                const bool there = Sk % BC == 0 || first + key < Sk;
#pragma unroll
                for (int x = 0; x < OX; ++x) {
                    float (&to)[VEC] = values[step][x][i];
                    const float* const from = first_v + (size_t)key * D + x * 8 * VEC;
                    if constexpr (VEC == 4) {
                        const float4 four = there ? load4(from) : make_float4(0, 0, 0, 0);
#pragma unroll
                        for (int j = 0; j < VEC; ++j) to[j] = at(four, j);
                    } else {
                        const float2 two = there ? load2(from) : make_float2(0, 0);
                        to[0] = two.x, to[1] = two.y;
                    }
                }
            }
    };
    fetch_keys(0);
    prefetch_values(0);

    // While all that is on its way, the blocks of the cluster tell each other that they have started and that their mbarriers are there.
    if (CLUSTER > 1) {
        if (me == 0) {
            const auto init = [](unsigned long long* mbarrier) {
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address_of(mbarrier)) : "memory");
            };
            init(&s.inbox_full[0]);
            init(&s.inbox_full[1]);
            init(&s.score_full);
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        __syncwarp();
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"
                     "barrier.cluster.wait.acquire.aligned;" ::: "memory");
    }

    Sums<chains(OX * OM * NX)> out[OX][OM][NX] = {};
    const float factor = scale * LOG2E;  // exp(scale * x) = exp2(factor * x), one multiplication for both
    float top[PASSES], sum[PASSES];
#pragma unroll
    for (int p = 0; p < PASSES; ++p) top[p] = LOWEST, sum[p] = 0;

    const int key_row = key_warp * KEYS + spread(quad), query = FOLD ? quad % 4 : quad;
    for (int tile = 0; tile < tiles; ++tile) {
        // This warp's share of keys x queries.
        Sums<chains(MX * NX)> score[MX][NX] = {};
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            wait(GROUPS - 1 - group);
            __syncwarp();
            if (group == GROUPS - 1) fetch_values(tile);
#pragma unroll(UNITS * MX * NX <= 32 ? UNITS / GROUPS : 1)
            for (int u = 0; u < UNITS / GROUPS; ++u) {
                const int dim = score_dim + (group * (UNITS / GROUPS) + u) * 16 + turn * 4;
                Split b[NX][4];
#pragma unroll
                for (int n = 0; n < NX; ++n) {
                    const float4 x = *reinterpret_cast<const float4*>(&s.q[key_warp][n * 8 + query][dim]);
#pragma unroll
                    for (int i = 0; i < 4; ++i) b[n][i] = Split(at(x, i), quad >= 4);
                }
#pragma unroll
                for (int m = 0; m < MX; ++m) {
                    const float* const from = &s.k[key_row + m * 16][dim];
                    const float4 upper = *reinterpret_cast<const float4*>(from), lower = *reinterpret_cast<const float4*>(from + 8 * ROW);
#pragma unroll
                    for (int i = 0; i < 4; i += 2) {
                        const Split a[4] = {Split(at(upper, i)), Split(at(lower, i)), Split(at(upper, i + 1)), Split(at(lower, i + 1))};
#pragma unroll
                        for (int n = 0; n < NX; ++n) multiply(score[m][n], i / 2, a, {b[n][i], b[n][i + 1]});
                    }
                }
            }
        }
#pragma unroll
        for (int m = 0; m < MX; ++m)
#pragma unroll
            for (int n = 0; n < NX; ++n) {
                const auto& tile_of = score[m][n];
                if constexpr (FOLD) {
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        s.share[dim_warp][turn % 2 * 2 + i][key_row + m * 16 + turn / 2 * 8] = fold(tile_of[i], tile_of[i + 2], turn);
                } else {
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        s.share[dim_warp][n * 8 + turn * 2 + i % 2][key_row + m * 16 + i / 2 * 8] = tile_of[i];
                }
            }
        __syncthreads();
        // Into the place of the keys, which everyone has used.
        if (tile + 1 < tiles) fetch_keys(tile + 1);
        if (CLUSTER > 1 && me == 0) {
            expect(&s.inbox_full[HOPS == 1 ? tile % 2 : 0], HOPS == 1 ? CLUSTER * QUADS * 16 : QUADS * 16);
            if (HOPS == 2) expect(&s.score_full, QUADS * 16);
        }
        float4 sums[PASSES] = {};
#pragma unroll
        for (int p = 0; p < PASSES; ++p) {
            const int i = SENDERS > 1 ? me % QUADS : p * THREADS + me, row = i / QUARTERS, key = i % QUARTERS * 4;
            if (SENDERS > 1 ? SENDERS * QUADS < THREADS && me >= SENDERS * QUADS : i >= QUADS) break;
            sums[p] = *reinterpret_cast<const float4*>(&s.share[0][row][key]);
#pragma unroll
            for (int w = 1; w < DWARPS; ++w) sums[p] += *reinterpret_cast<const float4*>(&s.share[w][row][key]);
            // Every block begins with itself, so that not all of them send to the same one at once.
            if constexpr (CLUSTER > 1 && HOPS == 1) {
#pragma unroll
                for (int c = 0; c < CLUSTER; c += SENDERS) {
                    const int to = (rank + c + (SENDERS > 1 ? me / QUADS : 0)) % CLUSTER;
                    if (CLUSTER % SENDERS == 0 || c + me / QUADS < CLUSTER)
                        send(peer(&s.inbox[tile % 2][rank][i], to), peer(&s.inbox_full[tile % 2], to), sums[p]);
                }
            } else if constexpr (CLUSTER > 1) {
                send(peer(&s.inbox[0][rank][i % OWN], i / OWN), peer(&s.inbox_full[0], i / OWN), sums[p]);
            }
        }
        // Values are there by now, and can be split until the shares have come, if there are registers for both halves.
        Split halves[STEPS][OX][4][VEC];
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
#pragma unroll
            for (int x = 0; x < OX; ++x)
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < VEC; ++j) {
                        Split& half = halves[step][x][i][j];
                        half = Split(values[step][x][i][j]);
                        if (EARLY) asm volatile("" : "+r"(half.big), "+r"(half.small));  // here, and not where it is used
                    }
        if constexpr (CLUSTER > 1 && HOPS == 1) {
            if (warp * 32 < QUADS) wait_for(&s.inbox_full[tile % 2], tile / 2);
#pragma unroll
            for (int p = 0; p < PASSES; ++p) {
                const int i = p * THREADS + me;
                if (i >= QUADS) break;
                sums[p] = s.inbox[tile % 2][0][i];
#pragma unroll
                for (int c = 1; c < CLUSTER; ++c) sums[p] += s.inbox[tile % 2][c][i];
            }
        } else if constexpr (CLUSTER > 1) {
            for (int i = me; i < OWN; i += THREADS) {
                wait_for(&s.inbox_full[0], tile);
                float4 sum = s.inbox[0][0][i];
#pragma unroll
                for (int c = 1; c < CLUSTER; ++c) sum += s.inbox[0][c][i];
#pragma unroll
                for (int c = 0; c < CLUSTER; ++c) {
                    const int to = (rank + c) % CLUSTER;
                    send(peer(&s.score[rank * OWN + i], to), peer(&s.score_full, to), sum);
                }
            }
            wait_for(&s.score_full, tile);
#pragma unroll
            for (int p = 0; p < PASSES; ++p)
                if (p * THREADS + me < QUADS) sums[p] = s.score[p * THREADS + me];
        }
        // BC / 4 neighbouring threads share a row, four keys each.
#pragma unroll
        for (int p = 0; p < PASSES; ++p) {
            if (p * THREADS + warp * 32 >= QUADS) break;
            const int i = p * THREADS + me, row = i / QUARTERS, key = i % QUARTERS * 4;
            float x[4] = {sums[p].x, sums[p].y, sums[p].z, sums[p].w};
            float most = top[p], more = 0;
            const int last = CAUSAL ? min(end - 1, diagonal + row) : end - 1;
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                x[n] = tile * BC + key + n <= last ? x[n] * factor : MASKED;
                most = fmaxf(most, x[n]);
            }
#pragma unroll
            for (int lane = QUARTERS / 2; lane > 0; lane /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lane));
#pragma unroll
            for (int n = 0; n < 4; ++n) x[n] = exp2_of(x[n] - most);
            if (i < QUADS) *reinterpret_cast<float4*>(&s.p[row][key]) = make_float4(x[0], x[1], x[2], x[3]);
#pragma unroll
            for (int n = 0; n < 4; ++n) more += x[n];
#pragma unroll
            for (int lane = QUARTERS / 2; lane > 0; lane /= 2) more += __shfl_xor_sync(~0u, more, lane);
            const float shrink = exp2_of(top[p] - most);
            top[p] = most;
            sum[p] = sum[p] * shrink + more;
            // A query that sees no key gives 0.
            if (i < QUADS && key == 0) s.factors[row] = make_float2(shrink, sum[p] > 0 ? inverse_of(sum[p]) : 0);
        }
        __syncthreads();

        // Output, dimensions x queries: what there was is scaled down to the new maxima.
        if (tile > 0) {
#pragma unroll
            for (int n = 0; n < NX; ++n) {
                const int row = n * 8 + (FOLD ? turn % 2 : turn) * 2;
                const float shrinks[2] = {s.factors[row].x, s.factors[row + 1].x};
#pragma unroll
                for (int x = 0; x < OX; ++x)
#pragma unroll
                    for (int m = 0; m < OM; ++m) out[x][m][n] *= shrinks;
            }
        }
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            Split b[NX][4];
#pragma unroll
            for (int n = 0; n < NX; ++n) {
                const float4 p = *reinterpret_cast<const float4*>(&s.p[n * 8 + query][step * 16 + turn * 4]);
#pragma unroll
                for (int i = 0; i < 4; ++i) b[n][i] = Split(at(p, i), quad >= 4);
            }
#pragma unroll
            for (int x = 0; x < OX; ++x)
#pragma unroll
                for (int i = 0; i < 4; i += 2)
#pragma unroll
                    for (int m = 0; m < OM; ++m) {
                        const Split(&h)[4][VEC] = halves[step][x];
                        const Split a[4] = {h[i][m * 2], h[i][m * 2 + 1], h[i + 1][m * 2], h[i + 1][m * 2 + 1]};
#pragma unroll
                        for (int n = 0; n < NX; ++n) multiply(out[x][m][n], i / 2, a, {b[n][i], b[n][i + 1]});
                    }
        }
        if (tile + 1 < tiles) __syncthreads();  // everyone has used the probabilities, too
    }

    const auto store = [&](int row, int x, const float (&out)[VEC], float inverse) {
        float* const to = o + (size_t)row * D + out_dim + x * 8 * VEC;
        if (Sq % BR != 0 && row >= rows) return;
        if constexpr (VEC == 4) {
            asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
                         ::"l"(to), "f"(out[0] * inverse), "f"(out[1] * inverse), "f"(out[2] * inverse), "f"(out[3] * inverse) : "memory");
        } else {
            asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(out[0] * inverse), "f"(out[1] * inverse) : "memory");
        }
    };
    float mine[VEC];
    if constexpr (FOLD) {
        // Each of the two threads that have a query's columns stores one of their two queries.
        const int row = turn % 2 * 2 + turn / 2;
        const float inverse = s.factors[row].y;
#pragma unroll
        for (int x = 0; x < OX; ++x) {
#pragma unroll
            for (int j = 0; j < VEC; ++j) mine[j] = fold(out[x][j / 2][0][j % 2 * 2], out[x][j / 2][0][j % 2 * 2 + 1], turn);
            store(row, x, mine, inverse);
        }
    } else {
#pragma unroll
        for (int n = 0; n < NX; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = n * 8 + turn * 2 + i;
                const float inverse = s.factors[row].y;
#pragma unroll
                for (int x = 0; x < OX; ++x) {
#pragma unroll
                    for (int j = 0; j < VEC; ++j) mine[j] = out[x][j / 2][n][j % 2 * 2 + i];
                    store(row, x, mine, inverse);
                }
            }
    }
}
