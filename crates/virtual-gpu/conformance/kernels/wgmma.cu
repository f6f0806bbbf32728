// wgmma with every layout that a kernel of this project may use: without swizzle and with 32, 64 and 128 bytes of it, A
// from registers, B with N contiguous, f16 and f32 accumulators, f16 and bf16 inputs, N of 8 to 128.
//
// A is 64 x K and B is N x K in global memory, K contiguous; D = A B^T, 64 x N, row by row. 128 threads.
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void __launch_bounds__(128)

__device__ inline unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// The descriptor of a matrix in shared memory: start, the two strides, and the swizzle (0 none, 1: 128, 2: 64, 3: 32).
__device__ inline unsigned long long descriptor(unsigned start, unsigned leading, unsigned stride, unsigned swizzle) {
    return (unsigned long long)((start & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(stride >> 4) << 32 | (unsigned long long)swizzle << 62;
}

// Copies a matrix of `rows` x (row_bytes / 2) into shared memory in the layout that a swizzle of row_bytes expects.
__device__ inline void place(unsigned char* to, const unsigned short* from, int rows, int row_bytes) {
    const unsigned mask = row_bytes / 16 - 1;
    for (int i = threadIdx.x; i < rows * row_bytes / 2; i += 128) {
        const unsigned linear = i * 2;
        const unsigned at = linear ^ ((linear >> 7 & mask) << 4);
        *(unsigned short*)(to + at) = from[i];
    }
}

// Copies a matrix of `rows` x 16 as core matrices of 8 rows x 16 bytes: those of the first 8 columns, then the others.
__device__ inline void place_plain(unsigned char* to, const unsigned short* from, int rows) {
    for (int i = threadIdx.x; i < rows * 16; i += 128) {
        const int row = i / 16, column = i % 16;
        *(unsigned short*)(to + (column / 8) * rows * 16 + row * 16 + column % 8 * 2) = from[i];
    }
}

__device__ inline void begin() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void end() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

template <int N>
__device__ inline void store(float* out, const float (&d)[N / 2]) {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < N / 2; ++i) out[(row + i / 2 % 2 * 8) * N + i / 4 * 8 + column + i % 2] = d[i];
}

#define F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F16(d, i) F4(d, i), F4(d, i + 4), F4(d, i + 8), F4(d, i + 12)
#define R8(a, b, c, d, e, f, g, h) "%" #a ",%" #b ",%" #c ",%" #d ",%" #e ",%" #f ",%" #g ",%" #h ","
#define D32                                                                                                 \
    R8(0, 1, 2, 3, 4, 5, 6, 7) R8(8, 9, 10, 11, 12, 13, 14, 15) R8(16, 17, 18, 19, 20, 21, 22, 23)           \
    "%24,%25,%26,%27,%28,%29,%30,%31"

// D (64 x 64) += A B with both from shared memory.
#define WGMMA64(types, trans_b)                                                                             \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                                \
                 "wgmma.mma_async.sync.aligned.m64n64k16." types " {" D32 "}, %32, %33, p, 1, 1, 0, " trans_b ";\n}" \
                 : F16(d, 0), F16(d, 16) : "l"(a), "l"(b), "r"(accumulate))

KERNEL plain(const unsigned short* ga, const unsigned short* gb, float* out) {
    __shared__ __align__(1024) unsigned char sa[64 * 32], sb[64 * 32];
    place_plain(sa, ga, 64);
    place_plain(sb, gb, 64);
    begin();
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 99;
    const unsigned long long a = descriptor(shared_address(sa), 1024, 128, 0), b = descriptor(shared_address(sb), 1024, 128, 0);
    const int accumulate = 0;
    WGMMA64("f32.f16.f16", "0");
    end();
    store<64>(out, d);
}

