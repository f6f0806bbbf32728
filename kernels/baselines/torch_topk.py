"""Times torch.topk as optloop's baseline for top-k: see graph_timing.py. `compiled` is torch.compile."""

import os
import sys

# Calls are compiled in this process: others would outlive the compilation. Torch reads this when it is imported.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch  # noqa: E402

# The project's folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402

EAGER, COMPILED = "eager", "compiled"
BY_NAME = graph_timing.Named()
BACKENDS = {name: BY_NAME.backend(name) for name in (EAGER, COMPILED)}


def top_k(k, x):
    return tuple(torch.topk(x, k, dim=-1))


def compiled(k):
    return torch.compile(lambda x: top_k(k, x), dynamic=False)


class TopK(graph_timing.Case):
    OP = "top-k"

    def __init__(self, request):
        super().__init__(request)
        self.compiled = compiled(self.dims["K"])

    @classmethod
    def compile_for(cls, dims, dtype, tensors):
        x = next(tensor for tensor in tensors if tensor["role"] == "input")
        compiled(dims["K"])(torch.zeros(x["shape"], dtype=dtype, device="cuda"))

    def compute(self, x):
        return self.compiled(x) if BY_NAME.name == COMPILED else top_k(self.dims["K"], x)


if __name__ == "__main__":
    graph_timing.serve(TopK, BACKENDS)
