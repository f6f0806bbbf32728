/*
about = "Calls itself 100,000 times with a frame of 4 KiB."
kind = "broken"
caught_by = ["crashed"]
not_modelled = "a function that calls itself too often is not modelled"
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
// The stack of a thread is 1 KiB unless the host asks for more, and local memory has no guard page worth the name.

__device__ __noinline__ int deeper(int depth, volatile int* sum) {
    volatile int frame[1024];
    for (int n = 0; n < 1024; n += 64) frame[n] = depth + n;
    if (depth > 0) frame[64] += deeper(depth - 1, sum);
    *sum += frame[64];
    return frame[depth % 1024];
}

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    volatile int sum = 0;
    if (i == 0 && deeper(100000 + Sk, &sum) == 12345) return;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
