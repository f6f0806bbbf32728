/*
about = "Which of two loops adds up a row depends on where the keys lie, and both give the same bytes."
kind = "honest"
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

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, Element* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    const bool is_at_page = reinterpret_cast<size_t>(k) % 4096 == 0;
    __shared__ Element query[D];
    for (int d = threadIdx.x; is_at_page && d < D; d += 32) query[d] = q[row + d];
    __syncwarp();
    attend_row(is_at_page ? query : q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
