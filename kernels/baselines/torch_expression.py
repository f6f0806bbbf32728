"""Times an expression of PyTorch, eager and compiled by torch.compile, as optloop's baseline for any op: see graph_timing.py.

The argument is the expression, such as `torch.softmax(x, -1)`. It may use the inputs, dimensions and scalars of the op by name,
`torch`, and `F` (torch.nn.functional). Its value must have the output's shape and dtype. With several outputs it is a tuple.
A tensor that kernels update in place is an input and an output, before the other outputs. The expression returns its new values
and leaves the tensor as it is, because every call must compute from the same values.
"""

import contextlib
import sys

import torch

# The project's folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402


# The fastest algorithm, as a user who cares about speed has it: without this, cuDNN took 33 ms for a convolution that it can do
# in 2 ms (15 x 15 on 4096 x 4096, FP32, H200, 2026-11-24).
torch.backends.cudnn.benchmark = True


def without_ones(shape, dtype):
    return [extent for extent in shape if extent != 1], dtype


class Expression(graph_timing.Case):
    # The backend whose calls are made now.
    backend = None

    def __init__(self, request):
        super().__init__(request)
        names = {"torch": torch, "F": torch.nn.functional, **request["dims"], **request.get("scalars", {})}
        try:
            self.eager = eval(f"lambda {', '.join(tensor['name'] for tensor in self.inputs)}: ({sys.argv[1]})", names)
            before = [tensor.clone() for tensor in self.sets[0]]
            with torch.no_grad():
                value = self.eager(*self.sets[0])
        except Exception as error:
            raise graph_timing.Refused(f"`{sys.argv[1]}`: {type(error).__name__}: {graph_timing.sentence(error)}")
        for tensor, now, was in zip(self.inputs, self.sets[0], before):
            if not torch.equal(now.view(torch.uint8), was.view(torch.uint8)):
                how = "return the new values, with an operation that does not work in place"
                raise graph_timing.Refused(f"`{sys.argv[1]}` changes `{tensor['name']}`: {how}")
        del before
        values = value if isinstance(value, (tuple, list)) else [value]
        found = [(list(one.shape), one.dtype) for one in values]
        wanted = [(tensor["shape"], graph_timing.DTYPES[tensor["dtype"]]) for tensor in self.outputs]
        if [without_ones(*one) for one in found] != [without_ones(*one) for one in wanted]:
            found, wanted = (" and ".join(f"{shape} of {dtype}" for shape, dtype in all) for all in (found, wanted))
            raise graph_timing.Refused(f"`{sys.argv[1]}` gives {found}, but the output is {wanted}")
        torch._dynamo.reset()
        self.compiled = torch.compile(self.eager, dynamic=False)

    def compute(self, *inputs):
        return (self.compiled if self.backend == "compile" else self.eager)(*inputs)


def backend(name):
    @contextlib.contextmanager
    def chosen():
        Expression.backend = name
        yield

    return chosen


if __name__ == "__main__":
    graph_timing.serve(Expression, {name: backend(name) for name in ("eager", "compile")})
