/*
about = "Tensor cores; stores the output with a bulk copy from shared memory, without fence.proxy.async after the ordinary stores."
kind = "broken"
caught_by = ["crashed", "wrong/accuracy"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 200, Sk = 200, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
requires_sm = 90

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
// Fails on: A schedule in which the copy engine (asynchronous proxy) reads shared memory before the generic stores
// are visible to it: the output then has elements of the queries that were there before (any error).

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
    __shared__ __align__(128) __half queries[16 * D], keys[16 * D], values[16 * D];
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

        __half weight[2][4];
        for (int half = 0; half < 2; ++half) {
            const int last = CAUSAL ? first_row + r + half * 8 + Sk - Sq : Sk - 1;
            float higher = top[half];
            for (int n = 0; n < 2; ++n)
                for (int e = 0; e < 2; ++e) {
                    const int j = first + n * 8 + c + e;
                    float& s = score[n][half * 2 + e];
                    s = j < Sk && j <= last ? s * factor : -2e30f;
                    higher = fmaxf(higher, s);
                }
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
    __syncwarp();
    for (int half = 0; half < 2; ++half) {  // staged where the queries were, and stored by the copy engine
        sum[half] += __shfl_xor_sync(~0u, sum[half], 1);
        sum[half] += __shfl_xor_sync(~0u, sum[half], 2);
        for (int n = 0; n < D / 8; ++n)
            for (int e = 0; e < 2; ++e)
                queries[(r + half * 8) * D + n * 8 + c + e] = __float2half(out[n][half * 2 + e] / sum[half]);
    }
    __syncwarp();
    if (lane == 0) {
        const int bytes = min(16, Sq - first_row) * D * 2;
        asm volatile(
            "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(o + (head * Sq + first_row) * D),
            "r"((unsigned)__cvta_generic_to_shared(queries)), "r"(bytes)
            : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
