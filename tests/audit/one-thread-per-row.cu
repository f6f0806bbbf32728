/*
about = "A thread for each row, which keeps all of it in registers."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 32)", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i >= Sq) return;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    float acc[D] = {}, top = -1e30f, sum = 0;
    for (int j = 0; j < visible; ++j) {
        float score = 0;
        for (int d = 0; d < D; ++d) score += float(q[row + d]) * float(k[j * D + d]);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int d = 0; d < D; ++d) acc[d] = acc[d] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int d = 0; d < D; ++d) o[row + d] = __float2half(acc[d] / sum);
}
