"""Launches a committed winner from its two files, without optloop, and compares it with PyTorch in float64.

    python3 examples/launch_winner.py kernels/variants/nvidia-h200-132sm-140gib/attention-fp16-d64/b8h8s128.json [--include DIR]

Needs torch and the CUDA driver. The sidecar describes the launches completely. Only the comparison knows what they compute.
"""

import argparse
import ctypes
import glob
import json
import math
import pathlib
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

import torch

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
SCALARS = {"i32": c_int, "f32": c_float}
# Of the shipped workloads, by output and its type.
TOLERANCES = {("o", "f16"): 1e-3, ("o", "f32"): 1e-5, ("c", "f16"): 4e-4}

# Numbers of cuda.h.
MAP_DTYPES = {"f16": 6, "f32": 7, "bf16": 9}
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_L2_PROMOTION_128 = 2
DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14
CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 4, 6


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: a number that says what it is, and 64 bytes for its value."""

    _fields_ = [("id", c_uint), ("pad", c_uint), ("value", c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [("grid", c_uint * 3), ("block", c_uint * 3), ("shared_bytes", c_uint), ("stream", c_void_p),
                ("attributes", POINTER(LaunchAttribute)), ("attribute_count", c_uint)]


def library(*names):
    """Loads the first library that is there, also from the wheels that torch came with."""
    wheels = [found for name in names for path in sys.path for found in glob.glob(f"{path}/nvidia/*/lib/{name}")]
    for name in [*names, *wheels]:
        # What NVRTC loads by name is found if it is loaded already.
        for builtins in glob.glob(f"{pathlib.Path(name).parent}/libnvrtc-builtins.so.*") if name in wheels else []:
            ctypes.CDLL(builtins)
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    sys.exit(f"none of {', '.join(names)} was found")


def check(what, status):
    """Stops if a call of the driver or of NVRTC failed."""
    if status != 0:
        sys.exit(f"{what} failed with status {status}")


def compile(text, options):
    """Compiles CUDA source to a CUBIN."""
    nvrtc, program, size = library("libnvrtc.so.13", "libnvrtc.so.12"), c_void_p(), c_size_t()
    check("nvrtcCreateProgram", nvrtc.nvrtcCreateProgram(byref(program), text.encode(), b"winner.cu", 0, None, None))
    array = (c_char_p * len(options))(*(option.encode() for option in options))
    status = nvrtc.nvrtcCompileProgram(program, len(options), array)
    nvrtc.nvrtcGetProgramLogSize(program, byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    print(log.value.decode(), end="")
    check("nvrtcCompileProgram", status)
    check("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program, byref(size)))
    cubin = ctypes.create_string_buffer(size.value)
    check("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, cubin))
    return cubin


def allocate(sidecar):
    """Makes random inputs, an output of NaN, and the workspaces as they must be before the first launch."""
    buffers = {}
    for name, tensor in sidecar["tensors"].items():
        random = torch.randn(tensor["shape"], device="cuda").to(DTYPES[tensor["dtype"]])
        buffers[name] = random if tensor["role"] == "input" else torch.full_like(random, float("nan"))
    for name, workspace in sidecar["workspaces"].items():
        fill = 0 if workspace["initial"] == "zero" else 0xFF
        buffers[name] = torch.full((workspace["bytes"],), fill, dtype=torch.uint8, device="cuda")
    return buffers


def tensor_map(driver, described, address):
    """Encodes what the copy engine is told of a tensor: 128 bytes, which must lie at a multiple of 64."""
    memory = ctypes.create_string_buffer(192)
    encoded = (ctypes.c_char * 128).from_buffer(memory, -ctypes.addressof(memory) % 64)
    rank = len(described["sizes"])
    numbers = lambda type, values: (type * len(values))(*values)
    check("cuTensorMapEncodeTiled", driver.cuTensorMapEncodeTiled(
        byref(encoded), MAP_DTYPES[described["dtype"]], rank, c_void_p(address),
        numbers(c_uint64, described["sizes"]), numbers(c_uint64, described["stride_bytes"]),
        numbers(c_uint, described["box"]), numbers(c_uint, [1] * rank),
        0, MAP_SWIZZLES[described["swizzle_bytes"]], MAP_L2_PROMOTION_128, 0))
    return encoded


def value(driver, argument, buffers):
    """Returns an argument as the kernel takes it."""
    if "scalar" in argument:
        return SCALARS[argument["scalar"]["type"]](argument["scalar"]["value"])
    if "tensor_map" in argument:
        described = argument["tensor_map"]
        return tensor_map(driver, described, buffers[described["tensor"]].data_ptr())
    return c_void_p(buffers[argument.get("tensor") or argument["workspace"]].data_ptr())


def launch(driver, module, plan, buffers):
    """Puts one launch on torch's stream."""
    kernel = c_void_p()
    check(f"cuModuleGetFunction of {plan['kernel']}",
          driver.cuModuleGetFunction(byref(kernel), module, plan["kernel"].encode()))
    check("cuFuncSetAttribute", driver.cuFuncSetAttribute(kernel, DYNAMIC_SHARED, plan["shared_bytes"]))
    attributes = []
    if plan["cluster"]:
        attributes.append(LaunchAttribute(CLUSTER_DIMENSION, 0, (c_uint * 16)(*plan["cluster"])))
        if math.prod(plan["cluster"]) > 8:
            check("cuFuncSetAttribute", driver.cuFuncSetAttribute(kernel, NON_PORTABLE_CLUSTER, 1))
    # It may start before the launch before it has ended, and waits by itself.
    if plan.get("programmatic"):
        attributes.append(LaunchAttribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, (c_uint * 16)(1)))
    values = [value(driver, argument, buffers) for argument in plan["args"]]
    pointers = (c_void_p * len(values))(*(ctypes.addressof(it) for it in values))
    config = LaunchConfig((c_uint * 3)(*plan["grid"]), (c_uint * 3)(*plan["block"]), plan["shared_bytes"],
                          torch.cuda.current_stream().cuda_stream,
                          (LaunchAttribute * len(attributes))(*attributes), len(attributes))
    check(f"the launch of {plan['kernel']}", driver.cuLaunchKernelEx(byref(config), kernel, pointers, None))


