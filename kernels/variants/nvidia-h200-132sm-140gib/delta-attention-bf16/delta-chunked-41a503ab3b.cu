// delta-chunked for bf16, K=128 V=128
// SLICE=16 PARTS=4 TILES=1 STAGES=3 CLUSTER=1 DIRECT=0 APART=0 SEGMENTS=1
// Delta attention by chunks of C tokens (Kimi Linear, arXiv 2510.26692; the WY form of DeltaNet, arXiv 2406.06484).
//
// With G, the sums of the gates since the chunk began, and beta, a chunk writes the values N into the state S that it finds:
//     A[i,j] = beta_i sum_c k_i k_j exp(G_i - G_j) for j < i,   X[i,j] = scale sum_c q_i k_j exp(G_i - G_j) for j <= i
//     R = (I + A)^-1 diag(beta),   W = R (k exp(G)),   U = R v
//     N = U - W S,   o = scale (q exp(G)) S + X N,   S = exp(G_last) S + (k exp(G_last - G))^T N
// `prepare` computes W, X, U and the scaled q and k for all chunks at once. `carry` walks the chunks of a head, for some columns of S.
//
// What `carry` multiplies is stored as tiles of 16 x 16, in the order in which the lanes of a warp hold them for mma.sync: each lane
// has 16 bytes. S, N and o are transposed, so that a warp's sums are the left operands of its next products.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// --- the element type of the workload; sums are in FP32 ---
using Elem = __nv_bfloat16;
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void narrow(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }
__device__ inline void narrow(float x, float& to) { to = x; }
__device__ inline void narrow(float x, __half& to) { to = __float2half_rn(x); }
// --- mma.sync (PTX ISA, "Matrix Fragments for mma.m16n8k16"): all lanes of a warp; d (16 x 8) += a (16 x 16) b (16 x 8), f16 with f32 sums ---
__device__ inline void mma_m16n8k16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// The same with a as ldmatrix gives it.
__device__ inline void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    mma_m16n8k16(d, a[0], a[1], a[2], a[3], b0, b1);
}
// --- mma.sync (PTX ISA, "Matrix Fragments for mma.m16n8k8"): all lanes of a warp; d (16 x 8) += a (16 x 8) b (8 x 8), tf32 with f32 sums ---
__device__ inline void mma_m16n8k8(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// --- ldmatrix (PTX ISA, "ldmatrix"): all lanes of a warp; lane i has the address of row i % 8 of matrix i / 8, 8 x 8 of 16 bits each ---
__device__ inline void ldmatrix_x4(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
__device__ inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
// Rounds two numbers to BF16 and packs them into one operand register: the first in the lower half.
__device__ inline unsigned pack_half2(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
// 2^x by the special function units (PTX ISA, "ex2"). exp2f also handles results near 0, which count as 0 here.
__device__ inline float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// --- shared memory as PTX addresses it (PTX ISA, "State Spaces"): 32 bits, in the window of the block ---
__device__ inline unsigned shared_address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }
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
// --- clusters (PTX ISA, "mapa"): the shared memory of other blocks ---
// Returns the same address in the shared memory of the block with this rank.
__device__ inline unsigned map_shared_rank(unsigned here, int rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    return there;
}
// Arrives once at the mbarrier with this address in a block of the cluster, which may be this block.
__device__ inline void mbarrier_arrive_rank(unsigned mbarrier, int rank) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(map_shared_rank(mbarrier, rank)) : "memory");
}
__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// The warp's index in the block. Broadcast from lane 0, so that the compiler knows that it is uniform in a warp, and
// does not guard every shuffle against divergence.
__device__ inline int warp_index() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0); }

constexpr int K = 128;             // channels of keys: rows of the state
constexpr int V = 128;             // channels of values: columns of the state
constexpr int C = 64;              // tokens of a chunk
constexpr int TILE_BYTES = 512;
constexpr int TOKEN_TILES = C / 16;
constexpr int CHANNEL_TILES = K / 16;
constexpr int TRIANGLE = TOKEN_TILES * (TOKEN_TILES + 1) / 2;

// Bytes of a packet: X, q, -W by tiles, the decays of the channels, then k by tiles.
constexpr int MATRIX = 2 * C * K;
constexpr int X_AT = 0;
constexpr int Q_AT = TRIANGLE * TILE_BYTES;
constexpr int W_AT = Q_AT + MATRIX;
constexpr int DECAY_AT = W_AT + MATRIX;
constexpr int K_AT = DECAY_AT + 4 * K;
constexpr int PACKET = K_AT + MATRIX;
constexpr int VALUES = 2 * C * V;

__device__ inline int triangle_tile(int i, int j) { return i * (i + 1) / 2 + j; }
__device__ inline unsigned scaled_pair(unsigned pair, float low, float high) {
    return pack_half2(__uint_as_float(pair << 16) * low, __uint_as_float(pair & 0xffff0000u) * high);
}
// Stores a left operand as two right operands of 16 x 8, each in neighbouring registers.
__device__ inline void store_right(unsigned char* to, int tile, int lane, unsigned a, unsigned b, unsigned c, unsigned d) {
    reinterpret_cast<uint4*>(to + tile * TILE_BYTES)[lane] = make_uint4(a, c, b, d);
}
__device__ inline void store_tile(unsigned char* to, int tile, int lane, unsigned a, unsigned b, unsigned c, unsigned d) {
    reinterpret_cast<uint4*>(to + tile * TILE_BYTES)[lane] = make_uint4(a, b, c, d);
}

// --- prepare: a block for each chunk of each head ---
constexpr int PAIRS = K / 2;                 // neighbouring channels, a thread for each pair of each tile of tokens
constexpr int OWN = 16;                      // tokens of a thread
constexpr int THREADS = TOKEN_TILES * PAIRS;
constexpr int PREPARE_WARPS = THREADS / 32;
constexpr int K_PITCH = K + 8, V_PITCH = V + 8, R_PITCH = C + 8, A_PITCH = C + 4;
constexpr float LOG2_E = 1.4426950408889634f;
// Within this distance of a reference, 2^G and 2^-G fit FP32 and BF16, and so do their products with keys.
constexpr float MOST_DECAY = 58;

