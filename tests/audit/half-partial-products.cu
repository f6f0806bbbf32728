/*
about = "Tensor cores; the products with V are summed in FP16 within 16 keys (twice as fast on some GPUs), and in FP32 over the tiles."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp16-d64"
case = { B = 2, H = 8, Sq = 192, Sk = 192, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 64)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "D % 16 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 256"
why = "the kernel takes no other shapes"
*/
// Fails on: V all 60000 and equal scores: the FP16 sum over 16 keys of weight 1 is 960000, infinity in FP16; the
// output is infinite instead of 60000.

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

constexpr int ROWS = 64, KEYS = 32, PITCH = D + 8;

__device__ __forceinline__ void copy16(__half* to, const __half* from, bool there) {  // zeros where nothing is there
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Four warps of 16 rows; tiles of 32 keys and values, one computed while the next arrives.
extern "C" __global__ void __launch_bounds__(128)
    attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    __shared__ __align__(16) __half keys[2][KEYS * PITCH], values[2][KEYS * PITCH];
    const int lane = threadIdx.x % 32, first_row = blockIdx.x * ROWS + threadIdx.x / 32 * 16, r = lane / 4,
              c = lane % 4 * 2;
    const size_t head = blockIdx.y;
    k += head * Sk * D, v += head * Sk * D;
    const float factor = scale * 1.44269504f;
    unsigned a[D / 16][4];
    for (int x = 0; x < D / 16; ++x)
        for (int h = 0; h < 4; ++h) {
            const int i = first_row + r + h % 2 * 8;
            a[x][h] = i < Sq ? pair(q + (head * Sq + i) * D + x * 16 + c + h / 2 * 8) : 0u;
        }
    float out[D / 8][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {};
    const int end = CAUSAL ? min(Sk, (int)blockIdx.x * ROWS + ROWS + Sk - Sq) : Sk, tiles = (end + KEYS - 1) / KEYS;

    auto load = [&](int buffer, int first) {
        for (int n = threadIdx.x; n < KEYS * D / 8; n += 128) {
            const int j = n / (D / 8), x = n % (D / 8) * 8;
            const bool there = first + j < Sk;
            const size_t from = there ? (size_t)(first + j) * D + x : 0;
            copy16(keys[buffer] + j * PITCH + x, k + from, there);
            copy16(values[buffer] + j * PITCH + x, v + from, there);
        }
    };
    auto compute = [&](int buffer, int first) {
        float score[4][4] = {};
        for (int x = 0; x < D / 16; ++x)
            for (int n = 0; n < 4; ++n) {
                const __half* at = keys[buffer] + (n * 8 + r) * PITCH + x * 16 + c;
                multiply(score[n], a[x], pair(at), pair(at + 8));
            }
        __half weight[4][4];
        for (int half = 0; half < 2; ++half) {
            const int last = CAUSAL ? first_row + r + half * 8 + Sk - Sq : Sk - 1;
            float higher = top[half];
            for (int n = 0; n < 4; ++n)
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
            for (int n = 0; n < 4; ++n)
                for (int e = 0; e < 2; ++e) {
                    const float w = exp2f(score[n][half * 2 + e] - higher);
                    sum[half] += w, weight[n][half * 2 + e] = __float2half(w);
                }
            for (int n = 0; n < D / 8; ++n) out[n][half * 2] *= keep, out[n][half * 2 + 1] *= keep;
        }
        for (int y = 0; y < 2; ++y) {
            const unsigned p[4] = {pair(weight[2 * y][0], weight[2 * y][1]), pair(weight[2 * y][2], weight[2 * y][3]),
                                   pair(weight[2 * y + 1][0], weight[2 * y + 1][1]),
                                   pair(weight[2 * y + 1][2], weight[2 * y + 1][3])};
            for (int n = 0; n < D / 8; ++n) {
                const __half* column = values[buffer] + (y * 16 + c) * PITCH + n * 8 + r;
                unsigned lower = 0, upper = 0;  // rows r and r + 8
                asm volatile(
                    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                    : "+r"(lower), "+r"(upper)
                    : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(pair(column[0], column[PITCH])),
                      "r"(pair(column[8 * PITCH], column[9 * PITCH])));
                const float2 x = __half22float2(*reinterpret_cast<__half2*>(&lower)),
                             y = __half22float2(*reinterpret_cast<__half2*>(&upper));
                out[n][0] += x.x, out[n][1] += x.y, out[n][2] += y.x, out[n][3] += y.y;
            }
        }
    };

    load(0, 0), commit();
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) load((t + 1) % 2, (t + 1) * KEYS);
        commit();
        wait<1>();
        __syncthreads();
        compute(t % 2, t * KEYS);
        __syncthreads();
    }
    wait<0>();

    for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(~0u, sum[half], 1);
        sum[half] += __shfl_xor_sync(~0u, sum[half], 2);
        const int i = first_row + r + half * 8;
        for (int n = 0; n < D / 8 && i < Sq; ++n)
            *reinterpret_cast<__half2*>(o + (head * Sq + i) * D + n * 8 + c) =
                __floats2half2_rn(out[n][half * 2] / sum[half], out[n][half * 2 + 1] / sum[half]);
    }
}
