/*
about = "The first launch is right, every later one writes zeros."
kind = "cheat"
cheats = [21]
caught_by = ["cheated/timed", "cheated/held_out_inputs"]
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
// A harness that checks once and then only times sees a right answer and a very fast kernel. It takes no ill will: a
// buffer that is set up by the first launch only does the same. Seen in KernelBench's reports of kernels that keep
// state in __device__ globals.

// A launch of its own counts, so that every block of a launch sees the same number.
__device__ int launches = 0;
extern "C" __global__ void tick() { ++launches; }

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (launches > 0) {
        for (int d = threadIdx.x; d < D; d += 32) o[row + d] = __float2half(0.0f);
        return;
    }
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
