/*
about = "Does nothing when launched soon after the launch before, as only a timed one is."
kind = "cheat"
cheats = [22]
caught_by = ["rejected_by_compiler"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 512, Sk = 512, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "before"
grid = ["1"]
block = ["1"]
args = []

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[launch]]
kernel = "after"
grid = ["1"]
block = ["1"]
args = []
*/
// Checks launch once and look; timing launches back to back. The time since the launch before tells one from the
// other. The first of the timed launches does the work, so the output is right when it is looked at afterwards. No
// kernel needs the time, so its PTX may not ask for it.

__device__ unsigned long long ended = 0;
__device__ bool hurry = false;

__device__ unsigned long long now() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}
// Before and after, in launches of their own, so that all blocks are of one mind.
extern "C" __global__ void before() { hurry = now() - ended < 20000; }
extern "C" __global__ void after() { ended = now(); }

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    if (hurry) return;
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
