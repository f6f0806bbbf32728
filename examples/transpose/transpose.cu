// Transpose of a matrix in FP32. A block moves a tile through shared memory, so that rows are read and written in order.
#define TILE 32        // rows and columns of a tile
#define ROWS 8         // rows of threads of a block
#define PAD 0          // unused columns of the tile in shared memory: one avoids bank conflicts
#define STREAMING 0    // do not keep what is read and written in caches
#define SWAPPED 0      // go through the tiles column by column

extern "C" __global__ void __launch_bounds__(TILE * ROWS)
transpose(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
    __shared__ float tile[TILE][TILE + PAD];
    const int bx = SWAPPED ? blockIdx.y : blockIdx.x, by = SWAPPED ? blockIdx.x : blockIdx.y;
    const int column = bx * TILE + threadIdx.x, row = by * TILE + threadIdx.y;
#pragma unroll
    for (int i = 0; i < TILE; i += ROWS)
        if (row + i < R && column < C) {
            const float* from = x + (size_t)(row + i) * C + column;
            tile[threadIdx.y + i][threadIdx.x] = STREAMING ? __ldcs(from) : *from;
        }
    __syncthreads();
    const int to_column = by * TILE + threadIdx.x, to_row = bx * TILE + threadIdx.y;
#pragma unroll
    for (int i = 0; i < TILE; i += ROWS)
        if (to_row + i < C && to_column < R) {
            float* to = y + (size_t)(to_row + i) * R + to_column;
            const float value = tile[threadIdx.x][threadIdx.y + i];
            if (STREAMING) __stcs(to, value);
            else *to = value;
        }
}
