/*
about = "Reads rows of 72 bytes in chunks of 16."
kind = "broken"
caught_by = ["crashed"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 36, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Every second row starts in the middle of a chunk. The compiler believes the cast.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    __shared__ __align__(16) __half query[(D + 7) / 8 * 8];
    if (threadIdx.x < D / 8)
        reinterpret_cast<uint4*>(query)[threadIdx.x] = reinterpret_cast<const uint4*>(q + row)[threadIdx.x];
    for (int d = D / 8 * 8 + threadIdx.x; d < D; d += 32) query[d] = q[row + d];
    __syncwarp();
    attend_row(query, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
