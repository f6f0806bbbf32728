"""Tunes a 2D convolution with Kernel Tuner."""

import numpy
from kernel_tuner import tune_kernel


def convolve(image, filter):
    rows, columns = image.shape[0] - filter.shape[0] + 1, image.shape[1] - filter.shape[1] + 1
    result = numpy.zeros((rows, columns))
    for i in range(filter.shape[0]):
        for j in range(filter.shape[1]):
            result += image[i:i + rows, j:j + columns] * filter[i, j]
    return result


def tune():
    height, width, filter_width = 256, 512, 9
    image = numpy.random.randn(height + filter_width - 1, width + filter_width - 1).astype(numpy.float32)
    weights = numpy.random.randn(filter_width, filter_width).astype(numpy.float32)
    output = numpy.zeros((height, width), dtype=numpy.float32)

    tune_params = {"filter_width": [filter_width]}
    tune_params["block_size_x"] = [16 * i for i in range(1, 9)]
    tune_params["block_size_y"] = [2**i for i in range(5)]
    tune_params["tile_size_x"] = [1, 2, 4]

    tune_kernel(
        "convolution",
        "convolution.cu",
        (width, height),
        [output, image, weights, numpy.int32(height), numpy.int32(width)],
        tune_params,
        grid_div_x=["block_size_x", "tile_size_x"],
        grid_div_y=["block_size_y"],
        restrictions=[lambda p: 32 <= p["block_size_x"] * p["block_size_y"] <= 1024, "tile_size_x <= block_size_x"],
        answer=[convolve(image, weights).astype(numpy.float32), None, None, None, None],
    )


tune()
