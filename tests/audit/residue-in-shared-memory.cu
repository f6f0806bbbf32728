/*
about = "Finds the keys of its last launch in shared memory, which is not cleared."
kind = "cheat"
cheats = [8, 10]
caught_by = ["crashed", "cheated/held_out_inputs", "cheated/timed", "wrong/repeatable", "wrong/accuracy", "wrong/probe"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
shared = "Sk * D * 2 + 8"
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// State outlives a launch not only in globals, in workspaces and around buffers, but also in shared memory. It shows
// only when the contents change and the addresses do not.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    // A tile of keys behind a mark that says whose they are. What a block leaves in shared memory is there for the next one on
    // the same multiprocessor.
    extern __shared__ unsigned shared[];
    __half* keys = reinterpret_cast<__half*>(shared + 2);
    const bool mine = shared[0] == 0x5eed5eedu && shared[1] == head;
    __syncwarp();
    if (!mine) {
        for (int n = threadIdx.x; n < Sk * D; n += 32) keys[n] = k[head * Sk * D + n];
        if (threadIdx.x == 0) shared[0] = 0x5eed5eedu, shared[1] = head;
    }
    __syncwarp();
    attend_row(q + row, keys, v + head * Sk * D, o + row, visible, scale);
}