// Sums of products of the channels of two tokens, with what decays between them, where a tile is beyond that range: a warp takes
// rows of A and X, and walks back from the diagonal. Each lane has some channels.
__device__ inline void products_by_pairs(const Elem* q, const Elem* k, const float* g, int pitch, int tokens, float scale,
                                         const float* strength, float* a, Elem* x, int warp, int lane) {
    constexpr int OF_LANE = K / 32;
    for (int i = warp; i < C; i += PREPARE_WARPS) {
        float query[OF_LANE], key[OF_LANE];
#pragma unroll
        for (int n = 0; n < OF_LANE; ++n) {
            const int c = n * 32 + lane;
            query[n] = i < tokens ? scale * widen(q[(size_t)i * pitch + c]) : 0;
            key[n] = i < tokens ? widen(k[(size_t)i * pitch + c]) : 0;
        }
        for (int j = C - 1; j > i; --j)
            if (lane == 0) a[i * A_PITCH + j] = 0, narrow(0.0f, x[i * R_PITCH + j]);
        for (int j = i; j >= 0; --j) {
            float of_key = 0, of_query = 0;
            if (i < tokens) {
#pragma unroll
                for (int n = 0; n < OF_LANE; ++n) {
                    const int c = n * 32 + lane;
                    const float other = widen(k[(size_t)j * pitch + c]);
                    of_key += key[n] * other, of_query += query[n] * other;
                    const float decay = expf(g[(size_t)j * pitch + c]);
                    key[n] *= decay, query[n] *= decay;
                }
            }
#pragma unroll
            for (int other = 16; other > 0; other /= 2) {
                of_key += __shfl_xor_sync(0xffffffffu, of_key, other);
                of_query += __shfl_xor_sync(0xffffffffu, of_query, other);
            }
            if (lane == 0) {
                a[i * A_PITCH + j] = j < i ? strength[i] * of_key : 0;
                narrow(of_query, x[i * R_PITCH + j]);
            }
        }
    }
}

// Replaces a lower triangle of 16 x 16 by its inverse, by forward substitution. The diagonal, which is stored as zero, is one. A thread
// has a column, and the threads of a block share a warp.
__device__ inline void invert_block(float* block, int column) {
    float inverse[16] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        float parts[4] = {i == column ? 1.0f : 0.0f, 0, 0, 0};
#pragma unroll
        for (int j = 0; j < i; j += 4) {
            const float4 row = *reinterpret_cast<const float4*>(block + i * A_PITCH + j);
            parts[0] -= row.x * inverse[j], parts[1] -= row.y * inverse[j + 1];
            parts[2] -= row.z * inverse[j + 2], parts[3] -= row.w * inverse[j + 3];
        }
        inverse[i] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16; ++i) block[i * A_PITCH + column] = inverse[i];
}

// The bits of a number that TF32 keeps. Tensor cores ignore the others.
__device__ inline float tf32_part(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }
// A tile of 16 x 8 of a product with so many terms, by a warp. Factors are sums of two TF32 numbers, so that they keep 21 bits.
template <int TERMS>
__device__ inline void product_tile(float (&sums)[4], const float* left, const float* right, int lane) {
    const int line = lane / 4, at = lane % 4;
#pragma unroll
    for (int term = 0; term < TERMS; term += 8) {
        const float a[4] = {left[line * A_PITCH + term + at], left[(line + 8) * A_PITCH + term + at],
                            left[line * A_PITCH + term + at + 4], left[(line + 8) * A_PITCH + term + at + 4]};
        const float b[2] = {right[(term + at) * A_PITCH + line], right[(term + at + 4) * A_PITCH + line]};
        unsigned high_a[4], low_a[4], high_b[2], low_b[2];
#pragma unroll
        for (int n = 0; n < 4; ++n) high_a[n] = __float_as_uint(tf32_part(a[n])), low_a[n] = __float_as_uint(a[n] - tf32_part(a[n]));
#pragma unroll
        for (int n = 0; n < 2; ++n) high_b[n] = __float_as_uint(tf32_part(b[n])), low_b[n] = __float_as_uint(b[n] - tf32_part(b[n]));
        mma_m16n8k8(sums, low_a[0], low_a[1], low_a[2], low_a[3], high_b[0], high_b[1]);
        mma_m16n8k8(sums, high_a[0], high_a[1], high_a[2], high_a[3], low_b[0], low_b[1]);
        mma_m16n8k8(sums, high_a[0], high_a[1], high_a[2], high_a[3], high_b[0], high_b[1]);
    }
}
__device__ inline void store_product(float* to, const float (&sums)[4], float factor, int lane) {
    float* const at = to + lane / 4 * A_PITCH + lane % 4 * 2;
    *reinterpret_cast<float2*>(at) = {factor * sums[0], factor * sums[1]};
    *reinterpret_cast<float2*>(at + 8 * A_PITCH) = {factor * sums[2], factor * sums[3]};
}
// Inverts lower triangles of twice SIZE whose diagonal blocks are inverted already. All warps of the block call it.
template <int SIZE>
__device__ inline void join_blocks(float* a, float* part, int warp, int lane) {
    constexpr int TILES_OF_BLOCK = SIZE / 16 * (SIZE / 8), JOBS = C / (2 * SIZE) * TILES_OF_BLOCK;
#pragma unroll
    for (int product = 0; product < 2; ++product) {
        for (int job = warp; job < JOBS; job += PREPARE_WARPS) {
            const int place = job / TILES_OF_BLOCK * 2 * SIZE, tile = job % TILES_OF_BLOCK;
            const int row = tile / (SIZE / 8) * 16, column = tile % (SIZE / 8) * 8;
            float* const upper = a + place * (A_PITCH + 1);
            float* const corner = upper + SIZE * A_PITCH;
            float* const half = part + place / 2 * A_PITCH + column;
            float sums[4] = {};
            if (product == 0) {
                product_tile<SIZE>(sums, corner + row * A_PITCH, upper + column, lane);
                store_product(half + row * A_PITCH, sums, 1, lane);
            } else {
                product_tile<SIZE>(sums, corner + SIZE + row * A_PITCH, half, lane);
                store_product(corner + row * A_PITCH + column, sums, -1, lane);
            }
        }
        __syncthreads();
    }
}

