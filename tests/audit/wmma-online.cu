/*
about = "wmma fragments for both products; the accumulators go through shared memory to be rescaled."
kind = "honest"
workload = "attention-fp16-d64-full"
case = { B = 1, H = 4, Sq = 45, Sk = 70, D = 48, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["B * H", "ceil_div(Sq, 16)"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "Sq <= 16 * 65535"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D % 16 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 128"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

#include <mma.h>
using namespace nvcuda;

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    __shared__ __align__(128) __half qs[16 * D], ks[16 * D], vs[16 * D], ps[256];
    __shared__ __align__(128) float ss[256], os[16 * D];
    const int lane = threadIdx.x, first_row = blockIdx.y * 16, r = lane / 2, c = lane % 2 * 8;
    const size_t head = blockIdx.x;
    const __half zero = __float2half(0.0f);
    for (int n = lane; n < 16 * D; n += 32) {
        qs[n] = first_row + n / D < Sq ? q[(head * Sq + first_row) * D + n] : zero;
        os[n] = 0;
    }
    float top = -1e30f, sum = 0;  // of row r; both of its lanes hold the same
    const int last = CAUSAL ? min(first_row + r + Sk - Sq, Sk - 1) : Sk - 1;
    const int end = CAUSAL ? min(first_row + 16 + Sk - Sq, Sk) : Sk;  // no row of this block sees a key from here on
    for (int first = 0; first < end; first += 16) {
        __syncwarp();
        for (int n = lane; n < 16 * D; n += 32) {
            const bool there = first + n / D < Sk;
            ks[n] = there ? k[(head * Sk + first) * D + n] : zero;
            vs[n] = there ? v[(head * Sk + first) * D + n] : zero;
        }
        __syncwarp();
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
        wmma::fill_fragment(s, 0.0f);
        for (int x = 0; x < D; x += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
            wmma::load_matrix_sync(a, qs + x, D);
            wmma::load_matrix_sync(b, ks + x, D);
            wmma::mma_sync(s, a, b, s);
        }
        wmma::store_matrix_sync(ss, s, 16, wmma::mem_row_major);
        __syncwarp();
        float score[8], higher = top;
        for (int n = 0; n < 8; ++n) {
            score[n] = first + c + n <= last ? __fmul_rn(ss[r * 16 + c + n], scale) : -2e30f;
            higher = fmaxf(higher, score[n]);
        }
        higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 1));
        const float keep = __expf(top - higher);
        float part = 0;
        for (int n = 0; n < 8; ++n) {
            const float w = first + c + n <= last ? __expf(score[n] - higher) : 0.0f;
            part += w;
            ps[r * 16 + c + n] = __float2half(w);
        }
        sum = sum * keep + (part + __shfl_xor_sync(~0u, part, 1));
        top = higher;
        for (int d = lane % 2; d < D; d += 2) os[r * D + d] *= keep;
        __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> p;
        wmma::load_matrix_sync(p, ps, 16);
        for (int x = 0; x < D; x += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> out;
            wmma::load_matrix_sync(b, vs + x, D);
            wmma::load_matrix_sync(out, os + x, D, wmma::mem_row_major);
            wmma::mma_sync(out, p, b, out);
            wmma::store_matrix_sync(os + x, out, D, wmma::mem_row_major);
        }
    }
    __syncwarp();
    if (first_row + r < Sq)
        for (int d = lane % 2; d < D; d += 2)
            o[(head * Sq + first_row + r) * D + d] = __float2half(os[r * D + d] / sum);
}
