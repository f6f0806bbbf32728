"""The part of the CUDA driver API that the recorder needs, over ctypes on libcuda.so.1."""

import ctypes
import re

u32, u64, pointer = ctypes.c_uint, ctypes.c_uint64, ctypes.c_void_p
ERROR_LOG, ERROR_LOG_BYTES = 5, 6  # CUjit_option
MAX_DYNAMIC_SHARED = 8  # CUfunction_attribute
CLUSTER_DIMENSION = 4  # CUlaunchAttributeID


class Attribute(ctypes.Structure):
    """CUlaunchAttribute: an id, padding to 8, and a union of 64 bytes of which a cluster uses three numbers."""

    _fields_ = [("id", u32), ("pad", ctypes.c_char * 4), ("value", u32 * 16)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", u32 * 3),
        ("block", u32 * 3),
        ("shared", u32),
        ("stream", pointer),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", u32),
    ]


class CudaError(Exception):
    """A call that did not return CUDA_SUCCESS."""


class Driver:
    """One context on device 0."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", u32(0))
        device, context = ctypes.c_int(), pointer()
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.device = device

    def call(self, name, *args, detail=lambda: ""):
        """Calls a function of the driver and raises what went wrong, by name."""
        code = getattr(self.cuda, name)(*args)
        if code != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text))
            message = text.value.decode() if text.value else "unknown error"
            raise CudaError(f"{name}: {code} {message} {detail()}".strip())

    def describe(self):
        """Returns the device's name and the driver's versions."""
        name, version = ctypes.create_string_buffer(256), ctypes.c_int()
        self.call("cuDeviceGetName", name, ctypes.c_int(256), self.device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        try:
            with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
                found = re.search(r"\d+\.\d+(\.\d+)?", file.readline())
        except OSError:
            found = None
        cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
        return {"device": name.value.decode(), "cuda": cuda, "driver": found.group() if found else "unknown"}

    def load(self, text):
        """Compiles PTX text by the driver's compiler and returns the module."""
        log = ctypes.create_string_buffer(16384)
        options = (ctypes.c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
        values = (pointer * 2)(ctypes.cast(log, pointer), pointer(len(log)))
        module = pointer()
        image = ctypes.create_string_buffer(text.encode())
        self.call(
            "cuModuleLoadDataEx", ctypes.byref(module), image, u32(2), options, values,
            detail=lambda: log.value.decode(errors="replace"),
        )
        return module

    def function(self, module, name):
        """Returns a kernel of a module."""
        function = pointer()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def put(self, data):
        """Allocates memory with these contents."""
        address = u64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(len(data), 16)))
        self.call("cuMemcpyHtoD_v2", address, bytes(data), ctypes.c_size_t(len(data)))
        return address

    def get(self, address, count):
        """Reads memory."""
        data = ctypes.create_string_buffer(count)
        self.call("cuMemcpyDtoH_v2", data, address, ctypes.c_size_t(count))
        return data.raw

    def free(self, address):
        """Frees memory."""
        self.call("cuMemFree_v2", address)

    def tensor_map(self, address, value):
        """Encodes a tiled tensor map: 128 bytes, which the driver wants to write at a multiple of 64."""
        room = (ctypes.c_char * 192)()
        at = ctypes.addressof(room) + -ctypes.addressof(room) % 64
        rank = len(value["dims"])
        self.call(
            "cuTensorMapEncodeTiled",
            pointer(at),
            ctypes.c_int({1: 0, 2: 1, 4: 2, 8: 4}[value["element"]]),  # CUtensorMapDataType: UINT8, 16, 32, 64
            u32(rank),
            address,
            (u64 * rank)(*value["dims"]),
            (u64 * rank)(*value["strides"]),
            (u32 * rank)(*value["box"]),
            (u32 * rank)(*[1] * rank),
            ctypes.c_int(0),  # no interleaving
            ctypes.c_int({0: 0, 32: 1, 64: 2, 128: 3}[value["swizzle"]]),
            ctypes.c_int(0),  # no promotion in L2
            ctypes.c_int(0),  # zeros for what is outside
        )
        return (ctypes.c_char * 128).from_buffer_copy(ctypes.string_at(at, 128))

    def launch(self, function, grid, block, cluster, shared, args):
        """Launches a kernel and waits for its end. `args` are ctypes values."""
        if shared > 48 * 1024:
            self.call("cuFuncSetAttribute", function, ctypes.c_int(MAX_DYNAMIC_SHARED), ctypes.c_int(shared))
        attribute = Attribute(id=CLUSTER_DIMENSION)
        attribute.value[0], attribute.value[1], attribute.value[2] = cluster
        config = Config(grid=(u32 * 3)(*grid), block=(u32 * 3)(*block), shared=shared, stream=None)
        if cluster != [1, 1, 1]:
            config.attributes = ctypes.pointer(attribute)
            config.count = 1
        params = (pointer * max(len(args), 1))(*(ctypes.cast(ctypes.byref(arg), pointer) for arg in args))
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, params, pointer(None))
        self.call("cuCtxSynchronize")
