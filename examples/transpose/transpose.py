def oracle(x, rows):
    return x[:, rows].T
