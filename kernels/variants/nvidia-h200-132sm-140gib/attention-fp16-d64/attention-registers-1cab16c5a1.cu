// attention-registers for f16, D=64 CAUSAL=1
// KWARPS=2 CLUSTER=4 QTILES=1 STEP=64 MIN_BLOCKS=4
// Attention for short sequences, without tiles in shared memory: o = softmax(q k^T * scale) v.
//
// Every load moves 16 bytes from global memory to the registers that a product needs, so there is no barrier before the
// merge. A sum over the head dimension may run in any order, so a lane's 16 bytes of a key are the right operand of two
// products (PTX ISA, "Matrix Fragments for mma.m16n8k16") if the queries are permuted in the same way. Output dimensions may
// be permuted, too: lanes 4 g to 4 g + 3 hold dimensions 8 g to 8 g + 7 of a value, and prmt interleaves two keys.
//
// A product with ones adds the weights over the lanes. Warps and the blocks of a cluster share the keys, each with its own online softmax (Milakov & Gimelshein 2018,
// arXiv 1805.02867), and merge through (distributed) shared memory in a fixed order.
//
// A language model wrote this kernel for `--proposer llm` on 2026-11-28. Its exponentials were in FP16, which loses a tail of
// small weights: some configurations failed that check on an H200, and others passed it by chance.
#include <cuda_fp16.h>

constexpr int D = 64;            // head dimension
constexpr bool CAUSAL = 1;      // key j is visible to query i iff j <= i + Sk - Sq
constexpr int KWARPS = 2;       // warps that share the keys of the same queries
constexpr int CLUSTER = 4;      // blocks that share them
constexpr int QTILES = 1;       // groups of 16 queries in a block
constexpr int STEP = 64;        // keys that a warp has in registers
constexpr int THREADS = 32 * KWARPS * QTILES;
constexpr int NX = STEP / 8;          // groups of 8 keys
constexpr int DX = D / 32;            // 16-byte loads of a lane for a key
constexpr int OD = D / 64;            // groups of 64 output dimensions
constexpr int PARTS = D / 8;          // float4 of a lane's output
constexpr int OWN = PARTS / CLUSTER;  // those that this block merges
constexpr int SLOTS = KWARPS * CLUSTER;

// exp(x) = exp2(x * LOG2E): scores are kept in units of log2.
constexpr float LOG2E = 1.44269504f;
// A finite start for the running maximum: minus infinity minus it is minus infinity, never NaN.
constexpr float LOWEST = -1e30f;
// 2^x by the special function units (PTX ISA, "ex2"). exp2f also handles results near 0, which count as 0 here.
__device__ inline float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// --- mma.sync (PTX ISA, "Matrix Fragments for mma.m16n8k16"): all lanes of a warp; d (16 x 8) += a (16 x 16) b (16 x 8), f16 with f32 sums ---
__device__ inline void mma_m16n8k16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
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
// --- clusters (PTX ISA, "mapa"): the shared memory of other blocks ---
// Returns the same address in the shared memory of the block with this rank.
__device__ inline unsigned map_shared_rank(unsigned here, int rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    return there;
}

__device__ inline uint4 load_16(const __half* from) {
    uint4 r;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(from));
    return r;
}

__device__ inline unsigned word(const uint4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }


__device__ inline void store_remote(unsigned to, float4 x) {
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w) : "memory");
}
__device__ inline void store_remote(unsigned to, float2 x) {
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x.x), "f"(x.y) : "memory");
}


