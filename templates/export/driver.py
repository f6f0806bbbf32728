"""The CUDA driver and NVRTC through ctypes: compiling, loading, launching and encoding, and nothing else.

Nothing here waits for the device, except `allocate_zeroed`.
"""

import ctypes
import functools
import glob
import math
import os
import pathlib
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass

# Numbers of cuda.h.
MAP_DTYPES = {"f16": 6, "bf16": 9, "f32": 7, "f64": 8, "i32": 3, "u32": 2, "i64": 5}
# Bytes of an element.
SIZES = {
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "e4m3": 1, "e5m2": 1, "i8": 1, "u8": 1, "i32": 4, "u32": 4, "i64": 8, "bool": 1,
}
# Copies do not interpret bytes, so every 8-bit type is this one.
MAP_BYTES = 0
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_L2_PROMOTION_128 = 2
DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14
CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 4, 6
SM_COUNT, MAJOR, MINOR = 16, 75, 76
CAPTURING = 1
# A larger cluster needs a permission.
PORTABLE_CLUSTER = 8


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: a number that says what it is, and 64 bytes for its value."""

    _fields_ = [("id", c_uint), ("pad", c_uint), ("value", c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [("grid", c_uint * 3), ("block", c_uint * 3), ("shared_bytes", c_uint), ("stream", c_void_p),
                ("attributes", POINTER(LaunchAttribute)), ("attribute_count", c_uint)]


@dataclass(frozen=True)
class Device:
    """What the table says of a device."""

    name: str
    sms: int
    capability: tuple


class Failed(RuntimeError):
    """A call of the driver or of NVRTC failed."""


def check(what, status):
    if status != 0:
        raise Failed(f"{what} failed with status {status}")


@functools.cache
def driver():
    """Returns the driver's library, ready for calls."""
    cuda = ctypes.CDLL("libcuda.so.1")
    check("cuInit", cuda.cuInit(0))
    return cuda


@functools.cache
def nvrtc():
    """Loads NVRTC, which may lie in a wheel that torch came with."""
    names = ["libnvrtc.so.13", "libnvrtc.so.12"]
    wheels = [found for name in names for path in sys.path for found in glob.glob(f"{path}/nvidia/*/lib/{name}")]
    for name in [*wheels, *names]:
        # What NVRTC loads by name is found if it is loaded already.
        for builtins in glob.glob(f"{pathlib.Path(name).parent}/libnvrtc-builtins.so.*") if name in wheels else []:
            ctypes.CDLL(builtins)
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    raise Failed(f"none of {', '.join(names)} was found: install the package nvidia-cuda-nvrtc")


def include_folders():
    """Returns the folders that may have `cuda_fp16.h`: those of a toolkit, then those of wheels."""
    roots = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ] + ["/usr/local/cuda"]
    folders = [f"{root}/include" for root in roots]
    folders += [found for path in sys.path for found in glob.glob(f"{path}/nvidia/*/include")]
    return [folder for found in folders for folder in (found, f"{found}/cccl") if os.path.isdir(folder)]


