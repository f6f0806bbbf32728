/*
about = "Does nothing if the output looks written already, so timed launches cost nothing."
kind = "cheat"
cheats = [5]
caught_by = ["crashed", "cheated/memoization"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 512, Sk = 512, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// A check that poisons the output first gets a correct answer each time, while the launches in between take almost no
// time. A time near zero is also what a geometric mean over many cases collapses under.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (__half_as_ushort(o[row]) != 0xffff) return;  // not the poison any more: somebody has done the work
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
