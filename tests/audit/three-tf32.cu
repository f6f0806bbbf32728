/*
about = "FP32 scores on tensor cores: each number is split into two of TF32, and three of the four products are added outside."
kind = "honest"
workload = "attention-fp32-large-d"
case = { B = 1, H = 3, Sq = 50, Sk = 77, D = 128, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 16)", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D % 8 == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 128"
why = "the kernel takes no other shapes"
*/
constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int PART = (D + 31) / 32;

// What TF32 holds of x, by truncation (which cannot overflow), and of the rest. Together 22 bits.
__device__ void split(float x, unsigned& high, unsigned& low, bool& tiny) {
    high = __float_as_uint(x) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high)) & 0xffffe000u;
    tiny |= x != 0.0f && fabsf(x) < 1e-30f;  // the rest might be subnormal, which TF32 units may not know
}
// 16 x 8 from 16 x 8 (rows) and 8 x 8 (columns), beginning with zero: the units truncate what they add up, so long sums
// are made outside.
__device__ void product(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}
extern "C" __global__ void __launch_bounds__(32)
    attend(const float* q, const float* k, const float* v, float* o, int Sq, int Sk, float scale) {
    __shared__ float weights[16][8], keeps[16], sums[16];
    const int lane = threadIdx.x, g = lane / 4, t = lane % 4, first_row = blockIdx.x * 16;
    const size_t head = blockIdx.y;
    q += head * Sq * D, o += head * Sq * D, k += head * Sk * D, v += head * Sk * D;
    const float none = __int_as_float(0xff800000);
    const int row[2] = {min(first_row + g, Sq - 1),
                        min(first_row + g + 8, Sq - 1)};  // rows beyond the end repeat the last one
    float acc[16][PART] = {}, top[2] = {none, none}, sum[2] = {};
    const int end = CAUSAL ? min(first_row + 16 + Sk - Sq, Sk) : Sk;
    for (int first = 0; first < end; first += 8) {
        float s[4] = {};
        bool tiny_row[2] = {}, tiny_key = false;  // of rows g and g + 8, and of key g
        for (int x = 0; x < D; x += 8) {
            unsigned ah[4], al[4], bh[2], bl[2];
            for (int e = 0; e < 4; ++e)
                split(q[(size_t)row[e % 2] * D + x + t + e / 2 * 4], ah[e], al[e], tiny_row[e % 2]);
            for (int e = 0; e < 2; ++e)
                split(first + g < Sk ? k[(size_t)(first + g) * D + x + t + e * 4] : 0.0f, bh[e], bl[e], tiny_key);
            float p0[4], p1[4], p2[4];
            product(p0, al, bh), product(p1, ah, bl), product(p2, ah, bh);
            for (int e = 0; e < 4; ++e) s[e] += (p0[e] + p1[e]) + p2[e];
        }
        // Where a row or a key has such a number, the plain way. Each score depends on its own row and key only.
        const unsigned upper = __ballot_sync(~0u, tiny_row[0]), lower = __ballot_sync(~0u, tiny_row[1]),
                       keys = __ballot_sync(~0u, tiny_key);
        for (int e = 0; e < 4; ++e) {
            const int j = first + 2 * t + e % 2;
            const bool tiny = ((e < 2 ? upper : lower) >> (g * 4) & 15) || (keys >> ((2 * t + e % 2) * 4) & 15);
            if (!tiny || j >= Sk) continue;
            s[e] = 0;
            for (int d = 0; d < D; ++d) s[e] = fmaf(q[(size_t)row[e / 2] * D + d], k[(size_t)j * D + d], s[e]);
        }
        for (int half = 0; half < 2; ++half) {
            const int last = CAUSAL ? min(row[half] + Sk - Sq, Sk - 1) : Sk - 1;
            float higher = top[half];
            for (int e = 0; e < 2; ++e) {
                float& x = s[half * 2 + e];
                x = first + 2 * t + e <= last ? __fmul_rn(x, scale) : none;
                higher = fmaxf(higher, x);
            }
            higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 1));
            higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 2));
            const float base = higher == none ? 0.0f : higher, keep = expf(top[half] - base);
            const float w0 = expf(s[half * 2] - base), w1 = expf(s[half * 2 + 1] - base);
            sum[half] = sum[half] * keep + (w0 + w1), top[half] = higher;
            weights[g + half * 8][2 * t] = w0, weights[g + half * 8][2 * t + 1] = w1;
            if (t == 0) keeps[g + half * 8] = keep;
        }
        __syncwarp();
        const int count = min(8, end - first);
        for (int n = 0; n < PART; ++n) {
            const int d = n * 32 + lane;
            if (d >= D) break;
            for (int r = 0; r < 16; ++r) acc[r][n] *= keeps[r];
            for (int j = 0; j < count; ++j) {
                const float value = v[(size_t)(first + j) * D + d];
                for (int r = 0; r < 16; ++r) acc[r][n] = fmaf(weights[r][j], value, acc[r][n]);
            }
        }
        __syncwarp();
    }
    for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(~0u, sum[half], 1);
        sum[half] += __shfl_xor_sync(~0u, sum[half], 2);
        if (t == 0) sums[g + half * 8] = sum[half];
    }
    __syncwarp();
    for (int r = 0; r < 16; ++r)
        for (int n = 0; n < PART; ++n)
            if (first_row + r < Sq && n * 32 + lane < D)
                o[(size_t)(first_row + r) * D + n * 32 + lane] = acc[r][n] / sums[r];
}
