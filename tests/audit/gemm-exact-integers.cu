/*
about = "Exact sums: FP16 numbers are taken apart with integer operations and their products added in fixed point with 128 bits."
kind = "honest"
workload = "gemm-fp16"
constants = []
case = { M = 45, N = 67, K = 301 }
[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 32)", "ceil_div(M, 8)"]
block = ["32", "8"]
args = ["a", "b", "c", "M", "N", "K"]

[[constraint]]
expr = "M <= 8 * 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

// A product of two finite FP16 numbers is an integer of at most 80 bits times 2^-48, so 2^47 of them fit.
struct Fixed {
    unsigned long long low = 0, high = 0;
    __device__ void add(unsigned long long l, unsigned long long h) {
        asm("add.cc.u64 %0, %0, %2;\n\taddc.u64 %1, %1, %3;" : "+l"(low), "+l"(high) : "l"(l), "l"(h));
    }
    __device__ float value() const {
        unsigned long long l = low, h = high;
        const bool negative = h >> 63;
        if (negative) l = ~l + 1, h = ~h + (l == 0);
        const double x = ((double)h * 18446744073709551616.0 + (double)l) * 3.5527136788005009e-15;  // 2^-48
        return (float)(negative ? -x : x);
    }
};
// The magnitude is mantissa << shift, in units of 2^-24.
__device__ void take_apart(unsigned x, unsigned& mantissa, int& shift) {
    const unsigned exponent = x >> 10 & 31;
    mantissa = (x & 1023) | (exponent ? 1024 : 0);
    shift = exponent ? exponent - 1 : 0;
}
extern "C" __global__ void multiply(const unsigned short* a, const unsigned short* b, __half* c, int M, int N, int K) {
    const int y = blockIdx.y * 8 + threadIdx.y, x = blockIdx.x * 32 + threadIdx.x;
    if (y >= M || x >= N) return;
    Fixed sum;
    float special = 0;  // of products with an infinity or NaN
    bool any = false;
    for (int k = 0; k < K; ++k) {
        const unsigned p = __ldg(a + (size_t)y * K + k), r = __ldg(b + (size_t)k * N + x);
        if ((p & 0x7c00) == 0x7c00 || (r & 0x7c00) == 0x7c00) {
            special += __half2float(__ushort_as_half(p)) * __half2float(__ushort_as_half(r));
            any = true;
            continue;
        }
        unsigned mp, mr;
        int sp, sr;
        take_apart(p, mp, sp), take_apart(r, mr, sr);
        const unsigned long long product = (unsigned long long)mp * mr;  // 22 bits
        const int shift = sp + sr;                                       // at most 58
        unsigned long long low = product << shift, high = shift ? product >> (64 - shift) : 0;
        if ((p ^ r) & 0x8000) low = ~low + 1, high = ~high + (low == 0);
        sum.add(low, high);
    }
    c[(size_t)y * N + x] = __float2half(any ? special : sum.value());
}