def attention(sidecar, buffers):
    """Computes attention in float64, head by head. With CAUSAL the last query sees every key."""
    heads = [buffers[name].double().flatten(0, 1) for name in "qkv"]
    expected = []
    for q, k, v in zip(*heads):
        scores = q @ k.T / q.shape[-1] ** 0.5
        if sidecar["measurement"]["dims"]["CAUSAL"]:
            seen = torch.ones_like(scores, dtype=torch.bool).tril(len(k) - len(q))
            scores = scores.masked_fill(~seen, float("-inf"))
        expected.append(scores.softmax(-1) @ v)
    return torch.stack(expected).reshape(buffers["o"].shape)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sidecar", type=pathlib.Path, help="the winner's .json file; its source lies beside it")
    parser.add_argument("--include", action="append", default=["/usr/local/cuda/include"], help="where cuda_fp16.h is")
    arguments = parser.parse_args()
    sidecar = json.loads(arguments.sidecar.read_text())
    # Sidecars of version 0.1.0 name no source: theirs has their own name.
    source = arguments.sidecar.with_name(sidecar.get("source", arguments.sidecar.with_suffix(".cu").name))

    buffers = allocate(sidecar)
    wheels = [found for path in sys.path for found in glob.glob(f"{path}/nvidia/*/include")]
    includes = [f"-I{folder}" for folder in [*arguments.include, *wheels]]
    cubin = compile(source.read_text(), [f"-arch={sidecar['arch']}", *sidecar["compile_options"], *includes])
    driver, module = library("libcuda.so.1"), c_void_p()
    check("cuModuleLoadData", driver.cuModuleLoadData(byref(module), cubin))
    for plan in sidecar["launches"]:
        launch(driver, module, plan, buffers)
    torch.cuda.synchronize()

    match sorted(sidecar["tensors"]):
        case ["k", "o", "q", "v"]:
            output, expected = "o", attention(sidecar, buffers)
        case ["a", "b", "c"]:
            output, expected = "c", buffers["a"].double() @ buffers["b"].double()
        case names:
            sys.exit(f"{arguments.sidecar}: launched; what its tensors {', '.join(names)} mean, this example does not know")
    error = ((buffers[output].double() - expected).norm() / expected.norm()).item()
    print(f"{arguments.sidecar}: relative error {error:.2e} against float64")
    # Written so that a NaN fails.
    if not error < TOLERANCES[output, sidecar["tensors"][output]["dtype"]]:
        sys.exit("that is too much")


if __name__ == "__main__":
    main()