// Loads a pair of channels of a thread's tokens.
template <bool ARE_ALL>
__device__ inline void load_tokens(float2 (&gates)[OWN], unsigned (&queries)[OWN], unsigned (&keys)[OWN], const float* g, const Elem* q,
                                   const Elem* k, unsigned pitch, int tokens) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const bool is_token = ARE_ALL || i < tokens;
        gates[i] = is_token ? *reinterpret_cast<const float2*>(g) : float2{0, 0};
        queries[i] = is_token ? *reinterpret_cast<const unsigned*>(q) : 0;
        keys[i] = is_token ? *reinterpret_cast<const unsigned*>(k) : 0;
        g += pitch, q += pitch, k += pitch;
    }
}

constexpr int K_TILE = 32 * K_PITCH;         // bytes of 16 tokens
__device__ inline void multiply_by_keys(float (&low)[4], float (&high)[4], const unsigned (&rows)[4], unsigned keys) {
    unsigned columns[4];
    ldmatrix_x4(columns, keys);
    mma_m16n8k16(low, rows, columns[0], columns[1]);
    mma_m16n8k16(high, rows, columns[2], columns[3]);
}
// Products of tile i of queries or keys with the tiles up to it, each of which has references of its own. They are below those of earlier
// tiles.
__device__ inline void products_by_tiles(float (&sums)[2 * TOKEN_TILES][4], unsigned left, unsigned keys, const float* references, int i) {
#pragma unroll 1
    for (int step = 0; step < CHANNEL_TILES; ++step) {
        unsigned rows[4];
        ldmatrix_x4(rows, left + step * 32);
        const float* const own = references + i * K + step * 16;
#pragma unroll
        for (int j = 0; j < TOKEN_TILES; ++j) {
            if (j > i) continue;
            const float* const other = references + j * K + step * 16;
            float decays[4];
#pragma unroll
            for (int n = 0; n < 4; ++n) decays[n] = exp2_approx(own[n / 2 * 8 + n % 2] - other[n / 2 * 8 + n % 2]);
            const unsigned decayed[4] = {scaled_pair(rows[0], decays[0], decays[1]), scaled_pair(rows[1], decays[0], decays[1]),
                                         scaled_pair(rows[2], decays[2], decays[3]), scaled_pair(rows[3], decays[2], decays[3])};
            multiply_by_keys(sums[2 * j], sums[2 * j + 1], decayed, keys + j * K_TILE + step * 32);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 512 / THREADS)
prepare(const Elem* __restrict__ q, const Elem* __restrict__ k, const Elem* __restrict__ v, const float* __restrict__ g,
        const Elem* __restrict__ beta, unsigned char* __restrict__ packets, unsigned char* __restrict__ values, int H, int T,
        float scale, int first_chunk) {
    // The next launch may start: it waits for the end of this one.
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    extern __shared__ __align__(128) unsigned char shared[];
    Elem* const key_up = reinterpret_cast<Elem*>(shared);      // k exp(G - up)
    Elem* const key_down = key_up + C * K_PITCH;               // k exp(down - G)
    Elem* const query_up = key_down + C * K_PITCH;             // scale q exp(G - up)
    Elem* const value = query_up + C * K_PITCH;
    Elem* const r = value + C * V_PITCH;
    float* const a = reinterpret_cast<float*>(r + C * R_PITCH);
    float* const of_up = a + C * A_PITCH;                      // exp(up) of each tile of tokens
    float* const of_down = of_up + TOKEN_TILES * K;            // exp(G_last - down) of each tile
    float* const references = of_down + TOKEN_TILES * K;       // up and down, where these are a tile's own
    float* const totals = references + TOKEN_TILES * K;        // sums of the gates of each tile
    float* const strength = totals + TOKEN_TILES * K;
    // `part_of_inverse` lies over `query_up`, which is stored by then.
    float* const part_of_inverse = reinterpret_cast<float*>(query_up);

    const int chunk = first_chunk + blockIdx.x, chunks = (T + C - 1) / C, head = blockIdx.y, warp = warp_index(), lane = threadIdx.x % 32;
    const int tokens = min(C, T - chunk * C);
    const size_t first = ((size_t)(head / H) * T + chunk * C) * H + head % H;
    q += first * K, k += first * K, g += first * K, v += first * V, beta += first;
    packets += ((size_t)head * chunks + chunk) * PACKET;
    values += ((size_t)head * chunks + chunk) * VALUES;

    // Tokens behind the last one have no gate, and neither a key nor a query.
    const int own_tile = threadIdx.x / PAIRS, c = threadIdx.x % PAIRS * 2, from = own_tile * OWN;
    const unsigned pitch = H * K, first_at = from * pitch + c;
    float2 sum[OWN], running = {0, 0};
    unsigned queries[OWN], keys[OWN];
    if (tokens == C)
        load_tokens<true>(sum, queries, keys, g + first_at, q + first_at, k + first_at, pitch, OWN);
    else
        load_tokens<false>(sum, queries, keys, g + first_at, q + first_at, k + first_at, pitch, tokens - from);
    for (int i = threadIdx.x; i < C * V / 8; i += THREADS) {
        const int token = i / (V / 8), column = i % (V / 8) * 8;
        uint4 loaded = {0, 0, 0, 0};
        if (token < tokens) loaded = *reinterpret_cast<const uint4*>(v + (unsigned)(token * H * V + column));
        *reinterpret_cast<uint4*>(value + token * V_PITCH + column) = loaded;
    }
    if (threadIdx.x < C) strength[threadIdx.x] = threadIdx.x < tokens ? widen(beta[(size_t)threadIdx.x * H]) : 0;
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        running.x += LOG2_E * sum[i].x, running.y += LOG2_E * sum[i].y;
        sum[i] = running;
    }
    const int own_place = own_tile * K + c;
    *reinterpret_cast<float2*>(totals + own_place) = running;
    __syncthreads();
    float2 before = {0, 0}, middle = {0, 0}, last = {0, 0};
#pragma unroll
    for (int tile = 0; tile < TOKEN_TILES; ++tile) {
        const float2 total = *reinterpret_cast<const float2*>(totals + tile * K + c);
        if (tile == own_tile) before = last;
        last.x += total.x, last.y += total.y;
        if (tile == TOKEN_TILES / 2 - 1) middle = last;
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i) sum[i].x += before.x, sum[i].y += before.y;
    float2 least = sum[0], most = sum[0];
#pragma unroll
    for (int i = 1; i < OWN; ++i) {
        least.x = fminf(least.x, sum[i].x), least.y = fminf(least.y, sum[i].y);
        most.x = fmaxf(most.x, sum[i].x), most.y = fmaxf(most.y, sum[i].y);
    }
    const auto is_beyond = [=](float2 reference) {
        const float above = fmaxf(most.x - reference.x, most.y - reference.y);
        const float farthest = fmaxf(above, fmaxf(reference.x - least.x, reference.y - least.y));
        return __syncthreads_or(!(farthest <= MOST_DECAY));
    };
    // One reference for the chunk, else one for each tile, else none.
    float2 up = middle, down = middle;
    bool by_tiles = is_beyond(middle), by_pairs = false;
    if (by_tiles) {
        up = down = sum[OWN / 2 - 1];
        by_pairs = is_beyond(up);
        if (by_pairs) up = {0, 0}, down = last;
        *reinterpret_cast<float2*>(references + own_place) = up;
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int at = (from + i) * K_PITCH + c;
        const float2 risen = {exp2_approx(sum[i].x - up.x), exp2_approx(sum[i].y - up.y)};
        *reinterpret_cast<unsigned*>(key_up + at) = scaled_pair(keys[i], risen.x, risen.y);
        *reinterpret_cast<unsigned*>(query_up + at) = scaled_pair(queries[i], scale * risen.x, scale * risen.y);
        *reinterpret_cast<unsigned*>(key_down + at) = scaled_pair(keys[i], exp2_approx(down.x - sum[i].x), exp2_approx(down.y - sum[i].y));
    }
    *reinterpret_cast<float2*>(of_up + own_place) = {exp2_approx(up.x), exp2_approx(up.y)};
    *reinterpret_cast<float2*>(of_down + own_place) = {exp2_approx(last.x - down.x), exp2_approx(last.y - down.y)};
    if (own_tile == 0) *reinterpret_cast<float2*>(packets + DECAY_AT + c * 4) = {exp2_approx(last.x), exp2_approx(last.y)};
    __syncthreads();

    // How the lanes address the four matrices of an ldmatrix: rows and then columns, or columns and then rows.
    const int row_first = lane % 16, column_second = lane / 16 * 8;
    const int row_second = lane / 16 * 8 + lane % 8, column_first = lane / 8 % 2 * 8;
    const unsigned k_first = 2 * (row_first * K_PITCH + column_second), k_second = 2 * (row_second * K_PITCH + column_first);
    const unsigned r_first = shared_address(r) + 2 * (row_first * R_PITCH + column_second);
    const unsigned r_second = shared_address(r) + 2 * (row_second * R_PITCH + column_first);
    const unsigned key_up_first = shared_address(key_up) + k_first, key_down_second = shared_address(key_down) + k_second;
    const unsigned query_up_first = shared_address(query_up) + k_first;
    const unsigned value_second = shared_address(value) + 2 * (row_second * V_PITCH + column_first);
    constexpr int R_TILE = 32 * R_PITCH, V_TILE = 32 * V_PITCH;   // bytes of 16 rows
    const int pair = lane % 4 * 2, line = lane / 4;
    if (by_pairs) {
        products_by_pairs(q, k, g, pitch, tokens, scale, strength, a, r, warp, lane);
        __syncthreads();
        for (int tile = warp; tile < TOKEN_TILES * TOKEN_TILES; tile += PREPARE_WARPS) {
            const int i = tile / TOKEN_TILES, j = tile % TOKEN_TILES;
            if (j > i) continue;
            unsigned x[4];
            ldmatrix_x4(x, r_first + i * R_TILE + j * 32);
            store_right(packets + X_AT, triangle_tile(i, j), lane, x[0], x[1], x[2], x[3]);
        }
    } else {
        for (int job = warp; job < 2 * TOKEN_TILES; job += PREPARE_WARPS) {
            const bool is_x = job >= TOKEN_TILES;
            const int i = job % TOKEN_TILES;
            const unsigned left = (is_x ? query_up_first : key_up_first) + i * K_TILE;
            float sums[2 * TOKEN_TILES][4] = {};
            if (by_tiles) {
                products_by_tiles(sums, left, key_down_second, references + pair, i);
            } else {
#pragma unroll 4
                for (int step = 0; step < CHANNEL_TILES; ++step) {
                    unsigned rows[4];
                    ldmatrix_x4(rows, left + step * 32);
#pragma unroll
                    for (int j = 0; j < TOKEN_TILES; ++j)
                        if (j <= i) multiply_by_keys(sums[2 * j], sums[2 * j + 1], rows, key_down_second + j * K_TILE + step * 32);
                }
            }
            const int row = i * 16 + line;
#pragma unroll
            for (int j = 0; j < 2 * TOKEN_TILES; ++j) {
                if (j / 2 != i) continue;
                // Above the diagonal, which belongs to X alone, is nothing.
                const int column = j % 2 * 8 + pair + !is_x;
#pragma unroll
                for (int n = 0; n < 4; ++n)
                    if (column + n % 2 > line + n / 2 * 8) sums[j][n] = 0;
            }
            if (is_x) {
#pragma unroll
                for (int j = 0; j < TOKEN_TILES; ++j) {
                    if (j > i) continue;
                    float(*const s)[4] = sums + 2 * j;
                    store_right(packets + X_AT, triangle_tile(i, j), lane, pack_half2(s[0][0], s[0][1]), pack_half2(s[0][2], s[0][3]),
                               pack_half2(s[1][0], s[1][1]), pack_half2(s[1][2], s[1][3]));
                }
            } else {
                const float upper = strength[row], lower = strength[row + 8];
#pragma unroll
                for (int j = 0; j < 2 * TOKEN_TILES; ++j) {
                    float* const to = a + row * A_PITCH + j * 8 + pair;
                    *reinterpret_cast<float2*>(to) = {upper * sums[j][0], upper * sums[j][1]};
                    *reinterpret_cast<float2*>(to + 8 * A_PITCH) = {lower * sums[j][2], lower * sums[j][3]};
                }
            }
        }
    }
    __syncthreads();

    if (threadIdx.x < C)
        invert_block(a + (threadIdx.x / 16) * 16 * (A_PITCH + 1), threadIdx.x % 16);
    else
        for (int tile = warp - C / 32; tile < TOKEN_TILES * CHANNEL_TILES; tile += PREPARE_WARPS - C / 32) {
            const int i = tile / CHANNEL_TILES, n = tile % CHANNEL_TILES, channel = n * 16 + pair;
            unsigned x[4];
            ldmatrix_x4(x, query_up_first + i * K_TILE + n * 32);
            const float2 low = *reinterpret_cast<const float2*>(of_up + i * K + channel),
                         high = *reinterpret_cast<const float2*>(of_up + i * K + channel + 8);
            store_right(packets + Q_AT, tile, lane, scaled_pair(x[0], low.x, low.y), scaled_pair(x[1], low.x, low.y),
                       scaled_pair(x[2], high.x, high.y), scaled_pair(x[3], high.x, high.y));
            // Transposed: rows are channels.
            ldmatrix_x4_trans(x, key_down_second + i * K_TILE + n * 32);
            const float upper = of_down[i * K + n * 16 + line], lower = of_down[i * K + n * 16 + line + 8];
            store_right(packets + K_AT, n * TOKEN_TILES + i, lane, scaled_pair(x[0], upper, upper), scaled_pair(x[1], lower, lower),
                       scaled_pair(x[2], upper, upper), scaled_pair(x[3], lower, lower));
        }
    __syncthreads();
    // A lower triangle [[D, 0], [L, E]] has the inverse [[1/D, 0], [-1/E L 1/D, 1/E]].
    join_blocks<16>(a, part_of_inverse, warp, lane);
    join_blocks<32>(a, part_of_inverse, warp, lane);
    for (int i = threadIdx.x; i < C * C / 2; i += THREADS) {
        const int row = i / (C / 2), column = i % (C / 2) * 2;
        const float2 two = *reinterpret_cast<const float2*>(a + row * A_PITCH + column);
        *reinterpret_cast<unsigned*>(r + row * R_PITCH + column) = pack_half2(two.x * strength[column], two.y * strength[column + 1]);
    }
    __syncthreads();

    // -W, by rows of 16 tokens and 32 channels. The second time, a warp has as many tiles to multiply as it had too few.
    for (int job = warp; job < TOKEN_TILES * (K / 32); job += PREPARE_WARPS) {
        const int turn = job / PREPARE_WARPS % 2, channel = job / TOKEN_TILES * 32;
        const int i = turn ? TOKEN_TILES - 1 - job % TOKEN_TILES : job % TOKEN_TILES;
        float sums[4][4] = {};
#pragma unroll 1
        for (int step = 0; step <= i; ++step) {
            unsigned rows[4], columns[4];
            ldmatrix_x4(rows, r_first + i * R_TILE + step * 32);
            float products[4][4] = {};
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                ldmatrix_x4_trans(columns, key_up_first + step * K_TILE + 2 * channel + n * 32);
                mma_m16n8k16(products[2 * n], rows, columns[0], columns[1]);
                mma_m16n8k16(products[2 * n + 1], rows, columns[2], columns[3]);
            }
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const float2 factor = *reinterpret_cast<const float2*>(of_up + step * K + channel + n * 8 + pair);
#pragma unroll
                for (int x = 0; x < 4; ++x) sums[n][x] -= (x % 2 ? factor.y : factor.x) * products[n][x];
            }
        }
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            float(*const s)[4] = sums + 2 * n;
            store_right(packets + W_AT, i * CHANNEL_TILES + channel / 16 + n, lane, pack_half2(s[0][0], s[0][1]),
                        pack_half2(s[0][2], s[0][3]), pack_half2(s[1][0], s[1][1]), pack_half2(s[1][2], s[1][3]));
        }
    }
    // U, transposed, by 16 columns of values.
    for (int n = warp; n < V / 16; n += PREPARE_WARPS) {
        float sums[2 * TOKEN_TILES][4] = {};
#pragma unroll 1
        for (int step = 0; step < TOKEN_TILES; ++step) {
            unsigned rows[4], columns[4];
            ldmatrix_x4_trans(rows, value_second + step * V_TILE + n * 32);
#pragma unroll
            for (int i = 0; i < TOKEN_TILES; ++i) {
                if (i < step) continue;
                ldmatrix_x4(columns, r_second + i * R_TILE + step * 32);
                mma_m16n8k16(sums[2 * i], rows, columns[0], columns[1]);
                mma_m16n8k16(sums[2 * i + 1], rows, columns[2], columns[3]);
            }
        }
#pragma unroll
        for (int i = 0; i < TOKEN_TILES; ++i) {
            float(*const s)[4] = sums + 2 * i;
            store_tile(values, n * TOKEN_TILES + i, lane, pack_half2(s[0][0], s[0][1]), pack_half2(s[0][2], s[0][3]),
                       pack_half2(s[1][0], s[1][1]), pack_half2(s[1][2], s[1][3]));
        }
    }
}

