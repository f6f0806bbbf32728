/*
about = "One warp fetches tiles, another computes, and they hand over at named barriers."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["64"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Warp specialisation without its speed: barriers that only some threads wait at, and all is in order.

constexpr int KEYS = 32;
__device__ void arrive(int barrier) { asm volatile("bar.arrive %0, 64;" ::"r"(barrier) : "memory"); }
__device__ void wait(int barrier) { asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory"); }

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    __shared__ __half tile[KEYS * D];
    const int lane = threadIdx.x % 32;
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    if (threadIdx.x >= 32) {  // the one that fetches
        for (int first = 0; first < visible; first += KEYS) {
            if (first > 0) wait(2);  // until the tile is free
            for (int n = lane; n < min(KEYS, visible - first) * D; n += 32) tile[n] = k[first * D + n];
            arrive(1);               // it is full
        }
        return;
    }
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int first = 0; first < visible; first += KEYS) {
        wait(1);
        for (int j = first; j < min(visible, first + KEYS); ++j) {
            float score = 0;
            for (int d = lane; d < D; d += 32) score += float(q[row + d]) * float(tile[(j - first) * D + d]);
            for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
            score *= scale;
            const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
            for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
            sum = sum * keep + weight;
            top = higher;
        }
        if (first + KEYS < visible) arrive(2);
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
