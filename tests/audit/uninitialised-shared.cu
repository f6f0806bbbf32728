/*
about = "Reads a part of a tile that was never written."
kind = "broken"
caught_by = ["crashed", "wrong/accuracy", "wrong/finite"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 98, Sk = 130, D = 32, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Shared memory holds what the block before has left there.

// Four warps, four rows, and one tile of 32 keys at a time that all of them read.
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    __shared__ __half tile[32 * D];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = min(blockIdx.x * 4 + warp, Sq - 1);
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    float acc[PART] = {}, top = -1e30f, sum = 0;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    for (int first = 0; first < Sk; first += 32) {
        __syncthreads();  // everybody is done with the tile before
        for (int n = threadIdx.x; n < 31 * D && first * D + n < Sk * D; n += 128) tile[n] = k[first * D + n];
        __syncthreads();

        for (int j = first; j < min(first + 32, visible); ++j) {
            float score = 0;
            for (int d = lane; d < D; d += 32) score += float(q[row + d]) * float(tile[(j - first) * D + d]);
            for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
            score *= scale;
            const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
            for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
            sum = sum * keep + weight;
            top = higher;
        }
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