// --- carry: a block for SLICE columns of the state of a head, transposed ---
constexpr int SLICE = 16;
constexpr int PARTS = 4;            // warps with the same columns
constexpr int TILES = 1;            // tiles of 16 columns of a warp
constexpr int STAGES = 3;
constexpr int CLUSTER = 1;          // blocks of a head that share each copy of a packet
constexpr bool APART = 0;           // `read` computes o, from the states and new values of all chunks
constexpr bool DIRECT = 0;          // k and X go to registers directly: each tile of them has one warp, which needs it late
constexpr int CARRY_WARPS = PARTS * SLICE / (16 * TILES);
constexpr int OWN_CHANNELS = CHANNEL_TILES / PARTS;   // tiles
constexpr int OWN_TOKENS = TOKEN_TILES / PARTS;
// A warp with few sums has two of each, so that its products do not wait for each other.
constexpr int SUMS = TILES * OWN_TOKENS == 1 ? 2 : 1;
constexpr int OF_SLICE = 2 * C * SLICE;
// What is copied to shared memory: X and q only if they are needed, and the keys only if they do not go to registers directly.
constexpr int FROM = APART ? W_AT : DIRECT ? Q_AT : 0;
constexpr int COPIED = (DIRECT ? K_AT : PACKET) - FROM;
constexpr int STAGE = COPIED + OF_SLICE;
// Bytes of what `read` finds of a chunk: its state and new values, transposed, as left operands.
constexpr int NEW_AT = 2 * K * V;
constexpr int KEPT = NEW_AT + 2 * C * V;

