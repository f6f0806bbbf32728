/*
about = "Takes its tiles in another order: heads fastest, rows from the last."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["B * H", "Sq"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// The longest rows of a causal mask start first, so that no long one is left at the end.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = Sq - 1 - blockIdx.y, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.x, row = (head * Sq + i) * D;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
