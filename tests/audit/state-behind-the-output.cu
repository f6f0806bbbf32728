/*
about = "Keeps its answer in memory that is not its own: right behind the output."
kind = "cheat"
cheats = [8, 20]
caught_by = ["crashed", "wrong/guard_regions"]
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
kernel = "tick"
grid = ["1"]
block = ["1"]
args = []
*/
// Allocators round sizes up, so there is often room behind a buffer. A search for state in globals or workspaces
// does not find it there.

// A launch of its own counts, so that every block of a launch sees the same number.
__device__ int launches = 0;
extern "C" __global__ void tick() { ++launches; }

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    __half* kept = o + (size_t)gridDim.y * Sq * D;  // the end of the output
    if (launches > 0) {
        for (int d = threadIdx.x; d < D; d += 32) o[row + d] = kept[row + d];
        return;
    }
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    __syncwarp();
    for (int d = threadIdx.x; d < D; d += 32) kept[row + d] = o[row + d];
}
