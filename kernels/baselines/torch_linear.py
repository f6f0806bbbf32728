"""Times PyTorch's linear layers, by its libraries and compiled, as optloop's baseline for linear: see graph_timing.py."""

import contextlib
import functools
import os
import sys

# Layers are compiled in this process: others would outlive the compilation. Torch reads this when it is imported.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

# The project's folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402
from torch_matmul import library  # noqa: E402

ACTIVATIONS = {0: lambda y: y, 1: F.gelu, 2: functools.partial(F.gelu, approximate="tanh"), 3: F.silu}
# What follows a product, which torch.compile may fuse.
EPILOGUES = ("BIAS", "ACTIVATION", "GATED", "RESIDUAL")
FUSED, COMPILED, FAST_SUMS = "cublaslt-epilogue", "compiled", "fast-sums"
BY_NAME = graph_timing.Named()

BACKENDS = {
    "cublas": functools.partial(library, "cublas"),
    "cublaslt": functools.partial(library, "cublaslt"),
    # Chooses nothing: a user who names no library gets this.
    "default": contextlib.nullcontext,
    FUSED: BY_NAME.backend(FUSED),
    COMPILED: BY_NAME.backend(COMPILED),
    FAST_SUMS: BY_NAME.backend(FAST_SUMS),
}


def layer(dims, x, w, *others):
    """The layer as a model writes it. 8-bit matrices have scales."""
    others = list(others)
    scales = [others.pop(0) if name in dims else None for name in ("XSCALE", "WSCALE")]
    bias = others.pop(0) if "BIAS" in dims else None
    products = [product(dims, x, of_w, scales, index, bias) for index, of_w in enumerate(w if "GATED" in dims else [w])]
    y = ACTIVATIONS[dims.get("ACTIVATION", 0)](products[0])
    if len(products) == 2:
        y = y * products[1]
    return y + others[0] if "RESIDUAL" in dims else y


def product(dims, x, w, scales, index, bias):
    """One product of a layer."""
    part = (lambda it: it[index]) if "GATED" in dims else (lambda it: it)
    bias = None if bias is None else part(bias)
    if x.dtype != torch.float8_e4m3fn:
        if scales != [None, None]:
            raise graph_timing.Refused("torch's linear layers of 16 bits have no scales")
        return F.linear(x, w, bias)
    rows, columns = x.shape[0], w.shape[0]
    one = torch.ones((), device=x.device)
    of_x, of_w = (one if scale is None else scale for scale in scales)
    if "GATED" in dims and of_w.dim() == 2:
        of_w = of_w[index]
    if of_x.numel() > 1 or of_w.numel() > 1:
        of_x, of_w = of_x.expand(rows)[:, None].contiguous(), of_w.expand(columns)[None].contiguous()
    y = torch._scaled_mm(
        x, w.t(), scale_a=of_x, scale_b=of_w, out_dtype=torch.bfloat16, use_fast_accum=BY_NAME.name == FAST_SUMS
    )
    return y if bias is None else y + bias


class Linear(graph_timing.Case):
    OP = "linear"

    def __init__(self, request):
        super().__init__(request)
        self.compiled = torch.compile(functools.partial(layer, self.dims), dynamic=False)

    @classmethod
    def rehearse(cls, backends):
        square = torch.zeros(64, 64, dtype=torch.float16, device="cuda")
        for name in ("cublas", "cublaslt", "default"):
            with backends[name]():
                F.linear(square, square, square[0])
        torch.cuda.synchronize()

    @classmethod
    def compile_for(cls, dims, dtype, tensors):
        if any(name in dims for name in EPILOGUES):
            inputs = [tensor for tensor in tensors if tensor["role"] != "output"]
            empty = [
                torch.zeros(tensor["shape"], dtype=graph_timing.DTYPES[tensor["dtype"]], device="cuda")
                for tensor in inputs
            ]
            torch.compile(functools.partial(layer, dims), dynamic=False)(*empty)

    def check(self, name):
        is_float8 = self.dtype == torch.float8_e4m3fn
        if name == COMPILED and not any(of in self.dims for of in EPILOGUES):
            raise graph_timing.Refused("there is nothing to fuse")
        if name == FUSED and (is_float8 or not self.has_epilogue()):
            raise graph_timing.Refused("cuBLASLt has no such epilogue in torch")
        if name == FAST_SUMS and not is_float8:
            raise graph_timing.Refused("only products of 8 bits have fast sums")
        if name in ("cublas", "cublaslt") and is_float8:
            raise graph_timing.Refused("torch has one library for products of 8 bits")
        if is_float8 and self.dims["K"] % 16 > 0:
            raise graph_timing.Refused("torch multiplies 8-bit matrices only if K is a multiple of 16")

    def has_epilogue(self):
        """Returns whether torch reaches an epilogue of cuBLASLt: a bias with GELU by tanh, or what is added to the product."""
        dims = self.dims
        if "GATED" in dims:
            return False
        if "RESIDUAL" in dims:
            return "BIAS" not in dims and "ACTIVATION" not in dims
        return "BIAS" in dims and dims.get("ACTIVATION") == 2

    def compute(self, *inputs):
        if BY_NAME.name == COMPILED:
            return self.compiled(*inputs)
        if BY_NAME.name == FUSED:
            x, w, more = inputs
            if "RESIDUAL" in self.dims:
                return torch.addmm(more, x, w.t())
            return torch._addmm_activation(more, x, w.t(), use_gelu=True)
        return layer(self.dims, *inputs)


if __name__ == "__main__":
    graph_timing.serve(Linear, BACKENDS)
