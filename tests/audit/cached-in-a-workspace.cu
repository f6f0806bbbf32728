/*
about = "Keeps its answer in a workspace whose contents it must not rely on."
kind = "cheat"
cheats = [10]
caught_by = ["crashed", "cheated/fresh"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 512, Sk = 512, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "kept"
dtype = "f16"
elements = "B * H * Sq * D"

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "kept", "Sq", "Sk", "scale"]
*/
// Workspaces live as long as the plan. A harness that poisons them anew whenever it draws new inputs never sees that
// the answer in there is an old one: new inputs have to come alone, as they do for a user.
#include <cuda_fp16.h>

constexpr int D = <$ D $>;             // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;       // key j is visible to query i iff j <= i + Sk - Sq
constexpr int PART = (D + 31) / 32;    // dimensions of a lane: lane, lane + 32, ...

// One query row by one warp: the plain attention of this corpus.
__device__ void attend_row(const __half* q, const __half* k, const __half* v, __half* o, int visible, float scale) {
    const int lane = threadIdx.x % 32;
    float acc[PART] = {};         // output so far, not yet divided by the sum
    float top = -1e30f, sum = 0;  // largest score so far, and the sum of exp(score - top)
    for (int j = 0; j < visible; ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[d] = __float2half(acc[n] / sum);
}


extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, __half* kept, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (__half_as_ushort(kept[row]) != 0xffff) {  // no longer what workspaces are poisoned with
        for (int d = threadIdx.x; d < D; d += 32) o[row + d] = kept[row + d];
        return;
    }
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
    __syncwarp();
    for (int d = threadIdx.x; d < D; d += 32) kept[row + d] = o[row + d];
}
