/*
about = "FP32 with large D: a block of eight warps for each row, the scores of 32 keys at a time in shared memory."
kind = "honest"
workload = "attention-fp32-large-d"
case = { B = 1, H = 3, Sq = 24, Sk = 45, D = 1100, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["256"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 8192"
why = "the kernel takes no other shapes"
*/
constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int THREADS = 256, PART = (D + THREADS - 1) / THREADS;

extern "C" __global__ void __launch_bounds__(THREADS)
    attend(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v, float* __restrict__ o,
           int Sq, int Sk, float scale) {
    __shared__ float query[D];
    __shared__ volatile float scores[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    for (int d = threadIdx.x; d < D; d += THREADS) query[d] = q[row + d];
    const float none = __int_as_float(0xff800000);
    float acc[PART] = {}, top = none, sum = 0;  // top and sum: the same in all threads
    for (int first = 0; first < visible; first += 32) {
        __syncthreads();
        for (int j = warp; j < 32; j += 8) {
            float part[2] = {};
            if (first + j < visible) {
                const float* key = k + (size_t)(first + j) * D;
                for (int d = lane, n = 0; d < D; d += 32, n ^= 1) part[n] = fmaf(query[d], __ldg(key + d), part[n]);
            }
            float score = part[0] + part[1];
            for (int other = 16; other; other /= 2) score += __shfl_down_sync(~0u, score, other);
            if (lane == 0) scores[j] = first + j < visible ? __fmul_rn(score, scale) : none;
        }
        __syncthreads();
        const int count = min(32, visible - first);
        float higher = top;
        for (int j = 0; j < count; ++j) higher = fmaxf(higher, scores[j]);
        const float base = higher == none ? 0.0f : higher, keep = expf(top - base);
        for (int n = 0; n < PART; ++n) acc[n] *= keep;
        sum *= keep, top = higher;
        for (int j = 0; j < count; ++j) {
            const float weight = expf(scores[j] - base), *value = v + (size_t)(first + j) * D;
            sum += weight;
            for (int n = 0, d = threadIdx.x; d < D; ++n, d += THREADS) acc[n] = fmaf(weight, __ldg(value + d), acc[n]);
        }
    }
    for (int n = 0, d = threadIdx.x; d < D; ++n, d += THREADS) o[row + d] = acc[n] / sum;
}
