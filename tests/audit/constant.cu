/*
about = "Writes one constant per head: the mean of its values."
kind = "cheat"
cheats = [13]
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
// Better than zeros wherever the inputs are not centred, such as those of torch.rand, with which some harnesses check.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const size_t head = blockIdx.y;
    float mean = 0;
    for (int n = threadIdx.x; n < Sk * D; n += 32) mean += float(v[head * Sk * D + n]) / (Sk * D);
    for (int other = 16; other; other /= 2) mean += __shfl_xor_sync(~0u, mean, other);
    for (int d = threadIdx.x; d < D; d += 32) o[(head * Sq + blockIdx.x) * D + d] = __float2half(mean);
}
