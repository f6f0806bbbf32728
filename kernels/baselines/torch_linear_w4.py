"""Times PyTorch's ways to multiply by weights of 4 bits, as optloop's baseline for linear-w4: see graph_timing.py.

What depends on the weights alone is computed before the timing for `int4pack`, PyTorch's own kernel, and `unpacked`, an ordinary
linear layer that reads four times as many bytes. `eager` and `compiled` dequantise in each call.
"""

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

EAGER, COMPILED, INT4PACK, UNPACKED = "eager", "compiled", "int4pack", "unpacked"
# 16 terms times this are packed together: the most that PyTorch knows.
INNER_TILES = 8
BY_NAME = graph_timing.Named()
BACKENDS = {name: BY_NAME.backend(name) for name in (EAGER, COMPILED, INT4PACK, UNPACKED)}


def dequantised(group, w, scales, zeros, dtype):
    """Returns the weights as [K, N]: a byte has two terms, that of the even k in its lower half. GPTQ's words have eight terms of a column."""
    columns = w.shape[1]
    if w.dim() == 3:
        numbers = torch.stack((w & 15, w >> 4), dim=3).permute(0, 2, 3, 1).reshape(-1, columns).to(dtype)
        zeros = whole_zeros(zeros, columns).to(dtype)
    else:
        numbers = torch.stack((w & 15, w >> 4), dim=1).reshape(-1, columns).to(dtype)
    return (numbers - zeros.repeat_interleave(group, dim=0)) * scales.repeat_interleave(group, dim=0)


def whole_zeros(zeros, columns):
    """Returns GPTQ's zero points, which are one more than their bits say."""
    return torch.stack((zeros & 15, zeros >> 4), dim=3).reshape(-1, columns) + 1


def layer(group, x, w, scales, zeros):
    """The layer as a model writes it."""
    return x @ dequantised(group, w, scales, zeros, x.dtype)


class LinearW4(graph_timing.Case):
    OP = "linear-w4"

    def __init__(self, request):
        super().__init__(request)
        self.group = self.dims.get("GROUP", 128)
        self.compiled = torch.compile(functools.partial(layer, self.group), dynamic=False)
        self.prepared = {}

    @classmethod
    def compile_for(cls, dims, dtype, tensors):
        inputs = [tensor for tensor in tensors if tensor["role"] != "output"]
        empty = [
            torch.zeros(tensor["shape"], dtype=graph_timing.DTYPES[tensor["dtype"]], device="cuda") for tensor in inputs
        ]
        torch.compile(functools.partial(layer, dims.get("GROUP", 128)), dynamic=False)(*empty)

    def check(self, name):
        if name == INT4PACK and self.dtype != torch.bfloat16:
            raise graph_timing.Refused("torch's kernel for weights of 4 bits takes BF16")
        if name == INT4PACK and (self.group not in (32, 64, 128, 256) or self.dims["K"] % 128 or self.dims["N"] % 8):
            raise graph_timing.Refused("torch's kernel for weights of 4 bits takes no such sizes")
        # Every set has weights of its own, in each backend's form. Captured graphs have their addresses.
        if name in (INT4PACK, UNPACKED):
            with torch.no_grad():
                for _x, w, scales, zeros in self.sets:
                    self.prepared[name, w.data_ptr()] = getattr(self, name)(w, scales, zeros)

    def unpacked(self, w, scales, zeros):
        return dequantised(self.group, w, scales, zeros, self.dtype).t().contiguous()

    def int4pack(self, w, scales, zeros):
        # [N, K / 2], with the even term in the higher half.
        if w.dim() == 3:
            zeros = whole_zeros(zeros, w.shape[1])
            w = w.permute(0, 2, 1).reshape(-1, w.shape[1])
        rows = ((w << 4) | (w >> 4)).t().contiguous()
        # Its weights are (q - 8) * scale + zero.
        both = torch.stack((scales, (8 - zeros.float()).mul(scales.float()).to(self.dtype)), dim=2).contiguous()
        return torch._convert_weight_to_int4pack(rows, INNER_TILES), both

    def compute(self, x, w, scales, zeros):
        if BY_NAME.name == COMPILED:
            return self.compiled(x, w, scales, zeros)
        if BY_NAME.name == INT4PACK:
            packed, both = self.prepared[BY_NAME.name, w.data_ptr()]
            return torch._weight_int4pack_mm(x, packed, self.group, both)
        if BY_NAME.name == UNPACKED:
            return F.linear(x, self.prepared[BY_NAME.name, w.data_ptr()])
        return layer(self.group, x, w, scales, zeros)


if __name__ == "__main__":
    graph_timing.serve(LinearW4, BACKENDS)
