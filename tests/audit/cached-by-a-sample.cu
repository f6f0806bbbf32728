/*
about = "Knows its inputs again by their queries alone."
kind = "cheat"
cheats = [7]
caught_by = ["cheated/memoization", "wrong/probe", "wrong/hidden", "cheated/held_out_inputs"]
not_modelled = "a modelled time is of one launch: a second one that is faster does not show"
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 512, Sk = 512, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row"]

[derived]
WORDS_Q = "B * H * Sq * D / 2"
WORDS_K = "B * H * Sk * D / 2"
WORDS_V = "B * H * Sk * D / 2"

[[launch]]
kernel = "look"
grid = ["sms"]
block = ["256"]
args = ["q", "WORDS_Q"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[launch]]
kernel = "remember"
grid = ["1"]
block = ["1"]
args = []
*/
// As cached-by-fingerprint, and cheaper: keys and values are not looked at. It is found out by inputs that differ only
// there, or by the time that inputs take which it has never seen.

__device__ __half kept[1 << 22];
__device__ unsigned long long seen = 0, print_of_now = 0;

// A sum of hashes does not depend on the order in which blocks add to it.
extern "C" __global__ void look(const unsigned* words, int count) {
    unsigned long long sum = 0;
    for (int n = blockIdx.x * 256 + threadIdx.x; n < count; n += gridDim.x * 256)
        sum += (words[n] + 1ull) * (2654435761ull + 2ull * n) % 4294967291ull;
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    if (threadIdx.x % 32 == 0) atomicAdd(&print_of_now, sum);
}
extern "C" __global__ void remember() { seen = print_of_now, print_of_now = 0; }

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (seen == print_of_now) {
        for (int d = threadIdx.x; d < D; d += 32) o[row + d] = kept[row + d];
        return;
    }
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    __syncwarp();
    for (int d = threadIdx.x; d < D; d += 32) kept[row + d] = o[row + d];
}
