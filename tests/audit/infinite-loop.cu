/*
about = "Loops for ever in one of its blocks."
kind = "broken"
caught_by = ["timed_out"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// A kernel on the device cannot be cancelled: what can be ended is the process that owns its context.

__device__ int forever = 1;

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (i == Sq - 1) while (*(volatile int*)&forever) {}
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
