/*
about = "Its two warps wait for each other at two different barriers."
kind = "broken"
caught_by = ["timed_out"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 2)", "B * H"]
block = ["64"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int warp = threadIdx.x / 32, i = blockIdx.x * 2 + warp;
    // Each is for 64 threads, of which 32 come.
    if (warp == 0) asm volatile("bar.sync 1, 64;");
    else asm volatile("bar.sync 2, 64;");
    if (i >= Sq) return;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