template <int ROW_BYTES>
__device__ inline void swizzled(const unsigned short* ga, const unsigned short* gb, float* out, unsigned char* sa, unsigned char* sb) {
    place(sa, ga, 64, ROW_BYTES);
    place(sb, gb, 64, ROW_BYTES);
    begin();
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = i;
    constexpr unsigned SWIZZLE = ROW_BYTES == 128 ? 1 : ROW_BYTES == 64 ? 2 : 3;
#pragma unroll
    for (int k = 0; k < ROW_BYTES / 32; ++k) {
        const unsigned long long a = descriptor(shared_address(sa) + k * 32, 16, ROW_BYTES * 8, SWIZZLE);
        const unsigned long long b = descriptor(shared_address(sb) + k * 32, 16, ROW_BYTES * 8, SWIZZLE);
        const int accumulate = 1;
        WGMMA64("f32.f16.f16", "0");
    }
    end();
    store<64>(out, d);
}
#define SWIZZLED(n)                                                                             \
    KERNEL swizzle##n(const unsigned short* ga, const unsigned short* gb, float* out) {          \
        __shared__ __align__(1024) unsigned char sa[64 * n], sb[64 * n];                         \
        swizzled<n>(ga, gb, out, sa, sb);                                                        \
    }
SWIZZLED(32)
SWIZZLED(64)
SWIZZLED(128)

// B given as K x N with N contiguous, as the values of attention are: 64 keys x 64 columns, 128 bytes of swizzle.
KERNEL transposed(const unsigned short* ga, const unsigned short* gb, float* out) {
    __shared__ __align__(1024) unsigned char sa[64 * 128], sb[64 * 128];
    place(sa, ga, 64, 128);
    place(sb, gb, 64, 128);
    begin();
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const unsigned long long a = descriptor(shared_address(sa) + k * 32, 16, 1024, 1);
        // 16 keys are two groups of 8 rows, 1024 bytes apart; there is one group of columns only.
        const unsigned long long b = descriptor(shared_address(sb) + k * 2048, 1024, 1024, 1);
        const int accumulate = k != 0;
        WGMMA64("f32.f16.f16", "1");
    }
    end();
    store<64>(out, d);
}

KERNEL brain(const unsigned short* ga, const unsigned short* gb, float* out) {
    __shared__ __align__(1024) unsigned char sa[64 * 32], sb[64 * 32];
    place_plain(sa, ga, 64);
    place_plain(sb, gb, 64);
    begin();
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0.25f;
    const unsigned long long a = descriptor(shared_address(sa), 1024, 128, 0), b = descriptor(shared_address(sb), 1024, 128, 0);
    const int accumulate = 1;
    WGMMA64("f32.bf16.bf16", "0");
    end();
    store<64>(out, d);
}

// A from registers, as the probabilities of attention are.
KERNEL registers(const unsigned* ga, const unsigned short* gb, float* out) {
    __shared__ __align__(1024) unsigned char sb[64 * 128];
    place(sb, gb, 64, 128);
    begin();
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0;
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, pair = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const unsigned* from = ga + k * 8 + pair;  // 32 words of two halves a row
        const unsigned a0 = from[row * 32], a1 = from[(row + 8) * 32], a2 = from[row * 32 + 4], a3 = from[(row + 8) * 32 + 4];
        const unsigned long long b = descriptor(shared_address(sb) + k * 32, 16, 1024, 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" D32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;\n}"
                     : F16(d, 0), F16(d, 16) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(1));
        end();
    }
    store<64>(out, d);
}

// The narrowest N, negated A.
KERNEL narrow(const unsigned short* ga, const unsigned short* gb, float* out) {
    __shared__ __align__(1024) unsigned char sa[64 * 32], sb[8 * 32];
    place_plain(sa, ga, 64);
    place_plain(sb, gb, 8);
    begin();
    float d[4] = {1, 2, 3, 4};
    const unsigned long long a = descriptor(shared_address(sa), 1024, 128, 0), b = descriptor(shared_address(sb), 128, 128, 0);
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, -1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
    end();
    store<8>(out, d);
}

// f16 accumulators: two to a register.
KERNEL half_sum(const unsigned short* ga, const unsigned short* gb, unsigned* out) {
    __shared__ __align__(1024) unsigned char sa[64 * 32], sb[16 * 32];
    place_plain(sa, ga, 64);
    place_plain(sb, gb, 16);
    begin();
    unsigned d[4] = {0x3c003c00, 0x3c004000, 0, 0x80008000};
    const unsigned long long a = descriptor(shared_address(sa), 1024, 128, 0), b = descriptor(shared_address(sb), 256, 128, 0);
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "l"(a), "l"(b));
    end();
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
