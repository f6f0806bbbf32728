"""Calls an exported op that updates a tensor in place. PyTorch is a stub (stubs/torch). The argument is the export's folder."""

import sys

sys.path.insert(0, f"{__file__.rsplit('/', 1)[0]}/stubs")
import torch
from fake_driver import package

small, fake = package(sys.argv[1], "small")


def call(rows, change=lambda x: None):
    """Returns the tensor in place, what was returned, and what was copied and launched."""
    x, index = torch.Tensor((rows, 64), torch.bfloat16), torch.Tensor((rows + 1,), torch.int32)
    change(x)
    fake.launched.clear()
    torch.calls.clear()
    return x, small.small(index, x), list(torch.calls), list(fake.launched)


assert small._op.schema == "(Tensor index, Tensor(a0!) x, int MODE=2) -> (Tensor, Tensor)", small._op.schema

# A winner gets the address of the tensor itself, and the op returns only what it made.
small.load()
x, outputs, copied, launched = call(8)
assert not copied and launched[0][1][0] == x.address, (copied, launched)
assert torch.changed == [x], "autograd knows of the change"
assert [one.shape for one in outputs] == [(8, 64), (8, 1)] and outputs[0].address == launched[0][1][2]


def training(x):
    x.requires_grad = True


# PyTorch's result is copied into the tensor.
for rows, change in [(9, lambda x: None), (8, training)]:
    x, outputs, copied, launched = call(rows, change)
    assert copied == [f"copy to {x.address}"] and not launched, (copied, launched)
    assert [one.shape for one in outputs] == [(rows, 64), (rows, 1)]

# What torch.compile asks.
faked = small._op.fake(torch.Tensor((10,), torch.int32), torch.Tensor((9, 64), torch.bfloat16), 2)
assert [one.shape for one in faked] == [(9, 64), (9, 1)]
print("ok")