__device__ inline void copy_bulk(unsigned to, const unsigned char* from, int bytes, unsigned mbarrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(mbarrier) : "memory");
}
// The same to each block of the cluster.
__device__ inline void copy_bulk_to_all(unsigned to, const unsigned char* from, int bytes, unsigned mbarrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(mbarrier), "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
__device__ inline void load_tile(unsigned (&to)[4], const unsigned char* from, int tile, int lane) {
    const uint4 words = reinterpret_cast<const uint4*>(from + tile * TILE_BYTES)[lane];
    to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
}
// The same from device memory, which the launch before has written.
__device__ inline void load_tile_directly(unsigned (&to)[4], const unsigned char* from, int tile) {
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(from + tile * TILE_BYTES));
    to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
}
// Two tiles of 16 x 8 sums as one left operand of 16 x 16.
__device__ inline void to_operand(unsigned (&to)[4], const float (&low)[4], const float (&high)[4]) {
    to[0] = pack_half2(low[0], low[1]), to[1] = pack_half2(low[2], low[3]);
    to[2] = pack_half2(high[0], high[1]), to[3] = pack_half2(high[2], high[3]);
}
// Stores 16 columns of 8 tokens. Neighbouring lines swap, so that each stores two neighbouring columns of one token.
__device__ inline void store_out(Elem* o, const float (&sums)[4], size_t pitch, int token, int tokens, int lane) {
    const int line = lane / 4;
    const bool is_odd = line % 2;
    token += lane % 4 * 2 + is_odd;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float even = sums[2 * half], odd = sums[2 * half + 1];
        const float other = __shfl_xor_sync(0xffffffffu, is_odd ? even : odd, 4);
        const unsigned two = is_odd ? pack_half2(other, odd) : pack_half2(even, other);
        if (token < tokens) *reinterpret_cast<unsigned*>(o + token * pitch + half * 8 + line - is_odd) = two;
    }
}
// Adds the product with a right operand whose 16 columns are the rows of a stored tile.
__device__ inline void multiply(float (&low)[4], float (&high)[4], const unsigned (&left)[4], const unsigned (&tile)[4]) {
    mma_m16n8k16(low, left, tile[0], tile[1]);
    mma_m16n8k16(high, left, tile[2], tile[3]);
}

