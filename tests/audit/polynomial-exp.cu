/*
about = "Computes exp by a polynomial of degree 5 instead of the hardware's unit."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "kernel"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Some of the exponentials on the multiply-add pipes, as FlashAttention-4 does, since the special unit is the
// bottleneck at D = 64. It is good to 2e-6 everywhere, far below the tolerance; compare clamps-the-exponent.

// 2^x for x <= 0: the whole part goes into the exponent, the rest into a polynomial (Taylor's of 2^f, f in [-0.5, 0.5]).
__device__ float power_of_two(float x) {
    x = x < -126.0f ? -126.0f : x;  // fmaxf would hide a NaN
    const float whole = rintf(x), f = x - whole;
    float y = 1.3333558e-3f;
    y = y * f + 9.6181291e-3f;
    y = y * f + 5.5504109e-2f;
    y = y * f + 2.4022651e-1f;
    y = y * f + 6.9314718e-1f;
    y = y * f + 1.0f;
    return y * __int_as_float(((int)whole + 127) << 23);
}

// One query row by one warp: the plain attention of this corpus, but for the lines that end with <--.
__device__ void attend_row(const __half* q, const __half* k, const __half* v, __half* o, int visible, float scale) {
    const int lane = threadIdx.x % 32;
    float acc[PART] = {};         // output so far, not yet divided by the sum
    float top = -1e30f, sum = 0;  // largest score so far, and the sum of exp(score - top)
    for (int j = 0; j < visible; ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale * 1.44269504f;  // in powers of two <--
        const float higher = fmaxf(top, score), keep = power_of_two(top - higher), weight = power_of_two(score - higher);  // <--
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[d] = __float2half(acc[n] / sum);
}
