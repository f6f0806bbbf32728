/*
about = "Uses shared memory that it has not asked for."
kind = "broken"
cheats = [16]
caught_by = ["crashed"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// A little beyond the limit there may be room, and then garbage that happens to pass. This one is far beyond.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    extern __shared__ __half query[];
    // The launch gives no dynamic shared memory at all, and a row is copied to its fourth megabyte.
    for (int d = threadIdx.x; d < D; d += 32) query[(1 << 21) + d] = q[row + d];
    __syncwarp();
    attend_row(query + (1 << 21), k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
