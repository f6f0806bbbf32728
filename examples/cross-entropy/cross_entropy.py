import numpy as np


def oracle(logits, labels):
    most = logits.max(axis=-1, keepdims=True)
    total = np.log(np.exp(logits - most).sum(axis=-1)) + most[:, 0]
    return total - logits[np.arange(len(labels)), labels]
