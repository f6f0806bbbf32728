"""Times PyTorch's matmul, with either of its libraries, as optloop's baseline for gemm: see graph_timing.py."""

import contextlib
import functools
import sys

import torch

# The project's folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402


@contextlib.contextmanager
def library(name):
    """Has products computed by a library of the user's choice."""
    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library(name)
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)


BACKENDS = {
    "cublas": functools.partial(library, "cublas"),
    "cublaslt": functools.partial(library, "cublaslt"),
    # Chooses nothing: a user who names no library gets this.
    "default": contextlib.nullcontext,
}


class Gemm(graph_timing.Case):
    OP = "gemm"

    @classmethod
    def rehearse(cls, backends):
        square = torch.zeros(64, 64, dtype=torch.float16, device="cuda")
        for backend in backends.values():
            with backend():
                torch.matmul(square, square)
        torch.cuda.synchronize()

    def compute(self, a, b):
        return torch.matmul(a, b)


if __name__ == "__main__":
    graph_timing.serve(Gemm, BACKENDS)
