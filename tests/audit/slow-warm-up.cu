/*
about = "Its first two launches take long, so that few repetitions are asked for; then it mostly rests."
kind = "cheat"
cheats = [3, 4]
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
// Harnesses choose how often to repeat from the time of the first launches (Triton's do_bench does). A slow start buys
// few repetitions, and few are easily served from what the slow ones left. By itself a slow start gains nothing here:
// every sample is as long as a sample has to be.

// A launch of its own counts, so that every block of a launch sees the same number.
__device__ int launches = 0;
extern "C" __global__ void tick() { ++launches; }

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (launches < 2) {
        for (volatile int n = 0; n < 200; ++n) {}
    } else if (launches % 8 != 0) {
        return;
    }
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
