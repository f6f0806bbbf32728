/*
about = "Rounds the number of its blocks down: the rows of the last, ragged tile stay as they were."
kind = "broken"
cheats = [15]
caught_by = ["wrong/written"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq / 32", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// 32 rows per block.
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const size_t head = blockIdx.y;
    for (int i = blockIdx.x * 32; i < blockIdx.x * 32 + 32; ++i) {
        const size_t row = (head * Sq + i) * D;
        const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
        attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    }
}
