"""Times expressions of an op's inputs as optloop's baselines for any op: see graph_timing.py.

The first argument is an expression of PyTorch, such as `torch.softmax(x, -1)`. It is timed as it stands (the backend `eager`)
and compiled by torch.compile (`compile`). Each further argument, such as `quack=quack.softmax(x)`, names another backend with
its expression, which is timed as it stands.

An expression may use the inputs, dimensions and scalars of the op by name, `torch`, and `F` (torch.nn.functional). The further
ones may also use any installed package by its dotted name. The value must have the output's shape and dtype. With several
outputs it is a tuple. A tensor that kernels update in place is an input and an output, before the other outputs. The expression
returns its new values and leaves the tensor as it is, because every call must compute from the same values.
"""

import ast
import builtins
import contextlib
import importlib
import sys
import types

import torch

# The project's folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402


# The fastest algorithm, as a user who cares about speed has it: without this, cuDNN took 33 ms for a convolution that it can do
# in 2 ms (15 x 15 on 4096 x 4096, FP32, H200, 2026-11-24).
torch.backends.cudnn.benchmark = True

# The backends of the expression of PyTorch.
EAGER, COMPILED = "eager", "compile"


def expressions(first, *others):
    """Returns the expression of each backend."""
    return {EAGER: first, COMPILED: first, **dict(other.split("=", 1) for other in others)}


def without_ones(shape, dtype):
    return [extent for extent in shape if extent != 1], dtype


def dotted(node):
    """Returns the parts of a dotted name such as `quack.softmax`, or None for anything else."""
    if isinstance(node, ast.Name):
        return (node.id,)
    start = dotted(node.value) if isinstance(node, ast.Attribute) else None
    return start and (*start, node.attr)


def imported(path):
    """Imports a package or a module in it. Returns None if there is none of this name."""
    name = ".".join(path)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            return None
        missing = f"`{name}` needs the package `{error.name}`, which is not installed for {sys.executable}"
        raise graph_timing.Refused(missing)


def packages(expression, known):
    """Imports what the dotted names of an expression need. Returns the packages by name."""
    nodes = list(ast.walk(ast.parse(f"({expression})", mode="eval")))
    # The parameters of a lambda, and the variables of a comprehension.
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {*known, *dir(builtins)}
    paths = {dotted(node) for node in nodes if isinstance(node, ast.Attribute)} - {None}
    found = {}
    for first, *rest in sorted(path for path in paths if path[0] not in own):
        value = found[first] = found.get(first) or imported((first,))
        if value is None:
            raise graph_timing.Refused(f"the package `{first}` is not installed for {sys.executable}")
        for place, part in enumerate(rest):
            # A package may have a function with the name of one of its modules: the function is meant.
            if not hasattr(value, part):
                imported((first, *rest[: place + 1]))
            value = getattr(value, part, None)
            if not isinstance(value, types.ModuleType):
                break
    return found


class Expressions(graph_timing.Case):
    # The expression of each backend.
    texts = {}
    # The backend whose calls are made now.
    backend = None

    def __init__(self, request):
        super().__init__(request)
        self.known = {"torch": torch, "F": torch.nn.functional, **request["dims"], **request.get("scalars", {})}
        self.functions = {}
        torch._dynamo.reset()

    def check(self, name):
        expression = self.texts[name]
        try:
            function = self.function(expression, name not in (EAGER, COMPILED))
            value = self.value_of(function, expression)
        except graph_timing.Refused:
            raise
        except Exception as error:
            raise graph_timing.Refused(f"`{expression}`: {type(error).__name__}: {graph_timing.sentence(error)}")
        self.check_outputs(value, expression)
        self.functions[name] = torch.compile(function, dynamic=False) if name == COMPILED else function

    def function(self, expression, may_import):
        inputs, known = [tensor["name"] for tensor in self.inputs], self.known
        if may_import:
            known = {**packages(expression, {*known, *inputs}), **known}
        return eval(f"lambda {', '.join(inputs)}: ({expression})", dict(known))

    def value_of(self, function, expression):
        """Calls it once, and refuses it if it changes an input. The other backends get the inputs as they were."""
        before = [tensor.clone() for tensor in self.sets[0]]
        try:
            with torch.no_grad():
                return function(*self.sets[0])
        finally:
            self.restore(before, expression)

    def restore(self, before, expression):
        changed = []
        for tensor, now, was in zip(self.inputs, self.sets[0], before):
            if not torch.equal(now.view(torch.uint8), was.view(torch.uint8)):
                changed.append(tensor["name"])
                now.copy_(was)
        if changed:
            how = "return the new values, with an operation that does not work in place"
            raise graph_timing.Refused(f"`{expression}` changes `{changed[0]}`: {how}")

    def check_outputs(self, value, expression):
        values = value if isinstance(value, (tuple, list)) else [value]
        found = [(list(one.shape), one.dtype) for one in values]
        wanted = [(tensor["shape"], graph_timing.DTYPES[tensor["dtype"]]) for tensor in self.outputs]
        if [without_ones(*one) for one in found] != [without_ones(*one) for one in wanted]:
            found, wanted = (" and ".join(f"{shape} of {dtype}" for shape, dtype in all) for all in (found, wanted))
            raise graph_timing.Refused(f"`{expression}` gives {found}, but the output is {wanted}")

    def compute(self, *inputs):
        return self.functions[self.backend](*inputs)


def backend(name):
    @contextlib.contextmanager
    def chosen():
        Expressions.backend = name
        yield

    return chosen


if __name__ == "__main__":
    Expressions.texts = expressions(*sys.argv[1:])
    graph_timing.serve(Expressions, {name: backend(name) for name in Expressions.texts})
