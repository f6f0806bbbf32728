/*
about = "Rounds its output at random, by a number that changes from launch to launch."
kind = "cheat"
cheats = [23]
caught_by = ["wrong/repeatable"]
not_modelled = "a virtual GPU launches it once on the same inputs"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "kernel"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[launch]]
kernel = "tick"
grid = ["1"]
block = ["1"]
args = []
*/
// Each answer is within every tolerance, and each is different. After enough attempts, one of them passes. Such a kernel
// cannot be distinguished from one with a race that has had no effect so far.

// A launch of its own counts, so that every block of a launch sees the same number.
__device__ int launches = 0;
extern "C" __global__ void tick() { ++launches; }

// One query row by one warp: the plain attention of this corpus, but for the lines that end with <--.
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
    for (int n = 0, d = lane; d < D; ++n, d += 32) {  // <--
        // One unit in the last place up or down, or neither. <--
        unsigned dice = (launches + 1) * 2654435761u ^ (blockIdx.x * 97 + d) * 2246822519u;  // <--
        dice = (dice ^ dice >> 15) * 2246822519u;  // <--
        o[d] = __ushort_as_half(__half_as_ushort(__float2half(acc[n] / sum)) + (dice >> 30 == 0) - (dice >> 30 == 1));  // <--
    }
}