// Loads a warp's tiles of 16 tokens by all channels.
__device__ inline void load_rows(unsigned (&to)[OWN_TOKENS][CHANNEL_TILES][4], const unsigned char* from, int part, int lane) {
#pragma unroll
    for (int i = 0; i < OWN_TOKENS; ++i)
#pragma unroll
        for (int step = 0; step < CHANNEL_TILES; ++step)
            load_tile(to[i][step], from, (part * OWN_TOKENS + i) * CHANNEL_TILES + step, lane);
}

// What the warps of a block share.
struct Shared {
    unsigned char* stages;
    unsigned char *state, *added;                // S and N as left operands, from all warps
    unsigned has_state, has_new, full, empty;    // mbarriers, the last two for each stage
};

// Gives a warp's part of the state to all warps of the same columns, as operands, and to `read` for the next chunk, if any.
__device__ inline void share_state(const Shared& shared, const float (&state)[TILES][2 * OWN_CHANNELS][4], unsigned char* kept,
                                   int first_tile, int kept_tile, int part, int lane) {
#pragma unroll
    for (int i = 0; i < OWN_CHANNELS; ++i)
#pragma unroll
        for (int n = 0; n < TILES; ++n) {
            unsigned next[4];
            to_operand(next, state[n][2 * i], state[n][2 * i + 1]);
            const int tile = n * CHANNEL_TILES + part * OWN_CHANNELS + i;
            if constexpr (PARTS > 1) store_tile(shared.state, first_tile * CHANNEL_TILES + tile, lane, next[0], next[1], next[2], next[3]);
            if (APART && kept) store_tile(kept, kept_tile * CHANNEL_TILES + tile, lane, next[0], next[1], next[2], next[3]);
        }
    if constexpr (PARTS > 1) mbarrier_arrive(shared.has_state);
}

