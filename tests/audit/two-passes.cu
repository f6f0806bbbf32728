/*
about = "Finds the largest score first, and comes back for the sums."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// The textbook's softmax instead of the online one. It reads the keys twice.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x;
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int pass = 0; pass < 2; ++pass)
        for (int j = 0; j < visible; ++j) {
            float score = 0;
            for (int d = lane; d < D; d += 32) score += float(q[row + d]) * float(k[j * D + d]);
            for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
            score *= scale;
            if (pass == 0) {
                top = fmaxf(top, score);
                continue;
            }
            const float weight = __expf(score - top);
            for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] += weight * float(v[j * D + d]);
            sum += weight;
        }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
