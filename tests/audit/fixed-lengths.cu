/*
about = "Has the lengths of its case written into it."
kind = "cheat"
cheats = [19]
caught_by = ["wrong/hidden", "crashed"]
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
// A family that needs a length as a constant has to say so in its manifest; then it is rendered anew for each. This
// one says that it takes any.

constexpr int S = 97;  // the case that it is timed on

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    Sq = Sk = S;
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
