/*
about = "Takes over 64 registers in each of the 1,024 threads of a block."
kind = "broken"
caught_by = ["rejected_by_compiler", "crashed"]
not_modelled = "the virtual GPU executes PTX, which has as many registers as it likes"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 65, Sk = 65, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 1024)", "B * H"]
block = ["1024"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// A multiprocessor has 65,536 registers: 64 for each of 1,024 threads. Without __launch_bounds__ the compiler does not
// know.

// One thread per row, which keeps all of it in registers: twice D and some.
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x * 1024 + threadIdx.x;
    if (i >= Sq) return;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    float query[D], acc[D], top = -1e30f, sum = 0;
#pragma unroll
    for (int d = 0; d < D; ++d) query[d] = float(q[row + d]), acc[d] = 0;
    for (int j = 0; j < visible; ++j) {
        float score = 0;
#pragma unroll
        for (int d = 0; d < D; ++d) score += query[d] * float(k[j * D + d]);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
#pragma unroll
        for (int d = 0; d < D; ++d) acc[d] = acc[d] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int d = 0; d < D; ++d) o[row + d] = __float2half(acc[d] / sum);
}
