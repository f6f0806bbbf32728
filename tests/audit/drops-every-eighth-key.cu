/*
about = "Skips one key in eight, which hardly changes a mean."
kind = "cheat"
cheats = [15]
caught_by = ["wrong/accuracy"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 96, Sk = 160, D = 32, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "kernel"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Sparse attention without saying so. On inputs that a mean describes well it looks almost right.

// One query row by one warp: the plain attention of this corpus, but for the lines that end with <--.
__device__ void attend_row(const __half* q, const __half* k, const __half* v, __half* o, int visible, float scale) {
    const int lane = threadIdx.x % 32;
    float acc[PART] = {};         // output so far, not yet divided by the sum
    float top = -1e30f, sum = 0;  // largest score so far, and the sum of exp(score - top)
    for (int j = 0; j < visible; ++j) {
        if (j % 8 == 7) continue;  // <--
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[d] = __float2half(acc[n] / sum);
}
