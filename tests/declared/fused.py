import numpy as np


def oracle(x, residual, w, eps):
    s = x + residual
    return s / np.sqrt((s * s).mean(axis=-1, keepdims=True) + eps) * w, s
