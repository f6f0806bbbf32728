/*
about = "Tiles come through tensor maps with a swizzle of 128 bytes, double-buffered, into ldmatrix and mma.sync."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 2, H = 3, Sq = 150, Sk = 170, D = 64, CAUSAL = 1 }
requires_sm = 90
constants = ["D", "CAUSAL"]
[[tensor_map]]
name = "k_map"
tensor = "k"
sizes = ["64", "Sk", "B * H"]
strides = ["64", "Sk * 64"]
box = ["64", "64", "1"]
swizzle = 128

[[tensor_map]]
name = "v_map"
tensor = "v"
sizes = ["64", "Sk", "B * H"]
strides = ["64", "Sk * 64"]
box = ["64", "64", "1"]
swizzle = 128

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 64)", "B * H"]
block = ["128"]
shared = "4 * 8192 + 1024"
args = ["q", "k_map", "v_map", "o", "Sq", "Sk", "scale"]

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

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier_init(unsigned long long* bar, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_expect(unsigned long long* bar, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned long long* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ __forceinline__ void barrier_wait(unsigned long long* bar, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra "
        "again_%=;\n}" ::"r"(shared_address(bar)),
        "r"(parity)
        : "memory");
}

constexpr int BC = 64, NB = BC / 8;
static_assert(D == 64, "a row is one line of the swizzle");
// Where the copy engine puts the 16 bytes `chunk` of row r.
__device__ __forceinline__ const __half* at(const __half* tile, int r, int chunk) {
    return tile + r * 64 + ((chunk ^ (r & 7)) * 8);
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
            ldmatrix(b, at(keys, (n + lane / 16) * 8 + lane % 8, x * 2 + lane / 8 % 2));
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
            ldmatrix_t(b, at(values, kk * 16 + lane / 8 % 2 * 8 + lane % 8, n + lane / 16));
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

struct alignas(128) TensorMap {
    unsigned char bytes[128];
};

__device__ __forceinline__ void copy_box(void* to, const TensorMap& map, int x, int y, int z, unsigned long long* bar) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
            "r"(shared_address(to)),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(bar))
        : "memory");
}
extern "C" __global__ void __launch_bounds__(128)
    attend(const __half* q, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map, __half* o,
           int Sq, int Sk, float scale) {
    extern __shared__ unsigned char raw[];
    __shared__ unsigned long long full[2];
    __half* tiles =
        reinterpret_cast<__half*>(raw + (1024 - (shared_address(raw) & 1023)) % 1024);  // k, k, v, v; 8 KiB each
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = (blockIdx.x * 4 + threadIdx.x / 32) * 16;
    const size_t head = blockIdx.y;
    q += head * Sq * D, o += head * Sq * D;
    const int end = CAUSAL ? min(int(blockIdx.x * 64) + 64 + Sk - Sq, Sk) : Sk, count = (end + BC - 1) / BC;
    auto fetch = [&](int tile) {
        unsigned long long* bar = &full[tile % 2];
        barrier_expect(bar, 2 * BC * D * sizeof(__half));  // whole boxes, even where they reach beyond the tensor
        copy_box(tiles + tile % 2 * BC * D, k_map, 0, tile * BC, blockIdx.y, bar);
        copy_box(tiles + (2 + tile % 2) * BC * D, v_map, 0, tile * BC, blockIdx.y, bar);
    };
    if (threadIdx.x == 0) {
        barrier_init(&full[0], 1), barrier_init(&full[1], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
        fetch(0);
    }
    __syncthreads();
    unsigned a[D / 16][4];
    load_queries(a, q, row, Sq, g, t);
    const int last[2] = {CAUSAL ? min(row + g + Sk - Sq, Sk - 1) : Sk - 1,
                         CAUSAL ? min(row + g + 8 + Sk - Sq, Sk - 1) : Sk - 1};
    float out[D / 8][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {}, keep[2];
    for (int tile = 0; tile < count; ++tile) {
        if (threadIdx.x == 0 && tile + 1 < count) {  // everybody has left the other stage: the barrier at the end
            asm volatile("fence.proxy.async;" ::: "memory");
            fetch(tile + 1);
        }
        barrier_wait(&full[tile % 2], tile / 2 % 2);
        float s[NB][4] = {};
        scores_of(s, a, tiles + tile % 2 * BC * D, lane);
        soften(s, top, sum, keep, tile * BC, last, scale * 1.44269504f, t);
        for (int n = 0; n < D / 8; ++n)
            out[n][0] *= keep[0], out[n][1] *= keep[0], out[n][2] *= keep[1], out[n][3] *= keep[1];
        add_values(out, s, tiles + (2 + tile % 2) * BC * D, lane);
        __syncthreads();
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
