/*
about = "Reads keys 16 bytes at a time, which the lengths of its case happen to allow."
kind = "cheat"
cheats = [19]
caught_by = ["crashed", "wrong/hidden"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 96, Sk = 96, D = 20, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
shared = "Sk * D * 2"
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// With 96 keys of 20 dimensions every head starts at a multiple of 16 bytes; with 97 every second one does not, and
// its last elements are no whole chunk. A constraint in the manifest would make it honest.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    // Keys as 16-byte chunks from the start of the head: aligned if Sk * D * 2 is a multiple of 16.
    extern __shared__ uint4 tile[];
    const uint4* chunks = reinterpret_cast<const uint4*>(k + head * Sk * D);
    for (int n = threadIdx.x; n < Sk * D / 8; n += 32) tile[n] = chunks[n];
    __syncwarp();
    attend_row(q + row, reinterpret_cast<const __half*>(tile), v + head * Sk * D, o + row, visible, scale);
}
