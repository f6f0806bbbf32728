/*
about = "Four blocks of a cluster share the keys of a row, and each puts a part of the output together from the shared memory of all."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 4, Sq = 71, Sk = 120, D = 72, CAUSAL = 1 }
requires_sm = 90
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["4 * Sq", "B * H"]
block = ["32"]
cluster = ["4"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

#include <cooperative_groups.h>
namespace cg = cooperative_groups;

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int PART = (D + 31) / 32;

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    __shared__ float slot[D + 2];
    cg::cluster_group cluster = cg::this_cluster();
    const int rank = cluster.block_rank(), size = cluster.num_blocks(), lane = threadIdx.x, i = blockIdx.x / size;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int j = rank; j < visible; j += size) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += __half2float(q[row + d]) * __half2float(k[(size_t)j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score = __fmul_rn(score, scale);
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32)
            acc[n] = acc[n] * keep + weight * __half2float(v[(size_t)j * D + d]);
        sum = sum * keep + weight, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) slot[d] = acc[n];
    if (lane == 0) slot[D] = top, slot[D + 1] = sum;
    cluster.sync();
    float highest = -1e30f, total = 0;
    for (int r = 0; r < size; ++r) highest = fmaxf(highest, cluster.map_shared_rank(slot, r)[D]);
    for (int r = 0; r < size; ++r) {
        const float* there = cluster.map_shared_rank(slot, r);
        total += there[D + 1] * __expf(there[D] - highest);
    }
    for (int d = rank * 32 + lane; d < D; d += size * 32) {
        float out = 0;
        for (int r = 0; r < size; ++r) {
            const float* there = cluster.map_shared_rank(slot, r);
            out += there[d] * __expf(there[D] - highest);
        }
        o[row + d] = __float2half(out / total);
    }
    cluster.sync();  // nobody leaves while others read
}
