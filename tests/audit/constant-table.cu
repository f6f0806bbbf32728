/*
about = "FP32; the exponential looks up a table of 32 powers in constant memory and corrects it with a short polynomial. Every lane has its own key."
kind = "honest"
workload = "attention-fp32-large-d"
case = { B = 1, H = 2, Sq = 40, Sk = 130, D = 52, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
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
__constant__ float powers[32] = {1.000000000f, 1.021897149f, 1.044273782f, 1.067140401f, 1.090507733f, 1.114386743f,
                                 1.138788635f, 1.163724859f, 1.189207115f, 1.215247360f, 1.241857812f, 1.269050957f,
                                 1.296839555f, 1.325236643f, 1.354255547f, 1.383909882f, 1.414213562f, 1.445180807f,
                                 1.476826146f, 1.509164428f, 1.542210825f, 1.575980845f, 1.610490332f, 1.645755478f,
                                 1.681792831f, 1.718619298f, 1.756252160f, 1.794709075f, 1.834008086f, 1.874167634f,
                                 1.915206561f, 1.957144124f};  // 2^(k/32)

// e^x for x <= 0 (or NaN)
__device__ float exponential(float x) {
    const float y = x * 1.44269504f;
    if (y < -151.0f) return 0.0f;
    if (y != y) return y;
    const float steps = rintf(y * 32.0f);
    const int n = (int)steps, e = n >> 5, half = e / 2;        // e: from -151 to 0
    const float f = fmaf(steps, -0.03125f, y) * 0.693147181f;  // at most 0.0109
    const float p = fmaf(fmaf(fmaf(fmaf(f, 0.0416666667f, 0.166666667f), f, 0.5f), f, 1.0f), f, 1.0f);
    return powers[n & 31] * p * __int_as_float((127 + half) << 23) * __int_as_float((127 + e - half) << 23);
}
extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o, int Sq, int Sk,
                                  float scale) {
    __shared__ float query[D];
    const int lane = threadIdx.x, i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    for (int d = lane; d < D; d += 32) query[d] = q[row + d];
    __syncwarp();
    const float none = __int_as_float(0xff800000);
    float acc[PART] = {}, top = none, sum = 0;
    for (int first = 0; first < visible; first += 32) {
        const int j = first + lane, count = min(32, visible - first);
        float score = none;
        if (j < visible) {
            float even = 0, odd = 0;
            const float* key = k + (size_t)j * D;
            int d = 0;
            for (; d + 1 < D; d += 2) even = fmaf(query[d], key[d], even), odd = fmaf(query[d + 1], key[d + 1], odd);
            if (d < D) even = fmaf(query[d], key[d], even);
            score = __fmul_rn(even + odd, scale);
        }
        float higher = fmaxf(top, score);
        for (int other = 16; other; other /= 2) higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, other));
        const float base = higher == none ? 0.0f : higher, keep = exponential(top - base),
                    weight = j < visible ? exponential(score - base) : 0.0f;
        for (int n = 0; n < PART; ++n) acc[n] *= keep;
        for (int l = 0; l < count; ++l) {
            const float w = __shfl_sync(~0u, weight, l);
            for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = fmaf(w, v[(size_t)(first + l) * D + d], acc[n]);
        }
        sum = sum * keep + weight, top = higher;
    }
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = acc[n] / sum;
}
