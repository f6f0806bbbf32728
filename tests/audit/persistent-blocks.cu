/*
about = "As many blocks as multiprocessors walk over all rows, each starting from its %smid."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[[launch]]
kernel = "attend"
grid = ["min(Sq, 16)", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Reading %smid is a way to tell one launch from another, and a way to schedule by. What counts is whether the answer
// depends on it.

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    unsigned sm;
    asm("mov.u32 %0, %smid;" : "=r"(sm));
    // Rows are dealt out by block. Where a block begins in its hand depends on where it runs, what it computes does not.
    const int hand = (Sq - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    for (int n = 0; n < hand; ++n) {
        const int i = blockIdx.x + (n + sm) % hand * gridDim.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
        const size_t head = blockIdx.y, row = (head * Sq + i) * D;
        attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    }
}
