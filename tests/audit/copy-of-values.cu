/*
about = "Copies the value of the query's own position."
kind = "cheat"
cheats = [14]
caught_by = ["wrong/accuracy"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Right wherever a query finds only its own key: on inputs of a large scale, where queries and keys were made alike,
// or in the first row of a causal mask, which is all that a careless check looks at.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    for (int d = threadIdx.x; d < D; d += 32) o[row + d] = v[(head * Sk + visible - 1) * D + d];
}
