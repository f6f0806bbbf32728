"""Reads from the driver which kernels a call launches: their names, grids and resources.

A call is captured in a CUDA graph, and the graph's nodes have all of that. Nothing runs for it, and it needs no profiler.
"""

import ctypes

import torch

KERNEL_NODE = 0
# CUfunction_attribute of the driver.
SHARED_SIZE_BYTES, REGISTERS = 1, 4


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS of the driver, version 2."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


class Driver:
    """Calls of the driver, whose errors are exceptions."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} failed with CUDA error {status}")

    def nodes(self, graph):
        count = ctypes.c_size_t()
        self.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
        nodes = (ctypes.c_void_p * count.value)()
        self.call("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
        return [ctypes.c_void_p(node) for node in nodes]

    def is_kernel(self, node):
        kind = ctypes.c_int()
        self.call("cuGraphNodeGetType", node, ctypes.byref(kind))
        return kind.value == KERNEL_NODE

    def kernel(self, node):
        launch = KernelNode()
        self.call("cuGraphKernelNodeGetParams_v2", node, ctypes.byref(launch))
        function = ctypes.c_void_p(launch.function)
        if not function:
            self.call("cuKernelGetFunction", ctypes.byref(function), ctypes.c_void_p(launch.kernel))
        name = ctypes.c_char_p()
        self.call("cuFuncGetName", ctypes.byref(name), function)
        return {
            "name": demangled(name.value.decode()),
            "grid": list(launch.grid),
            "block": list(launch.block),
            "shared_bytes": launch.shared_bytes + self.attribute(SHARED_SIZE_BYTES, function),
            "registers": self.attribute(REGISTERS, function),
        }

    def attribute(self, attribute, function):
        value = ctypes.c_int()
        self.call("cuFuncGetAttribute", ctypes.byref(value), attribute, function)
        return value.value


def demangled(name):
    """Returns a name of C++ as it is written there."""
    if not name.startswith("_Z"):
        return name
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return name
    demangle.restype = ctypes.c_char_p
    status = ctypes.c_int()
    text = demangle(name.encode(), None, None, ctypes.byref(status))
    return text.decode() if status.value == 0 and text else name


def captured(call):
    """Returns a graph of a call, with the call's output, which must live as long. Its libraries must have been called before."""
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        output = call()
    return graph, output


def kernels_in(graph):
    """Returns the kernels of a captured graph, in order."""
    driver = Driver()
    handle = ctypes.c_void_p(graph.raw_cuda_graph())
    return [driver.kernel(node) for node in driver.nodes(handle) if driver.is_kernel(node)]


def kernels_of(call):
    """Returns the kernels that a call launches. Its libraries must have been called before."""
    graph, output = captured(call)
    kernels = kernels_in(graph)
    del output
    return kernels