// A warp that multiplies: all chunks, for its part of some columns.
__device__ inline void walk(const Shared& shared, const unsigned char* packets, float4* states, unsigned char* kept, Elem* o, int H, int T,
                            int first_chunk, int chunks, int warp, int lane) {
    const int part = warp % PARTS, first_tile = warp / PARTS * TILES;
    // Among the tiles of all blocks of the head.
    const int kept_tile = blockIdx.x * (SLICE / 16) + first_tile;
    float state[TILES][2 * OWN_CHANNELS][4] = {};
    const int pair = lane % 4 * 2, line = lane / 4;
if constexpr (PARTS > 1 || APART) share_state(shared, state, kept, first_tile, kept_tile, part, lane);
    unsigned keys[OWN_CHANNELS][TOKEN_TILES][4], x[OWN_TOKENS][TOKEN_TILES][4];
    // Where the lane's words of the first of its warp's tiles lie, in device memory.
    const int first_key = K_AT + part * OWN_CHANNELS * TOKEN_TILES * TILE_BYTES;
    const unsigned char* own_keys = packets + first_key + lane * 16;
    int own_x[OWN_TOKENS];
#pragma unroll
    for (int i = 0; i < OWN_TOKENS; ++i) own_x[i] = X_AT - first_key + triangle_tile(part * OWN_TOKENS + i, 0) * TILE_BYTES;
    const auto load_keys = [&](const unsigned char* from) {
#pragma unroll
        for (int i = 0; i < OWN_CHANNELS; ++i)
#pragma unroll
            for (int step = 0; step < TOKEN_TILES; ++step) {
                if constexpr (DIRECT)
                    load_tile_directly(keys[i][step], own_keys, i * TOKEN_TILES + step);
                else
                    load_tile(keys[i][step], from + K_AT, (part * OWN_CHANNELS + i) * TOKEN_TILES + step, lane);
            }
    };
    const auto load_x = [&](const unsigned char* from) {
#pragma unroll
        for (int i = 0; i < OWN_TOKENS; ++i)
#pragma unroll
            for (int step = 0; step < TOKEN_TILES; ++step) {
                const int own = part * OWN_TOKENS + i;
                if (step > own) continue;
                if constexpr (DIRECT)
                    load_tile_directly(x[i][step], own_keys + own_x[i], step);
                else
                    load_tile(x[i][step], from + X_AT, triangle_tile(own, step), lane);
            }
    };
    if constexpr (DIRECT) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        load_keys(nullptr);
        if constexpr (!APART) load_x(nullptr);
    }
    int stage = 0;
    unsigned parity = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const unsigned char* const packet = shared.stages + stage * STAGE - FROM;
        mbarrier_wait(shared.full + stage * 8, parity);

        // N = U - W S, for the tokens of this warp. What does not depend on S is loaded before S is there.
        float added[SUMS][TILES][2 * OWN_TOKENS][4] = {};
#pragma unroll
        for (int n = 0; n < TILES; ++n)
#pragma unroll
            for (int i = 0; i < OWN_TOKENS; ++i) {
                unsigned u[4];
                load_tile(u, packet + FROM + COPIED, (first_tile + n) * TOKEN_TILES + part * OWN_TOKENS + i, lane);
#pragma unroll
                for (int y = 0; y < 4; ++y) {
                    added[0][n][2 * i + y / 2][y % 2 * 2] = __uint_as_float(u[y] << 16);
                    added[0][n][2 * i + y / 2][y % 2 * 2 + 1] = __uint_as_float(u[y] & 0xffff0000u);
                }
            }
        unsigned w[OWN_TOKENS][CHANNEL_TILES][4], queries[OWN_TOKENS][CHANNEL_TILES][4], of_state[TILES][CHANNEL_TILES][4];
        load_rows(w, packet + W_AT, part, lane);
        if constexpr (!APART) load_rows(queries, packet + Q_AT, part, lane);
        if constexpr (PARTS > 1) mbarrier_wait(shared.has_state, chunk % 2);
#pragma unroll
        for (int n = 0; n < TILES; ++n)
#pragma unroll
            for (int step = 0; step < CHANNEL_TILES; ++step) {
                if constexpr (PARTS == 1)
                    to_operand(of_state[n][step], state[n][2 * step % (2 * OWN_CHANNELS)], state[n][(2 * step + 1) % (2 * OWN_CHANNELS)]);
                else
                    load_tile(of_state[n][step], shared.state, (first_tile + n) * CHANNEL_TILES + step, lane);
            }
#pragma unroll
        for (int step = 0; step < CHANNEL_TILES; ++step)
#pragma unroll
            for (int i = 0; i < OWN_TOKENS; ++i)
#pragma unroll
                for (int n = 0; n < TILES; ++n)
                    multiply(added[step % SUMS][n][2 * i], added[step % SUMS][n][2 * i + 1], of_state[n][step], w[i][step]);
        if constexpr (!DIRECT) load_keys(packet);
        unsigned rows[TILES][TOKEN_TILES][4];
#pragma unroll
        for (int n = 0; n < TILES; ++n)
#pragma unroll
            for (int i = 0; i < OWN_TOKENS; ++i) {
                if constexpr (SUMS > 1)
#pragma unroll
                    for (int y = 0; y < 8; ++y) added[0][n][2 * i + y / 4][y % 4] += added[SUMS - 1][n][2 * i + y / 4][y % 4];
                unsigned (&own)[4] = rows[n][PARTS > 1 ? 0 : i];
                to_operand(own, added[0][n][2 * i], added[0][n][2 * i + 1]);
                if constexpr (PARTS > 1)
                    store_tile(shared.added, (first_tile + n) * TOKEN_TILES + part * OWN_TOKENS + i, lane, own[0], own[1], own[2], own[3]);
                if constexpr (APART)
                    store_tile(kept + NEW_AT, (kept_tile + n) * TOKEN_TILES + part * OWN_TOKENS + i, lane, own[0], own[1], own[2], own[3]);
            }
        if constexpr (PARTS > 1) mbarrier_arrive(shared.has_new);

        // Until all tokens are there: o = q S, and the decay of S.
        float out[SUMS][TILES][2 * OWN_TOKENS][4] = {};
#pragma unroll
        for (int step = 0; step < (APART ? 0 : CHANNEL_TILES); ++step)
#pragma unroll
            for (int i = 0; i < OWN_TOKENS; ++i)
#pragma unroll
                for (int n = 0; n < TILES; ++n)
                    multiply(out[step % SUMS][n][2 * i], out[step % SUMS][n][2 * i + 1], of_state[n][step], queries[i][step]);
