/*
about = "Leaves the work to a grid that it launches itself and does not wait for."
kind = "cheat"
cheats = [1]
caught_by = ["rejected_by_compiler"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["1"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// What the end event of a timer waits for is the stream; work that is somewhere else at that moment costs nothing.
// Streams belong to the host, which a variant has no part in; launches from the device would need the device runtime,
// which is not linked.

__global__ void work(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    if (threadIdx.x == 0) work<<<dim3(Sq, 2), 32>>>(q, k, v, o, Sq, Sk, scale);
}
