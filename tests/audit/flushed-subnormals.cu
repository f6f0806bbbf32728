/*
about = "Decodes two FP16 numbers at once with shifts and a multiplication that flushes subnormals to zero."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 129, Sk = 129, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "D % 2 == 0"
why = "the kernel takes no other shapes"
*/
// Fails on: V all 3e-5 (subnormal in FP16): the output is 0 instead of 3e-5 (100 % off).

#include <cuda_fp16.h>

constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

__device__ __forceinline__ float warp_sum(float x) {
    for (int m = 16; m; m >>= 1) x += __shfl_xor_sync(~0u, x, m);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
    for (int m = 16; m; m >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, m));
    return x;
}

constexpr int PAIRS = D / 2, PART = (PAIRS + 31) / 32;

// FP16 to FP32 without a conversion: exponent and mantissa are moved, and the bias is corrected by 2^112.
__device__ __forceinline__ float decode(unsigned h) {
    const unsigned rest = h & 0x7fff;
    float x;
    if (rest >= 0x7c00) x = __uint_as_float(0x7f800000 | rest << 13);  // infinity and NaN
    else asm("mul.ftz.f32 %0, %1, %2;" : "=f"(x) : "f"(__uint_as_float(rest << 13)), "f"(5.192296858534828e33f));
    return __uint_as_float(__float_as_uint(x) | (h & 0x8000) << 16);
}

extern "C" __global__ void attend(const unsigned* q, const unsigned* k, const unsigned* v, __half2* o, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Sq) return;
    const size_t head = blockIdx.y, row = (head * Sq + i) * PAIRS;
    k += head * Sk * PAIRS, v += head * Sk * PAIRS;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float2 mine[PART] = {}, acc[PART] = {};
    float top = -1e30f, sum = 0;
    for (int n = 0, d = lane; d < PAIRS; ++n, d += 32)
        mine[n] = {decode(q[row + d] & 0xffff) * scale, decode(q[row + d] >> 16) * scale};
    for (int j = 0; j < visible; ++j) {
        float s = 0;
        for (int n = 0, d = lane; d < PAIRS; ++n, d += 32) {
            const unsigned x = k[(size_t)j * PAIRS + d];
            s += mine[n].x * decode(x & 0xffff) + mine[n].y * decode(x >> 16);
        }
        s = warp_sum(s);
        const float higher = fmaxf(top, s), keep = __expf(top - higher), w = __expf(s - higher);
        for (int n = 0, d = lane; d < PAIRS; ++n, d += 32) {
            const unsigned x = v[(size_t)j * PAIRS + d];
            acc[n].x = acc[n].x * keep + w * decode(x & 0xffff), acc[n].y = acc[n].y * keep + w * decode(x >> 16);
        }
        sum = sum * keep + w, top = higher;
    }
    for (int n = 0, d = lane; d < PAIRS; ++n, d += 32) o[row + d] = __floats2half2_rn(acc[n].x / sum, acc[n].y / sum);
}
