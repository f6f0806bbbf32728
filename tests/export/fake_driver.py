"""Stands in for the CUDA driver of an exported package: says which device is there, and notes what would be launched."""

import importlib
import sys
from ctypes import addressof, c_char, c_void_p
from math import prod

sys.dont_write_bytecode = True


class Tensor:
    """A tensor of any library: an address with a shape and a dtype."""

    made = 0

    def __init__(self, shape, dtype="float16", offset=0):
        Tensor.made += 1
        self.shape, self.dtype = tuple(shape), dtype
        self.strides = self.dense()
        self.address = Tensor.made * 4096 + offset

    def data_ptr(self):
        return self.address

    def dense(self):
        return tuple(prod(self.shape[axis + 1:]) for axis in range(len(self.shape)))

    def is_contiguous(self):
        return self.strides == self.dense()

    def stride(self):
        return self.strides


class Fake:
    """What is asked of the driver."""

    def __init__(self, driver, name="NVIDIA H200", sms=132, capability=(9, 0)):
        self.launched, self.compiled, self.allocated, self.capturing, self.maps = [], [], [], 0, {}
        # What lies at the places that arguments point to, unless it is an address.
        self.placed = {}
        self.device = driver.Device(name, sms, capability)
        driver.current_device = lambda: 0
        driver.device = lambda number: self.device
        driver.compile = lambda text, options: self.compiled.append(options) or text
        driver.load = lambda cubin: cubin
        driver.kernel = lambda module, launch: launch["kernel"]
        driver.capture = lambda stream: self.capturing
        driver.allocate_zeroed = self.allocate
        driver.number = lambda scalar: self.place(scalar["value"])
        driver.tensor_map = self.tensor_map
        driver.enqueue = self.enqueue

    def tensor_map(self, described, address):
        self.maps[described["name"]] = described
        return self.place(f"map of {address}")

    def place(self, value):
        memory = (c_char * 128)()
        self.placed[addressof(memory)] = value
        return memory

    def allocate(self, size):
        assert not self.capturing, "nothing is allocated during a capture"
        self.allocated.append(size)
        return 1 << 30

    def enqueue(self, name, function, config, pointers, stream):
        self.grid = list(config.grid)
        values = [
            self.placed[place] if place in self.placed else c_void_p.from_address(place).value for place in pointers
        ]
        self.launched.append((name, values, stream))


def package(folder, module):
    """Imports an exported package, with a fake driver."""
    sys.path.insert(0, folder)
    driver = importlib.import_module(f"{module}.driver")
    fake = Fake(driver)
    return importlib.import_module(module), fake
