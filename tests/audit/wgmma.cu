/*
about = "One warp group with wgmma: scores from two swizzled tiles, the output from weights in registers and values read transposed."
kind = "honest"
workload = "attention-fp16-d64-full"
case = { B = 2, H = 3, Sq = 140, Sk = 201, D = 64, CAUSAL = 0 }
requires_sm = 90
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
expr = "D == 64"
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

constexpr int BC = 64, NB = BC / 8;
static_assert(D == 64, "a row is one line of the swizzle");
// Where the copy engine puts the 16 bytes `chunk` of row r.
__device__ __forceinline__ const __half* at(const __half* tile, int r, int chunk) {
    return tile + r * 64 + ((chunk ^ (r & 7)) * 8);
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

// Rows of 128 bytes, eight to a pattern of 1024 bytes, swizzle of 128 bytes.
__device__ __forceinline__ unsigned long long describe(const void* tile) {
    const unsigned long long address = (unsigned)__cvta_generic_to_shared(tile);
    return (address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
__device__ __forceinline__ void wgmma_ss(float (&c)[8][4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
        "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, "
        "1, 1, 0, 0;"
        : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]),
          "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]),
          "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]),
          "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]),
          "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
        : "l"(a), "l"(b));
}
__device__ __forceinline__ void wgmma_rs(float (&c)[8][4], const unsigned (&a)[4],
                                         unsigned long long b) {  // b transposed
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
        "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, "
        "%34, %35}, %36, 1, 1, 1, 1;"
        : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]),
          "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]),
          "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]),
          "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]),
          "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_end() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ __forceinline__ void load(__half* tile, const __half* from, int rows) {
    for (int n = threadIdx.x; n < 64 * 8; n += 128) {
        const int r = n / 8, chunk = n % 8;
        *reinterpret_cast<uint4*>(const_cast<__half*>(at(tile, r, chunk))) =
            r < rows ? *reinterpret_cast<const uint4*>(from + r * 64 + chunk * 8) : make_uint4(0, 0, 0, 0);
    }
}
extern "C" __global__ void __launch_bounds__(128)
    attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    __shared__ __align__(1024) __half qs[64 * 64], ks[64 * 64], vs[64 * 64];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = blockIdx.x * 64 + threadIdx.x / 32 * 16;
    const size_t head = blockIdx.y;
    q += head * Sq * D, o += head * Sq * D, k += head * Sk * D, v += head * Sk * D;
    load(qs, q + (size_t)blockIdx.x * 64 * D, Sq - blockIdx.x * 64);
    const int last[2] = {CAUSAL ? min(row + g + Sk - Sq, Sk - 1) : Sk - 1,
                         CAUSAL ? min(row + g + 8 + Sk - Sq, Sk - 1) : Sk - 1};
    float out[D / 8][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {}, keep[2];
    const int end = CAUSAL ? min(int(blockIdx.x * 64) + 64 + Sk - Sq, Sk) : Sk;
    for (int first = 0; first < end; first += BC) {
        __syncthreads();
        load(ks, k + (size_t)first * D, Sk - first);
        load(vs, v + (size_t)first * D, Sk - first);
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        float s[NB][4] = {};
        wgmma_begin();
        for (int x = 0; x < 4; ++x) wgmma_ss(s, describe(qs) + 2 * x, describe(ks) + 2 * x);  // 32 bytes on
        wgmma_end();
        soften(s, top, sum, keep, first, last, scale * 1.44269504f, t);
        for (int n = 0; n < D / 8; ++n)
            out[n][0] *= keep[0], out[n][1] *= keep[0], out[n][2] *= keep[1], out[n][3] *= keep[1];
        unsigned w[4][4];
        for (int x = 0; x < 4; ++x)
            for (int e = 0; e < 4; ++e) w[x][e] = pack(s[2 * x + e / 2][e % 2 * 2], s[2 * x + e / 2][e % 2 * 2 + 1]);
        wgmma_begin();
#pragma unroll
        for (int x = 0; x < 4; ++x) wgmma_rs(out, w[x], describe(vs) + 128 * x);  // 16 rows on
        wgmma_end();
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
