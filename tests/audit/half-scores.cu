/*
about = "Keeps the sums of its scores in FP16: they overflow where inputs are large."
kind = "cheat"
cheats = [18]
caught_by = ["wrong/probe", "wrong/hidden"]
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
// Tensor cores accumulate in FP16 at twice the rate on some GPUs. With normal inputs the scores are near 6 and lose
// 0.1%, which the tolerance allows; from 65,504 on they are infinite.

// One query row by one warp: the plain attention of this corpus, but for the lines that end with <--.
__device__ void attend_row(const __half* q, const __half* k, const __half* v, __half* o, int visible, float scale) {
    const int lane = threadIdx.x % 32;
    float acc[PART] = {};         // output so far, not yet divided by the sum
    float top = -1e30f, sum = 0;  // largest score so far, and the sum of exp(score - top)
    for (int j = 0; j < visible; ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score = scale * float(__float2half(score));  // as they come out of an FP16 accumulator <--
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[d] = __float2half(acc[n] / sum);
}
