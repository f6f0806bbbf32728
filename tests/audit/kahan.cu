/*
about = "FP32 with compensated sums throughout, in two passes over the keys."
kind = "honest"
workload = "attention-fp32-large-d"
case = { B = 2, H = 2, Sq = 37, Sk = 90, D = 96, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["B * H", "Sq"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "Sq <= 65535"
why = "the kernel takes no other shapes"
*/
constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int PART = (D + 31) / 32;
struct Sum {
    float value = 0, lost = 0;
    __device__ void add(float x) {
        const float y = __fsub_rn(x, lost), t = __fadd_rn(value, y);
        lost = __fsub_rn(__fsub_rn(t, value), y);
        value = t;
    }
};
__device__ float score_of(const float* q, const float* k, float scale) {
    Sum sum;
    for (int d = threadIdx.x; d < D; d += 32) sum.add(__fmul_rn(q[d], k[d]));
    float total = sum.value;
    for (int other = 1; other < 32; other *= 2) total = __fadd_rn(total, __shfl_xor_sync(~0u, total, other));
    return __fmul_rn(total, scale);
}
extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.y, lane = threadIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.x, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    float top = __int_as_float(0xff800000);
    for (int j = 0; j < visible; ++j) top = fmaxf(top, score_of(q + row, k + (size_t)j * D, scale));
    Sum sum, acc[PART];
    for (int j = visible - 1; j >= 0; --j) {
        const float weight = expf(score_of(q + row, k + (size_t)j * D, scale) - top);
        sum.add(weight);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n].add(__fmul_rn(weight, v[(size_t)j * D + d]));
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = acc[n].value / sum.value;
}
