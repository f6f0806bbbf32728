def oracle(a, b, scale_a, scale_b):
    return a @ b.T * (scale_a[0] * scale_b[0])
