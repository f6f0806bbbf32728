// Convolution of an image with a filter of F x F in FP32. The image has a border of F - 1 rows and columns. A block keeps its part
// of the image and the filter in shared memory. A thread computes TY x TX neighbouring pixels in registers.
#define F 15     // rows and columns of the filter
#define BX 32    // threads of a block along a row
#define BY 4     // threads of a block along a column
#define TX 1     // pixels of a thread along a row
#define TY 1     // pixels of a thread along a column
#define PAD 0    // unused columns of the image in shared memory

constexpr int WIDTH = BX * TX + F - 1, HEIGHT = BY * TY + F - 1;

extern "C" __global__ void __launch_bounds__(BX * BY)
convolution(const float* __restrict__ image, const float* __restrict__ filter, float* __restrict__ out, int H, int W) {
    __shared__ float part[HEIGHT][WIDTH + PAD], weights[F * F];
    const int first_row = blockIdx.y * (BY * TY), first_column = blockIdx.x * (BX * TX);
    const int thread = threadIdx.y * BX + threadIdx.x, across = W + F - 1, down = H + F - 1;
    for (int i = thread; i < F * F; i += BX * BY) weights[i] = filter[i];
    for (int i = thread; i < HEIGHT * WIDTH; i += BX * BY) {
        const int row = first_row + i / WIDTH, column = first_column + i % WIDTH;
        part[i / WIDTH][i % WIDTH] = row < down && column < across ? image[(size_t)row * across + column] : 0.f;
    }
    __syncthreads();
    float sums[TY][TX] = {};
#pragma unroll 1
    for (int i = 0; i < F; ++i) {
#pragma unroll
        for (int j = 0; j < F; ++j) {
            const float weight = weights[i * F + j];
#pragma unroll
            for (int y = 0; y < TY; ++y)
#pragma unroll
                for (int x = 0; x < TX; ++x)
                    sums[y][x] = fmaf(part[threadIdx.y * TY + y + i][threadIdx.x + x * BX + j], weight, sums[y][x]);
        }
    }
#pragma unroll
    for (int y = 0; y < TY; ++y)
#pragma unroll
        for (int x = 0; x < TX; ++x) {
            const int row = first_row + threadIdx.y * TY + y, column = first_column + threadIdx.x + x * BX;
            if (row < H && column < W) out[(size_t)row * W + column] = sums[y][x];
        }
}
