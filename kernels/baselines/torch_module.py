"""Times a module of PyTorch as optloop's baseline for its op: see graph_timing.py.

The argument is the file of an oracle that `optloop import` has made of a problem in PyTorch. Its `function` returns the
module as a function of the op's inputs. The module is timed as it stands (`eager`), and through `torch.compile` with its
usual settings (`compile`) and with those that try the most kernels (`max-autotune`).
"""

import contextlib
import importlib.util
import sys

import torch

# The project's folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402

# The fastest algorithm, as a user who cares about speed has it (torch_expression.py).
torch.backends.cudnn.benchmark = True

# The mode of `torch.compile` for each backend. graph_timing captures the graph.
MODES = {"eager": None, "compile": "default", "max-autotune": "max-autotune-no-cudagraphs"}


class Module(graph_timing.Case):
    # The module of the oracle's file.
    file = None
    # The backend whose calls are made now.
    backend = None

    def __init__(self, request):
        super().__init__(request)
        self.names = [tensor["name"] for tensor in self.inputs]
        self.called = self.file.function({name: self.dims[name] for name in self.file.SIZES})
        self.functions = {}
        torch._dynamo.reset()

    def check(self, name):
        mode = MODES[name]
        try:
            with torch.no_grad():
                values = self.called(**dict(zip(self.names, self.sets[0])))
        except Exception as error:
            raise graph_timing.Refused(f"the module fails: {type(error).__name__}: {graph_timing.sentence(error)}")
        values = values if isinstance(values, tuple) else (values,)
        found = [one.dtype for one in values]
        wanted = [graph_timing.DTYPES[tensor["dtype"]] for tensor in self.outputs]
        if found != wanted:
            raise graph_timing.Refused(f"the module gives {found}, but the outputs are {wanted}")
        self.functions[name] = self.called if mode is None else torch.compile(self.called, dynamic=False, mode=mode)

    def compute(self, *inputs):
        values = self.functions[self.backend](**dict(zip(self.names, inputs)))
        values = values if isinstance(values, tuple) else (values,)
        # Kernels write dense tensors, and so must this.
        values = tuple(one.contiguous() for one in values)
        return values if len(values) > 1 else values[0]


def backend(name):
    @contextlib.contextmanager
    def chosen():
        Module.backend = name
        yield

    return chosen


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("module_of_op", sys.argv[1])
    Module.file = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(Module.file)
    graph_timing.serve(Module, {name: backend(name) for name in MODES})
