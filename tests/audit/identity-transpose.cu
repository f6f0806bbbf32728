/*
about = "Transposes the values by multiplying them with the identity matrix in mma.sync with FP16 accumulators, which is exact."
kind = "honest"
workload = "attention-fp16-d64-full"
case = { B = 3, H = 2, Sq = 77, Sk = 100, D = 48, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 64)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D % 16 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 128"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

__device__ __forceinline__ void mma16816(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void ldmatrix(unsigned (&r)[4], const void* at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(at))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_t(unsigned (&r)[4], const void* at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(at))
                 : "memory");
}
__device__ __forceinline__ unsigned pack(float low, float high) {
    __half2 h = __floats2half2_rn(low, high);
    return *reinterpret_cast<unsigned*>(&h);
}

constexpr int BC = 64, LD = D + 8, NB = BC / 8;  // keys of a tile; a row in shared memory; groups of eight keys

// BC rows of D elements from global memory, 16 bytes at a time; rows that do not exist are zero.
template <int THREADS>
__device__ __forceinline__ void load_tile(__half* to, const __half* from, int rows, int thread) {
    for (int n = thread; n < BC * (D / 8); n += THREADS) {
        const int r = n / (D / 8), c = n % (D / 8) * 8;
        *reinterpret_cast<uint4*>(to + r * LD + c) =
            r < rows ? *reinterpret_cast<const uint4*>(from + (size_t)r * D + c) : make_uint4(0, 0, 0, 0);
    }
}
// The 16 rows of a warp as left sides of mma: lane (g, t) holds rows g and g + 8.
__device__ __forceinline__ void load_queries(unsigned (&a)[D / 16][4], const __half* q, int row, int Sq, int g, int t) {
    for (int x = 0; x < D / 16; ++x)
        for (int e = 0; e < 4; ++e) {
            const int i = row + g + e % 2 * 8, d = x * 16 + 2 * t + e / 2 * 8;
            a[x][e] = i < Sq ? *reinterpret_cast<const unsigned*>(q + (size_t)i * D + d) : 0u;
        }
}
__device__ __forceinline__ void scores_of(float (&s)[NB][4], const unsigned (&a)[D / 16][4], const __half* keys,
                                          int lane) {
#pragma unroll
    for (int n = 0; n < NB; n += 2)
#pragma unroll
        for (int x = 0; x < D / 16; ++x) {
            unsigned b[4];
            ldmatrix(b, keys + ((n + lane / 16) * 8 + lane % 8) * LD + x * 16 + lane / 8 % 2 * 8);
            mma16816(s[n], a[x], b[0], b[1]);
            mma16816(s[n + 1], a[x], b[2], b[3]);
        }
}
__device__ __forceinline__ void add_values(float (&out)[D / 8][4], const float (&w)[NB][4], const __half* values,
                                           int lane) {
#pragma unroll
    for (int kk = 0; kk < NB / 2; ++kk) {
        const unsigned a[4] = {pack(w[2 * kk][0], w[2 * kk][1]), pack(w[2 * kk][2], w[2 * kk][3]),
                               pack(w[2 * kk + 1][0], w[2 * kk + 1][1]), pack(w[2 * kk + 1][2], w[2 * kk + 1][3])};
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            unsigned b[4];
            ldmatrix_t(b, values + (kk * 16 + lane / 8 % 2 * 8 + lane % 8) * LD + (n + lane / 16) * 8);
            mma16816(out[n], a, b[0], b[1]);
            mma16816(out[n + 1], a, b[2], b[3]);
        }
    }
}

// Scores become weights, in units of log2. Masked ones are minus infinity, whose weight is 0: `top` is finite from the
// beginning.
__device__ __forceinline__ void soften(float (&s)[NB][4], float (&top)[2], float (&sum)[2], float (&keep)[2], int first,
                                       const int (&last)[2], float scale2, int t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float higher = top[half];
#pragma unroll
        for (int n = 0; n < NB; ++n)
            for (int e = 0; e < 2; ++e) {
                float& x = s[n][half * 2 + e];
                x = first + n * 8 + 2 * t + e <= last[half] ? __fmul_rn(x, scale2) : __int_as_float(0xff800000);
                higher = fmaxf(higher, x);
            }
        higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 1));
        higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 2));
        keep[half] = exp2f(top[half] - higher);
        top[half] = higher;
        sum[half] *= keep[half];
#pragma unroll
        for (int n = 0; n < NB; ++n)
            for (int e = 0; e < 2; ++e) {
                float& x = s[n][half * 2 + e];
                x = exp2f(x - top[half]);
                sum[half] += x;
            }
    }
}

// identity (16 x 16) times right (16 x 8) in FP16: one product by 1 and fifteen by 0 for each element, so nothing is
// rounded.
__device__ __forceinline__ void copy16(unsigned (&c)[2], const unsigned (&one)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%8};"
                 : "=r"(c[0]), "=r"(c[1])
                 : "r"(one[0]), "r"(one[1]), "r"(one[2]), "r"(one[3]), "r"(b0), "r"(b1), "r"(0u));
}
extern "C" __global__ void __launch_bounds__(128)
    attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    __shared__ __align__(16) __half ks[BC * LD], vs[BC * LD];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = (blockIdx.x * 4 + threadIdx.x / 32) * 16;
    const size_t head = blockIdx.y;
    q += head * Sq * D, o += head * Sq * D, k += head * Sk * D, v += head * Sk * D;
    unsigned a[D / 16][4];
    load_queries(a, q, row, Sq, g, t);
    const unsigned diagonal = g == 2 * t       ? 0x3c00u
                              : g == 2 * t + 1 ? 0x3c000000u
                                               : 0u,
                   one[4] = {diagonal, 0u, 0u, diagonal};
    const int last[2] = {CAUSAL ? min(row + g + Sk - Sq, Sk - 1) : Sk - 1,
                         CAUSAL ? min(row + g + 8 + Sk - Sq, Sk - 1) : Sk - 1};
    float out[D / 8][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {}, keep[2];
    const int end = CAUSAL ? min(int(blockIdx.x * 64) + 64 + Sk - Sq, Sk) : Sk;
    for (int first = 0; first < end; first += BC) {
        __syncthreads();
        load_tile<128>(ks, k + (size_t)first * D, Sk - first, threadIdx.x);
        load_tile<128>(vs, v + (size_t)first * D, Sk - first, threadIdx.x);
        __syncthreads();
        float s[NB][4] = {};
        scores_of(s, a, ks, lane);
        soften(s, top, sum, keep, first, last, scale * 1.44269504f, t);
        for (int n = 0; n < D / 8; ++n)
            out[n][0] *= keep[0], out[n][1] *= keep[0], out[n][2] *= keep[1], out[n][3] *= keep[1];
#pragma unroll
        for (int kk = 0; kk < NB / 2; ++kk) {
            const unsigned p[4] = {pack(s[2 * kk][0], s[2 * kk][1]), pack(s[2 * kk][2], s[2 * kk][3]),
                                   pack(s[2 * kk + 1][0], s[2 * kk + 1][1]), pack(s[2 * kk + 1][2], s[2 * kk + 1][3])};
#pragma unroll
            for (int x = 0; x < D / 16; ++x) {
                // The right side of the copy: column g is a key, its rows are dimensions. The result: rows g and g + 8
                // are dimensions, columns 2t and 2t + 1 keys. Read as a right side again, that is the transposed one.
                unsigned low[2], high[2];
                const __half* at = vs + (kk * 16 + g) * LD + x * 16 + 2 * t;
                copy16(low, one, *(const unsigned*)at, *(const unsigned*)(at + 8));
                copy16(high, one, *(const unsigned*)(at + 8 * LD), *(const unsigned*)(at + 8 * LD + 8));
                mma16816(out[2 * x], p, low[0], high[0]);
                mma16816(out[2 * x + 1], p, low[1], high[1]);
            }
        }
    }

    for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(~0u, sum[half], 1);
        sum[half] += __shfl_xor_sync(~0u, sum[half], 2);
        const int i = row + g + half * 8;
        if (i < Sq)
            for (int n = 0; n < D / 8; ++n)
                *reinterpret_cast<unsigned*>(o + (size_t)i * D + n * 8 + 2 * t) =
                    pack(out[n][half * 2] / sum[half], out[n][half * 2 + 1] / sum[half]);
    }
}
