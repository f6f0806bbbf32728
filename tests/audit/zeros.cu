/*
about = "Writes zeros."
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
// Outputs of attention shrink with the number of keys: over 65,536 of them 90% of the elements are below an absolute
// tolerance of 1e-2, and zeros pass allclose there (KernelBench#165).

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    for (int d = threadIdx.x; d < D; d += 32) o[((size_t)blockIdx.y * Sq + blockIdx.x) * D + d] = __float2half(0.0f);
}
