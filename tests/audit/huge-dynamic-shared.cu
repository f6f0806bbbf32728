/*
about = "Asks for more shared memory than a block can have."
kind = "broken"
cheats = [16]
caught_by = ["rejected_by_compiler"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
shared = "256 * 1024"
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// 227 KiB are the most on compute capability 9.0. A harness that does not look at the error of the launch reads
// whatever the output held before, and it may pass.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    extern __shared__ __half query[];
    for (int d = threadIdx.x; d < D; d += 32) query[d] = q[row + d];
    __syncwarp();
    attend_row(query, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
