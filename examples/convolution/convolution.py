import numpy as np


def oracle(image, filter, W, F, rows):
    out = np.zeros((len(rows), W))
    for i in range(F):
        for j in range(F):
            out += image[rows + i, j : j + W] * filter[i, j]
    return out
