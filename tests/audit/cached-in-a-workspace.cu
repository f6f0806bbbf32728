/*
about = "Keeps its answer in a workspace whose contents it must not rely on."
kind = "cheat"
cheats = [10]
caught_by = ["crashed", "cheated/held_out_inputs"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 512, Sk = 512, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[workspace]]
name = "kept"
dtype = "f16"
elements = "B * H * Sq * D"

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "kept", "Sq", "Sk", "scale"]
*/
// Workspaces live as long as the plan. A harness that poisons them anew whenever it draws new inputs never sees that
// the answer in there is an old one: new inputs have to come alone, as they do for a user.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, __half* kept, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (__half_as_ushort(kept[row]) != 0xffff) {  // no longer what workspaces are poisoned with
        for (int d = threadIdx.x; d < D; d += 32) o[row + d] = kept[row + d];
        return;
    }
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    __syncwarp();
    for (int d = threadIdx.x; d < D; d += 32) kept[row + d] = o[row + d];
}