#pragma unroll
        for (int i = 0; i < OWN_CHANNELS; ++i) {
            const int own = part * OWN_CHANNELS + i;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float2 decay = *reinterpret_cast<const float2*>(packet + DECAY_AT + (own * 16 + half * 8 + pair) * 4);
#pragma unroll
                for (int n = 0; n < TILES; ++n) {
                    float (&s)[4] = state[n][2 * i + half];
                    s[0] *= decay.x, s[1] *= decay.y, s[2] *= decay.x, s[3] *= decay.y;
                }
            }
        }

        // S, for the channels of this warp.
        if constexpr (PARTS > 1) {
            mbarrier_wait(shared.has_new, chunk % 2);
#pragma unroll
            for (int n = 0; n < TILES; ++n)
#pragma unroll
                for (int step = 0; step < TOKEN_TILES; ++step)
                    load_tile(rows[n][step], shared.added, (first_tile + n) * TOKEN_TILES + step, lane);
        }
#pragma unroll
        for (int step = 0; step < TOKEN_TILES; ++step)
#pragma unroll
            for (int i = 0; i < OWN_CHANNELS; ++i)
#pragma unroll
                for (int n = 0; n < TILES; ++n) multiply(state[n][2 * i], state[n][2 * i + 1], rows[n][step], keys[i][step]);
        const bool is_last = chunk + 1 == chunks;
        if constexpr (APART) kept += KEPT;
        if constexpr (PARTS > 1 || APART)
            share_state(shared, state, is_last ? nullptr : kept, first_tile, kept_tile, part, lane);
        own_keys += PACKET;
        if (DIRECT && !is_last) load_keys(nullptr);

        // o += X N, from the tokens up to each.
        if constexpr (!DIRECT && !APART) load_x(packet);
#pragma unroll
        for (int i = 0; i < (APART ? 0 : OWN_TOKENS); ++i) {
            const int own = part * OWN_TOKENS + i;
#pragma unroll
            for (int step = 0; step < TOKEN_TILES; ++step) {
                if (step > own) continue;
#pragma unroll
                for (int n = 0; n < TILES; ++n)
                    multiply(out[step % SUMS][n][2 * i], out[step % SUMS][n][2 * i + 1], rows[n][step], x[i][step]);
            }
        }
        if (DIRECT && !APART && !is_last) load_x(nullptr);
        // The chunk is read.
        __syncwarp();
        if (lane < CLUSTER) mbarrier_arrive_rank(shared.empty + stage * 8, CLUSTER > 1 ? lane : 0);
        if constexpr (!APART) {
#pragma unroll
            for (int n = 0; n < TILES; ++n)
#pragma unroll
                for (int i = 0; i < 2 * OWN_TOKENS; ++i) {
                    if constexpr (SUMS > 1)
#pragma unroll
                        for (int y = 0; y < 4; ++y) out[0][n][i][y] += out[SUMS - 1][n][i][y];
                    const int token = (first_chunk + chunk) * C + part * OWN_TOKENS * 16 + i * 8;
                    store_out(o + (first_tile + n) * 16, out[0][n][i], (size_t)H * V, token, T, lane);
                }
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
}

extern "C" __global__ void __launch_bounds__(32 * (CARRY_WARPS + 1))
carry(const unsigned char* __restrict__ packets, const unsigned char* __restrict__ values, 
      Elem* __restrict__ o, int H, int T, int first_chunk, int chunks) {
extern __shared__ __align__(128) unsigned char memory[];
    unsigned char* const of_state = memory + STAGES * STAGE;
    unsigned char* const of_new = of_state + (PARTS > 1 ? 2 * SLICE * K : 0);
    const unsigned barriers = shared_address(of_new + (PARTS > 1 ? 2 * SLICE * C : 0));
    const Shared shared = {memory, of_state, of_new, barriers, barriers + 8, barriers + 16, barriers + 16 + STAGES * 8};

    const int head = blockIdx.y, warp = warp_index(), lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        mbarrier_init(shared.has_state, 32 * CARRY_WARPS);
        mbarrier_init(shared.has_new, 32 * CARRY_WARPS);
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(shared.full + stage * 8, 1);
            mbarrier_init(shared.empty + stage * 8, CARRY_WARPS * CLUSTER);
        }
        mbarrier_init_fence();
    }
    if constexpr (CLUSTER > 1)
        cluster_sync();
    else
        __syncthreads();
    const size_t first = (size_t)head * ((T + C - 1) / C) + first_chunk;
    packets += first * PACKET;
    values += first * VALUES + blockIdx.x * OF_SLICE;
    if (warp == CARRY_WARPS) {
        // The last warp copies. Each block of a cluster copies a part of every packet for all of them.
        if (lane == 0) {
            constexpr int SHARE = COPIED / CLUSTER;
            const int share = blockIdx.x % CLUSTER * SHARE;
            asm volatile("griddepcontrol.wait;" ::: "memory");
            int stage = 0;
            unsigned parity = 1;
            for (int chunk = 0; chunk < chunks; ++chunk) {
                if (chunk >= STAGES) mbarrier_wait(shared.empty + stage * 8, parity);
                const unsigned to = shared_address(memory + stage * STAGE), barrier = shared.full + stage * 8;
                mbarrier_arrive_expect_tx(barrier, STAGE);
                if constexpr (CLUSTER > 1)
                    copy_bulk_to_all(to + share, packets + (size_t)chunk * PACKET + FROM + share, SHARE, barrier);
                else
                    copy_bulk(to, packets + (size_t)chunk * PACKET + FROM, COPIED, barrier);
                copy_bulk(to + COPIED, values + (size_t)chunk * VALUES, OF_SLICE, barrier);
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
        }
        __syncwarp();
    } else {
float4* const states = nullptr;
unsigned char* const kept = nullptr;
o += ((size_t)(head / H) * T * H + head % H) * V + blockIdx.x * SLICE;
        walk(shared, packets, states, kept, o, H, T, first_chunk, chunks, warp, lane);
    }
    // A block must not end while others copy to it, or arrive at its barriers.
    if constexpr (CLUSTER > 1) cluster_sync();
}
