"""As much of PyTorch as an exported package uses, with tensors that are addresses and shapes."""

import contextlib
import sys
import types
import weakref
from collections import namedtuple
from math import prod

calls = []
capturing, stream, zeroed = False, 0, 0
float16, bfloat16, float32, float64, float8_e4m3fn, float8_e5m2, int8, uint8, int32, uint32, int64, bool = (
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int32", "uint32", "int64", "bool")


def dense(shape):
    return tuple(prod(shape[axis + 1:]) for axis in range(len(shape)))


Device = namedtuple("Device", "index")


def device(_, index):
    return Device(index)


class Tensor:
    made = 0

    def __init__(self, shape, dtype=float16):
        Tensor.made += 1
        self.shape, self.dtype = tuple(shape), dtype
        self.address, self.is_cuda, self.requires_grad = Tensor.made << 20, True, False
        self.strides = dense(self.shape)
        self.device = Device(0)
        self.number, self._version = Tensor.made, 0

    def data_ptr(self):
        return self.address

    def is_contiguous(self):
        return self.strides == dense(self.shape)

    def stride(self):
        return self.strides

    def dim(self):
        return len(self.shape)

    def transpose(self, a, b):
        """Exchanges two axes. It is another tensor with the same memory."""
        axes = list(range(len(self.shape)))
        axes[a], axes[b] = axes[b], axes[a]
        other = Tensor([self.shape[axis] for axis in axes], self.dtype)
        other.strides, other.address = tuple(self.strides[axis] for axis in axes), self.address
        return other

    def contiguous(self):
        return self

    def untyped_storage(self):
        return self

    @property
    def _cdata(self):
        return self.number

    def is_inference(self):
        return False

    def clone(self):
        return Tensor(self.shape, self.dtype)

    def reshape(self, shape):
        assert prod(shape) == prod(self.shape), (shape, self.shape)
        self.shape, self.strides = tuple(shape), dense(shape)
        return self

    def copy_(self, other):
        assert other.shape == self.shape, (other.shape, self.shape)
        calls.append(f"copy to {self.address}")
        return self

    def __mul__(self, factor):
        return Tensor(self.shape, self.dtype)

    def __getitem__(self, places):
        """A column, `[:, 0]`, which shares its memory."""
        column = Tensor([self.shape[0]], self.dtype)
        column.address = self.address
        return column

    def tril(self, diagonal):
        calls.append(f"tril {diagonal}")
        return self


def empty(shape, dtype=float16, device=None):
    return Tensor([shape] if isinstance(shape, int) else shape, dtype)


def ones(*shape, dtype, device):
    return Tensor(shape, dtype)


def zeros(size, dtype, device):
    global zeroed
    zeroed += 1
    return Tensor([size], dtype)


def empty_like(tensor, device=None):
    """Makes a tensor whose axes lie in memory in the same order."""
    order = sorted(range(len(tensor.shape)), key=lambda axis: -tensor.strides[axis])
    made, step = Tensor(tensor.shape, tensor.dtype), 1
    strides = {}
    for axis in reversed(order):
        strides[axis], step = step, step * tensor.shape[axis]
    made.strides = tuple(strides[axis] for axis in range(len(order)))
    return made


def is_grad_enabled():
    return True


class Library:
    def __init__(self, name, kind):
        self.name = name

    def define(self, schema, tags):
        name, arguments = schema.split("(", 1)
        op = types.SimpleNamespace(default=Op(f"{self.name}::{name}", "(" + arguments))
        setattr(ops, self.name, types.SimpleNamespace(**{name: op}))

    def impl(self, name, function, key):
        getattr(getattr(ops, self.name), name).default.function = function


class Op:
    def __init__(self, name, schema):
        self.name, self.schema = name, schema

    def __call__(self, *arguments):
        return self.function(*arguments)


def register_fake(name, function, lib):
    getattr(getattr(ops, lib.name), name.split("::")[1]).default.fake = function


Tag, ops = types.SimpleNamespace(pt2_compliant_tag=None), types.SimpleNamespace()
library = types.SimpleNamespace(Library=Library, register_fake=register_fake)
changed = []
autograd = types.SimpleNamespace(graph=types.SimpleNamespace(increment_version=changed.append))
cuda = types.SimpleNamespace(
    device=lambda _: contextlib.nullcontext(),
    current_device=lambda: 0,
    current_stream=lambda device: types.SimpleNamespace(synchronize=lambda: None),
    is_current_stream_capturing=lambda: capturing,
)


_C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: stream)
compiler = types.SimpleNamespace(is_compiling=lambda: False)


def scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    calls.append("sdpa masked" if attn_mask is not None else "sdpa causal" if is_causal else "sdpa")
    return Tensor(q.shape, q.dtype)


class StorageWeakRef:
    def __init__(self, storage):
        self.cdata, self.storage = storage._cdata, weakref.ref(storage)

    def expired(self):
        return self.storage() is None


reductions = types.ModuleType("torch.multiprocessing.reductions")
reductions.StorageWeakRef = StorageWeakRef
sys.modules["torch.multiprocessing"], sys.modules["torch.multiprocessing.reductions"] = types.ModuleType("torch.multiprocessing"), reductions

functional = types.ModuleType("torch.nn.functional")
functional.scaled_dot_product_attention = scaled_dot_product_attention
nn = types.ModuleType("torch.nn")
nn.functional = functional
sys.modules["torch.nn"], sys.modules["torch.nn.functional"] = nn, functional
