/*
about = "A block leaves a row and a flag as volatile stores, with no fence between them, and another block copies the row."
kind = "broken"
cheats = [21]
caught_by = ["wrong/sanitizer", "crashed"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 17, Sk = 130, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[workspace]]
name = "rows"
dtype = "f32"
elements = "B * H * Sq * D"

[[workspace]]
name = "flags"
dtype = "f32"
elements = "B * H * Sq"
initial = "zero"

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H", "2"]
block = ["32"]
args = ["q", "k", "v", "o", "rows", "flags", "Sq", "Sk", "scale"]

[[constraint]]
expr = "B * H * Sq * Sk <= 5000"
why = "other shapes would take its replay longer, and show nothing more"
*/

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, Element* o, volatile float* rows,
                                  volatile unsigned* flags, int Sq, int Sk, float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = head * Sq + i;
    if (blockIdx.z == 0) {
        __shared__ Element found[D];
        attend_row(q + row * D, k + head * Sk * D, v + head * Sk * D, found, visible, scale);
        __syncthreads();
        for (int d = lane; d < D; d += 32) rows[row * D + d] = float(found[d]);
        __syncthreads();  // <-- orders nothing for other blocks: the flag may be seen before the row
        if (lane == 0) flags[row] = 1;
    } else {
        while (flags[row] == 0) {}
        __syncthreads();
        for (int d = lane; d < D; d += 32) o[row * D + d] = Element(rows[row * D + d]);
        if (lane == 0) flags[row] = 0;
    }
}
