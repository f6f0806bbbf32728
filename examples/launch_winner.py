"""Launches a committed winner from its two files alone, without optloop, and compares it with PyTorch.

    python3 examples/launch_winner.py kernels/variants/attention-fp16-d64/b8h8s128.cu [--include /usr/local/cuda/include]

Needs cupy and torch. It knows of attention only what it needs for the comparison: the sidecar says the rest.
"""

import argparse
import json
import pathlib

import cupy
import numpy
import torch

DTYPES = {"f16": torch.float16, "f32": torch.float32}
SCALARS = {"i32": numpy.int32, "f32": numpy.float32}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--include", default="/usr/local/cuda/include")
    arguments = parser.parse_args()
    sidecar = json.loads(arguments.source.with_suffix(".json").read_text())

    buffers = {}
    for name, tensor in sidecar["tensors"].items():
        random = torch.randn(tensor["shape"], device="cuda").to(DTYPES[tensor["dtype"]])
        buffers[name] = random if tensor["role"] == "input" else torch.full_like(random, float("nan"))
    for name, workspace in sidecar["workspaces"].items():
        fill = 0 if workspace["initial"] == "zero" else 0xFF
        buffers[name] = torch.full((workspace["bytes"],), fill, dtype=torch.uint8, device="cuda")

    options = (*sidecar["compile_options"], f"-I{arguments.include}")
    module = cupy.RawModule(code=arguments.source.read_text(), options=options)
    for launch in sidecar["launches"]:
        assert launch["cluster"] is None, "cupy does not launch clusters"
        values = []
        for argument in launch["args"]:
            if "scalar" in argument:
                values.append(SCALARS[argument["scalar"]["type"]](argument["scalar"]["value"]))
            else:
                values.append(numpy.uint64(buffers[argument.get("tensor") or argument["workspace"]].data_ptr()))
        kernel = module.get_function(launch["kernel"])
        kernel.max_dynamic_shared_size_bytes = launch["shared_bytes"]
        kernel(tuple(launch["grid"]), tuple(launch["block"]), tuple(values), shared_mem=launch["shared_bytes"])
    cupy.cuda.Device().synchronize()

    q, k, v = (buffers[name].double() for name in "qkv")
    causal = "causal" in arguments.source.stem or "CAUSAL=1" in arguments.source.read_text().splitlines()[0]
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    error = (buffers["o"].double() - expected).norm() / expected.norm()
    print(f"{arguments.source}: relative error {error:.2e} against float64")
    assert error < 1e-3


if __name__ == "__main__":
    main()
