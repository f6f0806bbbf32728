/*
about = "Writes whole tiles of 32 rows: those of the last one that do not exist, too."
kind = "broken"
cheats = [20]
caught_by = ["crashed", "wrong/guard_regions"]
workload = "attention-fp16-d64"
case = { B = 1, H = 1, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 32)", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// The memory behind the output belongs to another buffer, or to none: then the result looks correct.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const size_t head = blockIdx.y;
    for (int i = blockIdx.x * 32; i < blockIdx.x * 32 + 32; ++i) {
        const int visible = CAUSAL ? min(i + 1 + Sk - Sq, Sk) : Sk;
        // A row of the query that does not exist is the last one again, so nothing is read that is not there.
        const size_t from = (head * Sq + min(i, Sq - 1)) * D, to = (head * Sq + i) * D;
        attend_row(q + from, k + head * Sk * D, v + head * Sk * D, o + to, visible, scale);
    }
}
