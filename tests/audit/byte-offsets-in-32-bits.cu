/*
about = "Counts bytes from the start of a tensor in 32 bits, which are not enough beyond 4 GiB."
kind = "broken"
caught_by = ["crashed", "wrong/hidden", "wrong/sanitizer"]
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
// Fails on: B * H * Sk * D > 2^30: the offset of the last heads in bytes wraps around, and they get the first heads' output.

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, Element* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const unsigned head = blockIdx.y, bytes = D * sizeof(Element);
    const unsigned row = (head * Sq + i) * bytes, first_key = head * Sk * bytes;
    const auto at = [](const Element* base, unsigned offset) {
        return reinterpret_cast<const Element*>(reinterpret_cast<const char*>(base) + offset);
    };
    attend_row(at(q, row), at(k, first_key), at(v, first_key), const_cast<Element*>(at(o, row)), visible, scale);
}
