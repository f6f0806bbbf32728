// A tiled matrix product. The tuner defines block_size_x, block_size_y and tile_size_y.

extern "C" __global__ void matmul(float* c, const float* a, const float* b, int m, int n, int k) {
    __shared__ float part_a[block_size_y * tile_size_y][block_size_x];
    __shared__ float part_b[block_size_x][block_size_x];
    const int column = blockIdx.x * block_size_x + threadIdx.x;
    const int first = blockIdx.y * block_size_y * tile_size_y + threadIdx.y;
    float sums[tile_size_y] = {};
    for (int from = 0; from < k; from += block_size_x) {
        const int left = from + threadIdx.x;
#pragma unroll
        for (int t = 0; t < tile_size_y; ++t) {
            const int row = first + t * block_size_y;
            part_a[threadIdx.y + t * block_size_y][threadIdx.x] = row < m && left < k ? a[(size_t)row * k + left] : 0.f;
        }
        for (int row = threadIdx.y; row < block_size_x; row += block_size_y)
            part_b[row][threadIdx.x] = from + row < k && column < n ? b[(size_t)(from + row) * n + column] : 0.f;
        __syncthreads();
        for (int i = 0; i < block_size_x; ++i)
#pragma unroll
            for (int t = 0; t < tile_size_y; ++t)
                sums[t] += part_a[threadIdx.y + t * block_size_y][i] * part_b[i][threadIdx.x];
        __syncthreads();
    }
#pragma unroll
    for (int t = 0; t < tile_size_y; ++t) {
        const int row = first + t * block_size_y;
        if (row < m && column < n) c[(size_t)row * n + column] = sums[t];
    }
}
