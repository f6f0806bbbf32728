// A 2D convolution, as Kernel Tuner tunes it: the parameters are #defines that the tuner adds.

#define BORDER (filter_width - 1)

extern "C" __global__ void convolution(float* output, const float* input, const float* filter, int height, int width) {
    const int x = (blockIdx.x * block_size_x + threadIdx.x) * tile_size_x;
    const int y = blockIdx.y * block_size_y + threadIdx.y;
    const int stride = width + BORDER;
    if (y >= height) return;
    float sums[tile_size_x] = {};
    for (int i = 0; i < filter_width; ++i)
        for (int j = 0; j < filter_width; ++j)
#pragma unroll
            for (int t = 0; t < tile_size_x; ++t)
                if (x + t < width) sums[t] += input[(y + i) * stride + x + t + j] * filter[i * filter_width + j];
#pragma unroll
    for (int t = 0; t < tile_size_x; ++t)
        if (x + t < width) output[y * width + x + t] = sums[t];
}
