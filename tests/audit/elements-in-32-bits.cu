/*
about = "Counts elements in 32 bits, which are enough for every tensor, and only their addresses in 64."
kind = "honest"
workload = "attention-fp32-large-d"
case = { B = 1, H = 2, Sq = 9, Sk = 9, D = 256, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "B * H <= 65535"
why = "the grid has no more blocks along y"

[[constraint]]
expr = "B * H * Sq * Sk <= 1000 || B * H > 5000"
why = "other shapes would take its replay longer, and show nothing more"
*/

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, Element* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const unsigned head = blockIdx.y, row = (head * Sq + i) * D, first_key = head * Sk * D;
    attend_row(&q[row], &k[first_key], &v[first_key], &o[row], visible, scale);
}
