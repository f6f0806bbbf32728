/*
about = "Every block first clears its 64 rows of the output; in the last tile of a head these are also the first rows of the next head."
kind = "broken"
caught_by = ["crashed", "wrong/sanitizer"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 97, Sk = 97, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 64)", "B * H"]
block = ["64"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "D % 2 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "Sk >= Sq"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 256"
why = "the kernel takes no other shapes"
*/
// Fails on: Sq=97: the last block of head 0 clears rows 0 to 30 of head 1. If it starts after the block that
// computes them has ended (its multiprocessor was busy), they are zero in the output.

#include <cuda_fp16.h>

constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int ROWS = 64, KEYS = 32;  // a thread for each row

extern "C" __global__ void __launch_bounds__(ROWS)
    attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk, float scale) {
    __shared__ __half2 ks[KEYS][D / 2], vs[KEYS][D / 2];
    const int i = blockIdx.x * ROWS + threadIdx.x;
    const bool there = i < Sq;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    float qr[D], acc[D] = {}, top = -1e30f, sum = 0;
    for (int d = 0; d < D; ++d) qr[d] = there ? float(q[row + d]) * scale : 0.0f;
    const int visible = !there ? 0 : CAUSAL ? i + 1 + Sk - Sq : Sk;
    const int last = CAUSAL ? min(Sk, (int)blockIdx.x * ROWS + ROWS + Sk - Sq) : Sk;
    // Rows that see no key stay zero.
    const size_t rows = min((size_t)ROWS, (size_t)gridDim.y * Sq - (head * Sq + blockIdx.x * ROWS));
    for (int n = threadIdx.x; n < rows * D; n += ROWS) o[(head * Sq + blockIdx.x * ROWS) * D + n] = __float2half(0.0f);
    const __half2* kp = reinterpret_cast<const __half2*>(k + head * Sk * D);
    const __half2* vp = reinterpret_cast<const __half2*>(v + head * Sk * D);
    for (int first = 0; first < last; first += KEYS) {
        __syncthreads();
        for (int n = threadIdx.x; n < KEYS * (D / 2); n += ROWS) {
            const int j = n / (D / 2), c = n % (D / 2);
            const bool in = first + j < Sk;
            ks[j][c] = in ? kp[(size_t)(first + j) * (D / 2) + c] : __half2half2(__float2half(0.0f));
            vs[j][c] = in ? vp[(size_t)(first + j) * (D / 2) + c] : __half2half2(__float2half(0.0f));
        }
        __syncthreads();
        const int count = min(KEYS, visible - first);

        for (int j = 0; j < count; ++j) {
            float s = 0;
#pragma unroll
            for (int c = 0; c < D / 2; ++c) {
                const float2 x = __half22float2(ks[j][c]);
                s += qr[2 * c] * x.x + qr[2 * c + 1] * x.y;
            }
            if (!(s <= top)) {
                const float keep = __expf(top - s);
                for (int d = 0; d < D; ++d) acc[d] *= keep;
                sum *= keep, top = s;
            }
            const float w = __expf(s - top);
            sum += w;
#pragma unroll
            for (int c = 0; c < D / 2; ++c) {
                const float2 x = __half22float2(vs[j][c]);
                acc[2 * c] += w * x.x, acc[2 * c + 1] += w * x.y;
            }
        }
    }
    __syncthreads();
    if (there && visible > 0)
        for (int d = 0; d < D; ++d) o[row + d] = __float2half(acc[d] / sum);
}
