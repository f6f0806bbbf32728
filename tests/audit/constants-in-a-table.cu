/*
about = "Keeps a table in a __device__ array that no launch ever changes."
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
// Global memory of its own that outlives a launch is where most cheats keep their state; here it is only read.

// 2^(n/16) for n = 0..15: part of an exp that is exact enough with three more terms.
__device__ const float roots[16] = {1.0f,        1.04427378f, 1.09050773f, 1.13878863f, 1.18920712f, 1.24185781f, 1.29683955f,
                                    1.35425555f, 1.41421356f, 1.47682615f, 1.54221083f, 1.61049033f, 1.68179283f, 1.75625216f,
                                    1.83400809f, 1.91520656f};
__device__ float power_of_two(float x) {
    x = (x < -126.0f ? -126.0f : x) * 16.0f;  // fmaxf would hide a NaN
    const float whole = rintf(x), f = (x - whole) * (0.69314718f / 16.0f);
    const int n = (int)whole + 2048;  // not negative
    return roots[n % 16] * __int_as_float((n / 16 - 128 + 127) << 23) * (1.0f + f * (1.0f + f * (0.5f + f * 0.16666667f)));
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
