// Products of tiles by nvcuda::wmma, in shapes and layouts that differ. wmma.ptx is NVRTC 13.0's translation of this file with
// `--std=c++17 --use_fast_math --gpu-architecture=sm_90a`.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda::wmma;

// D = A B + C. A, B and C are packed, by rows or by columns.
#define PRODUCT(name, T, memory, S, M, N, K, a_layout, b_layout, c_layout)                                                      \
    extern "C" __global__ void name(const memory* a, const memory* b, const S* c, S* d) {                                       \
        fragment<matrix_a, M, N, K, T, a_layout##_major> left;                                                                  \
        fragment<matrix_b, M, N, K, T, b_layout##_major> right;                                                                 \
        fragment<accumulator, M, N, K, S> sums;                                                                                 \
        load_matrix_sync(left, a, #a_layout[0] == 'r' ? K : M);                                                                \
        load_matrix_sync(right, b, #b_layout[0] == 'r' ? N : K);                                                                \
        load_matrix_sync(sums, c, #c_layout[0] == 'r' ? N : M, mem_##c_layout##_major);                                         \
        mma_sync(sums, left, right, sums);                                                                                      \
        store_matrix_sync(d, sums, #c_layout[0] == 'r' ? N : M, mem_##c_layout##_major);                                        \
    }

PRODUCT(half_square, half, half, float, 16, 16, 16, row, row, row)
PRODUCT(half_tall, half, half, half, 32, 8, 16, col, col, col)
PRODUCT(half_flat, half, half, half, 8, 32, 16, row, row, row)
PRODUCT(bfloat_flat, __nv_bfloat16, __nv_bfloat16, float, 8, 32, 16, col, row, col)
PRODUCT(bytes_tall, signed char, signed char, int, 32, 8, 16, col, row, row)
PRODUCT(bytes_flat, unsigned char, unsigned char, int, 8, 32, 16, row, col, col)
PRODUCT(double_square, double, double, double, 8, 8, 4, col, row, col)
PRODUCT(tf32_square, precision::tf32, float, float, 16, 16, 8, row, col, row)

// Four-bit integers, as PTX gives them: an mma.sync with 16 rows of A, and a wmma.
extern "C" __global__ void nibbles(const int* a, const int* b, int* d) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    int x[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3])
                 : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]), "r"(a[g * 8 + t + 4]), "r"(a[(g + 8) * 8 + t + 4]),
                   "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]));
    for (int j = 0; j < 4; j++) d[(g + 8 * (j / 2)) * 8 + 2 * t + j % 2] = x[j];
}

extern "C" __global__ void nibble_tile(const int* a, const int* b, int* d) {
    fragment<matrix_a, 8, 8, 32, experimental::precision::s4, row_major> left;
    fragment<matrix_b, 8, 8, 32, experimental::precision::s4, col_major> right;
    fragment<accumulator, 8, 8, 32, int> sums;
    fill_fragment(sums, 0);
    load_matrix_sync(left, a, 32);
    load_matrix_sync(right, b, 32);
    mma_sync(sums, left, right, sums);
    store_matrix_sync(d, sums, 8, mem_row_major);
}
