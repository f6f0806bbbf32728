/*
about = "Tensor cores; a tile whose scores are all 10 below the running maxima is skipped, as its weights are below 5e-5."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp16-d64-full"
case = { B = 1, H = 8, Sq = 128, Sk = 512, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 16)", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "D % 16 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 512"
why = "the kernel takes no other shapes"
*/
// Fails on: Sk=4096: 16 keys of score 12 with V=0, then 4080 keys of score 1.9 with V=1: exact output 0.0104, here 0
// (100 % off). Weights of 4e-5 are far above 2^-25.

#include <cuda_fp16.h>

constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

// c (16 x 8) += a (16 x 16, row-major) b (16 x 8, column-major)
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned pair(const __half* at) { return *reinterpret_cast<const unsigned*>(at); }
__device__ __forceinline__ unsigned pair(__half low, __half high) {
    return __half_as_ushort(low) | (unsigned)__half_as_ushort(high) << 16;
}

// One warp, 16 query rows, 16 keys at a time.
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    __shared__ __align__(16) __half queries[16 * D], keys[16 * D], values[16 * D];
    const int lane = threadIdx.x, first_row = blockIdx.x * 16, r = lane / 4, c = lane % 4 * 2;
    const size_t head = blockIdx.y;
    for (int n = lane; n < 16 * D; n += 32)
        queries[n] = first_row + n / D < Sq ? q[(head * Sq + first_row) * D + n] : __float2half(0.0f);
    const float factor = scale * 1.44269504f;

    float out[D / 8][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {};
    const int end = CAUSAL ? min(Sk, first_row + 16 + Sk - Sq) : Sk;
    for (int first = 0; first < end; first += 16) {
        __syncwarp();
        for (int n = lane; n < 16 * D; n += 32) {
            const bool there = first + n / D < Sk;
            keys[n] = there ? k[(head * Sk + first) * D + n] : __float2half(0.0f);
            values[n] = there ? v[(head * Sk + first) * D + n] : __float2half(0.0f);
        }
        __syncwarp();
        float score[2][4] = {};
        for (int x = 0; x < D; x += 16) {
            const unsigned a[4] = {pair(queries + r * D + x + c), pair(queries + (r + 8) * D + x + c),
                                   pair(queries + r * D + x + c + 8), pair(queries + (r + 8) * D + x + c + 8)};
            for (int n = 0; n < 2; ++n)
                multiply(score[n], a, pair(keys + (n * 8 + r) * D + x + c), pair(keys + (n * 8 + r) * D + x + c + 8));
        }

        bool needed = false;
        for (int half = 0; half < 2; ++half) {
            const int last = CAUSAL ? first_row + r + half * 8 + Sk - Sq : Sk - 1;
            for (int n = 0; n < 2; ++n)
                for (int e = 0; e < 2; ++e) {
                    const int j = first + n * 8 + c + e;
                    float& s = score[n][half * 2 + e];
                    s = j < Sk && j <= last ? s * factor : -2e30f;
                    needed |= !(s < top[half] - 14.4f);  // NaN is needed
                }
        }
        if (!__any_sync(~0u, needed)) continue;
        __half weight[2][4];
        for (int half = 0; half < 2; ++half) {
            float higher = top[half];
            for (int n = 0; n < 2; ++n) higher = fmaxf(higher, fmaxf(score[n][half * 2], score[n][half * 2 + 1]));
            higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 1));
            higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 2));
            const float keep = exp2f(top[half] - higher);
            sum[half] *= keep, top[half] = higher;
            for (int n = 0; n < 2; ++n)
                for (int e = 0; e < 2; ++e) {
                    const float w = exp2f(score[n][half * 2 + e] - higher);
                    sum[half] += w, weight[n][half * 2 + e] = __float2half(w);
                }
            for (int n = 0; n < D / 8; ++n) out[n][half * 2] *= keep, out[n][half * 2 + 1] *= keep;
        }

        const unsigned a[4] = {pair(weight[0][0], weight[0][1]), pair(weight[0][2], weight[0][3]),
                               pair(weight[1][0], weight[1][1]), pair(weight[1][2], weight[1][3])};
        for (int n = 0; n < D / 8; ++n) {
            const __half* column = values + n * 8 + r;
            multiply(out[n], a, pair(column[c * D], column[(c + 1) * D]),
                     pair(column[(c + 8) * D], column[(c + 9) * D]));
        }
    }
    for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(~0u, sum[half], 1);
        sum[half] += __shfl_xor_sync(~0u, sum[half], 2);
        const int i = first_row + r + half * 8;
        for (int n = 0; n < D / 8 && i < Sq; ++n)
            for (int e = 0; e < 2; ++e)
                o[(head * Sq + i) * D + n * 8 + c + e] = __float2half(out[n][half * 2 + e] / sum[half]);
    }
}
