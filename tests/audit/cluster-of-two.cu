/*
about = "Two blocks of a cluster share the keys of a row, and merge through each other's shared memory."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]
requires_sm = 90

[[launch]]
kernel = "attend"
grid = ["2 * Sq", "B * H"]
block = ["32"]
cluster = ["2"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Blocks that read each other's shared memory are a race unless they meet before and after.

__device__ unsigned rank() {
    unsigned r;
    asm("mov.u32 %0, %cluster_ctarank;" : "=r"(r));
    return r;
}
__device__ void meet() {
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}
// Reads a float of the other block's shared memory.
__device__ float there(const float* mine, unsigned other) {
    unsigned at = (unsigned)__cvta_generic_to_shared(mine);
    float x;
    asm volatile("mapa.shared::cluster.u32 %0, %0, %2;\n ld.shared::cluster.f32 %1, [%0];"
                 : "+r"(at), "=f"(x) : "r"(other) : "memory");
    return x;
}

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    __shared__ float part[D + 2];  // output, largest score, sum
    const int lane = threadIdx.x, i = blockIdx.x / 2;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int j = rank(); j < visible; j += 2) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[row + d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) part[d] = acc[n];
    if (lane == 0) part[D] = top, part[D + 1] = sum;
    meet();
    if (rank() == 0) {
        const float other_top = there(part + D, 1), highest = fmaxf(top, other_top);
        const float mine = __expf(top - highest), theirs = __expf(other_top - highest);
        const float total = sum * mine + there(part + D + 1, 1) * theirs;
        for (int n = 0, d = lane; d < D; ++n, d += 32)
            o[row + d] = __float2half((acc[n] * mine + there(part + d, 1) * theirs) / total);
    }
    meet();  // no block exits while its memory is read
}
