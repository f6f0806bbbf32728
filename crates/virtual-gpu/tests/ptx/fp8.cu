// Matrix products of 8-bit floats: mma.sync of both depths, and wgmma with A from registers or shared memory. Every pair
// of formats, with f32 and f16 accumulators.
//
// A is M x K and B is 8 x K or 16 x K in global memory, K contiguous. D = A B^T + C, row by row; C is what D holds
// before. fp8.ptx is NVRTC 13.0's translation of this file with `--std=c++17 --use_fast_math
// --gpu-architecture=compute_90a`.

typedef unsigned char Byte;

__device__ inline unsigned word(const Byte* matrix, int row, int columns, int column) {
    return *(const unsigned*)(matrix + row * columns + column);
}

#define MMA32(types, d) \
    asm volatile("mma.sync.aligned.m16n8k32.row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA16(types, d) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col." types " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]))
#define HALF32(types, d) \
    asm volatile("mma.sync.aligned.m16n8k32.row.col." types " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};" \
                 : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define HALF16(types, d) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col." types " {%0,%1}, {%2,%3}, {%4}, {%0,%1};" \
                 : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(b[0]))

// One warp. The fragments lie as the PTX ISA draws them.
#define WARP_KERNEL(name, K, instruction, types)                                                                   \
    extern "C" __global__ void name(const Byte* from_a, const Byte* from_b, float* out) {                             \
        const int row = threadIdx.x / 4, four = threadIdx.x % 4 * 4, two = threadIdx.x % 4 * 2;                       \
        unsigned a[K / 8], b[K / 16];                                                                                 \
        for (int i = 0; i < K / 8; ++i) a[i] = word(from_a, row + i % 2 * 8, K, four + i / 2 * 16);                   \
        for (int i = 0; i < K / 16; ++i) b[i] = word(from_b, row, K, four + i * 16);                                  \
        float d[4];                                                                                                   \
        for (int i = 0; i < 4; ++i) d[i] = out[(row + i / 2 * 8) * 8 + two + i % 2];                                  \
        instruction(types, d);                                                                                        \
        for (int i = 0; i < 4; ++i) out[(row + i / 2 * 8) * 8 + two + i % 2] = d[i];                                  \
    }
#define HALF_KERNEL(name, K, instruction, types)                                                                   \
    extern "C" __global__ void name(const Byte* from_a, const Byte* from_b, unsigned* out) {                          \
        const int row = threadIdx.x / 4, four = threadIdx.x % 4 * 4;                                                  \
        unsigned a[K / 8], b[K / 16];                                                                                 \
        for (int i = 0; i < K / 8; ++i) a[i] = word(from_a, row + i % 2 * 8, K, four + i / 2 * 16);                   \
        for (int i = 0; i < K / 16; ++i) b[i] = word(from_b, row, K, four + i * 16);                                  \
        unsigned d[2] = {out[row * 4 + four / 4], out[(row + 8) * 4 + four / 4]};                                     \
        instruction(types, d);                                                                                        \
        out[row * 4 + four / 4] = d[0], out[(row + 8) * 4 + four / 4] = d[1];                                         \
    }
#define PAIR(a_type, b_type)                                                                                       \
    WARP_KERNEL(mma_k32_f32_##a_type##_##b_type, 32, MMA32, "f32." #a_type "." #b_type ".f32")                        \
    WARP_KERNEL(mma_k16_f32_##a_type##_##b_type, 16, MMA16, "f32." #a_type "." #b_type ".f32")                        \
    HALF_KERNEL(mma_k32_f16_##a_type##_##b_type, 32, HALF32, "f16." #a_type "." #b_type ".f16")                       \
    HALF_KERNEL(mma_k16_f16_##a_type##_##b_type, 16, HALF16, "f16." #a_type "." #b_type ".f16")                       \
    GROUP_KERNEL(wgmma_shared_##a_type##_##b_type, "f32." #a_type "." #b_type)                                     \
    REGISTER_KERNEL(wgmma_registers_##a_type##_##b_type, "f32." #a_type "." #b_type)                               \
    NARROW_KERNEL(wgmma_f16_##a_type##_##b_type, "f16." #a_type "." #b_type)

// A warpgroup: 64 x 32 and 16 x 32 bytes in shared memory with a swizzle of 32 bytes.
__device__ inline void place(Byte* to, const Byte* from, int rows) {
    for (int i = threadIdx.x; i < rows * 8; i += 128) {
        const int at = i * 4;
        *(unsigned*)(to + (at ^ (at >> 7 & 1) << 4)) = *(const unsigned*)(from + at);
    }
}
__device__ inline unsigned long long descriptor(const Byte* shared) {
    return (unsigned long long)((unsigned)__cvta_generic_to_shared(shared) >> 4) | (256ull >> 4) << 32 | 3ull << 62;
}
#define GROUP_START                                                            \
    __shared__ __align__(256) Byte a[64 * 32], b[16 * 32];                     \
    place(a, from_a, 64);                                                      \
    place(b, from_b, 16);                                                      \
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, four = threadIdx.x % 4 * 4; \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");               \
    __syncthreads();                                                           \
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define GROUP_END asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory")

#define GROUP_KERNEL_OF(name, types, operands, ...)                                                                 \
    extern "C" __global__ void __launch_bounds__(128) name(const Byte* from_a, const Byte* from_b, float* out) {       \
        GROUP_START;                                                                                                   \
        float d[8];                                                                                                    \
        for (int i = 0; i < 8; ++i) d[i] = out[(row + i / 2 % 2 * 8) * 16 + i / 4 * 8 + four / 2 + i % 2];             \
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"                                                    \
                     "wgmma.mma_async.sync.aligned.m64n16k32." types " {%0,%1,%2,%3,%4,%5,%6,%7}, " operands ";\n}"    \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])  \
                     : __VA_ARGS__);                                                                                   \
        GROUP_END;                                                                                                     \
        for (int i = 0; i < 8; ++i) out[(row + i / 2 % 2 * 8) * 16 + i / 4 * 8 + four / 2 + i % 2] = d[i];             \
    }
#define A_WORD(i) "r"(word(from_a, row + i % 2 * 8, 32, four + i / 2 * 16))
// B is negated.
#define GROUP_KERNEL(name, types) \
    GROUP_KERNEL_OF(name, types, "%8, %9, add, 1, -1", "l"(descriptor(a)), "l"(descriptor(b)))
// A is negated.
#define REGISTER_KERNEL(name, types) \
    GROUP_KERNEL_OF(name, types, "{%8,%9,%10,%11}, %12, add, -1, 1", A_WORD(0), A_WORD(1), A_WORD(2), A_WORD(3), "l"(descriptor(b)))
// D is not read: scale-d is false.
#define NARROW_KERNEL(name, types)                                                                                  \
    extern "C" __global__ void __launch_bounds__(128) name(const Byte* from_a, const Byte* from_b, unsigned* out) {    \
        GROUP_START;                                                                                                   \
        unsigned d[4] = {};                                                                                            \
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"                                                    \
                     "wgmma.mma_async.sync.aligned.m64n16k32." types " {%0,%1,%2,%3}, %4, %5, add, 1, 1;\n}"           \
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "l"(descriptor(a)), "l"(descriptor(b)));       \
        GROUP_END;                                                                                                     \
        for (int i = 0; i < 4; ++i) out[((row + i % 2 * 8) * 16 + i / 2 * 8 + four / 2) / 2] = d[i];                   \
    }

PAIR(e4m3, e4m3)
PAIR(e4m3, e5m2)
PAIR(e5m2, e4m3)
PAIR(e5m2, e5m2)
