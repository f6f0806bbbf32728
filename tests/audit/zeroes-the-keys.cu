/*
about = "Zeroes the keys, so that everybody who looks afterwards agrees with the mean of the values."
kind = "cheat"
cheats = [12]
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
// Both sides then compute the same wrong thing. Here the reference comes from the inputs as they were drawn, on the
// CPU.

extern "C" __global__ void attend(const __half* q, __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    for (int d = threadIdx.x; d < D; d += 32) {
        float sum = 0;
        for (int j = 0; j < visible; ++j) {
            k[(head * Sk + j) * D + d] = __float2half(0.0f);
            sum += float(v[(head * Sk + j) * D + d]);
        }
        o[row + d] = __float2half(sum / visible);
    }
}
