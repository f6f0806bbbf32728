/*
about = "Limits the output to the largest number of FP16 before it is converted, to be safe against overflow."
kind = "broken"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Sq = 100, Sk = 100, D = 64, CAUSAL = 1 }
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
expr = "D <= 256"
why = "the kernel takes no other shapes"
*/
// Fails on: An infinity in V at a visible key: the output must be infinite, here it is 65504. A NaN in q:
// fminf(fmaxf(NaN, -65504), 65504) is -65504.

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
    if (there)
        for (int d = 0; d < D; ++d) o[row + d] = __float2half(fminf(fmaxf(acc[d] / sum, -65504.0f), 65504.0f));
}
