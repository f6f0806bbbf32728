/*
about = "FP32 with an exponential of its own: a polynomial, and two exact scalings so that underflow is gradual."
kind = "honest"
workload = "attention-fp32-large-d"
case = { B = 1, H = 3, Sq = 53, Sk = 61, D = 80, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"
*/
constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int PART = (D + 31) / 32;

// 2^x for x <= 0. NaN stays NaN; minus infinity and everything that rounds to zero gives zero.
__device__ float power_of_two(float x) {
    if (x < -151.0f) return 0.0f;
    if (x != x) return x;
    const float whole = rintf(x), f = x - whole;  // |f| <= 1/2: the next term of the series is below 2e-8
    float p = 1.5252733804e-5f;                   // ln(2)^k / k!, k = 7, 6, ...
    p = fmaf(p, f, 1.5403530393e-4f);
    p = fmaf(p, f, 1.3333558146e-3f);
    p = fmaf(p, f, 9.6181291076e-3f);
    p = fmaf(p, f, 5.5504108665e-2f);
    p = fmaf(p, f, 2.4022650696e-1f);
    p = fmaf(p, f, 6.9314718056e-1f);
    p = fmaf(p, f, 1.0f);
    const int e = (int)whole, half = e / 2;  // from -151 to 0
    return p * __int_as_float((127 + half) << 23) * __int_as_float((127 + e - half) << 23);
}
__device__ float exponential(float x) { return power_of_two(x * 1.44269504f); }

extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Sq) return;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const float none = __int_as_float(0xff800000);
    float acc[PART] = {}, top = none, sum = 0;
    for (int j = 0; j < visible; ++j, k += D, v += D) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score = fmaf(q[row + d], k[d], score);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score = __fmul_rn(score, scale);
        const float higher = fmaxf(top, score), base = higher == none ? 0.0f : higher;
        const float keep = exponential(top - base), weight = exponential(score - base);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * v[d];
        sum = sum * keep + weight, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = acc[n] / sum;
}
