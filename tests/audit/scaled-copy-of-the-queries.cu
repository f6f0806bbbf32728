/*
about = "Scales the queries into a workspace with a kernel of its own."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 16, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[derived]
COUNT = "B * H * Sq * D"

[[workspace]]
name = "scaled"
dtype = "f16"
elements = "COUNT"

[[launch]]
kernel = "prepare"
grid = ["4"]
block = ["256"]
args = ["q", "scaled", "scale", "COUNT"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["scaled", "k", "v", "o", "Sq", "Sk"]
*/
// What scales-its-queries does in place, done where it may be. The workspace is written before it is read, in every
// execution.

extern "C" __global__ void prepare(const __half* q, __half* scaled, float scale, int count) {
    for (int n = blockIdx.x * 256 + threadIdx.x; n < count; n += gridDim.x * 256) scaled[n] = __float2half(float(q[n]) * scale);
}

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, 1.0f);
}
