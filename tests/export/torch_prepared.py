"""Calls an exported op whose winner prepares its weights. PyTorch is a stub (stubs/torch). The argument is the folder of the export."""

import sys

sys.path.insert(0, f"{__file__.rsplit('/', 1)[0]}/stubs")
import torch
from fake_driver import package

layer, fake = package(sys.argv[1], "layer")
layer.load()


def weight():
    return torch.Tensor((8, 8), torch.bfloat16)


def call(w):
    """Returns the kernels that a call launches, and the address of the packed weights."""
    fake.launched.clear()
    layer.layer(torch.Tensor((2, 8), torch.bfloat16), w)
    assert not torch.calls
    return [name for name, _, _ in fake.launched], fake.launched[-1][1][1]


ONCE, AGAIN = ["repack", "multiply"], ["multiply"]
first, second = weight(), weight()
kernels, packed = call(first)
assert kernels == ONCE
assert call(first) == (AGAIN, packed)
kernels, other = call(second)
assert kernels == ONCE and other != packed
assert call(first) == (AGAIN, packed)

# A weight that was changed in place is prepared again, where graphs look for it.
first._version += 1
assert call(first) == (ONCE, packed)
assert call(first) == (AGAIN, packed)

# A graph takes what is prepared, and prepares the rest itself at each replay.
third = weight()
torch.capturing = True
assert call(first) == (AGAIN, packed)
assert call(third)[0] == ONCE and call(third)[0] == ONCE
torch.capturing = False
assert call(third)[0] == ONCE and call(third)[0] == AGAIN

# Another weight at the address of one that is gone is another weight. What was prepared of weights that are gone is freed.
kept = next(iter(layer._prepared.values())).kept
assert len(kept) == 3
fourth = weight()
fourth.address = first.address
del first, second
assert call(fourth)[0] == ONCE and call(fourth)[0] == AGAIN
assert len(next(iter(layer._prepared.values())).kept) == 2
print("ok")
