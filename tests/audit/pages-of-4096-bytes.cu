/*
about = "Takes the keys to begin where a page of 4096 bytes begins."
kind = "broken"
caught_by = ["crashed", "wrong/accuracy", "wrong/finite", "wrong/hidden", "wrong/probe", "wrong/repeatable"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 17, Sk = 17, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "B * H * Sq * Sk <= 4000"
why = "other shapes would take its replay longer, and show nothing more"
*/
// Fails on: keys at any other multiple of 256.

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, Element* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k = reinterpret_cast<const Element*>(reinterpret_cast<size_t>(k) & ~size_t{4095});
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
