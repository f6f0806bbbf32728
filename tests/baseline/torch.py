"""As much of PyTorch as the program for expressions uses, with tensors that are bytes. Every replay takes a millisecond."""

import contextlib
import struct
import types
from math import prod

__version__ = "0.0-fake"


class Dtype:
    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize

    def __repr__(self):
        return f"torch.{self.name}"


float16, bfloat16, float32, float64 = Dtype("float16", 2), Dtype("bfloat16", 2), Dtype("float32", 4), Dtype("float64", 8)
float8_e4m3fn, float8_e5m2, int8, uint8 = (Dtype(name, 1) for name in ("float8_e4m3fn", "float8_e5m2", "int8", "uint8"))
int32, int64, bool = Dtype("int32", 4), Dtype("int64", 8), Dtype("bool", 1)


class Tensor:
    def __init__(self, data, dtype, shape, path=None):
        self.data, self.dtype, self.shape, self.path = data, dtype, list(shape), path

    @property
    def nbytes(self):
        return len(self.data)

    def numel(self):
        return prod(self.shape)

    def view(self, dtype):
        *outer, last = self.shape
        return Tensor(self.data, dtype, [*outer, last * self.dtype.itemsize // dtype.itemsize], self.path)

    def reshape(self, shape):
        return Tensor(self.data, self.dtype, [self.numel()] if shape == -1 else shape, self.path)

    def fill_(self, byte):
        self.data[:] = bytes([byte]) * len(self.data)
        return self

    def __eq__(self, byte):
        return Tensor(bytearray(value == byte for value in self.data), bool, self.shape)

    def all(self):
        return all(self.data)

    def flatten(self):
        return self.reshape([self.numel()])

    def contiguous(self):
        return self

    def to(self, _device):
        return self

    def data_ptr(self):
        return id(self.data)

    def untyped_storage(self):
        return self

    def as_subclass(self, kind):
        return kind(self.data, self.dtype, self.shape)

    def clone(self):
        return made(lambda: self.data, self)

    def copy_(self, other):
        self.data[:] = other.data
        if self.path is not None:
            with open(self.path, "wb") as file:
                file.write(self.data)
        return self

    def __mul__(self, factor):
        form = f"<{self.numel()}e"
        return made(lambda: struct.pack(form, *(value * factor for value in struct.unpack(form, self.data))), self)

    def __matmul__(self, _other):
        return self


def made(compute, like):
    """Makes a tensor. A graph captures what its own stream computes."""
    tensor = Tensor(bytearray(compute()), like.dtype, like.shape)
    if capturing and not streams:
        capturing[-1].computed.append((tensor, compute))
    return tensor


def empty(size, device, dtype):
    return Tensor(bytearray(size), dtype, [size])


def ones(shape, device, dtype):
    return Tensor(bytearray(), dtype, shape)


def from_file(path, size, dtype, shared=False):
    if shared:
        return Tensor(bytearray(size), dtype, [size], path)
    with open(path, "rb") as file:
        return Tensor(bytearray(file.read()), dtype, [size])


def cat(tensors):
    data = bytearray().join(tensor.data for tensor in tensors)
    return Tensor(data, uint8, [len(data)])


def equal(one, other):
    return one.data == other.data


def compile(function, dynamic):
    return function


@contextlib.contextmanager
def nothing(*_arguments):
    yield


no_grad = nothing


class Event:
    def __init__(self, enable_timing):
        pass

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, _end):
        return 1.0


capturing = []
streams = []


class Graph:
    def __init__(self):
        self.computed = []

    def replay(self):
        for tensor, compute in self.computed:
            tensor.data[:] = compute()


@contextlib.contextmanager
def stream(one):
    streams.append(one)
    try:
        yield
    finally:
        streams.pop()


@contextlib.contextmanager
def graph(captured):
    capturing.append(captured)
    try:
        yield
    finally:
        capturing.pop()


def synchronize():
    if capturing:
        raise RuntimeError("operation not permitted when stream is capturing")


class Size(tuple):
    def numel(self):
        return prod(self)


class Stream:
    def wait_stream(self, _other):
        pass


cuda = types.SimpleNamespace(
    Event=Event,
    CUDAGraph=Graph,
    Stream=Stream,
    graph=graph,
    stream=stream,
    current_stream=Stream,
    is_available=lambda: True,
    set_device=lambda _ordinal: None,
    get_device_name=lambda _ordinal: "fake device",
    synchronize=synchronize,
    empty_cache=lambda: None,
)
version = types.SimpleNamespace(cuda="0.0")
# As torch has them: products in full precision, convolutions in TF32.
backends = types.SimpleNamespace(
    cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=False)),
    cudnn=types.SimpleNamespace(version=lambda: 0, benchmark=False, allow_tf32=True),
)
nn = types.SimpleNamespace(functional=types.SimpleNamespace())
_dynamo = types.SimpleNamespace(reset=lambda: None)
device = nothing


def manual_seed(_seed):
    pass
