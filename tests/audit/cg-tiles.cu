/*
about = "Cooperative groups: a tile of eight threads for each query row, with cg::reduce."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 2, H = 3, Sq = 61, Sk = 83, D = 40, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 16)", "B * H"]
block = ["128"]
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
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int T = 8, PART = (D + T - 1) / T;

extern "C" __global__ void __launch_bounds__(128)
    attend(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
           __half* __restrict__ o, int Sq, int Sk, float scale) {
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<T>(block);
    const int i = blockIdx.x * 16 + tile.meta_group_rank();
    if (i >= Sq) return;  // the whole tile leaves; nothing below concerns more than a tile
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk, me = tile.thread_rank();
    float mine[PART], acc[PART] = {};
    for (int n = 0; n < PART; ++n) mine[n] = n * T + me < D ? __half2float(q[row + n * T + me]) : 0.0f;
    float top = -1e30f, sum = 0;  // FP16 inputs: no score is anywhere near
    for (int j = 0; j < visible; ++j) {
        const size_t at = (size_t)j * D;
        float part = 0;
        for (int n = 0; n < PART; ++n)
            if (n * T + me < D) part = fmaf(mine[n], __half2float(k[at + n * T + me]), part);
        const float score = __fmul_rn(cg::reduce(tile, part, cg::plus<float>()), scale);
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0; n < PART; ++n)
            if (n * T + me < D) acc[n] = acc[n] * keep + weight * __half2float(v[at + n * T + me]);
        sum = sum * keep + weight;
        top = higher;
    }
    tile.sync();
    for (int n = 0; n < PART; ++n)
        if (n * T + me < D) o[row + n * T + me] = __float2half(acc[n] / sum);
}
