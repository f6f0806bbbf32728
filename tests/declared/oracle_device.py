"""Calls the oracle of a module, which is to be computed on a GPU. The argument is what optloop adds to the module's file."""

import sys
import types

import numpy
import torch

TEXT = """
def problem(sizes):
    class Model(torch.nn.Module):
        def forward(self, x):
            tried.append(device[0])
            if device[0] == "cuda:1" and fault:
                raise fault[0]
            return x * 2
    return Model, lambda: [torch.rand(sizes["n"])], list

SIZES, ARGUMENTS, STATES, OPTLOOP_DEVICE = ["n"], ["x"], {}, "cuda:1"
"""
tried, device, fault = [], ["cpu"], []


class OutOfMemoryError(RuntimeError):
    pass


def moved(tensor, where):
    device[0] = where
    return tensor


def back(tensor):
    device[0] = "cpu"
    return tensor


torch.Tensor.to, torch.Tensor.cpu = moved, back
torch.use_deterministic_algorithms = lambda _mode, warn_only: None
torch.backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(deterministic=False))
torch.cuda = types.SimpleNamespace(is_available=lambda: True, OutOfMemoryError=OutOfMemoryError, empty_cache=lambda: back(None))
names = {"torch": torch, "tried": tried, "device": device, "fault": fault}
exec(TEXT + open(sys.argv[1]).read(), names)


def call():
    """Returns where the module was called, and what is said of it."""
    tried.clear()
    result = names["oracle"](n=3, x=numpy.array([1.0, 2.0, 3.0]))
    assert result.numpy().tolist() == [2.0, 4.0, 6.0] and result.numpy().dtype == numpy.float64
    return tried[:], names["computed_on"]


assert call() == (["cuda:1"], "cuda:1"), call()
fault.append(OutOfMemoryError("tried to allocate"))
assert call() == (["cuda:1", "cpu"], "the CPU, because its tensors do not fit into the memory of cuda:1 in float64"), call()
fault[0] = NotImplementedError("not for 'Double'\nmore")
assert call() == (["cuda:1", "cpu"], "the CPU, because cuda:1 refuses it: not for 'Double'"), call()
fault.clear()
assert call() == (["cuda:1"], "cuda:1"), call()
torch.cuda.is_available = lambda: False
assert call() == (["cpu"], "the CPU, because PyTorch sees no CUDA device"), call()
print("ok")
