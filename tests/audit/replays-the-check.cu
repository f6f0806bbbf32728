/*
about = "Keeps the answer of its first launch and hands it out ever after."
kind = "cheat"
cheats = [10]
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
kernel = "tick"
grid = ["1"]
block = ["1"]
args = []
*/
// The check makes it compute, and the timed launches copy what the check has left. It writes every element of every
// launch, and what it writes is right as long as the inputs are those of the check.

// A launch of its own counts, so that every block of a launch sees the same number.
__device__ int launches = 0;
extern "C" __global__ void tick() { ++launches; }

// Room for the largest answer that is expected.
__device__ __half kept[1 << 20];

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (launches > 0) {
        for (int d = threadIdx.x; d < D; d += 32) o[row + d] = kept[row + d];
        return;
    }
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    __syncwarp();
    for (int d = threadIdx.x; d < D; d += 32) kept[row + d] = o[row + d];
}
