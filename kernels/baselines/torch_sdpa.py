"""Times PyTorch's scaled_dot_product_attention, every backend, as optloop's baseline for attention: see graph_timing.py."""

import contextlib
import functools
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

# The project's folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402

BACKENDS = {
    "flash": functools.partial(sdpa_kernel, [SDPBackend.FLASH_ATTENTION]),
    "efficient": functools.partial(sdpa_kernel, [SDPBackend.EFFICIENT_ATTENTION]),
    "cudnn": functools.partial(sdpa_kernel, [SDPBackend.CUDNN_ATTENTION]),
    "math": functools.partial(sdpa_kernel, [SDPBackend.MATH]),
    # Restricts nothing: what a user gets who asks for no backend.
    "default": contextlib.nullcontext,
}
# Above this the math backend's score matrix takes minutes and gigabytes, and it never wins.
MATH_LIMIT_BYTES = 2 << 30


class Attention(graph_timing.Case):
    OP = "attention"

    def __init__(self, request):
        super().__init__(request)
        queries, keys = self.dims["Sq"], self.dims["Sk"]
        self.is_causal, self.mask = self.dims["CAUSAL"] == 1, None
        if self.is_causal and queries != keys:
            # Torch's own causal mask lets the first query see the first key only; optloop's lets the last see all.
            self.is_causal = False
            self.mask = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril(keys - queries)

    def shapes(self):
        batch, heads, queries, keys, width = (self.dims[name] for name in ("B", "H", "Sq", "Sk", "D"))
        shape = {"q": queries, "k": keys, "v": keys}
        shape = {name: (batch, heads, rows, width) for name, rows in shape.items()}
        return shape, shape["q"]

    def check(self, name):
        score_bytes = self.dims["B"] * self.dims["H"] * self.dims["Sq"] * self.dims["Sk"] * 4
        if name == "math" and score_bytes > MATH_LIMIT_BYTES:
            raise graph_timing.Refused(f"its scores would take {score_bytes / (1 << 30):.1f} GiB")

    def compute(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=self.is_causal)


if __name__ == "__main__":
    graph_timing.serve(Attention, BACKENDS)