extern "C" __global__ void __launch_bounds__(THREADS, 4)
attend(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v, __half* __restrict__ o,
       int Sq, int Sk, float scale) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int qt = warp / KWARPS, kw = warp % KWARPS;

    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    // All blocks of the cluster have started before one writes to another's memory: waited for below.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    // Every second group of queries counts backwards, so that blocks have equal work. The heaviest blocks start first.
    const int packs = gridDim.x / CLUSTER, x = packs - 1 - blockIdx.x / CLUSTER;
    const int row0 = (qt * packs + (qt % 2 ? packs - 1 - x : x)) * 16;
    const int rows = min(16, Sq - row0);
    const int diagonal = row0 + Sk - Sq;
    const int end = rows <= 0 ? 0 : CAUSAL ? min(Sk, diagonal + rows) : Sk;
    const size_t head = blockIdx.y;
    k += head * Sk * D;
    v += head * Sk * D;
    q += head * Sq * D;
    o += head * Sq * D;

    uint4 qa[DX], qb[DX];
#pragma unroll
    for (int i = 0; i < DX; ++i) {
        qa[i] = load_16(q + (size_t)min(row0 + g, Sq - 1) * D + (t + 4 * i) * 8);
        qb[i] = load_16(q + (size_t)min(row0 + g + 8, Sq - 1) * D + (t + 4 * i) * 8);
    }
    float acc[OD][8][4] = {};
    float top[2] = {LOWEST, LOWEST}, sum[2] = {0, 0};
    const float factor = scale * LOG2E;

    for (int first = (kw * CLUSTER + (int)rank) * STEP; first < end; first += SLOTS * STEP) {
        uint4 kk[NX][DX], vv[NX / 2][OD][4];
#pragma unroll
        for (int n = 0; n < NX; ++n)
#pragma unroll
            for (int i = 0; i < DX; ++i) kk[n][i] = load_16(k + (size_t)min(first + n * 8 + g, Sk - 1) * D + (t + 4 * i) * 8);
#pragma unroll
        for (int m = 0; m < NX / 2; ++m)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int d = 0; d < OD; ++d)
                    vv[m][d][i] = load_16(v + (size_t)min(first + m * 16 + t * 2 + i % 2 + i / 2 * 8, Sk - 1) * D + d * 64 + g * 8);
        float s[NX][4] = {};
#pragma unroll
        for (int i = 0; i < DX; ++i)
#pragma unroll
            for (int n = 0; n < NX; ++n) mma_m16n8k16(s[n], qa[i].x, qb[i].x, qa[i].y, qb[i].y, kk[n][i].x, kk[n][i].y);
#pragma unroll
        for (int i = 0; i < DX; ++i)
#pragma unroll
            for (int n = 0; n < NX; ++n) mma_m16n8k16(s[n], qa[i].z, qb[i].z, qa[i].w, qb[i].w, kk[n][i].z, kk[n][i].w);
        if (first + STEP > Sk || (CAUSAL && first + STEP - 1 > diagonal)) {
#pragma unroll
            for (int n = 0; n < NX; ++n)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    // What the lane contributes is on one side, so that each score costs one comparison with a constant.
                    const int limit = (CAUSAL ? min(Sk - 1, diagonal + g + e / 2 * 8) : Sk - 1) - first - t * 2;
                    if (n * 8 + e % 2 > limit) s[n][e] = -__int_as_float(0x7f800000);
                }
        }
        unsigned pair[NX][2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float most = fmaxf(s[0][r * 2], s[0][r * 2 + 1]);
#pragma unroll
            for (int n = 1; n < NX; ++n) most = fmaxf(most, fmaxf(s[n][r * 2], s[n][r * 2 + 1]));
            const float grown = fmaxf(top[r], quad_reduce_max(most) * factor);
            const float shrink = exp2_approx(top[r] - grown);
            top[r] = grown;
#pragma unroll
            for (int n = 0; n < NX; ++n)
                pair[n][r] = pack_half2(exp2_approx(fmaf(s[n][r * 2], factor, -grown)), exp2_approx(fmaf(s[n][r * 2 + 1], factor, -grown)));
            if (first >= SLOTS * STEP) {  // otherwise there is nothing yet
                sum[r] *= shrink;
#pragma unroll
                for (int d = 0; d < OD; ++d)
#pragma unroll
                    for (int j = 0; j < 8; ++j) acc[d][j][r * 2] *= shrink, acc[d][j][r * 2 + 1] *= shrink;
            }
        }
