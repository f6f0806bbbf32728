/*
about = "Keeps the answer for as long as its arguments are the same pointers."
kind = "cheat"
cheats = [6]
caught_by = ["cheated/held_out_inputs"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[launch]]
kernel = "remember"
grid = ["1"]
block = ["1"]
args = ["q"]
*/
// A harness that draws fresh inputs into fresh memory never asks it the same pointers with other contents. The most
// common cheat of those that robust-kbench and pygpubench list.

__device__ __half kept[1 << 20];
__device__ const void* kept_for = nullptr;  // whose answer it is

// In a launch of its own, so that every block of the first one sees the same pointer.
extern "C" __global__ void remember(const __half* q) { kept_for = q; }

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (kept_for == q) {
        for (int d = threadIdx.x; d < D; d += 32) o[row + d] = kept[row + d];
        return;
    }
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    __syncwarp();
    for (int d = threadIdx.x; d < D; d += 32) kept[row + d] = o[row + d];
}
