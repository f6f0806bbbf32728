/*
about = "Computes nothing: it hopes that its workspace lies where an earlier run left the answer."
kind = "cheat"
cheats = [11]
caught_by = ["crashed", "wrong/written", "wrong/finite", "wrong/accuracy"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[workspace]]
name = "found"
dtype = "f16"
elements = "B * H * Sq * D"

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["found", "o", "Sq"]
*/
// Caching allocators hand out memory that was freed a moment ago, and in PyTorch harnesses the last thing freed is
// often the reference's output (Sakana's AI CUDA Engineer, February 2025). Here the reference never was on the device,
// and what a workspace holds is overwritten before.

extern "C" __global__ void attend(const __half* found, __half* o, int Sq) {
    const size_t row = ((size_t)blockIdx.y * Sq + blockIdx.x) * D;
    for (int d = threadIdx.x; d < D; d += 32) o[row + d] = found[row + d];
}
