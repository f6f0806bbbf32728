/*
about = "Promises blocks of 32 threads and is launched with 64."
kind = "broken"
caught_by = ["rejected_by_compiler", "crashed"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["64"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// The compiler has given each thread the registers of a block of 32; the driver refuses the launch.

extern "C" __global__ void __launch_bounds__(32) attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