#pragma unroll
        for (int m = 0; m < NX / 2; ++m) {
            const unsigned p0 = pair[2 * m][0], p1 = pair[2 * m][1], p2 = pair[2 * m + 1][0], p3 = pair[2 * m + 1][1];
            // A product with ones adds the probabilities of a row over all lanes.
            float whole[4] = {sum[0], 0, sum[1], 0};
            mma_m16n8k16(whole, p0, p1, p2, p3, 0x3c003c00u, 0x3c003c00u);
            sum[0] = whole[0], sum[1] = whole[2];
#pragma unroll
            for (int d = 0; d < OD; ++d)
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const unsigned select = j % 2 ? 0x7632 : 0x5410;
                    const unsigned b0 = __byte_perm(word(vv[m][d][0], j / 2), word(vv[m][d][1], j / 2), select);
                    const unsigned b1 = __byte_perm(word(vv[m][d][2], j / 2), word(vv[m][d][3], j / 2), select);
                    mma_m16n8k16(acc[d][j], p0, p1, p2, p3, b0, b1);
                }
        }
    }


    // Parts in the order of the registers: [slot][part][lane], so no access has a bank conflict.
    extern __shared__ __align__(128) unsigned char shared[];
    float4* outs = reinterpret_cast<float4*>(shared) + qt * (SLOTS * OWN * 32);
    float2* tops = reinterpret_cast<float2*>(shared + QTILES * SLOTS * OWN * 512) + qt * (SLOTS * 16);
    const int slot = (int)rank * KWARPS + kw;

    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    unsigned to = 0;
    const unsigned outs_at = (unsigned)__cvta_generic_to_shared(outs), tops_at = (unsigned)__cvta_generic_to_shared(tops);

#pragma unroll
    for (int n = 0; n < PARTS; ++n) {
        const int d = n / 8, e = n / 2 % 4, h = n % 2 * 4;
        const float4 part = make_float4(acc[d][h][e], acc[d][h + 1][e], acc[d][h + 2][e], acc[d][h + 3][e]);

        if (n % OWN == 0) to = map_shared_rank(outs_at + (slot * OWN * 32 + lane) * 16, n / OWN);
        store_remote(to + n % OWN * 512, part);

    }

#pragma unroll
    for (int n = 0; n < CLUSTER; n += 4)
        if (n + t < CLUSTER) {
            store_remote(map_shared_rank(tops_at + (slot * 16 + g) * 8, n + t), make_float2(top[0], sum[0]));
            store_remote(map_shared_rank(tops_at + (slot * 16 + g + 8) * 8, n + t), make_float2(top[1], sum[1]));
        }
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

#pragma unroll
    for (int i = kw; i < OWN; i += KWARPS) {
        const int n = (int)rank * OWN + i;
        const int d = n / 8, e = n / 2 % 4, h = n % 2 * 4, row = g + e / 2 * 8;
        float most = LOWEST;
        float2 state[SLOTS];
#pragma unroll
        for (int s = 0; s < SLOTS; ++s) state[s] = tops[s * 16 + row], most = fmaxf(most, state[s].x);
        float whole = 0;
        float4 out = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int s = 0; s < SLOTS; ++s) {
            const float weight = exp2f(state[s].x - most);
            const float4 part = outs[(s * OWN + i) * 32 + lane];
            whole += weight * state[s].y;
            out.x += weight * part.x, out.y += weight * part.y, out.z += weight * part.z, out.w += weight * part.w;
        }
        const float inverse = whole > 0 ? 1 / whole : 0;  // a query that sees no key gives 0
        if (row < rows)
            *reinterpret_cast<uint2*>(o + (size_t)(row0 + row) * D + d * 64 + t * 16 + e % 2 * 8 + h) =
                make_uint2(pack_half2(out.x * inverse, out.y * inverse), pack_half2(out.z * inverse, out.w * inverse));
    }

}
