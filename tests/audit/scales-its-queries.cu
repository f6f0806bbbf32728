/*
about = "Multiplies the queries by the scale in place: the second launch finds them scaled."
kind = "cheat"
cheats = [12]
caught_by = ["wrong/inputs"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 16, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// A reference that is computed after the launch sees the same scaled queries and agrees. With 16 dimensions the scale
// is 1/4 and loses nothing, so the first answer is right.

extern "C" __global__ void attend(__half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    for (int d = threadIdx.x; d < D; d += 32) q[row + d] = __float2half(float(q[row + d]) * scale);
    __syncwarp();
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, 1.0f);
}
