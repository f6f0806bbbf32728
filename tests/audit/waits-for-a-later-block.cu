/*
about = "A barrier over a grid that does not fit the device at once."
kind = "broken"
caught_by = ["timed_out"]
workload = "attention-fp16-d64"
case = { B = 16, H = 16, Sq = 24, Sk = 24, D = 16, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// A device of 132 multiprocessors has room for 4,224 blocks of this kind; these are 6,144.

__device__ unsigned arrived = 0;

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    // Everybody waits for everybody. Blocks that do not fit wait for a place, which those that wait do not give up.
    if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1u);
        while (*(volatile unsigned*)&arrived < gridDim.x * gridDim.y) {}
    }
    __syncwarp();
}