@functools.cache
def compile(text, options):
    """Compiles CUDA source to a CUBIN. `options` is a tuple."""
    library, program, size = nvrtc(), c_void_p(), c_size_t()
    options = [*options, *(f"-I{folder}" for folder in include_folders())]
    check("nvrtcCreateProgram", library.nvrtcCreateProgram(byref(program), text.encode(), b"winner.cu", 0, None, None))
    array = (c_char_p * len(options))(*(option.encode() for option in options))
    status = library.nvrtcCompileProgram(program, len(options), array)
    if status != 0:
        library.nvrtcGetProgramLogSize(program, byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        raise Failed(f"nvrtcCompileProgram failed with status {status}: {log.value.decode()}")
    check("nvrtcGetCUBINSize", library.nvrtcGetCUBINSize(program, byref(size)))
    cubin = ctypes.create_string_buffer(size.value)
    check("nvrtcGetCUBIN", library.nvrtcGetCUBIN(program, cubin))
    library.nvrtcDestroyProgram(byref(program))
    return cubin


def current_device():
    """Returns the number of the current device. Without a context, the first device gets one."""
    cuda, context, number = driver(), c_void_p(), c_int()
    check("cuCtxGetCurrent", cuda.cuCtxGetCurrent(byref(context)))
    if not context:
        check("cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain(byref(context), 0))
        check("cuCtxSetCurrent", cuda.cuCtxSetCurrent(context))
    check("cuCtxGetDevice", cuda.cuCtxGetDevice(byref(number)))
    return number.value


@functools.cache
def device(number):
    """Describes a device."""
    name, value = ctypes.create_string_buffer(256), c_int()
    check("cuDeviceGetName", driver().cuDeviceGetName(name, len(name), number))

    def attribute(which):
        check("cuDeviceGetAttribute", driver().cuDeviceGetAttribute(byref(value), which, number))
        return value.value

    return Device(name.value.decode(), attribute(SM_COUNT), (attribute(MAJOR), attribute(MINOR)))


def load(image):
    """Loads a CUBIN, or PTX in bytes, into the current context."""
    module = c_void_p()
    check("cuModuleLoadData", driver().cuModuleLoadData(byref(module), image))
    return module


def kernel(module, launch):
    """Finds the kernel of a launch, and allows it the launch's shared memory and cluster."""
    found = c_void_p()
    name = launch["kernel"]
    check(f"cuModuleGetFunction of {name}", driver().cuModuleGetFunction(byref(found), module, name.encode()))
    check("cuFuncSetAttribute", driver().cuFuncSetAttribute(found, DYNAMIC_SHARED, launch["shared_bytes"]))
    if math.prod(launch["cluster"] or [1]) > PORTABLE_CLUSTER:
        check("cuFuncSetAttribute", driver().cuFuncSetAttribute(found, NON_PORTABLE_CLUSTER, 1))
    return found


def launch_attributes(launch):
    """Returns what a launch has besides grid, block and shared memory."""
    found = []
    if launch["cluster"]:
        found.append(LaunchAttribute(CLUSTER_DIMENSION, 0, (c_uint * 16)(*launch["cluster"])))
    # It may start before the launch before it has ended, and waits by itself.
    if launch.get("programmatic"):
        found.append(LaunchAttribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, (c_uint * 16)(1)))
    return (LaunchAttribute * len(found))(*found)


def launch_config(launch, attributes):
    """Returns how a launch is made, but for its stream."""
    return LaunchConfig((c_uint * 3)(*launch["grid"]), (c_uint * 3)(*launch["block"]), launch["shared_bytes"],
                        None, attributes, len(attributes))


def enqueue(name, function, config, pointers, stream):
    """Puts a launch on a stream. The driver copies what `pointers` point to before it returns."""
    config.stream = stream
    status = driver().cuLaunchKernelEx(byref(config), function, pointers, None)
    if status != 0:
        raise Failed(f"the launch of {name} failed with status {status}")


def number(scalar):
    """Returns a number as a kernel takes it."""
    return {"i32": c_int, "f32": c_float, "i64": c_int64, "f64": c_double}[scalar["type"]](scalar["value"])


def tensor_map(described, address):
    """Encodes what the copy engine is told of a tensor: 128 bytes, which must lie at a multiple of 64."""
    memory = ctypes.create_string_buffer(192)
    encoded = (ctypes.c_char * 128).from_buffer(memory, -ctypes.addressof(memory) % 64)
    rank = len(described["sizes"])

    def numbers(type, values):
        return (type * len(values))(*values)

    check("cuTensorMapEncodeTiled", driver().cuTensorMapEncodeTiled(
        byref(encoded), MAP_DTYPES.get(described["dtype"], MAP_BYTES), rank, c_void_p(address),
        numbers(c_uint64, described["sizes"]), numbers(c_uint64, described["stride_bytes"]),
        numbers(c_uint, described["box"]), numbers(c_uint, [1] * rank),
        0, MAP_SWIZZLES[described["swizzle_bytes"]], MAP_L2_PROMOTION_128, 0))
    return encoded


def capture(stream):
    """Returns the number of the capture that a stream is part of, or 0."""
    status, number = c_int(), c_uint64()
    check("cuStreamGetCaptureInfo", driver().cuStreamGetCaptureInfo_v2(
        c_void_p(stream), byref(status), byref(number), None, None, None))
    return number.value if status.value == CAPTURING else 0


def allocate_zeroed(size):
    """Allocates zeroed memory of the current device, which is never freed. Must not be called during a capture."""
    address = c_uint64()
    check("cuMemAlloc", driver().cuMemAlloc_v2(byref(address), c_size_t(size)))
    check("cuMemsetD8", driver().cuMemsetD8_v2(address, 0, c_size_t(size)))
    # The memory is then zero for every stream.
    check("cuCtxSynchronize", driver().cuCtxSynchronize())
    return address.value
