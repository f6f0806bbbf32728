"""Calls an exported Python package whose winner prepares its weights. The argument is the folder of the export."""

import sys

from fake_driver import Tensor, package

layer, fake = package(sys.argv[1], "layer")
x, w, y = (Tensor(shape, "bfloat16") for shape in ((2, 8), (8, 8), (2, 8)))


def launched(call):
    """Returns the kernels that a call launches, and the address of the packed weights."""
    fake.launched.clear()
    assert call() is not False
    return [name for name, _, _ in fake.launched], fake.launched[-1][1][1]


# Without a preparation of its caller, each launch has its own, in its workspace.
assert launched(lambda: layer.launch(x, w, y)) == (["repack", "multiply"], (1 << 30) + 256)
assert launched(lambda: layer.launch(x, w, y)) == (["repack", "multiply"], (1 << 30) + 256)

winner = layer.find(M=2, N=8, K=8)
addresses = {"x": x.data_ptr(), "w": w.data_ptr(), "y": y.data_ptr()}
assert (winner.workspace_bytes, winner.prepared_bytes) == (512, 256)
winner.prepare(addresses, 7 << 20, 0)
del addresses["w"]
assert launched(lambda: winner.launch_with(addresses, 8 << 20, prepared=7 << 20)) == (["multiply"], 7 << 20)
print("ok")
