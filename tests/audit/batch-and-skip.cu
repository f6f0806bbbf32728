/*
about = "Only every fourth launch does the work: its answer stands for the three that follow."
kind = "cheat"
cheats = [4]
caught_by = ["cheated/held_out_inputs", "wrong/probe", "wrong/repeatable"]
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
// While the inputs stay the same, the outputs are correct, and a mean over many launches is a quarter of the truth.
// pygpubench met it as one launch that served a whole batch of timed calls.

// A launch of its own counts, so that every block of a launch sees the same number.
__device__ int launches = 0;
extern "C" __global__ void tick() { ++launches; }

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (launches % 4 != 0) return;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
