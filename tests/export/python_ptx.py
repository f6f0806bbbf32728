"""Calls an exported Python package whose winner came as PTX. The argument is the folder of the export."""

import sys

from fake_driver import Tensor, package

small, fake = package(sys.argv[1], "small")
loaded = []
small.driver.load = loaded.append


def call(rows):
    """Returns whether there was a winner, and the grid of its launch."""
    tensors = [Tensor((rows, 64), "bfloat16"), Tensor((rows + 1,), "int32"), Tensor((rows, 64), "bfloat16"), Tensor((rows, 1), "bfloat16")]
    fake.launched.clear()
    found = small.launch(*tensors, MODE=2)
    return found, fake.grid if fake.launched else None


assert call(8) == (True, [8, 1, 1])
# Between the shapes on which it was checked, it is the same module.
assert call(12) == (True, [12, 1, 1])
assert call(17) == (False, None)
# The driver gets the text itself.
assert not fake.compiled and len(loaded) == 1 and loaded[0].startswith(b".version 8.3"), loaded
print("ok")
