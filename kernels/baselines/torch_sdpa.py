"""Times PyTorch's attention as optloop's baseline: scaled_dot_product_attention with every backend, and what else is installed.

That is FlexAttention, which torch compiles, and FlashAttention-4 (the package flash-attn-4). See graph_timing.py.
"""

import contextlib
import functools
import importlib.util
import os
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

# The project's folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402

SDPA = {
    "flash": functools.partial(sdpa_kernel, [SDPBackend.FLASH_ATTENTION]),
    "efficient": functools.partial(sdpa_kernel, [SDPBackend.EFFICIENT_ATTENTION]),
    "cudnn": functools.partial(sdpa_kernel, [SDPBackend.CUDNN_ATTENTION]),
    "math": functools.partial(sdpa_kernel, [SDPBackend.MATH]),
    # Restricts nothing: a user who names no backend gets this.
    "default": contextlib.nullcontext,
}
# Libraries and kernels are loaded by the first calls: the first case of 64 queries took 1.0 s longer than later ones, and the
# first of 128 queries 0.7 s (H100, 2026-11-26).
REHEARSED_QUERIES = [64, 128]
# Above this the math backend's score matrix takes minutes and gigabytes, and it never wins.
MATH_LIMIT_BYTES = 2 << 30
# FlexAttention is compiled for each shape, which takes seconds. Shorter sequences are over in microseconds.
FLEX_LEAST_QUERIES = 1024
# Shapes that FlexAttention is compiled for in one process.
MOST_COMPILED = 512


def has(package, folder=None):
    """Tells whether a package is installed, or a folder of it, without importing it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    places = spec.submodule_search_locations or [] if spec else []
    return spec is not None and (folder is None or any(os.path.isdir(os.path.join(place, folder)) for place in places))


@functools.cache
def compiled_flex():
    """Returns FlexAttention, which torch compiles for each shape and mask."""
    # Compiling processes would outlive the compilation.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    from torch.nn.attention.flex_attention import flex_attention

    # Beyond the limit, torch runs it without compiling.
    for limit in ("recompile_limit", "cache_size_limit"):
        if hasattr(torch._dynamo.config, limit):
            setattr(torch._dynamo.config, limit, MOST_COMPILED)
            break
    return torch.compile(flex_attention, dynamic=False)


@functools.cache
def causal_mask(queries, keys):
    """Returns FlexAttention's mask in which the last query sees all keys."""
    from torch.nn.attention.flex_attention import create_block_mask

    def is_seen(_batch, _head, query, key):
        return key <= query + (keys - queries)

    return create_block_mask(is_seen, None, None, queries, keys, device="cuda")


def flex(dims):
    """Returns FlexAttention for a case."""
    queries, keys = dims["Sq"], dims["Sk"]
    if queries < FLEX_LEAST_QUERIES:
        raise graph_timing.Refused(f"it is compiled for each shape, so it is timed from {FLEX_LEAST_QUERIES} queries on")
    mask = causal_mask(queries, keys) if dims["CAUSAL"] == 1 else None
    return functools.partial(compiled_flex(), block_mask=mask, enable_gqa="Hkv" in dims)


def backends():
    """Returns SDPA's backends and those that are installed beside it."""
    found = dict(SDPA)
    if has("triton") and has("torch.nn.attention.flex_attention"):
        found["flex"] = contextlib.nullcontext
    if has("flash_attn", "cute"):
        found["fa4"] = contextlib.nullcontext
    return found


class Attention(graph_timing.Case):
    OP = "attention"

    def __init__(self, request):
        super().__init__(request)
        queries, keys = self.dims["Sq"], self.dims["Sk"]
        self.function, self.heads_first, self.rows_first = self.sdpa, self.sets, None
        self.is_causal, self.mask = self.dims["CAUSAL"] == 1, None
        if self.is_causal and queries != keys:
            # Torch's own causal mask lets the first query see the first key only; optloop's lets the last see all.
            self.is_causal = False
            self.mask = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril(keys - queries)

    @classmethod
    def rehearse(cls, backends):
        for queries in REHEARSED_QUERIES:
            tensor = torch.zeros(1, 1, queries, 64, dtype=torch.float16, device="cuda")
            for name in SDPA:
                # Not every GPU has every backend.
                with contextlib.suppress(RuntimeError), torch.no_grad(), backends[name]():
                    scaled_dot_product_attention(tensor, tensor, tensor, is_causal=True)
        torch.cuda.synchronize()

    def check(self, name):
        score_bytes = self.dims["B"] * self.dims["H"] * self.dims["Sq"] * self.dims["Sk"] * 4
        if name == "math" and score_bytes > MATH_LIMIT_BYTES:
            raise graph_timing.Refused(f"its scores would take {score_bytes / (1 << 30):.1f} GiB")
        self.function, self.sets = self.sdpa, self.heads_first
        if name == "flex":
            self.function = flex(self.dims)
        if name == "fa4":
            self.function, self.sets = self.fa4(), self.with_rows_first()

    def compute(self, q, k, v):
        return self.function(q, k, v)

    def sdpa(self, q, k, v):
        # A case names the heads of its keys only if several heads of queries share them.
        shares = {"enable_gqa": True} if "Hkv" in self.dims else {}
        return scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=self.is_causal, **shares)

    @classmethod
    def compile_for(cls, dims, dtype, tensors):
        if "flex" not in backends() or dims["Sq"] < FLEX_LEAST_QUERIES:
            return
        inputs = [torch.empty(tensor["shape"], dtype=dtype, device="cuda") for tensor in tensors if tensor["role"] == "input"]
        flex(dims)(*inputs)


    def fa4(self):
        """Returns FlashAttention-4, which wants the rows of a sequence before its heads."""
        if self.dtype not in (torch.float16, torch.bfloat16):
            raise graph_timing.Refused("it computes no FP32")
        from flash_attn.cute import flash_attn_func

        causal = self.dims["CAUSAL"] == 1

        def attention(q, k, v):
            output = flash_attn_func(q, k, v, causal=causal)
            output = output[0] if isinstance(output, tuple) else output
            return output.transpose(1, 2)

        return attention

    def with_rows_first(self):
        if self.rows_first is None:
            self.rows_first = [[tensor.transpose(1, 2).contiguous() for tensor in tensors] for tensors in self.heads_first]
        return self.rows_first


if __name__ == "__main__":
    graph_timing.serve(Attention, backends())
