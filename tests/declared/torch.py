"""As much of PyTorch as a small problem and the program that examines it use, on arrays of numpy. Nothing is without numbers."""

import builtins
import contextlib
import sys
import types

import numpy


class Dtype:
    def __init__(self, name, of):
        self.name, self.of = name, numpy.dtype(of)
        self.is_floating_point = self.of.kind == "f"

    def __repr__(self):
        return f"torch.{self.name}"


float16, float32, float64 = (Dtype(name, name) for name in ("float16", "float32", "float64"))
bfloat16 = Dtype("bfloat16", "float32")
int8, uint8, int32, int64 = (Dtype(name, name) for name in ("int8", "uint8", "int32", "int64"))
bool = Dtype("bool", "bool")
DTYPES = {dtype.of: dtype for dtype in (float16, float32, float64, int8, uint8, int32, int64, bool)}
default = [float32]
modes = []


class Tensor:
    def __init__(self, array):
        self.array = numpy.asarray(array)

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: DTYPES[self.array.dtype])
    device = "cpu"

    def dim(self):
        return self.array.ndim

    def numel(self):
        return self.array.size

    def numpy(self):
        return self.array

    def reshape(self, shape):
        return Tensor(self.array.reshape(shape))

    def clone(self):
        return Tensor(self.array.copy())

    def to(self, dtype):
        return Tensor(self.array.astype(dtype.of))

    def double(self):
        return self.to(float64)

    def detach(self):
        return self

    cpu = detach

    def isfinite(self):
        return Tensor(numpy.isfinite(self.array))

    def __getitem__(self, index):
        return Tensor(self.array[index.array if isinstance(index, Tensor) else index])

    def __bool__(self):
        return builtins.bool(self.array)

    def __float__(self):
        return builtins.float(self.array)

    def item(self):
        return self.array.item()

    def add_(self, other):
        self.array += number(other)
        return self


def number(value):
    return value.array if isinstance(value, Tensor) else value


for name in "add radd sub rsub mul rmul truediv rtruediv lt le gt ge eq ne and or invert neg".split():
    def operation(self, *others, name=f"__{name}__"):
        return Tensor(getattr(self.array, name)(*map(number, others)))

    setattr(Tensor, f"__{name}__", operation)
for name in "min max mean std sum all any".split():
    setattr(Tensor, name, lambda self, name=name: Tensor(getattr(self.array, name)()))


def is_tensor(value):
    return isinstance(value, Tensor)


def seen_by_modes(function):
    def call(*arguments, **options):
        if not modes:
            return function(*arguments, **options)
        mode = modes.pop()
        try:
            return mode.__torch_function__(call, (), arguments, options)
        finally:
            modes.append(mode)

    call.__name__ = function.__name__
    return call


source = [numpy.random.default_rng(0)]


def extents(shape):
    return shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape


@seen_by_modes
def rand(*shape, dtype=None, generator=None):
    return Tensor(source[0].random(extents(shape)).astype((dtype or default[0]).of))


@seen_by_modes
def randn(*shape, dtype=None, generator=None):
    return Tensor(source[0].standard_normal(extents(shape)).astype((dtype or default[0]).of))


@seen_by_modes
def randint(low, high, size=None, dtype=None, generator=None):
    (low, high, size) = (0, low, high) if size is None else (low, high, size)
    return Tensor(source[0].integers(low, high, size).astype((dtype or int64).of))


@seen_by_modes
def ones(shape, dtype=None, device=None):
    return Tensor(numpy.ones(shape, (dtype or default[0]).of))


def from_numpy(array):
    return Tensor(array)


def equal(one, other):
    return one.shape == other.shape and builtins.bool((one.array == other.array).all())


def allclose(one, other, rtol, atol, equal_nan):
    return numpy.allclose(one.array, other.array, rtol, atol, equal_nan)


def set_default_dtype(dtype):
    default[0] = dtype


class Generator:
    def manual_seed(self, _seed):
        return self


def manual_seed(_seed):
    pass


@contextlib.contextmanager
def device(_name):
    yield


no_grad = contextlib.nullcontext


class Parameter(Tensor):
    def __init__(self, tensor):
        super().__init__(tensor.array)


class Module:
    def named_parameters(self):
        return [(name, value) for name, value in vars(self).items() if isinstance(value, Parameter)]

    def named_buffers(self):
        return []

    def named_modules(self):
        # A parameter is none of the attributes that torch keeps as they are.
        plain = {name: value for name, value in vars(self).items() if not isinstance(value, Parameter)}
        return [("", types.SimpleNamespace(**plain))]

    def __call__(self, *arguments):
        return self.forward(*arguments)


def functional_call(module, states, arguments):
    before = dict(vars(module))
    vars(module).update(states)
    try:
        return module(*arguments)
    finally:
        vars(module).update(before)


class TorchFunctionMode:
    def __enter__(self):
        modes.append(self)

    def __exit__(self, *_error):
        modes.remove(self)


def tree_flatten(tree):
    if not isinstance(tree, (list, tuple)):
        return [tree], None
    parts = [tree_flatten(part) for part in tree]
    return [leaf for leaves, _ in parts for leaf in leaves], (type(tree), [(len(leaves), under) for leaves, under in parts])


def tree_unflatten(leaves, structure):
    if structure is None:
        return leaves[0]
    kind, parts = structure
    made, at = [], 0
    for count, under in parts:
        made.append(tree_unflatten(leaves[at : at + count], under))
        at += count
    return kind(made)


def module(name, **attributes):
    made = sys.modules[f"torch.{name}"] = types.ModuleType(f"torch.{name}")
    vars(made).update(attributes)
    return made


nn = module("nn", Module=Module, Parameter=Parameter)
func = module("func", functional_call=functional_call)
overrides = module("overrides", TorchFunctionMode=TorchFunctionMode)
utils = module("utils", __path__=[])
utils._pytree = module("utils._pytree", tree_flatten=tree_flatten, tree_unflatten=tree_unflatten)
