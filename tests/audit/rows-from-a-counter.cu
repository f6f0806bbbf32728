/*
about = "Warps take their rows from a counter, so who computes what changes from launch to launch."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[derived]
ROWS = "B * H * Sq"

[[workspace]]
name = "counters"
dtype = "f32"
elements = "2"
initial = "zero"

[[launch]]
kernel = "attend"
grid = ["min(ROWS, 64)"]
block = ["32"]
args = ["q", "k", "v", "o", "counters", "Sq", "Sk", "ROWS", "scale"]
*/
// A dynamic scheduler, as persistent kernels have it. Nothing of the order shows in the output.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, unsigned* counters, int Sq, int Sk,
                                  int rows, float scale) {
    for (;;) {
        unsigned taken = 0;
        if (threadIdx.x == 0) taken = atomicAdd(&counters[0], 1u);
        taken = __shfl_sync(~0u, taken, 0);
        if (taken >= rows) break;
        const int i = Sq - 1 - taken % Sq, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;  // the longest rows first
        const size_t head = taken / Sq, row = (head * Sq + i) * D;
        attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    }
    // The last warp to find nothing leaves both counters as it found them.
    if (threadIdx.x == 0 && atomicAdd(&counters[1], 1u) == gridDim.x - 1) counters[0] = counters[1] = 0;
}
