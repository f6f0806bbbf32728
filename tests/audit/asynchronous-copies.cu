/*
about = "Copies tiles with cp.async, one ahead of the one in use."
kind = "honest"
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
// Compare forgets-to-wait. The address of a tile that does not exist is computed and never read.

constexpr int KEYS = 32;  // keys of a tile
constexpr int WORDS = D / 2;

// Starts to copy a tile, 4 bytes each; every lane counts its own copies.
__device__ void start(__half* tile, const __half* from, int valid) {
    for (int n = threadIdx.x; n < KEYS * WORDS && n < valid * WORDS; n += 32)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                     ::"r"((unsigned)__cvta_generic_to_shared(tile + 2 * n)), "l"(from + 2 * n) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    __shared__ __align__(16) __half tiles[2][KEYS * D];
    const int lane = threadIdx.x;
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    float acc[PART] = {}, top = -1e30f, sum = 0;
    start(tiles[0], k, min(visible, KEYS));
    for (int first = 0, turn = 0; first < visible; first += KEYS, turn ^= 1) {
        start(tiles[turn ^ 1], k + (first + KEYS) * D, max(0, min(visible - first - KEYS, KEYS)));
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncwarp();
        for (int j = first; j < min(visible, first + KEYS); ++j) {
            float score = 0;
            for (int d = lane; d < D; d += 32) score += float(q[row + d]) * float(tiles[turn][(j - first) * D + d]);
            for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
            score *= scale;
            const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
            for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
            sum = sum * keep + weight;
            top = higher;
        }
        __syncwarp();
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
