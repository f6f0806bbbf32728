"""Times PyTorch's layers of experts as optloop's baseline for grouped-linear: see graph_timing.py.

`grouped-mm` is torch's own product of groups. `loop` calls F.linear for each expert that has rows, and knows their numbers beforehand:
a model would have to wait for them.
"""

import functools
import sys

import torch
import torch.nn.functional as F

# The project's folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402

ACTIVATIONS = {0: lambda y: y, 1: F.gelu, 2: functools.partial(F.gelu, approximate="tanh"), 3: F.silu}
GROUPED, LOOP = "grouped-mm", "loop"
BY_NAME = graph_timing.Named()
BACKENDS = {name: BY_NAME.backend(name) for name in (GROUPED, LOOP)}


class Grouped(graph_timing.Case):
    OP = "grouped-linear"

    def __init__(self, request):
        super().__init__(request)
        # Read before a graph is captured. Every set has the same.
        self.borders = self.sets[0][1].tolist()
        self.activation = ACTIVATIONS[self.dims.get("ACTIVATION", 0)]

    def check(self, name):
        if name == GROUPED and not hasattr(torch, "_grouped_mm"):
            raise graph_timing.Refused("this version of torch has no product of groups")
        if name == GROUPED and self.dtype != torch.bfloat16:
            raise graph_timing.Refused("torch's product of groups takes BF16")

    def product(self, x, offsets, w):
        columns_in_rows = "LAYOUT" in self.dims
        if BY_NAME.name == GROUPED:
            return torch._grouped_mm(x, w if columns_in_rows else w.transpose(1, 2), offs=offsets[1:])
        rows = [
            x[begin:end] @ weights if columns_in_rows else F.linear(x[begin:end], weights)
            for weights, begin, end in zip(w, self.borders, self.borders[1:])
            if begin < end
        ]
        return torch.cat(rows)

    def compute(self, x, offsets, w, *up):
        y = self.activation(self.product(x, offsets, w))
        return y * self.product(x, offsets, up[0]) if up else y


if __name__ == "__main__":
    graph_timing.serve(Grouped, BACKENDS)
