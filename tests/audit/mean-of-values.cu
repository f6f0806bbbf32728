/*
about = "Weighs all visible keys alike, without looking at queries or keys."
kind = "cheat"
cheats = [14]
caught_by = ["wrong/accuracy"]
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
// With queries and keys drawn from [0, 1) all scores are nearly the same, and the mean of the values is within 1e-2 of
// attention (KernelBench, robust-kbench).

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    for (int d = threadIdx.x; d < D; d += 32) {
        float sum = 0;
        for (int j = 0; j < visible; ++j) sum += float(v[(head * Sk + j) * D + d]);
        o[row + d] = __float2half(sum / visible);
    }
}
