/*
about = "FP32 inputs, everything in double precision, the dot product through a table of device function pointers."
kind = "honest"
not_modelled = "calls through pointers are not modelled"
workload = "attention-fp32-large-d"
case = { B = 1, H = 3, Sq = 44, Sk = 59, D = 60, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["B * H", "ceil_div(Sq, 2)"]
block = ["64"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "Sq <= 2 * 65535"
why = "the kernel takes no other shapes"
*/
constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int PART = (D + 31) / 32;
using Dot = double (*)(const float*, const float*);

__device__ __noinline__ double forwards(const float* a, const float* b) {
    double sum = 0;
    for (int d = threadIdx.x % 32; d < D; d += 32) sum += (double)a[d] * b[d];
    return sum;
}
__device__ __noinline__ double backwards(const float* a, const float* b) {
    double sum = 0;
    for (int d = D - 1 - int(threadIdx.x % 32); d >= 0; d -= 32) sum += (double)a[d] * b[d];
    return sum;
}
__device__ const Dot dots[2] = {forwards, backwards};

extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.y * 2 + warp;
    if (i >= Sq) return;
    const size_t head = blockIdx.x, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const Dot dot = dots[i % 2];  // either is right
    double acc[PART] = {}, top = -1e300, sum = 0;
    for (int j = 0; j < visible; ++j) {
        double score = dot(q + row, k + (size_t)j * D);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score = __dmul_rn(score, scale);
        const double higher = fmax(top, score), keep = exp(top - higher), weight = exp(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * v[(size_t)j * D + d];
        sum = sum * keep + weight, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = (float)(acc[n] / sum);
}
